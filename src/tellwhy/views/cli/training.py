"""Training of classifiers from files, for views: what a job says, and what runs it."""

from tellwhy.classifiers.svm.training.files import is_table
from tellwhy.classifiers.svm.training.job import Job
from tellwhy.classifiers.svm.training.run import now_and_then, train

__all__ = ["Job", "is_table", "now_and_then", "train"]
