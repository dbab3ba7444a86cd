"""Labs on accumulation: what the gradients of a window are divided by, and where a window is not the full batch."""
