"""Detectors: scikit-learn estimators that score how odd each row is."""

from tellwhy.detectors.cluster_svdd import ClusterSVDD
from tellwhy.detectors.dagmm import DAGMM
from tellwhy.detectors.gaussian_mixture import GaussianMixture
from tellwhy.detectors.kernel_density import KernelDensity
from tellwhy.detectors.lccad import LCCAD
from tellwhy.detectors.lccad_suggest import suggest_lccad
from tellwhy.detectors.model_io import load
from tellwhy.detectors.nearest_neighbours import NearestNeighbours
from tellwhy.detectors.one_class_svm import OneClassSVM
from tellwhy.detectors.pca_detector import PCADetector
from tellwhy.detectors.svdd import SVDD
from tellwhy.detectors.vae import VAE

__all__ = [
    "DAGMM",
    "LCCAD",
    "SVDD",
    "VAE",
    "ClusterSVDD",
    "GaussianMixture",
    "KernelDensity",
    "NearestNeighbours",
    "OneClassSVM",
    "PCADetector",
    "load",
    "suggest_lccad",
]
