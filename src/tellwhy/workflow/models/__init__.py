"""Fitted once, applied to new rows: what a model of a table holds, and what it says of another."""
