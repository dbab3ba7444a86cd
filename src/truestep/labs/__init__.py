"""Executable facts about mixed precision: each claim of the lessons, run on real tensors through the engine."""
