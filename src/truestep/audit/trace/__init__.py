"""Watching a training loop while it runs, without changing a bit of it: calls become events, gradients become numbers."""
