"""Networks: loaded without unpickling, explained, in grids."""
