"""Sets of players whose worth tells the Shapley values: all of them, or a random sample in pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.parallel import row_batches
from tellwhy.core.score_function import Floats, Integers

Mask = NDArray[np.bool_]

LARGEST_ENUMERATED = 12  # players: 4094 sets


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


def shapley_kernel(p: int, size: Integers) -> Floats:
    """(p − 1)/(C(p, s) s (p − s)): the weight of one set of s of p players in least squares.

    Examples
    --------
    >>> shapley_kernel(4, np.array([1, 2, 3]))
    array([0.25 , 0.125, 0.25 ])
    """
    return np.asarray((p - 1) / (comb(p, size) * size * (p - size)))


def size_chances(p: int) -> Floats:
    """Chance of the sizes 1, …, p − 1 under the kernel: C(p, s) times the weight of a set, ∝ 1/(s (p − s)).

    Examples
    --------
    >>> size_chances(4).round(3)
    array([0.364, 0.273, 0.364])
    """
    sizes = np.arange(1, p)
    chances = 1.0 / (sizes * (p - sizes))
    return np.asarray(chances / chances.sum())


def every_coalition(p: int) -> Coalitions:
    """All 2^p − 2 sets, weighted by the Shapley kernel."""
    numbers = np.arange(1, 2 ** (p - 1))
    # Bit i of a number tells whether player i is in; the last is in none of these, but in every complement.
    half = (numbers[:, None] >> np.arange(p)) & 1 == 1
    members = np.concatenate([half, ~half])
    return Coalitions(members, shapley_kernel(p, members.sum(axis=1)) if len(members) else np.empty(0))


def sampled_coalitions(p: int, n: int, rng: np.random.Generator) -> Coalitions:
    """n/2 random sets and their complements: a size from `size_chances`, then any set of that size."""
    n_pairs = (n + 1) // 2
    sizes = rng.choice(np.arange(1, p), size=n_pairs, p=size_chances(p))
    half = np.empty((n_pairs, p), dtype=bool)
    for some in row_batches(n_pairs, 24 * p):
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
        return every_coalition(p)
    if n < 2 * p + 2:
        raise InvalidParameter(
            f"n_coalitions={n} is too few for {p} features or groups: at least {2 * p + 2} sets are needed "
            "to tell them apart. Leave it at 'auto', or put columns into groups=…."
        )
    return sampled_coalitions(p, n, rng)
