"""Kernel density with exponential and t-Student kernels."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from tellwhy.core.params import Rules, real
from tellwhy.core.score import Floats
from tellwhy.detectors.base import RememberingDetector, choose_calibration_rows
from tellwhy.detectors.kernel.kernel_detector import KERNEL_PARAMETERS, KernelDetector


class KernelDensity(RememberingDetector, KernelDetector):
    """Average kernel over all training rows, g(x) = (1/n) Σ_j k(‖x − u_j‖).

    The outlierness is o(x) = −log g(x) for exponential kernels, and m/g(x) for t-Student ones.

    Parameters
    ----------
    kernel, q, a, scale
        As in `OneClassSVM`.
    bandwidth
        σ, in the units of the data; 'auto' takes a quarter of the median distance between rows;
        'localisation' as in `OneClassSVM`.
    contamination
        Share of training rows, each scored as if it were new, above the threshold that `fit` sets.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> KernelDensity().fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        **KERNEL_PARAMETERS,
        "contamination": real(0, 0.5, closed="right"),
    }

    # On clustered, correlated and heavy-tailed data, detection and the naming of odd features peak at 0.2 to
    # 0.35 of the median distance.
    _auto_share = 0.25

    def __init__(
        self,
        kernel: str = "exponential",
        q: float = 2,
        bandwidth: str | float = "auto",
        *,
        a: float = 1.0,
        scale: str = "count",
        contamination: float = 0.1,
    ):
        self.kernel = kernel
        self.q = q
        self.bandwidth = bandwidth
        self.a = a
        self.scale = scale
        self.contamination = contamination

    def _fit(self, X: Floats) -> None:
        kernel = self.radial_kernel(X)
        self._keep(X, np.full(len(X), 1.0 / len(X)), kernel)
        rows = choose_calibration_rows(len(X))
        # Each row is scored without itself, as if it were new.
        self.training_scores_ = self.to_score().value(X[rows], rows)
        self.set_threshold(contamination=self.contamination)
