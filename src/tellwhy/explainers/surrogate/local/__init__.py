"""Single rows: their segments, what a model is asked about them, and the mixture of each row."""
