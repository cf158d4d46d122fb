"""Rows that several threads solve together, with the same bits for any number of threads."""
