"""Shapley values of drawn sets: a regression on what players do alone and what more of them do together.

With signs x_i = ±1 (in or out), any game is a sum of products χ_T(x) = Π_{i∈T} x_i. Shapley values only
depend on the odd part of it, o(S) = ½(v(S) − v(S^c)): φ_i = Σ_{T∋i, |T| odd} 2 c_T/|T|. Single players are
fitted by least squares; products of three, five, … have a prior of independent normal coefficients with
variances Π_{i∈T} tanh θ_i, whose covariance has the closed form sinh(Σ θ_i x_i x'_i) (but for the single
players in it): more for players that take part in much. What is left is noise, larger where a set stands for
less of the Shapley kernel, so that without any prior it is Kernel SHAP. Its size and that of the prior are
those under which what was seen is likeliest. Values come with the standard deviation of what is not known.

Rasmussen, Williams, Gaussian Processes for Machine Learning (2006), chapters 2 and 5; the odd part: Covert
and Lee, AISTATS (2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import ndtri, stdtrit

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.score import Floats

REACHES = (1.0, 3.0, 8.0)  # Σθ: up to about so many players do something together
BREADTHS = (0.3, 3.0, 30.0, 300.0)  # variances of single players, over that of products, where sets are few
NOISES = (1e-3, 0.1, 3.0, 100.0)  # variance of what is left, over that of products
DOUBT = 4.0  # observations that what is left by single players counts for in the scale of the rest
UNLIKELY = 0.02  # chance of a prior, beside the likeliest, below which it is left out
FEW = 200  # pairs of sets by which reach and noise are chosen
MANY = 5120  # pairs that are regressed, at most: time grows with their cube
LEAST = 0.05  # θ of a player, as a share of the mean
MOST = 2.0  # θ of a player
_LEVEL = 0.975
_FIRM = 1e-8  # added to the diagonal, which keeps the factor of it firm
_APART = (
    1e-4  # precision of what single players do before anything is seen, where sets do not tell them apart
)
_AT_ENDS = 1e-6  # noise of v(D) − v(∅), to which values must add up


@dataclass(frozen=True)
class Products:
    """Covariances of sums of products of three, five, … players.

    Attributes
    ----------
    reach
        θ of each player, (p,).
    """

    reach: Floats

    @cached_property
    def rho(self) -> Floats:
        """Factor of each player in the variance of a product's coefficient."""
        return np.asarray(np.tanh(self.reach))

    @cached_property
    def falling(self) -> float:
        """Π 1/cosh θ_i."""
        return float(np.exp(-np.log(np.cosh(self.reach)).sum()))

    @cached_property
    def unit(self) -> float:
        """Variance of the sum of all, before it is made 1."""
        return float(np.sinh(self.reach.sum()) * self.falling - self.rho.sum())

    def between(self, some: Floats, others: Floats) -> Floats:
        """Covariances of the sums at sets with signs (m, p) and (k, p), shape (m, k)."""
        together = np.sinh((some * self.reach) @ others.T)
        together *= self.falling / self.unit
        together -= (some * (self.rho / self.unit)) @ others.T
        return np.asarray(together)

    def with_values(self, signs: Floats) -> Floats:
        """Covariances of players' values with the sums at some sets, (m, p): Σ_{T∋i} 2/|T| ρ_T χ_T(x)."""
        own = self.rho * signs
        found = -2.0 * own
        for share, weight in zip(*find_places(len(self.rho)), strict=True):
            for s in (share, -share):  # half the sum over both signs keeps the odd products alone
                factors = 1.0 + s * own
                found += weight * own * (factors.prod(axis=1, keepdims=True) / factors)
        return np.asarray(found / self.unit)

    def of_values(self) -> Floats:
        """Variances of players' values: Σ_{T∋i} 4/|T|² ρ_T."""
        found = -4.0 * self.rho
        places, weights = find_places(len(self.rho))
        twice = np.multiply.outer(places, places).ravel()
        share = np.multiply.outer(weights, weights).ravel()
        for sign in (1.0, -1.0):
            factors = 1.0 + sign * twice[:, None] * self.rho
            found += 2.0 * self.rho * (share @ (factors.prod(axis=1, keepdims=True) / factors))
        return np.asarray(found / self.unit)


def find_places(p: int) -> tuple[Floats, Floats]:
    """Nodes and weights on [0, 1] that integrate polynomials of degree p exactly: ∫ s^(k−1) ds = 1/k."""
    nodes, weights = np.polynomial.legendre.leggauss(p // 2 + 1)
    return (nodes + 1.0) / 2.0, weights / 2.0


@dataclass(frozen=True)
class Sampled:
    """Pairs of sets of p players, and everyone: signs (m + 1, p), and the noise of each, (m + 1,)."""

    signs: Floats
    noise: Floats

    @classmethod
    def of(cls, members: NDArray[np.bool_], weights: Floats) -> Sampled:
        """Sets of which the complements were scored too, and their weights in the Shapley kernel."""
        signs = np.vstack([np.where(members, 1.0, -1.0), np.ones(members.shape[1])])
        return cls(signs, np.append(weights.mean() / weights, _AT_ENDS))

    def some(self, n: int) -> tuple[Sampled, Floats]:
        """Pairs that stand for all of them, and their places; everyone stays among them."""
        m = len(self.signs) - 1
        chosen = np.append(spread_evenly(m, min(n, m)), m)
        return Sampled(self.signs[chosen], self.noise[chosen]), chosen


class Solved(NamedTuple):
    """What single players do (p, n), the weights of products (m + 1, n), and the scale of each game (n,)."""

    alone: Floats
    left: Floats
    scale: Floats


@dataclass(frozen=True)
class Fit:
    """The regression for a prior and a size of the noise; it serves all games of the same sets."""

    sampled: Sampled
    products: Products
    factor: tuple[Floats, bool]
    inverse: Floats  # (p, p), of what the data say of single players
    spread: Floats  # (m + 1, p)
    log_size: float
    noise: float
    freedom: int

    @classmethod
    def of(cls, sampled: Sampled, products: Products, noise: float, breadth: float = np.inf) -> Fit:
        """Factor what the values of games are regressed with.

        `breadth` is the variance, beforehand, of what a single player does, over that of products; without
        bound it is left to the data alone.
        """
        signs = sampled.signs
        covariance = products.between(signs, signs)
        diagonal = np.arange(len(signs))
        covariance[diagonal, diagonal] += noise * sampled.noise + _FIRM
        factor = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
        spread = cho_solve(factor, signs, check_finite=False)
        normal = signs.T @ spread + np.eye(signs.shape[1]) / breadth
        try:
            inner = cho_factor(normal, lower=True)
        except LinAlgError:  # so few sets that some players always came together: their sum is known
            usual = float(np.trace(normal)) / len(normal)
            inner = cho_factor(normal + _APART * usual * np.eye(len(normal)), lower=True)
        inverse = cho_solve(inner, np.eye(len(normal)))
        log_size = 2.0 * float(np.log(np.diag(factor[0])).sum() + np.log(np.diag(inner[0])).sum())
        is_free = np.isinf(breadth)
        log_size += 0.0 if is_free else len(normal) * float(np.log(breadth))
        freedom = len(signs) - (len(normal) if is_free else 0)
        return cls(sampled, products, factor, np.asarray(inverse), spread, log_size, noise, freedom)

    def solve(self, seen: Floats) -> Solved:
        """Regress games whose odd parts were seen, (m + 1, n)."""
        alone = self.inverse @ (self.spread.T @ seen)
        left = cho_solve(self.factor, seen - self.sampled.signs @ alone, check_finite=False)
        plain = seen - self.sampled.signs @ np.linalg.lstsq(self.sampled.signs, seen, rcond=None)[0]
        usual = (plain**2).sum(axis=0) / max(len(seen) - len(alone), 1) / (1.0 + self.noise)
        found = np.maximum((seen * left).sum(axis=0), 0.0) + DOUBT * usual
        return Solved(alone, left, np.maximum(found, np.finfo(float).tiny) / (self.freedom + DOUBT))

    def unlikeliness(self, seen: Floats) -> Floats:
        """−2 log likelihood of each game, but for a constant."""
        return np.asarray(self.freedom * np.log(self.solve(seen).scale) + self.log_size)

    def values(self, seen: Floats) -> tuple[Floats, Floats]:
        """Players' values and their standard deviations, (n, p) each."""
        solved = self.solve(seen)
        shared = self.products.with_values(self.sampled.signs)
        told = cho_solve(self.factor, shared, check_finite=False)
        open_ways = 2.0 * np.eye(len(self.inverse)) - self.spread.T @ shared
        known = np.einsum("mp,mp->p", shared, told)
        variance = self.products.of_values() - known
        variance += np.einsum("ip,ij,jp->p", open_ways, self.inverse, open_ways)
        # few sets tell the scale roughly, so that 1.96 errors must be the quantile of Student's law; and the
        # same sets have chosen the prior
        wider = stdtrit(self.freedom, _LEVEL) / ndtri(_LEVEL)
        wider *= np.sqrt(1.0 + len(solved.alone) / len(seen))
        errors = wider * np.sqrt(np.maximum(variance, 0.0) * solved.scale[:, None])
        return np.asarray((2.0 * solved.alone + shared.T @ solved.left).T), errors


def find_reaches(sampled: Sampled, seen: Floats, even: Floats) -> Floats:
    """How much each player takes part, (n, p), of mean 1: what it does alone, and what pairs with it do.

    `seen` is the odd part of each game, (m + 1, n), and `even` the even part, (m, n), of which products of
    two players have a prior of equal variances.
    """
    few, places = sampled.some(5 * FEW)
    signs = few.signs[:-1]
    m, p = signs.shape
    alone = np.abs(np.linalg.lstsq(few.signs, seen[places], rcond=None)[0]).T
    together = ((signs @ signs.T) ** 2 - p) / (p * (p - 1))
    together[np.arange(m), np.arange(m)] += 0.1
    centred = even[places[:-1]] - even[places[:-1]].mean(axis=0)
    weights = cho_solve(cho_factor(together, lower=True), centred)
    pairs = np.empty_like(alone)
    for game, own in enumerate(weights.T):
        strengths = (signs * own[:, None]).T @ signs
        np.fill_diagonal(strengths, 0.0)
        pairs[game] = np.sqrt((strengths**2).sum(axis=1))
    return _make_mean_one(np.maximum(_make_mean_one(alone) + _make_mean_one(pairs), 2.0 * LEAST))


def _make_mean_one(sizes: Floats) -> Floats:
    means = sizes.mean(axis=1, keepdims=True)
    return np.divide(sizes, means, out=np.ones_like(sizes), where=means > 0)


def make_products(reach: Floats, total: float) -> Products:
    """Return the prior for players that take part so much, of mean 1, with this sum of all θ."""
    return Products(np.minimum(reach * (total / len(reach)), MOST))


def regress(sampled: Sampled, seen: Floats, reaches: Floats | None) -> tuple[Floats, Floats]:
    """Players' values and their standard errors, (n, p) each, of games whose odd parts were seen, (m + 1, n).

    `reaches` says of each game how much each player takes part; None: all alike, so that games share what is
    factored.
    """
    n, p = seen.shape[1], sampled.signs.shape[1]
    if reaches is None:
        return _regress_alike(sampled, seen, np.ones(p))
    found = [_regress_alike(sampled, seen[:, [game]], reaches[game]) for game in range(n)]
    return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])


def _regress_alike(sampled: Sampled, seen: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Mean of the regressions with all priors, by how likely each makes what was seen."""
    few, places = sampled.some(max(FEW, 3 * len(reach)))
    # hardly more pairs than players: what single players do needs a prior, too
    breadths = BREADTHS if len(sampled.signs) <= 2 * len(reach) else (np.inf,)
    choices = [(make_products(reach, r), v, b) for r in REACHES for v in NOISES for b in breadths]
    doubts = np.array([Fit.of(few, *choice).unlikeliness(seen[places]) for choice in choices])
    chances = np.exp(-0.5 * (doubts - doubts.min(axis=0)))
    chances[chances < UNLIKELY] = 0.0
    chances /= chances.sum(axis=0)
    values = np.zeros((len(choices), seen.shape[1], len(reach)))
    errors = np.zeros_like(values)
    for k, (choice, chance) in enumerate(zip(choices, chances, strict=True)):
        games = chance > 0
        if games.any():
            values[k, games], errors[k, games] = Fit.of(sampled, *choice).values(seen[:, games])
    share = chances[:, :, None]
    mean = (share * values).sum(axis=0)
    return mean, np.sqrt((share * (errors**2 + (values - mean) ** 2)).sum(axis=0))
