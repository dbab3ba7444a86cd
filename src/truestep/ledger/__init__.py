"""Outcomes kept on disk."""
