"""Shapley values as a least-squares fit to the worth of coalitions, and their standard errors.

Coalitions are all sets of players, or a random sample in pairs of a set and its complement.

Charnes, Golany, Keane and Rousseau (1988); Lundberg and Lee, NeurIPS (2017); paired sampling and its error:
Covert and Lee, AISTATS (2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import comb

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.rows import Groups, Rows, group_numbers

Mask = NDArray[np.bool_]


LARGEST_ENUMERATED = 12  # players: 4094 sets


@dataclass(frozen=True)
class Players:
    """Groups of the user's columns; those of which the score sees no column take no part.

    `of_column[t]` is the player that score column t belongs to; `group[c]` is the group of the user's column
    c, and `playing` lists the groups that play, in the order of the players.
    """

    of_column: Integers
    group: Integers
    playing: Integers

    @property
    def n(self) -> int:
        """How many take part."""
        return len(self.playing)

    def group_values(self, values: Floats) -> Floats:
        """Values per group from values per player: 0 for a group that takes no part."""
        found = np.zeros((len(values), int(self.group.max()) + 1))
        found[:, self.playing] = values
        return found

    def per_column(self, values: Floats) -> Floats:
        """Values per user's column: a group's value in equal parts."""
        sizes = np.bincount(self.group)
        return np.asarray((self.group_values(values) / sizes)[:, self.group])


def find_players(rows: Rows, groups: Groups | None, names: Sequence[str] | None) -> Players:
    """Return the players among some rows: one per user's column, or one per group of them."""
    group = np.arange(rows.n_owners) if groups is None else group_numbers(groups, rows.n_owners, names)
    # Groups none of whose columns the score sees, such as dropped ones, get no player and the value 0.
    playing, of_column = np.unique(group[rows.owner], return_inverse=True)
    return Players(of_column.reshape(-1), group, playing)


@dataclass(frozen=True)
class Coalitions:
    """Sets S of players other than none and all.

    Attributes
    ----------
    members
        One mask per set, shape (m, p); row i + m/2 is the complement of row i.
    weights
        The Shapley kernel of each set, where all sets are there; None for a sample, which follows the kernel
        already.
    """

    members: Mask
    weights: Floats | None

    @property
    def n_players(self) -> int:
        """Number of players p."""
        return self.members.shape[1]

    @property
    def is_exact(self) -> bool:
        """Whether every set is there."""
        return self.weights is not None

    def words(self) -> str:
        """One phrase for the record of an explanation."""
        return "all" if self.is_exact else "sampled in pairs"

    def share(self, worth: Floats, empty: Floats, full: Floats) -> ShapleyValues:
        """Return the Shapley values of n games from v(S), (n, m), v(∅) and v(D)."""
        return shapley_values(self, worth, empty, full)

    def as_sums(self) -> tuple[Floats, Floats, Floats]:
        """Return Shapley values as sums over v(S), v(∅) and v(D): the weights of each, (m, p), (p,), (p,)."""
        weighted = self.members * set_weights(self)[:, None]
        if self.n_players == 1:
            return weighted, -np.ones(1), np.ones(1)
        fit = SumFit.of_sets(self)
        return weighted @ fit.M, -weighted.sum(axis=0) @ fit.M - fit.share, fit.share


def shapley_kernel(p: int, size: Integers) -> Floats:
    """(p − 1)/(C(p, s) s (p − s)): the weight of one set of s of p players in least squares.

    Examples
    --------
    >>> shapley_kernel(4, np.array([1, 2, 3]))
    array([0.25 , 0.125, 0.25 ])
    """
    return np.asarray((p - 1) / (comb(p, size) * size * (p - size)))


def compute_size_chances(p: int) -> Floats:
    """Chance of the sizes 1, …, p − 1 under the kernel: C(p, s) times the weight of a set, ∝ 1/(s (p − s)).

    Examples
    --------
    >>> compute_size_chances(4).round(3)
    array([0.364, 0.273, 0.364])
    """
    sizes = np.arange(1, p)
    chances = 1.0 / (sizes * (p - sizes))
    return np.asarray(chances / chances.sum())


def make_every_coalition(p: int) -> Coalitions:
    """All 2^p − 2 sets, weighted by the Shapley kernel."""
    numbers = np.arange(1, 2 ** (p - 1))
    # Bit i of a number tells whether player i is in; the last is in none of these, but in every complement.
    half = (numbers[:, None] >> np.arange(p)) & 1 == 1
    members = np.concatenate([half, ~half])
    return Coalitions(members, shapley_kernel(p, members.sum(axis=1)) if len(members) else np.empty(0))


def sample_coalitions(p: int, n: int, rng: np.random.Generator) -> Coalitions:
    """Draw n/2 sets and their complements: a size from `compute_size_chances`, then any set of that size."""
    n_pairs = (n + 1) // 2
    sizes = rng.choice(np.arange(1, p), size=n_pairs, p=compute_size_chances(p))
    half = np.empty((n_pairs, p), dtype=bool)
    for some in cut_batches(n_pairs, 24 * p):
        # The first s players of a random order are any set of s; the argsort of an order gives their places.
        order = np.argsort(rng.random((some.stop - some.start, p)), axis=1)
        half[some] = np.argsort(order, axis=1) < sizes[some, None]
    return Coalitions(np.concatenate([half, ~half]), None)


def choose_coalitions(p: int, n_coalitions: str | int, rng: np.random.Generator) -> Coalitions:
    """Return all sets where they are few enough, else a sample.

    "auto" means all sets up to 12 players, and 2p + 2048 sets beyond.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> len(choose_coalitions(3, "auto", rng).members), len(choose_coalitions(100, "auto", rng).members)
    (6, 2248)
    """
    usual = 2**p - 2 if p <= LARGEST_ENUMERATED else 2 * p + 2048
    n = usual if isinstance(n_coalitions, str) else n_coalitions
    if n >= 2**p - 2:
        return make_every_coalition(p)
    if n < 2 * p + 2:
        raise InvalidParameter(
            f"n_coalitions={n} is too few for {p} features or groups: at least {2 * p + 2} sets are needed "
            "to tell them apart. Leave it at 'auto', or put columns into groups=…."
        )
    return sample_coalitions(p, n, rng)


@dataclass(frozen=True)
class ShapleyValues:
    """Values of n games with p players; those of a game sum to v(D) − v(∅)."""

    values: Floats  # (n, p)
    stderr: Floats | None  # Monte-Carlo standard errors; None where all sets were used


def shapley_values(coalitions: Coalitions, worth: Floats, empty: Floats, full: Floats) -> ShapleyValues:
    """Fit φ to v(S) − v(∅) = Σ_{i∈S} φ_i under Σφ = v(D) − v(∅), for n games at once.

    Shapley values are the weighted least-squares fit of a sum to the worth of sets, with the Shapley kernel
    as weights; sampled sets follow the kernel already and have equal weights.

    With masks z, weights w, A = Σ w z zᵀ and b = Σ w z (v(z) − v(∅)): φ = A⁻¹(b − λ1), with λ such that the
    sum is right. The standard error of a sample of pairs is that of M·mean(g), where g = ½ Σ z(y − zᵀφ) over
    the pair and M = A⁻¹ − A⁻¹11ᵀA⁻¹/(1ᵀA⁻¹1), A the mean of zzᵀ; since M1 = 0, Mg = ½(r_S − r_{S^c})·Mz with
    the residuals r.

    Parameters
    ----------
    coalitions
        The sets.
    worth
        v(S) of each game and set, shape (n, m).
    empty, full
        v(∅) and v(D) of each game, shape (n,).

    Examples
    --------
    >>> from tellwhy.explainers.shapley.shapley_values import make_every_coalition
    >>> sets = make_every_coalition(2)  # {0} and {1}
    >>> shapley_values(sets, np.array([[1.0, 2.0]]), np.zeros(1), np.array([5.0])).values
    array([[2., 3.]])
    """
    p = coalitions.n_players
    total = full - empty
    if p == 1:  # there is no set between none and all
        return ShapleyValues(total[:, None].copy(), None)
    gains = worth - empty[:, None]
    A, b = _make_normal_equations(coalitions, set_weights(coalitions), gains)
    fit = SumFit.of(A)
    values = fit.values(b, total)
    rounding = (total - values.sum(axis=1)) / p
    values += rounding[:, None]  # the sum is promised to be exact
    stderr = None if coalitions.is_exact else _compute_standard_errors(coalitions, gains, values, fit.M)
    return ShapleyValues(values, stderr)


def set_weights(coalitions: Coalitions) -> Floats:
    """Weight of each set in the fit; they add up to 1."""
    if coalitions.weights is None:
        return np.full(len(coalitions.members), 1.0 / len(coalitions.members))
    return np.asarray(coalitions.weights / coalitions.weights.sum())


@dataclass(frozen=True)
class SumFit:
    """The least-squares fit of a sum as a linear map: φ = M b + share · (v(D) − v(∅))."""

    M: Floats  # (p, p)
    share: Floats  # (p,)

    @classmethod
    def of(cls, A: Floats) -> SumFit:
        """Solve the normal equations with the matrix A = Σ w z zᵀ."""
        inverse = _inverse(A)
        row_sums = inverse.sum(axis=1)
        return cls(inverse - np.outer(row_sums, row_sums) / row_sums.sum(), row_sums / row_sums.sum())

    @classmethod
    def of_sets(cls, coalitions: Coalitions) -> SumFit:
        """Return the fit to the worth of some sets."""
        return cls.of(_make_normal_equations(coalitions, set_weights(coalitions), None)[0])

    def values(self, b: Floats, total: Floats) -> Floats:
        """φ of games, from b = Σ w z (v(z) − v(∅)) of each, shape (…, p), and v(D) − v(∅)."""
        return np.asarray(b @ self.M + total[..., None] * self.share)


def _make_normal_equations(
    coalitions: Coalitions, weights: Floats, gains: Floats | None
) -> tuple[Floats, Floats]:
    """Return A, which all games share, and b of each game (of none without gains)."""
    m, p = coalitions.members.shape
    A = np.zeros((p, p))
    b = np.zeros((0 if gains is None else len(gains), p))
    for some in cut_batches(m, 24 * p, 64 * 2**20):
        Z = coalitions.members[some].astype(np.float64)
        weighted = Z * weights[some, None]
        A += Z.T @ weighted
        if gains is not None:
            b += gains[:, some] @ weighted
    return A, b


def _inverse(A: Floats) -> Floats:
    """Return A⁻¹, or say that there are too few sets."""
    try:
        return np.asarray(cho_solve(cho_factor(A), np.eye(len(A))))
    except LinAlgError as error:
        raise InvalidParameter(
            f"The sampled sets do not tell the {len(A)} features or groups apart: raise n_coalitions."
        ) from error


def _compute_standard_errors(coalitions: Coalitions, gains: Floats, values: Floats, M: Floats) -> Floats:
    """√ of the diagonal of M·Cov(g)·M/n_pairs, each pair's residual as if the pair had not been fitted.

    A pair's share of its own fit is h = zᵀMz/n_pairs, so that its residual without it is r/(1 − h): next to 1
    for many pairs, and what keeps the error honest for few (MacKinnon and White, Journal of Econometrics 29,
    1985).
    """
    n_pairs = len(coalitions.members) // 2
    variance = np.zeros_like(values)
    for some in cut_batches(n_pairs, 24 * coalitions.n_players, 64 * 2**20):
        other = slice(some.start + n_pairs, some.stop + n_pairs)
        Z = coalitions.members[some].astype(np.float64)
        spread = Z @ M
        own = np.minimum(np.einsum("ij,ij->i", spread, Z) / n_pairs, 1.0 - 1e-6)
        fitted = values @ Z.T
        of_set = gains[:, some] - fitted
        of_rest = gains[:, other] - (values.sum(axis=1, keepdims=True) - fitted)
        variance += (0.5 * (of_set - of_rest) / (1.0 - own)) ** 2 @ spread**2
    return np.asarray(np.sqrt(variance) / n_pairs)
