"""Functions in other words: calls that are several operations, written out in those that have rules."""
