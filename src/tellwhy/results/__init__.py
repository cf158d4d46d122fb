"""What judging data came to, as one document."""
