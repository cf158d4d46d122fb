"""The fitted committee: members, how surprising each one's scores are, and what they say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tellwhy.core.parallel import tracked_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.committee.dependence import Dependence
from tellwhy.detectors.committee.gaussian import Gaussian
from tellwhy.detectors.committee.member import Member
from tellwhy.detectors.committee.neighbours import Neighbours
from tellwhy.detectors.committee.pairs import RarePairs
from tellwhy.detectors.committee.surprise import Surprise
from tellwhy.detectors.committee.tails import Tails


@dataclass(frozen=True)
class Training:
    """What a member learns from.

    Attributes
    ----------
    X
        All rows.
    kept
        Those that are taken to be ordinary.
    remembered
        Those that rows are compared with: some of the kept ones.
    """

    X: Floats
    kept: Integers
    remembered: Integers


MemberMaker = Callable[[Training], Member]

MEMBERS: Mapping[str, MemberMaker] = {
    "tails": lambda rows: Tails.learn(rows.X),
    "near": lambda rows: Neighbours.learn(rows.X, rows.remembered, 10),
    "wide": lambda rows: Neighbours.learn(rows.X, rows.remembered, 50),
    "squeezed": lambda rows: Neighbours.learn(rows.X, rows.remembered, 10, squeezed=True),
    "gaussian": lambda rows: Gaussian.learn(rows.X, rows.kept),
    "dependence": lambda rows: Dependence.learn(rows.X, rows.kept),
    "pairs": lambda rows: RarePairs.learn(rows.X),
}


@dataclass(frozen=True)
class Panel:
    """S(x) = Σ_m w_m T_m(s_m(x)), and its own surprise T(S).

    Surprises of members depend on each other, so the distribution of their sum is learned as well. Its tail
    is exponential: each surprise has such a tail, whatever the tail of the scores.
    """

    members: tuple[Member, ...]
    weights: tuple[float, ...]
    surprises: tuple[Surprise, ...]
    together: Surprise

    @classmethod
    def learn(
        cls,
        training: Training,
        makers: Mapping[str, MemberMaker],
        weights: Mapping[str, float],
        *,
        calibration: Integers,
        is_clean: bool,
    ) -> Panel:
        """Fit members, and calibrate them on the calibration rows, each left out of what is remembered."""
        members = tuple(makers[name](training) for name in weights)
        rows = training.X[calibration]
        points = remembered_as(training)[calibration]
        surprises = []
        total = np.zeros(len(rows))
        for member, weight in zip(members, weights.values(), strict=True):
            scores = member.score(rows, points)
            law = Surprise.learn(scores, is_clean=is_clean, least_scale=member.least_scale)
            surprises.append(law)
            total += weight * law.value(scores)
        together = Surprise.learn(total, is_clean=is_clean, most_shape=0.0)
        return cls(members, tuple(weights.values()), tuple(surprises), together)

    def total(self, X: Floats, points: Integers | None = None) -> Floats:
        """S of each row."""
        found = np.zeros(len(X))
        for member, weight, law in zip(self.members, self.weights, self.surprises, strict=True):
            found += weight * law.value(member.score(X, points))
        return found

    def value(self, X: Floats, points: Integers | None = None) -> Floats:
        """Surprise of each row, in nats: exp(−value) is the probability of an ordinary row as odd as this."""
        return self.together.value(self.total(X, points))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:
        """What each column contributed to the surprise of each row.

        The way back: T(S) goes to the members in proportion to their terms w_m T_m, and from each member to
        the columns in proportion to their shares of its score. What a member whose score is 0 says cannot be
        handed down; it stays unattributed.
        """
        found = np.zeros_like(X)
        for rows in tracked_batches(len(X), 64 * X.shape[1], "explaining rows"):
            some = None if points is None else points[rows]
            found[rows] = self._shares(X[rows], some)
        return found

    def _shares(self, X: Floats, points: Integers | None) -> Floats:
        found = np.zeros_like(X)
        total = np.zeros(len(X))
        for member, weight, law in zip(self.members, self.weights, self.surprises, strict=True):
            parts = member.shares(X, points)
            scores = parts.sum(axis=1)
            term = weight * law.value(scores)
            total += term
            found += parts * _ratio(term, scores)[:, None]
        return np.asarray(found * _ratio(self.together.value(total), total)[:, None])


def _ratio(above: Floats, below: Floats) -> Floats:
    """above / below, 0 where below is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


def remembered_as(training: Training) -> Integers:
    """Of each training row: its place among the remembered ones, or −1."""
    places = np.full(len(training.X), -1, dtype=np.int64)
    places[training.remembered] = np.arange(len(training.remembered))
    return places
