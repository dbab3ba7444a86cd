"""Judging other people's training loops: what they did, whether it was right, and how large the damage is."""
