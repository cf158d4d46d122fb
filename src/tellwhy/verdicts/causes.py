"""Whether reasons hold: they are tried on the row.

A reason names some columns A of a row. It is *sufficient* when the row with usual values in A is ordinary,
and *necessary* when the row with usual values everywhere else is still odd. Usual values are taken from
ordinary rows that are most like the row in the columns that stay: they occur, and they fit the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers

MOST_COLUMNS = 3  # that a reason names
DONORS = 400  # ordinary rows that usual values are taken from
TRIALS = 8  # of them, for each question about a row
TRIED_GROUPS = 3  # of columns that move together, those with the largest shares
CANDIDATES = 12  # columns that are tried one by one, those with the largest shares first
_BATCH_BYTES = 64 * 2**20

Mask = NDArray[np.bool_]
ScoreCells = Callable[[Integers, Integers], Floats]


@dataclass(frozen=True)
class Cause:
    """Columns that make a row odd, as far as that could be verified.

    Attributes
    ----------
    columns
        The columns, the largest share first.
    is_sufficient, is_necessary
        What was found when they, and when all others, were given usual values.
    changed, donor
        Columns that make the row ordinary once they have the cells of this ordinary row, told by its number;
        −1 where no change was found. These may be more columns than the cause names.
    groups
        Groups of columns that move together, where they are the cause and few columns are not.
    """

    columns: tuple[int, ...]
    is_sufficient: bool
    is_necessary: bool
    changed: tuple[int, ...] = ()
    donor: int = -1
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the reason may be printed as one."""
        return self.is_sufficient and self.is_necessary


@dataclass(frozen=True, eq=False)
class Trials:
    """Rows put together from the cells of a row and of ordinary ones, and their scores.

    Attributes
    ----------
    rows
        Number of each row that is judged.
    donors
        Numbers of ordinary rows.
    gaps
        Squared distance of each row to each donor in each column, shape (rows, donors, columns).
    score
        Takes a table of row numbers (see `KnownRows`) and, for each of its rows, the judged row it was made
        from; returns scores.
    """

    rows: Integers
    donors: Integers
    gaps: Floats
    score: ScoreCells = field(repr=False)

    @classmethod
    def of(
        cls, rows: Integers, donors: Integers, encoded: Floats, owner: Integers, score: ScoreCells
    ) -> Trials:
        """Measure how far apart rows and donors are in each of the user's columns."""
        n_columns = int(owner.max()) + 1
        gaps = np.zeros((len(rows), len(donors), n_columns))
        X = encoded[rows]
        Y = encoded[donors]
        for encoded_column, column in enumerate(owner):
            gaps[:, :, column] += (X[:, None, encoded_column] - Y[None, :, encoded_column]) ** 2
        return cls(rows, donors, gaps, score)

    def lowest(self, which: Integers, replaced: Mask) -> Floats:
        """Lowest score of some rows with the replaced columns taken from ordinary rows.

        Parameters
        ----------
        which
            Places in `rows`, one per question; a row may be asked about several times.
        replaced
            Columns to replace, shape (questions, columns).
        """
        found = np.empty(len(which))
        for some in self._cut_batches(replaced):
            found[some] = self._try_donors(which[some], replaced[some]).scores.min(axis=1)
        return found

    def nearest_donor(self, which: Integers, replaced: Mask, levels: Floats) -> Integers:
        """Ordinary row whose cells change a row least and make it ordinary; −1 where none does."""
        found = np.full(len(which), -1, dtype=np.int64)
        for some in self._cut_batches(replaced):
            tried = self._try_donors(which[some], replaced[some])
            gaps = self.gaps[which[some][:, None], tried.places]
            change = np.einsum("qtc,qc->qt", gaps, replaced[some].astype(np.float64))
            change = np.where(tried.scores <= levels[some][:, None], change, np.inf)
            best = np.argmin(change, axis=1)
            lines = np.arange(len(best))
            donors = self.donors[tried.places[lines, best]]
            found[some] = np.where(np.isfinite(change[lines, best]), donors, -1)
        return found

    def _cut_batches(self, replaced: Mask) -> Iterable[slice]:
        n_columns = replaced.shape[1]
        return cut_batches(len(replaced), 16 * (len(self.donors) + TRIALS) * n_columns, _BATCH_BYTES)

    def _try_donors(self, which: Integers, replaced: Mask) -> _Tried:
        distance = np.einsum("qdc,qc->qd", self.gaps[which], (~replaced).astype(np.float64))
        n_trials = min(TRIALS, len(self.donors))
        places = np.argpartition(distance, n_trials - 1, axis=1)[:, :n_trials]
        own = self.rows[which]
        cells = np.where(replaced[:, None, :], self.donors[places][:, :, None], own[:, None, None])
        flat = cells.reshape(-1, replaced.shape[1])
        scores = self.score(flat, np.repeat(own, n_trials)).reshape(len(which), n_trials)
        return _Tried(places, scores)


def _list_sets_of_groups(n: int) -> list[tuple[int, ...]]:
    """Places in the order of shares: one group, two, then all that are tried."""
    most = min(TRIED_GROUPS, n)
    ones: list[tuple[int, ...]] = [(k,) for k in range(most)]
    return [*ones, *((0, k) for k in range(1, most)), *([(0, 1, 2)] if most > 2 else [])]


class _Tried(NamedTuple):
    """Donors that were tried for each question, by their places, and the scores with their cells."""

    places: Integers
    scores: Floats


def find_causes(
    trials: Trials, values: Floats, levels: Floats, groups: Sequence[tuple[int, ...]] = ()
) -> list[Cause]:
    """Find, for each row, columns that make it odd; explanations are tried until one holds.

    First the columns with the largest shares, one, two, three of them; then, one after the other, those whose
    usual value lowers the score most; then whole groups of columns that move together. Where a single column
    is enough but is odd only beside another one, the two are named.

    Parameters
    ----------
    trials
        What can be tried.
    values
        What an explanation attributes to each column, shape (rows, columns).
    levels
        Score up to which each row counts as ordinary.
    groups
        Columns that move together.
    """
    search = _Search(trials, values, levels)
    named = search.by_shares()
    search.by_occlusion(named)
    search.drop_needless(named)
    chosen = search.by_groups(named, groups)
    changed = named.copy()
    donors = search.normal_versions(changed)
    is_necessary = search.necessary(named)  # names a second column where one is odd only beside it
    return [
        Cause(
            columns=search.listed(i, named[i]),
            is_sufficient=bool(search.is_sufficient[i]),
            is_necessary=bool(is_necessary[i]),
            changed=search.listed(i, changed[i]) if donors[i] >= 0 else (),
            donor=int(donors[i]),
            groups=tuple(groups[g] for g in chosen[i]),
        )
        for i in range(len(named))
    ]


class _Search:
    """The search for all rows at once; sets of columns are masks."""

    def __init__(self, trials: Trials, values: Floats, levels: Floats):
        self.trials = trials
        self.values = values
        self.levels = levels
        self.order = np.argsort(-values, axis=1, kind="stable")
        self.most = min(MOST_COLUMNS, values.shape[1])
        self.is_sufficient = np.zeros(len(values), dtype=bool)

    def by_shares(self) -> Mask:
        """Name the fewest columns, in the order of their shares, that are sufficient; else the first one."""
        named = np.zeros(self.values.shape, dtype=bool)
        trial = named.copy()
        everyone = np.arange(len(named))
        named[everyone, self.order[:, 0]] = True
        open_ = everyone
        for k in range(self.most):
            trial[open_, self.order[open_, k]] = True
            good = self.trials.lowest(open_, trial[open_]) <= self.levels[open_]
            named[open_[good]] = trial[open_[good]]
            self.is_sufficient[open_[good]] = True
            open_ = open_[~good]
        return named

    def by_occlusion(self, named: Mask) -> None:
        """For rows without sufficient columns: add the column whose usual value lowers the score most."""
        open_ = np.flatnonzero(~self.is_sufficient)
        trial = np.zeros_like(named)
        for _ in range(self.most):
            if not len(open_):
                return
            candidates = self.order[open_, :CANDIDATES]
            scores = self._score_with(open_, trial[open_], candidates)
            best = np.argmin(scores, axis=1)
            trial[open_, candidates[np.arange(len(open_)), best]] = True
            good = scores.min(axis=1) <= self.levels[open_]
            named[open_[good]] = trial[open_[good]]
            self.is_sufficient[open_[good]] = True
            open_ = open_[~good]

    def by_groups(self, named: Mask, groups: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """For rows without sufficient columns: try groups, the largest shares first, up to three."""
        chosen: list[tuple[int, ...]] = [()] * len(named)
        if not groups:
            return chosen
        masks = np.zeros((len(groups), named.shape[1]), dtype=bool)
        for g, group in enumerate(groups):
            masks[g, list(group)] = True
        # Positive parts only: what makes a row more ordinary is no part of its oddness.
        order = np.argsort(-(np.maximum(self.values, 0.0) @ masks.T), axis=1, kind="stable")
        for places in _list_sets_of_groups(len(groups)):
            open_ = np.flatnonzero(~self.is_sufficient)
            if not len(open_):
                break
            tried = order[open_][:, list(places)]
            trial = np.asarray(masks[tried].any(axis=1))
            good = self.trials.lowest(open_, trial) <= self.levels[open_]
            named[open_[good]] = trial[good]
            self.is_sufficient[open_[good]] = True
            for i, members in zip(open_[good].tolist(), tried[good].tolist(), strict=True):
                chosen[i] = tuple(members)
        return chosen

    def drop_needless(self, named: Mask) -> None:
        """Drop columns without which the others are still sufficient, the smallest share first."""
        for place in reversed(range(self.values.shape[1])):
            columns = self.order[:, place]
            is_named = named[np.arange(len(named)), columns]
            open_ = np.flatnonzero(self.is_sufficient & is_named & (named.sum(axis=1) > 1))
            if not len(open_):
                continue
            fewer = named[open_]
            fewer[np.arange(len(open_)), columns[open_]] = False
            good = self.trials.lowest(open_, fewer) <= self.levels[open_]
            named[open_[good]] = fewer[good]

    def normal_versions(self, changed: Mask) -> Integers:
        """Find an ordinary row to take cells from; more of them where the named columns are not enough."""
        donors = self.trials.nearest_donor(np.arange(len(changed)), changed, self.levels)
        n_columns = self.values.shape[1]
        n_changed = self.most
        while n_changed < n_columns and (donors < 0).any():
            n_changed = min(2 * n_changed, n_columns)
            open_ = np.flatnonzero(donors < 0)
            changed[open_[:, None], self.order[open_, :n_changed]] = True
            donors[open_] = self.trials.nearest_donor(open_, changed[open_], self.levels[open_])
        return donors

    def necessary(self, named: Mask) -> Mask:
        """Try whether the named columns are odd by themselves, or beside which other one they are."""
        is_necessary = self._keep_only(np.arange(len(named)), named)
        alone = np.flatnonzero(self.is_sufficient & ~is_necessary & (named.sum(axis=1) < self.most))
        if len(alone) and named.shape[1] > 1:
            candidates = self.order[alone, :CANDIDATES]
            scores = self._score_with(alone, named[alone], candidates, keep=True)
            best = np.argmax(scores, axis=1)
            named[alone, candidates[np.arange(len(alone)), best]] = True
            is_necessary[alone] = scores.max(axis=1) > self.levels[alone]
        return is_necessary

    def listed(self, i: int, columns: Mask) -> tuple[int, ...]:
        """Columns of a set, the largest share first."""
        return tuple(int(c) for c in self.order[i] if columns[c])

    def _keep_only(self, which: Integers, named: Mask) -> Mask:
        return np.asarray(self.trials.lowest(which, ~named) > self.levels[which])

    def _score_with(
        self, which: Integers, masks: Mask, candidates: Integers, *, keep: bool = False
    ) -> Floats:
        """Scores with each candidate added to the set of columns that is replaced (or kept)."""
        n_candidates = candidates.shape[1]
        asked = np.repeat(which, n_candidates)
        sets = np.repeat(masks, n_candidates, axis=0)
        added = candidates.ravel()
        is_new = ~sets[np.arange(len(sets)), added]
        sets[np.arange(len(sets)), added] = True
        scores = self.trials.lowest(asked, ~sets if keep else sets)
        scores = np.where(is_new, scores, -np.inf if keep else np.inf)
        return scores.reshape(len(which), n_candidates)
