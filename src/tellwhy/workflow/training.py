"""Training of classifiers from files, for views: what a job says, and what runs it."""

from tellwhy.classifiers.training_files import is_table
from tellwhy.classifiers.training_job import Job, now_and_then, train

__all__ = ["Job", "is_table", "now_and_then", "train"]
