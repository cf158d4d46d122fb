"""Pictures, series and texts: what is odd in them, and where."""
