"""Reading tables as people have them, and generating data."""
