"""Shapley values from what coalitions are worth, and their standard errors.

Coalitions are all sets of players, whose worth a least-squares fit shares, or a random sample of different
sets, each with its complement (`set_regression`).

Charnes, Golany, Keane and Rousseau (1988); Lundberg and Lee, NeurIPS (2017); pairs: Covert and Lee, AISTATS
(2021); sizes of sets: Musco and Witter, ICLR (2025).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import comb

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.shapley.set_regression import MANY, Sampled, find_reaches, regress

Mask = NDArray[np.bool_]


LARGEST_ENUMERATED = 12  # players: 4094 sets
FEW_PAIRS = 2  # pairs for each player, up to which all single players are among them


@dataclass(frozen=True)
class Coalitions:
    """Sets S of players other than none and all.

    Attributes
    ----------
    members
        One mask per set, shape (m, p); row i + m/2 is the complement of row i.
    weights
        Of each set in least squares: its Shapley kernel, and of drawn sets that of those it stands for.
    is_exact
        Whether every set is there.
    """

    members: Mask
    weights: Floats
    is_exact: bool = True

    @property
    def n_players(self) -> int:
        """Number of players p."""
        return self.members.shape[1]

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
    """Draw n/2 different sets of at most half the players, and take their complements.

    How many sets there are of each size goes by the root of the kernel's weight of the size: between the
    kernel itself, which asks for the smallest sets again and again, and as many of each. Sizes with fewer
    sets are there as a whole; so are single players, which tell sums apart, where pairs are few. A set weighs
    as much as the sets of its size do in the kernel, over how many of them were drawn.
    """
    counts = count_by_size(p, (n + 1) // 2)
    mass = compute_size_chances(p)[: len(counts)]
    mass[-1] /= 1.0 if p % 2 else 2.0  # both sets of a pair are of half the players
    half = [draw_distinct(p, size, count, rng) for size, count in enumerate(counts, start=1) if count]
    weights = [np.full(count, mass[k] / count) for k, count in enumerate(counts) if count]
    members = np.concatenate(half)
    return Coalitions(np.concatenate([members, ~members]), np.tile(np.concatenate(weights), 2), False)


def count_by_size(p: int, n_pairs: int) -> list[int]:
    """Return how many pairs of sets of the sizes 1, …, p/2 and their complements are drawn.

    Examples
    --------
    >>> count_by_size(6, 20), count_by_size(20, 100)
    ([6, 8, 6], [18, 13, 11, 10, 9, 9, 8, 8, 8, 6])
    """
    half = p // 2
    there = np.array([comb(p, size, exact=True) for size in range(1, half + 1)], dtype=np.float64)
    wanted = np.sqrt(compute_size_chances(p)[:half])
    if p % 2 == 0:  # a set of half the players and its complement are one pair of that size
        there[-1] /= 2.0
        wanted[-1] /= np.sqrt(2.0)
    counts = np.zeros(half)
    is_open = np.ones(half, dtype=bool)
    if p <= n_pairs <= FEW_PAIRS * p:
        counts[0] = p
        is_open[0] = False
    while is_open.any() and counts.sum() < n_pairs:
        share = wanted * (n_pairs - counts.sum()) / wanted[is_open].sum()
        is_full = is_open & (share >= there)
        if not is_full.any():
            counts[is_open] = _round_to_sum(share[is_open])
            break
        counts[is_full] = there[is_full]
        is_open &= ~is_full
    return [int(count) for count in counts]


def _round_to_sum(shares: Floats) -> Floats:
    """Whole numbers next to some shares, which add up to the same sum."""
    found = np.floor(shares)
    missing = round(float(shares.sum() - found.sum()))
    found[np.argsort(found - shares, kind="stable")[:missing]] += 1.0
    return found


def draw_distinct(p: int, size: int, n: int, rng: np.random.Generator) -> Mask:
    """Draw n different sets of a size; of half the players, no two are complements of each other."""
    is_half = 2 * size == p
    there = comb(p, size, exact=True) // (2 if is_half else 1)
    if there <= max(2 * n, 1000):
        first = [np.array(chosen) for chosen in islice(combinations(range(p), size), there)]
        kept = np.sort(rng.permutation(there)[:n])
        found = np.zeros((n, p), dtype=bool)
        for row, place in enumerate(kept):
            found[row, first[place]] = True  # of half the players: with the first of them
        return found
    seen = np.empty((0, p), dtype=bool)
    while len(seen) < n:
        # The first of a random order are any set; the argsort of an order gives their places.
        drawn = np.argsort(np.argsort(rng.random((n, p)), axis=1), axis=1) < size
        if is_half:
            drawn[~drawn[:, 0]] ^= True
        both = np.concatenate([seen, drawn])
        first_places = np.unique(np.packbits(both, axis=1), axis=0, return_index=True)[1]
        seen = both[np.sort(first_places)][:n]
    return seen


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
    if n > 2 * MANY:
        raise InvalidParameter(
            f"n_coalitions={n} is too many for {p} features or groups: at most {2 * MANY} drawn sets are "
            "looked at together. Leave it at 'auto', or draw those and average over several random_state."
        )
    return sample_coalitions(p, n, rng)


@dataclass(frozen=True)
class ShapleyValues:
    """Values of n games with p players; those of a game sum to v(D) − v(∅)."""

    values: Floats  # (n, p)
    stderr: Floats | None  # Monte-Carlo standard errors; None where all sets were used


def shapley_values(
    coalitions: Coalitions, worth: Floats, empty: Floats, full: Floats, *, is_one_prior: bool = False
) -> ShapleyValues:
    """Shapley values of n games at once, from what sets are worth.

    Where every set is there, they are the weighted least-squares fit of a sum to the worth of sets, v(S) −
    v(∅) = Σ_{i∈S} φ_i under Σφ = v(D) − v(∅), with the Shapley kernel as weights: with masks z, weights w, A
    = Σ w z zᵀ and b = Σ w z (v(z) − v(∅)), φ = A⁻¹(b − λ1), λ such that the sum is right. Of drawn sets they
    are those of a regression that sees what three players and more do together (`set_regression`).

    Parameters
    ----------
    coalitions
        The sets.
    worth
        v(S) of each game and set, shape (n, m).
    empty, full
        v(∅) and v(D) of each game, shape (n,).
    is_one_prior
        Of drawn sets: whether all games have one prior, so that many of them take hardly longer than one;
        else players that take part in much have wider priors, game by game.

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
    if coalitions.is_exact:
        fit = SumFit.of_sets(coalitions)
        values = fit.values(_sum_masks(coalitions, gains), total)
        stderr = None
    else:
        values, stderr = _regress(coalitions, gains, total, is_one_prior=is_one_prior)
    rounding = (total - values.sum(axis=1)) / p
    values += rounding[:, None]  # the sum is promised to be exact
    return ShapleyValues(values, stderr)


def _regress(
    coalitions: Coalitions, gains: Floats, total: Floats, *, is_one_prior: bool
) -> tuple[Floats, Floats]:
    """Values of games of drawn sets, and their standard errors."""
    m = len(coalitions.members) // 2
    odd = np.vstack([(gains[:, :m] - gains[:, m:]).T / 2.0, total / 2.0])
    even = (gains[:, :m] + gains[:, m:]).T / 2.0
    sampled = Sampled.of(coalitions.members[:m], coalitions.weights[:m])
    reaches = None if is_one_prior else find_reaches(sampled, odd, even)
    return regress(sampled, odd, reaches)


def set_weights(coalitions: Coalitions) -> Floats:
    """Weight of each set in the fit; they add up to 1."""
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
        return cls.of(_make_normal_matrix(coalitions))

    def values(self, b: Floats, total: Floats) -> Floats:
        """φ of games, from b = Σ w z (v(z) − v(∅)) of each, shape (…, p), and v(D) − v(∅)."""
        return np.asarray(b @ self.M + total[..., None] * self.share)


def _make_normal_matrix(coalitions: Coalitions) -> Floats:
    """Return A = Σ w z zᵀ, which all games share."""
    m, p = coalitions.members.shape
    weights = set_weights(coalitions)
    A = np.zeros((p, p))
    for some in cut_batches(m, 24 * p, 64 * 2**20):
        Z = coalitions.members[some].astype(np.float64)
        A += Z.T @ (Z * weights[some, None])
    return A


def _sum_masks(coalitions: Coalitions, gains: Floats) -> Floats:
    """Return b = Σ w z (v(z) − v(∅)) of each game, (n, p)."""
    m, p = coalitions.members.shape
    weights = set_weights(coalitions)
    b = np.zeros((len(gains), p))
    for some in cut_batches(m, 24 * p, 64 * 2**20):
        b += gains[:, some] @ (coalitions.members[some] * weights[some, None])
    return b


def _inverse(A: Floats) -> Floats:
    """Return A⁻¹, or say that there are too few sets."""
    try:
        return np.asarray(cho_solve(cho_factor(A), np.eye(len(A))))
    except LinAlgError as error:
        raise InvalidParameter(
            f"The sampled sets do not tell the {len(A)} features or groups apart: raise n_coalitions."
        ) from error
