"""Relevance of pictures and series, as pixels and as figures."""
