"""Kernels of the Euclidean distance, as functions of the scaled squared distance s = (r/σ)²."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats


@dataclass(frozen=True)
class Exponential:
    """k(r) = exp(−(r/σ)^q / q): Gaussian at q = 2, Laplacian at q = 1; not positive definite for q > 2.

    Examples
    --------
    >>> Exponential(bandwidth=1.0).of_squared(np.array([0.0, 2.0]))
    array([1.        , 0.36787944])
    """

    bandwidth: float
    q: float = 2.0

    at_zero = 1.0

    def of_squared(self, s: Floats) -> Floats:
        """Return k as a function of s = (r/σ)²."""
        exponent = _power(s, self.q)
        return np.exp(np.multiply(exponent, -1.0 / self.q, out=exponent), out=exponent)


@dataclass(frozen=True)
class StudentT:
    """k(r) = 1 / (a + (r/σ)^q): heavier tails; the Cauchy kernel at q = 2.

    Examples
    --------
    >>> StudentT(bandwidth=1.0).of_squared(np.array([0.0, 3.0]))
    array([1.  , 0.25])
    """

    bandwidth: float
    q: float = 2.0
    a: float = 1.0

    @property
    def at_zero(self) -> float:
        """k(0)."""
        return 1.0 / self.a

    def of_squared(self, s: Floats) -> Floats:
        """Return k as a function of s = (r/σ)²."""
        power = _power(s, self.q)
        return np.reciprocal(np.add(power, self.a, out=power), out=power)


def _power(s: Floats, q: float) -> Floats:
    """s^(q/2) in a new array, which the kernel may then overwrite."""
    if q == 2:
        return s.copy()
    return np.asarray(np.sqrt(s) if q == 1 else np.power(s, q / 2))


@dataclass(frozen=True)
class Linear:
    """k(x, x') = ⟨x, x'⟩; only SVDD uses it, and explains it through its centre."""


Kernel = Exponential | StudentT | Linear


def is_positive_definite(kernel: Kernel) -> bool:
    """Whether every kernel matrix is positive semi-definite (radial kernels: up to q = 2)."""
    return isinstance(kernel, Linear) or kernel.q <= 2
