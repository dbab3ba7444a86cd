"""One effective update: policy, scale, gradients, clip, clock, counts, outcome, and the page `update.py`."""
