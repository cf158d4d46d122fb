"""Sentences, made of the fields of a result and nowhere else; a second language is a second folder like `english`."""
