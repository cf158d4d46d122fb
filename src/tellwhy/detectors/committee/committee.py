"""A committee of simple detectors that are explained in closed form.

Each member's score is told as a surprise, −log p; surprises are combined, and shared among the columns as
each member shares its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.arrays import as_floats, draw_sample
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.params import Fit, Rule, Rules, generator, integer, none, real, seed
from tellwhy.core.running import CACHED_BYTES, cut_batches, track_batches
from tellwhy.core.score import Floats, Integers, RememberedRows
from tellwhy.detectors.base import RememberingDetector, choose_calibration_rows
from tellwhy.detectors.committee.column_law import Law, TailShortening, learn_law
from tellwhy.detectors.committee.members import (
    ColumnScales,
    Dependence,
    Gaussian,
    Member,
    Neighbours,
    RarePairs,
    Tails,
)
from tellwhy.scoring.distance_scores import find_matching_points
from tellwhy.scoring.surprise import LEAST_ABOVE, Surprise


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
        return self.known_laws or tuple(learn_law(column) for column in self.X.T)

    @cached_property
    def straight(self) -> TailShortening:
        """How long tails are shortened, and spikes moved, before rows are compared."""
        return TailShortening.learn(self.X, self.laws)


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
SINGLE_WEIGHTS: Mapping[str, float] = {"tails": 2.0, "near": 2.0, "dependence": 0.5, "pairs": 0.5}
# Shape of the last tail. Far out, members' laws are continued beyond what the rows show, and ordinary rows
# reach there more often than an exponential tail says: with 0, clean generated tables had 1.9 times the
# alarms that were stated, with this 1.3 times.
TAIL_MARGIN = 0.03
ROWS_OF_FULL_MARGIN = 600  # of fewer rows a smaller part of it: alarms are not so far beyond them


@dataclass(frozen=True)
class CalibratedCommittee:
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
    ) -> CalibratedCommittee:
        """Fit members, and calibrate them on the calibration rows, each left out of what is remembered."""
        members = tuple(makers[name](training) for name in weights)
        rows = training.X[calibration]
        points = find_remembered(training)[calibration]
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
        voices = np.array([SINGLE_WEIGHTS.get(name, 1.0) for name in weights])
        voices *= SINGLE / voices.sum()
        # Surprises have exponential tails, whatever the tails of the scores.
        summed = Surprise.learn(T @ np.array([*weights.values()]), is_clean=is_clean, most_shape=0.0)
        S = _combine_with_largest(summed.value(T @ np.array([*weights.values()])), T, voices)
        together = Surprise.learn(S, is_clean=is_clean, least_scale=1.0, most_shape=0.0)
        together = replace(together, shape=TAIL_MARGIN * min(1.0, len(rows) / ROWS_OF_FULL_MARGIN))
        if not is_clean and _has_groups(rows):
            together = together.with_groups(S)
        return cls(
            members, tuple(weights.values()), tuple(voices.tolist()), tuple(surprises), summed, together
        )

    def value(self, X: Floats, points: Integers | None = None) -> Floats:
        """Surprise of each row, in nats: exp(−value) is the probability of an ordinary row as odd as this."""
        found = np.empty(len(X))
        for rows in cut_batches(len(X), 4 * X.shape[1], CACHED_BYTES):
            found[rows] = self._value(X[rows], None if points is None else points[rows])
        return found

    def _value(self, X: Floats, points: Integers | None) -> Floats:
        laws = zip(self.members, self.surprises, strict=True)
        T = np.column_stack([law.value(member.score(X, points)) for member, law in laws])
        summed = self.summed.value(T @ np.array(self.weights))
        return self.together.value(_combine_with_largest(summed, T, np.array(self.voices)))

    def shares(self, X: Floats, points: Integers | None = None) -> Floats:
        """What each column contributed to the surprise of each row.

        The way back: T(S) goes to the sum and to the single members in proportion to their exponentials in S,
        the sum's part goes to the members in proportion to w_m T_m, and from each member its part goes to the
        columns in proportion to their shares of its score. What a member whose score is 0 says cannot be
        handed down; it stays unattributed.
        """
        found = np.zeros_like(X)
        for rows in track_batches(len(X), 64 * X.shape[1], "explaining rows"):
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
            found += part * _divide_or_zero(handed[:, m], scores[m])[:, None]
        return found

    def _handed_down(self, T: Floats) -> Floats:
        """Part of each member in the surprise T(S), shape (rows, members)."""
        terms = T * np.array(self.weights)
        total = terms.sum(axis=1)
        summed = self.summed.value(total)
        voices = np.array(self.voices)
        S = _combine_with_largest(summed, T, voices)
        # S is at least each of its terms: these are at most 1.
        by_sum = (1 - voices.sum()) * np.exp(summed - S)
        alone = np.exp(T + np.log(voices) - S[:, None])
        parts = terms * _divide_or_zero(by_sum, total)[:, None] + alone
        return np.asarray(parts * self.together.value(S)[:, None])

    def _require(self) -> Iterator[Fit]:
        yield "weights", len(self.weights), len(self.members)
        yield "surprises", len(self.surprises), len(self.members)
        yield "voices", len(self.voices), len(self.members)
        yield "voices", all(isinstance(voice, float) and 0 < voice < 1 for voice in self.voices), True
        laws = (*self.surprises, self.summed, self.together)
        yield "surprises", all(isinstance(law, Surprise) for law in laws), True
        yield "weights", all(isinstance(weight, float) and weight > 0 for weight in self.weights), True


def _has_groups(rows: Floats) -> bool:
    """Whether most rows are equal to several others, as in tables of a few labels and grades."""
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    return bool(counts[counts >= LEAST_ABOVE].sum() > 0.5 * len(rows))


def _combine_with_largest(summed: Floats, T: Floats, voices: Floats) -> Floats:
    """S = log((1 − λ) exp T_Σ + Σ_m λ_m exp T_m)."""
    alone = logsumexp(T + np.log(voices), axis=1)
    return np.logaddexp(np.log1p(-voices.sum()) + summed, alone)


def _divide_or_zero(above: Floats, below: Floats) -> Floats:
    """above / below, 0 where below is 0."""
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


def find_remembered(training: Training) -> Integers:
    """Of each training row: its place among the remembered ones, or −1."""
    places = np.full(len(training.X), -1, dtype=np.int64)
    places[training.remembered] = np.arange(len(training.remembered))
    return places


class CommitteeScore:
    """T(S(x)): −log of the probability that an ordinary row is as surprising to the members together."""

    def __init__(
        self,
        panel: CalibratedCommittee,
        columns: ColumnScales,
        points: Floats,
        remembered: Integers,
        n_training: int,
        *,
        feature_names: Sequence[str] | None = None,
        threshold: float | None = None,
    ):
        self.panel = panel
        self.columns = columns
        self.remembered = RememberedRows(points, remembered, n_training)
        self.feature_shape = points.shape[1:]
        self.feature_names = feature_names
        self.describes = "surprise of a committee: −log of the probability of an ordinary row as odd as this"
        self.threshold = threshold

    def value(self, X: ArrayLike, left_out: Integers | None = None) -> Floats:
        """Surprise of each row; row i is judged without remembered row `left_out[i]`."""
        return self.panel.value(self._put_in_scale(X), left_out)

    def shares(self, X: ArrayLike, left_out: Integers | None = None) -> Floats:
        """What each column contributed to the surprise of each row."""
        return self.panel.shares(self._put_in_scale(X), left_out)

    def match(self, X: ArrayLike) -> Integers:
        """Remembered row that each row is, or −1."""
        return self.leave_some(find_matching_points(as_floats(X), self.remembered))

    def leave_some(self, left_out: Integers) -> Integers:
        """Leave nothing out where too few rows would remain."""
        return left_out if len(self.remembered.points) > 3 else np.full_like(left_out, -1)

    def points_of(self, training_rows: Integers) -> Integers:
        """Remembered row that each training row is, or −1."""
        return self.leave_some(self._places[training_rows])

    def _put_in_scale(self, X: ArrayLike) -> Floats:
        return self.columns.of(as_floats(X, n_columns=self.feature_shape[0]))

    @cached_property
    def _places(self) -> Integers:
        places = np.full(self.remembered.n_training or 0, -1, dtype=np.int64)
        places[self.remembered.training_rows] = np.arange(len(self.remembered.points))
        return places


# Chosen on 18 public sets and on generated tables (benchmarks/tables/default_detector.py says how).
WEIGHTS: Mapping[str, float] = {
    "tails": 0.5,
    "near": 2.0,
    "squeezed": 3.0,
    "gaussian": 0.5,
    "dependence": 0.25,
    "pairs": 0.25,
}
LEAST_TRIMMED = 20  # rows; of fewer, none is set aside
# Which rows to set aside is decided by their distance to a third of so few others that a cluster of anomalies
# is a small part of these: it cannot vouch for itself.
FIRST_POINTS = 100
FIRST_NEIGHBOURS = 33

_WEIGHTS = Rule(
    "a mapping from names of members to positive weights",
    lambda value: isinstance(value, Mapping) and len(value) > 0 and all(w > 0 for w in value.values()),
)
_MAKERS = Rule(
    "a mapping from names to functions of the training rows",
    lambda value: isinstance(value, Mapping) and all(callable(maker) for maker in value.values()),
)


class Committee(RememberingDetector):
    """How surprising a row is to several simple detectors together.

    Members look for different things: `tails` for values far out in their column or rare for it, `near` and
    `squeezed` for rows far from their 10 nearest ones (in plain units, and in units that shorten long tails),
    `gaussian` for rows off the directions in which rows spread, `dependence` for cells that the other columns
    contradict, `pairs` for labels that hardly ever come together. Each score becomes −log of the probability
    that an ordinary row scores as high; the outlierness is the same of what they say together (see
    `CalibratedCommittee`), so that exp(−outlierness) is a p-value.

    Rows that are far from most others are set aside before the members learn: equal anomalies would otherwise
    vouch for each other.

    Parameters
    ----------
    members
        Names of members and their weights; None for all, with weights chosen on public data.
    extra
        Further members: a name and a function that takes a `Training` and returns a fitted member. They have
        weight 1 unless `members` says otherwise.
    trim
        Share of rows to set aside; 0 where all rows are known to be ordinary.
    max_points
        How many rows the members that compare rows remember at most.
    contamination
        Share of training rows, each scored as if it were new, above the threshold that `fit` sets.
    random_state
        Seed of the choice of remembered rows.

    Attributes
    ----------
    panel_
        The fitted members.
    remembered_, points_
        Training rows that are remembered, by number, and themselves.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> X[:20, 2] = -999.0
    >>> committee = Committee().fit(X)
    >>> np.sort(np.argsort(committee.training_scores_)[-20:]).tolist() == list(range(20))
    True
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "members": (none, _WEIGHTS),
        "extra": (none, _MAKERS),
        "trim": real(0, 0.5, closed="left"),
        "max_points": integer(10),
        "contamination": real(0, 0.5, closed="right"),
        "random_state": seed,
    }

    def __init__(
        self,
        members: Mapping[str, float] | None = None,
        *,
        extra: Mapping[str, MemberMaker] | None = None,
        trim: float = 0.1,
        max_points: int = 4_000,
        contamination: float = 0.01,
        random_state: int = 0,
    ):
        self.members = members
        self.extra = extra
        self.trim = trim
        self.max_points = max_points
        self.contamination = contamination
        self.random_state = random_state

    def _fit(self, X: Floats) -> None:
        rng = generator(self.random_state)
        raw = X
        self.columns_ = ColumnScales.learn(X)
        X = self.columns_.of(X)
        training = self._prepare_training(X, rng)
        self.panel_ = self._make_panel(training)
        self.remembered_ = training.remembered
        self.points_ = raw[training.remembered]
        self.n_training_ = len(X)
        rows = choose_calibration_rows(len(X))
        score = self.to_score()
        self.training_scores_ = score.panel.value(X[rows], score.points_of(rows))
        self.set_threshold(contamination=self.contamination)

    def _prepare_training(self, X: Floats, rng: np.random.Generator) -> Training:
        everyone = Training(X, np.arange(len(X)), np.empty(0, dtype=np.int64))
        kept = self._ordinary(everyone, rng)
        remembered = kept[draw_sample(len(kept), int(self.max_points), rng)]
        return replace(everyone, kept=kept, remembered=remembered, known_laws=everyone.laws)

    def _ordinary(self, everyone: Training, rng: np.random.Generator) -> Integers:
        """Rows that are not among the farthest; all where none is to be set aside."""
        X = everyone.X
        if self.trim == 0 or len(X) < LEAST_TRIMMED:
            return everyone.kept
        few = draw_sample(len(X), FIRST_POINTS, rng)
        places = find_remembered(replace(everyone, remembered=few))
        # Values beside a spike are no first candidates; far values in long tails are.
        straight = everyone.straight.spikes_alone()
        far = Neighbours.learn(X, few, FIRST_NEIGHBOURS, straight=straight).score(X, places)
        return np.flatnonzero(far <= np.quantile(far, 1 - self.trim))

    def _make_panel(self, training: Training) -> CalibratedCommittee:
        makers = {**MEMBERS, **(self.extra or {})}
        weights = self.members or {**WEIGHTS, **dict.fromkeys(self.extra or {}, 1.0)}
        for name in weights:
            if name not in makers:
                listed = ", ".join(makers)
                raise InvalidParameter(f"Committee has no member {name!r}. There are: {listed}.")
        rows = choose_calibration_rows(len(training.X))
        return CalibratedCommittee.learn(training, makers, weights, calibration=rows, is_clean=self.trim == 0)

    def to_score(self) -> CommitteeScore:
        """Return the surprise as a score function that knows its shares."""
        check_is_fitted(self)
        return CommitteeScore(
            self.panel_,
            self.columns_,
            self.points_,
            self.remembered_,
            self.n_training_,
            feature_names=self._names,
            threshold=getattr(self, "threshold_", None),
        )
