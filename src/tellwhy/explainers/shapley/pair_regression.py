"""Shapley interactions of pairs of players from drawn sets, with standard errors.

Interactions depend on the even part of a game alone, e(S) = ½(v(S) + v(S^c)): of its products χ_T,
I_ij = Σ_{T⊇ij, |T| even} 4 c_T/(|T| − 1). Products of two, four, … players have the prior of
`set_regression`, whose covariance is cosh(Σ θ_i x_i x'_i) but for its constant; a constant is fitted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.shapley.set_regression import (
    FEW,
    NOISES,
    REACHES,
    Products,
    Sampled,
    find_places,
    find_reaches,
    make_products,
)

_FIRM = 1e-8


def even_covariance(products: Products, some: Floats, others: Floats) -> Floats:
    """Covariances of sums of products of two, four, … players at sets with signs (m, p) and (k, p)."""
    return np.asarray(
        (np.cosh((some * products.reach) @ others.T) * products.falling - 1.0) / _unit(products)
    )


def _unit(products: Products) -> float:
    return float(np.cosh(products.reach.sum()) * products.falling - 1.0)


def with_pairs(products: Products, signs: Floats, pairs: Integers) -> Floats:
    """Covariances of interactions of pairs (k, 2) with the sums at some sets, (m, k)."""
    own = products.rho * signs
    first, second = own[:, pairs[:, 0]], own[:, pairs[:, 1]]
    found = np.zeros((len(signs), len(pairs)))
    for share, weight in zip(*find_places(len(products.rho)), strict=True):
        for s in (share, -share):  # half the sum over both signs keeps the even products alone
            factors = 1.0 + s * own
            whole = factors.prod(axis=1, keepdims=True)
            found += 2.0 * weight * whole / (factors[:, pairs[:, 0]] * factors[:, pairs[:, 1]])
    return np.asarray(found * first * second / _unit(products))


def of_pairs(products: Products, pairs: Integers) -> Floats:
    """Variances of interactions of pairs (k, 2): Σ_{T⊇ij} 16/(|T| − 1)² ρ_T."""
    rho = products.rho
    places, weights = find_places(len(rho))
    twice = np.multiply.outer(places, places).ravel()
    share = np.multiply.outer(weights, weights).ravel()
    found = np.zeros(len(pairs))
    for sign in (1.0, -1.0):
        factors = 1.0 + sign * twice[:, None] * rho
        whole = factors.prod(axis=1, keepdims=True)
        found += 8.0 * (share @ (whole / (factors[:, pairs[:, 0]] * factors[:, pairs[:, 1]])))
    return np.asarray(found * rho[pairs[:, 0]] * rho[pairs[:, 1]] / _unit(products))


@dataclass(frozen=True)
class PairFit:
    """The regression of even parts on a constant and products, for a prior and a size of the noise."""

    signs: Floats
    products: Products
    factor: tuple[Floats, bool]
    spread: Floats  # (m,)
    log_size: float

    @classmethod
    def of(cls, signs: Floats, variances: Floats, products: Products, noise: float) -> PairFit:
        """Factor what even parts are regressed with."""
        covariance = even_covariance(products, signs, signs)
        diagonal = np.arange(len(signs))
        covariance[diagonal, diagonal] += noise * variances + _FIRM
        factor = cho_factor(covariance, lower=True, overwrite_a=True)
        spread = cho_solve(factor, np.ones(len(signs)))
        log_size = 2.0 * float(np.log(np.diag(factor[0])).sum()) + float(np.log(spread.sum()))
        return cls(signs, products, factor, np.asarray(spread), log_size)

    def solve(self, even: Floats) -> tuple[Floats, float]:
        """Weights of the products at the sets, and the scale of the game."""
        constant = (self.spread @ even) / self.spread.sum()
        left = cho_solve(self.factor, even - constant)
        scale = max(float(even @ left), np.finfo(float).tiny) / (len(even) - 1)
        return np.asarray(left), scale

    def unlikeliness(self, even: Floats) -> float:
        """−2 log likelihood, but for a constant."""
        return float((len(even) - 1) * np.log(self.solve(even)[1]) + self.log_size)

    def interactions(self, even: Floats, pairs: Integers) -> tuple[Floats, Floats]:
        """Interactions of pairs, and their standard deviations, (k,) each."""
        left, scale = self.solve(even)
        shared = with_pairs(self.products, self.signs, pairs)
        known = np.einsum("mk,mk->k", shared, cho_solve(self.factor, shared))
        variance = of_pairs(self.products, pairs) - known + (self.spread @ shared) ** 2 / self.spread.sum()
        return np.asarray(left @ shared), np.sqrt(np.maximum(variance, 0.0) * scale)


def regress_pairs(
    members: NDArray[np.bool_], weights: Floats, odd: Floats, even: Floats
) -> tuple[Floats, Floats]:
    """Interactions of all pairs of players, and their standard errors, (n, p, p) each with an empty diagonal.

    Parameters
    ----------
    members, weights
        Sets (m, p) of which the complements were scored too, and their weights.
    odd, even
        Odd parts of each game and, last, half of v(D) − v(∅); even parts and, last, half of v(D) + v(∅):
        (m + 1, n) each.
    """
    sampled = Sampled.of(members, weights)
    p = members.shape[1]
    pairs = np.column_stack(np.triu_indices(p, 1))
    reaches = find_reaches(sampled, odd, even[:-1])
    found = np.zeros((even.shape[1], p, p))
    errors = np.zeros_like(found)
    few, places = sampled.some(max(FEW, 3 * p))
    for game, reach in enumerate(reaches):
        choices = [(make_products(reach, total), noise) for total in REACHES for noise in NOISES]
        seen = even[places, game]
        fits = [PairFit.of(few.signs, few.noise, *choice).unlikeliness(seen) for choice in choices]
        best = PairFit.of(sampled.signs, sampled.noise, *choices[int(np.argmin(fits))])
        values, spread = best.interactions(even[:, game], pairs)
        found[game][tuple(pairs.T)] = values
        errors[game][tuple(pairs.T)] = spread
    return found + found.swapaxes(1, 2), errors + errors.swapaxes(1, 2)
