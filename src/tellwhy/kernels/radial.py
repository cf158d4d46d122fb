"""Kernels of the Euclidean distance, as functions of s = (r/σ)², and the arc-cosine kernel.

Exponential: exp(−s^(q/2)/q). t-Student: 1/(a + s^(q/2)). The arc-cosine kernel of degree one, and its
compositions, are those of Cho and Saul, "Kernel methods for deep learning", Advances in Neural Information
Processing Systems 22 (2009).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass

import numpy as np

from tellwhy.core.params import Fit
from tellwhy.core.score import Floats


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

    def _require(self) -> Iterator[Fit]:
        yield "bandwidth", _are_positive(self), True


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

    def _require(self) -> Iterator[Fit]:
        yield "bandwidth", _are_positive(self), True


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


def _are_positive(kernel: Exponential | StudentT) -> bool:
    """Whether every number of a kernel, a length, a power or an offset, is above 0."""
    return all(isinstance(value, float) and 0 < value < np.inf for value in astuple(kernel))


@dataclass(frozen=True)
class ArcCosine:
    """k(x, x') = (1/π) ‖x‖‖x'‖ J(θ) with J = sin θ + (π − θ) cos θ, composed with itself `depth` times.

    k_{l+1} = (1/π) [k_l(x, x) k_l(x', x')]^½ J(θ_l), where cos θ_l = k_l(x, x')/[k_l(x, x) k_l(x', x')]^½.
    Every depth keeps k(x, x) = ‖x‖².

    Examples
    --------
    >>> ArcCosine().between(np.array([[3.0, 4.0]]), np.array([[3.0, 4.0], [-4.0, 3.0]])).round(3)
    array([[25.   ,  7.958]])
    """

    depth: int = 1

    def of_products(self, products: Floats, left: Floats, right: Floats) -> Floats:
        """Return k for inner products x·x' and the norms of both sides, which broadcast against them."""
        scale = left * right
        # A row of zeros has no angle with anything; whatever is put here, the kernel is 0 · cosine.
        cosine = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
        for _ in range(self.depth):
            angle = np.arccos(np.clip(cosine, -1.0, 1.0))  # rounding leads a little beyond ±1
            cosine = (np.sin(angle) + (np.pi - angle) * np.cos(angle)) / np.pi
        return np.asarray(scale * cosine)

    def between(self, X: Floats, Y: Floats) -> Floats:
        """Return k(x_i, y_j), shape (len(X), len(Y))."""
        left, right = np.linalg.norm(X, axis=1), np.linalg.norm(Y, axis=1)
        return self.of_products(X @ Y.T, left[:, None], right[None, :])
