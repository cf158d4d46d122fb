"""Kinds of data that can be judged, one a file."""
