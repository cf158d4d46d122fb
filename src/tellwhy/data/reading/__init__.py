"""Files as people have them, in; tables, out."""
