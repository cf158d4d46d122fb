"""Detectors made of a kernel: one-class SVM, support vector data description, kernel density."""
