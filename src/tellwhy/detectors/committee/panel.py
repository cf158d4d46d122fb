"""The fitted committee: members, how surprising each one's scores are, and what they say together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from tellwhy.core.parallel import CACHED_BYTES, row_batches, tracked_batches
from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.committee.dependence import Dependence
from tellwhy.detectors.committee.gaussian import Gaussian
from tellwhy.detectors.committee.member import Member
from tellwhy.detectors.committee.neighbours import Neighbours
from tellwhy.detectors.committee.pairs import RarePairs
from tellwhy.detectors.committee.spiked import Law, law_of
from tellwhy.detectors.committee.straight import Straight
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
    known_laws
        What is usual in each column, where that has been learned already.
    """

    X: Floats
    kept: Integers
    remembered: Integers

    known_laws: tuple[Law, ...] | None = None

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        """What is usual in each column."""
        return self.known_laws or tuple(law_of(column) for column in self.X.T)

    @cached_property
    def straight(self) -> Straight:
        """How long tails are shortened, and spikes moved, before rows are compared."""
        return Straight.learn(self.X, self.laws)


MemberMaker = Callable[[Training], Member]

MEMBERS: Mapping[str, MemberMaker] = {
    "tails": lambda rows: Tails.learn(rows.X, rows.laws),
    "near": lambda rows: Neighbours.learn(rows.X, rows.remembered, 10, straight=rows.straight),
    "squeezed": lambda rows: Neighbours.learn(
        rows.X, rows.remembered, 10, squeezed=True, straight=rows.straight
    ),
    "gaussian": lambda rows: Gaussian.learn(rows.X, rows.kept, rows.straight),
    "dependence": lambda rows: Dependence.learn(rows.X, rows.kept, rows.straight),
    "pairs": lambda rows: RarePairs.learn(rows.X),
}


SINGLE = 0.1  # how much single members may say against all together
# What each may say, before these are scaled to SINGLE: more for members whose laws hold far out.
VOICES: Mapping[str, float] = {"tails": 2.0, "near": 2.0, "dependence": 0.5, "pairs": 0.5}
# Shape of the last tail. Far out, members' laws are continued beyond what the rows show, and ordinary rows
# reach there more often than an exponential tail says: with 0, clean generated tables had 1.9 times the
# alarms that were stated, with this 1.3 times.
DOUBT = 0.03
ROWS_OF_DOUBT = 600  # of fewer rows a smaller part of it: alarms are not so far beyond them


@dataclass(frozen=True)
class Panel:
    """What the members say together, as a surprise.

    Most anomalies are seen by several members: their surprises T_m are added, Σ_m w_m T_m, and the sum has a
    surprise T_Σ of its own. What one member alone sees would be lost in the sum: the panel takes
    S = log((1 − λ) exp T_Σ + Σ_m λ_m exp T_m) with λ = Σ_m λ_m, which is about the largest of T_Σ and
    T_m + log λ_m. Members depend on each other, so the distribution of S is learned as well, and the score is
    T(S).

    Attributes
    ----------
    members, weights, voices, surprises
        The members, w_m, λ_m and the laws that turn their scores into T_m.
    summed, together
        The laws of Σ_m w_m T_m and of S.
    """

    members: tuple[Member, ...]
    weights: tuple[float, ...]
    voices: tuple[float, ...]
    surprises: tuple[Surprise, ...]
    summed: Surprise
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
        levels = []
        for member in members:
            scores = member.score(rows, points)
            law = Surprise.learn(
                scores, is_clean=is_clean, least_scale=member.least_scale, most_shape=member.most_shape
            )
            surprises.append(law)
            levels.append(law.value(scores))
        T = np.column_stack(levels)
        voices = np.array([VOICES.get(name, 1.0) for name in weights])
        voices *= SINGLE / voices.sum()
        # Surprises have exponential tails, whatever the tails of the scores.
        summed = Surprise.learn(T @ np.array([*weights.values()]), is_clean=is_clean, most_shape=0.0)
        S = _largest_of(summed.value(T @ np.array([*weights.values()])), T, voices)
        together = Surprise.learn(S, is_clean=is_clean, least_scale=1.0, most_shape=0.0)
        together = replace(together, shape=DOUBT * min(1.0, len(rows) / ROWS_OF_DOUBT))
        return cls(
            members, tuple(weights.values()), tuple(voices.tolist()), tuple(surprises), summed, together
        )

    def value(self, X: Floats, points: Integers | None = None) -> Floats:
        """Surprise of each row, in nats: exp(−value) is the probability of an ordinary row as odd as this."""
        found = np.empty(len(X))
        for rows in row_batches(len(X), 4 * X.shape[1], CACHED_BYTES):
            found[rows] = self._value(X[rows], None if points is None else points[rows])
        return found

    def _value(self, X: Floats, points: Integers | None) -> Floats:
        laws = zip(self.members, self.surprises, strict=True)
        T = np.column_stack([law.value(member.score(X, points)) for member, law in laws])
        summed = self.summed.value(T @ np.array(self.weights))
        return self.together.value(_largest_of(summed, T, np.array(self.voices)))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:
        """What each column contributed to the surprise of each row.

        The way back: T(S) goes to the sum and to the single members in proportion to their exponentials in S,
        the sum's part goes to the members in proportion to w_m T_m, and from each member its part goes to the
        columns in proportion to their shares of its score. What a member whose score is 0 says cannot be
        handed down; it stays unattributed.
        """
        found = np.zeros_like(X)
        for rows in tracked_batches(len(X), 64 * X.shape[1], "explaining rows"):
            some = None if points is None else points[rows]
            found[rows] = self._shares(X[rows], some)
        return found

    def _shares(self, X: Floats, points: Integers | None) -> Floats:
        parts = [member.shares(X, points) for member in self.members]
        scores = [part.sum(axis=1) for part in parts]
        T = np.column_stack([law.value(s) for law, s in zip(self.surprises, scores, strict=True)])
        handed = self._handed_down(T)
        found = np.zeros_like(X)
        for m, part in enumerate(parts):
            found += part * _ratio(handed[:, m], scores[m])[:, None]
        return found

    def _handed_down(self, T: Floats) -> Floats:
        """Part of each member in the surprise T(S), shape (rows, members)."""
        terms = T * np.array(self.weights)
        total = terms.sum(axis=1)
        summed = self.summed.value(total)
        voices = np.array(self.voices)
        S = _largest_of(summed, T, voices)
        # S is at least each of its terms: these are at most 1.
        by_sum = (1 - voices.sum()) * np.exp(summed - S)
        alone = np.exp(T + np.log(voices) - S[:, None])
        parts = terms * _ratio(by_sum, total)[:, None] + alone
        return np.asarray(parts * self.together.value(S)[:, None])


def _largest_of(summed: Floats, T: Floats, voices: Floats) -> Floats:
    """S = log((1 − λ) exp T_Σ + Σ_m λ_m exp T_m)."""
    alone = logsumexp(T + np.log(voices), axis=1)
    return np.logaddexp(np.log1p(-voices.sum()) + summed, alone)


def _ratio(above: Floats, below: Floats) -> Floats:
    """above / below, 0 where below is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


def remembered_as(training: Training) -> Integers:
    """Of each training row: its place among the remembered ones, or −1."""
    places = np.full(len(training.X), -1, dtype=np.int64)
    places[training.remembered] = np.arange(len(training.remembered))
    return places
