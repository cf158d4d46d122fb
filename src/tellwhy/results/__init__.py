"""What was found, as data: nothing here is a sentence, and `words` says all of it."""
