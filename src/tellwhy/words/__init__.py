"""Sentences, made of the fields of a result and nowhere else; each language is a folder like `english`."""
