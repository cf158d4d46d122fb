"""From a model and rows to what the model has learned."""
