"""Detectors: scikit-learn estimators that score how odd each row is."""

from typing import TYPE_CHECKING

from tellwhy.core.catalogue import places
from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.detectors.base import load as load
    from tellwhy.detectors.committee.committee import Committee as Committee
    from tellwhy.detectors.gaussian_mixture import GaussianMixture as GaussianMixture
    from tellwhy.detectors.kernel.cluster_svdd import ClusterSVDD as ClusterSVDD
    from tellwhy.detectors.kernel.kernel_density import KernelDensity as KernelDensity
    from tellwhy.detectors.kernel.one_class_svm import OneClassSVM as OneClassSVM
    from tellwhy.detectors.kernel.svdd import SVDD as SVDD
    from tellwhy.detectors.lccad.lccad import LCCAD as LCCAD
    from tellwhy.detectors.lccad.suggest import suggest_lccad as suggest_lccad
    from tellwhy.detectors.mixed_marginals import MixedMarginals as MixedMarginals
    from tellwhy.detectors.nearest_neighbours import NearestNeighbours as NearestNeighbours
    from tellwhy.detectors.networks.dagmm import DAGMM as DAGMM
    from tellwhy.detectors.networks.vae import VAE as VAE
    from tellwhy.detectors.patches.patch_model import PatchModel as PatchModel
    from tellwhy.detectors.pca_detector import PCADetector as PCADetector
    from tellwhy.detectors.pyod_adapter import as_pyod as as_pyod

_PLACES = {
    **places(__name__),
    "LCCAD": "lccad.lccad",
    "PatchModel": "patches.patch_model",
    "as_pyod": "pyod_adapter",
    "load": "base",
    "suggest_lccad": "lccad.suggest",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
