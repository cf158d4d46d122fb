"""What is wrong with rows in the order of time."""
