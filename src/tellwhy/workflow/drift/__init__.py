"""Whether a column of one table is distributed as in another, and what changed."""
