"""Where a task's numbers lie in each number format, layer by layer: predicted from float32, and measured."""
