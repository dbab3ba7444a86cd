"""One run of a task."""
