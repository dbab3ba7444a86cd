"""Asking before telling: exercises, their grading by what the engine computed, and a learner's progress."""
