"""Models of trees as their libraries keep them, each read into the same arrays."""
