"""Reading a model and its graph: a loss's denominator, the first thing that is not finite, the buffers a forward writes."""
