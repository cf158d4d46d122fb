"""What the one-liner decides before it explains: what is explained, by which method, against which rows."""
