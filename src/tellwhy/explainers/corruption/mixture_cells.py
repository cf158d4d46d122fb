"""Sets of cells that may be wrong, weighed under a Gaussian mixture.

A set A of wrong cells has the weight e₀(A) = p(x₋A) Π_{i∈A} g_i(x_i): the density of the other cells, times
what a wrong value is drawn from. With Λ_k the precision of component k, u_k = Λ_k (x − μ_k) and
b_k = log π_k + log N(x; μ_k, Σ_k), the cells of A are integrated out in closed form:

    log p(x₋A) = logsumexp_k [ b_k + ½ u_{k,A}ᵀ (Λ_{k,AA})⁻¹ u_{k,A} + |A|/2 log 2π − ½ log|Λ_{k,AA}| ].

Sets grow cell by cell. Adding cell j to A adds ½ r²/s − ½ log s + ½ log 2π to the term of component k, with
s = Λ_jj − Λ_jA (Λ_AA)⁻¹ Λ_Aj and r = u_j − Λ_jA (Λ_AA)⁻¹ u_A, so that one solve serves all j.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers
from tellwhy.scoring.mixture_scores import Mixture

_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class WeighedSets:
    """What sets of each size weigh together, and which columns they hold.

    Attributes
    ----------
    log_totals
        log Σ e₀(A) over the sets of 0, 1, … cells; shape (n, most + 1).
    shares
        Of the weight of the sets of 1, 2, … cells, the share of those that hold a cell of each of the user's
        columns; shape (n, most, n_owners).
    """

    log_totals: Floats
    shares: Floats


@dataclass(frozen=True)
class Slab:
    """g_i: a wrong value is drawn from a normal distribution, several times wider than the column."""

    centre: Floats
    scale: Floats

    @classmethod
    def around(cls, mixture: Mixture, width: float) -> Slab:
        """Be `width` times as wide as each column is under a mixture."""
        weights = mixture.weights[:, None]
        centre = (weights * mixture.means).sum(axis=0)
        within = np.diagonal(mixture.covariances, axis1=1, axis2=2)
        variance = (weights * (within + (mixture.means - centre) ** 2)).sum(axis=0)
        return cls(centre, width * np.sqrt(variance))

    def log_density(self, X: Floats) -> Floats:
        """log g_i(x_i) of each cell."""
        gaps = (X - self.centre) / self.scale
        return np.asarray(-0.5 * gaps**2 - np.log(self.scale) - 0.5 * _LOG_2PI)


@dataclass(frozen=True)
class _Level:
    """Sets of one size: their columns (n, B, m), the terms of the components (n, B, K), and log e₀ (n, B)."""

    members: Integers
    terms: Floats
    log_weights: Floats


class MixtureCells:
    """Weighs sets of wrong cells under a mixture.

    Parameters
    ----------
    mixture
        p(z), the law of clean rows.
    slab
        What wrong values are drawn from.
    """

    def __init__(self, mixture: Mixture, slab: Slab):
        self.slab = slab
        self.means = mixture.means
        try:
            self.precisions = np.linalg.inv(mixture.covariances)
        except np.linalg.LinAlgError as error:
            raise InvalidInput(
                "CorruptionPosterior cannot invert a covariance of the mixture: columns differ too much in "
                "size. Scale them."
            ) from error
        half_log_volume = 0.5 * np.linalg.slogdet(mixture.covariances)[1]
        with np.errstate(divide="ignore"):  # a component of weight 0 adds exp(−∞), nothing
            log_weights = np.log(mixture.weights)
        self.peaks = log_weights - half_log_volume - 0.5 * self.means.shape[1] * _LOG_2PI

    def bytes_per_row(self, n_kept: int, most: int) -> int:
        """Return about how much memory a row takes."""
        n_components, d = self.means.shape
        n_parents = min(n_kept, d) if most < 3 else n_kept
        return 8 * n_parents * d * (3 * most + 4 + n_components)

    def weighed(self, X: Floats, owner: Integers, *, most: int, n_kept: int) -> WeighedSets:
        """Weigh all sets of one cell; of larger ones those that grow from the `n_kept` best of a size less.

        Sets of two cells are all weighed where there are at most `n_kept` columns.
        """
        slopes = np.einsum("kij,nkj->nki", self.precisions, X[:, None] - self.means)  # u_k, (n, K, d)
        squares = np.einsum("nki,nki->nk", slopes, X[:, None] - self.means)
        terms = (self.peaks - 0.5 * squares)[:, None, :]  # of the empty set, (n, 1, K)
        level = _Level(np.empty((len(X), 1, 0), dtype=np.int64), terms, logsumexp(terms, axis=2))
        log_slab = self.slab.log_density(X)
        totals = [level.log_weights[:, 0]]
        shares = []
        for _ in range(min(most, X.shape[1])):
            children, grown = self._extend_sets(level, slopes, log_slab)
            totals.append(logsumexp(grown.reshape(len(X), -1), axis=1))
            if not np.isfinite(totals).all():
                raise InvalidInput(
                    "CorruptionPosterior finds rows too far from the mixture, or columns too small: squared "
                    "distances leave the range of numbers. Scale the columns, or leave these rows out."
                )
            shares.append(_shares(level.members, grown, totals[-1], owner))
            level = _best(level, children, grown, n_kept)
        return WeighedSets(np.stack(totals, axis=1), np.stack(shares, axis=1))

    def _extend_sets(self, level: _Level, slopes: Floats, log_slab: Floats) -> tuple[Floats, Floats]:
        """Add each column to each set: terms of the components (n, B, d, K), and log e₀ (n, B, d)."""
        members = level.members
        n, n_parents = members.shape[:2]
        size = members.shape[2]
        d = slopes.shape[2]
        terms = np.empty((n, n_parents, d, len(self.means)))
        for k, precision in enumerate(self.precisions):
            spread = np.broadcast_to(np.diagonal(precision), (n, n_parents, d)).copy()  # s
            slope = np.broadcast_to(slopes[:, None, k], (n, n_parents, d)).copy()  # r
            if size:
                block = precision[members]  # Λ_A·, (n, B, m, d)
                inner = np.take_along_axis(block, members[:, :, None, :], axis=3)  # Λ_AA
                solved = np.linalg.solve(inner, block)
                spread -= np.einsum("nbmd,nbmd->nbd", block, solved)
                own = np.take_along_axis(slopes[:, None, k], members.reshape(n, 1, -1), axis=2)
                slope -= np.einsum("nbm,nbmd->nbd", own.reshape(members.shape), solved)
            # A member added again has s = 0 but for rounding; such sets are left out below.
            spread = np.maximum(spread, np.finfo(float).tiny)
            gain = 0.5 * slope**2 / spread - 0.5 * np.log(spread) + 0.5 * _LOG_2PI
            terms[..., k] = level.terms[:, :, k, None] + gain
        inside = _make_slab_of_members(members, log_slab)
        with np.errstate(over="ignore", invalid="ignore"):
            grown = logsumexp(terms, axis=3) + inside[:, :, None] + log_slab[:, None, :]
        return terms, np.where(_is_new(members, d), grown, -np.inf)


def _make_slab_of_members(members: Integers, log_slab: Floats) -> Floats:
    n = len(members)
    found = np.take_along_axis(log_slab, members.reshape(n, -1), axis=1)
    return np.asarray(found.reshape(members.shape).sum(axis=2))


def _is_new(members: Integers, d: int) -> NDArray[np.bool_]:
    """Which sets (n, B, d) hold one cell more than their parent, and were not reached from another before."""
    n, n_parents = members.shape[:2]
    size = members.shape[2]
    columns = np.broadcast_to(np.arange(d), (n, n_parents, d))
    if not size:
        return np.ones((n, n_parents, d), dtype=bool)
    repeats = (members[..., None] == columns[:, :, None, :]).any(axis=2)
    wide = np.broadcast_to(members[:, :, None, :], (n, n_parents, d, size))
    sets = np.sort(np.concatenate([wide, columns[..., None]], axis=3), axis=3)
    keys = (sets * d ** np.arange(size, -1, -1, dtype=np.int64)).sum(axis=3)
    keys = np.where(repeats, -1, keys).reshape(n, -1)
    order = np.argsort(keys, axis=1, kind="stable")
    ordered = np.take_along_axis(keys, order, axis=1)
    first = np.concatenate([ordered[:, :1] >= 0, ordered[:, 1:] != ordered[:, :-1]], axis=1) & (ordered >= 0)
    found = np.empty_like(first)
    np.put_along_axis(found, order, first, axis=1)
    return found.reshape(n, n_parents, d)


def _shares(members: Integers, grown: Floats, totals: Floats, owner: Integers) -> Floats:
    """Share of the weight of the sets that hold a cell of each owner; a set counts once for each."""
    n = len(members)
    weights = np.exp(grown - totals[:, None, None])
    owners = owner[members]
    found = np.zeros((n, int(owner.max()) + 1))
    is_other = (owners[..., None] != owner).all(axis=2)  # the added column has an owner of its own
    for column, own in enumerate(owner):
        found[:, own] += (weights[:, :, column] * is_other[:, :, column]).sum(axis=1)
    of_parents = weights.sum(axis=2)
    for place in range(members.shape[2]):
        is_first = (owners[:, :, :place] != owners[:, :, place : place + 1]).all(axis=2)
        np.add.at(found, (np.arange(n)[:, None], owners[:, :, place]), of_parents * is_first)
    return np.minimum(found, 1.0)


def _best(level: _Level, terms: Floats, grown: Floats, n_kept: int) -> _Level:
    """Keep the sets of the largest weight."""
    n, d = grown.shape[::2]
    flat = grown.reshape(n, -1)
    n_kept = min(n_kept, int((flat > -np.inf).sum(axis=1).min()))
    places = np.argsort(-flat, axis=1, kind="stable")[:, :n_kept]
    parent, column = np.divmod(places, d)
    rows = np.arange(n)[:, None]
    members = np.concatenate([level.members[rows, parent], column[..., None]], axis=2)
    return _Level(members, terms[rows, parent, column], np.take_along_axis(flat, places, axis=1))
