"""Tables of any size, judged block by block."""
