"""Score functions, one file per kind of model."""
