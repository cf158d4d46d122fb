"""Training a multi-class SVM on a file: in this process, or on many ranks."""
