"""The energy of a deep autoencoding Gaussian mixture, with its slope by the rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tellwhy.core.score_function import Floats
from tellwhy.detectors.networks.dense_network import Back, DenseNetwork, like
from tellwhy.optimise.arrays import Array, namespace, row_dot

TINY = 1e-12  # under roots and quotients, so that they have a slope at 0 too


@dataclass(frozen=True)
class LatentEnergy:
    """−log Σ_k φ_k N(r(x); μ_k, Σ_k) of scaled rows, r(x) = (relative distance, cosine, code).

    Attributes
    ----------
    mixture
        `log_weights` (K,), `means` (K, s) and `factors` (K, s, s), W with Σ⁻¹ = W Wᵀ.
    anchor
        Constant coordinate that x and x̂ both have when they are compared.
    """

    mixture: Mapping[str, Floats]
    anchor: float

    def __call__(self, network: DenseNetwork, x: Array, with_gradient: bool) -> tuple[Array, Array | None]:
        """Energy of each row, and its slope where it is asked for."""
        xp = namespace(x)
        summary, back = self._summary(network, x)
        parts = {name: like(x, array) for name, array in self.mixture.items()}
        whitened = (summary - parts["means"][:, None]) @ parts["factors"]  # (K, n, s)
        peaks = parts["log_weights"] + xp.log(parts["factors"].diagonal(0, 1, 2)).sum(-1)
        flat = whitened.reshape(-1, summary.shape[-1])
        terms = peaks[:, None] - 0.5 * row_dot(flat, flat).reshape(len(whitened), -1)
        top = xp.amax(terms, 0)  # taken out of the sum of exponentials, which could overflow
        shares = xp.exp(terms - top)
        total = shares.sum(0)
        value = 0.5 * math.log(2.0 * math.pi) * summary.shape[-1] - top - xp.log(total)
        if not with_gradient:
            return value, None
        pulls = whitened @ parts["factors"].swapaxes(1, 2)
        return value, back(((shares / total)[..., None] * pulls).sum(0))

    def _summary(self, network: DenseNetwork, x: Array) -> tuple[Array, Back]:
        """r(x), and from slopes by r(x) to slopes by x."""
        hidden, back_hidden = network.hidden("encode", x)
        code = network.linear("code", hidden)
        rebuilt, back_rebuilt = network.decoded(code)
        compared = _Comparison(x, rebuilt, self.anchor)

        def back(g: Array) -> Array:
            by_x, by_rebuilt = compared.slopes(g[:, :1], g[:, 1:2])
            return by_x + back_hidden(network.back("code", g[:, 2:] + back_rebuilt(by_rebuilt)))

        return namespace(x).concatenate([compared.distance, compared.cosine, code], -1), back


class _Comparison:
    """Relative distance ‖x − x̂‖/‖x‖ and cosine of x and x̂, shape (n, 1).

    The anchor is a further coordinate of both.
    """

    def __init__(self, x: Array, rebuilt: Array, anchor: float):
        sqrt = namespace(x).sqrt
        extra = anchor**2 + TINY
        self.x = x
        self.rebuilt = rebuilt
        self.missed = x - rebuilt
        self.size = sqrt(row_dot(x, x) + extra)[:, None]
        self.rebuilt_size = sqrt(row_dot(rebuilt, rebuilt) + extra)[:, None]
        self.missed_size = sqrt(row_dot(self.missed, self.missed) + TINY)[:, None]
        self.distance = self.missed_size / self.size
        self.cosine = (row_dot(x, rebuilt) + anchor**2)[:, None] / (self.size * self.rebuilt_size)

    def slopes(self, by_distance: Array, by_cosine: Array) -> tuple[Array, Array]:
        """Slopes by x and by x̂, from those by distance and cosine."""
        along = by_distance / (self.missed_size * self.size) * self.missed
        turn = by_cosine / (self.size * self.rebuilt_size)
        shrink = (by_distance * self.distance + by_cosine * self.cosine) / self.size**2
        by_x = along + turn * self.rebuilt - shrink * self.x
        return by_x, turn * self.x - along - by_cosine * self.cosine / self.rebuilt_size**2 * self.rebuilt
