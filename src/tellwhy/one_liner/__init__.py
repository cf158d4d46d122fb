"""`tellwhy.explain(model, X)`: any model in one line."""
