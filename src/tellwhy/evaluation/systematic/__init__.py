"""Explanations of a whole data set: whether they lie on the object, and groups of them that stand apart."""
