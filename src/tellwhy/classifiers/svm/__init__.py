"""Multi-class SVMs: the dual problem, its loop, and one file per loss."""
