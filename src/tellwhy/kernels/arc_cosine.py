"""The arc-cosine kernel of degree one, and its compositions.

Cho and Saul, "Kernel methods for deep learning", Advances in Neural Information Processing Systems 22 (2009).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.score_function import Floats


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
