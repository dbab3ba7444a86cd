"""Reading a model and its graph."""
