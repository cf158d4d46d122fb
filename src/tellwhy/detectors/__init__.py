"""Detectors: scikit-learn estimators that score how odd each row is."""

from tellwhy.detectors.kernel_density import KernelDensity
from tellwhy.detectors.nearest_neighbours import NearestNeighbours
from tellwhy.detectors.one_class_svm import OneClassSVM
from tellwhy.detectors.svdd import SVDD

__all__ = ["SVDD", "KernelDensity", "NearestNeighbours", "OneClassSVM"]
