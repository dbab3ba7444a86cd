"""Intervals and tests, each with its assumption."""
