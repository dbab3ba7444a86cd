"""Precisions compared by time to quality under a fixed protocol."""
