"""Methods for large C, where steps of one variable, or of one row, creep."""
