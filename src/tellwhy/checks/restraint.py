"""What a column says against claims on its cells together: things of another kind are no errors.

A claim on one cell may be right where the same claim on many of the column is not: where rows that
follow each other, or that share a label, are all "ten times too large", they are something else; so are
columns in which values are too large and too small by every power of ten, ones in which the claims
would be many, and values that recur: an hour of 1 in thirty rows is an hour, not a slipped 10. And
where many other values lie between a number and what was meant, they are the tail that it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tellwhy.checks.mistakes import PLACEHOLDER
from tellwhy.core.score import Floats, Integers

if TYPE_CHECKING:
    from tellwhy.checks.facts import Facts
    from tellwhy.checks.number_errors import Story, Suspects

_CLAIMED = 0.0  # log-odds from which a cell counts as claimed
_NEXT = 2  # rows from one to the next, of cells that come together
_AGAINST = 9.0  # log-odds that cells lose where the column speaks against them
_MOST = 0.025  # of a column: more claims are a part of it
_FEWEST = 3
_OF_LEVEL = 0.25  # of the rows of a label: more are what it is
_OF_LEVELS = 0.04
_HANDFUL = 10
_RECURS = 3  # cells of one value: that many people do not make the same mistake with the same result
_MOST_LEVELS = 200
_FAR_ON_THE_WAY = 0.6
_TAIL_ROWS = 5
_TAIL_TIMES = 1  # so many times the claimed values


@dataclass(frozen=True, eq=False)
class Weighed:
    """The suspects of a column with all that may explain them.

    Attributes
    ----------
    column
        Its place in the law.
    suspects
        Cells that do not fit.
    stories
        Mistakes that may have made them.
    rare
        Log of the rate of cells that are rare, or wrong in no known way.
    log_odds
        For each story, of each suspect, against the value as it stands.
    """

    column: int
    suspects: Suspects
    stories: tuple[Story, ...]
    rare: float
    log_odds: tuple[Floats, ...]

    @property
    def stands(self) -> Floats:
        """Log probability of the values as they stand: ordinary or rare."""
        return np.logaddexp(self.suspects.fits, self.rare + self.suspects.wild)


def restrained(seen: Facts, weighed: Weighed) -> Weighed:
    """Return the same with lower log-odds where the column speaks against claims."""
    odds = [each.copy() for each in weighed.log_odds]
    rows = weighed.suspects.rows
    if not len(rows) or not odds:
        return weighed
    n_claimed = int((np.max(odds, axis=0) > _CLAIMED).sum())
    if n_claimed > max(_MOST * seen.n, _FEWEST):  # the law of the column does not hold
        return replace(weighed, log_odds=tuple(each - _AGAINST for each in odds))
    told = [(at, story) for at, story in enumerate(weighed.stories) if story.mistake is not PLACEHOLDER]
    kinds = dict.fromkeys(story.mistake.kind for _, story in told)
    for kind in kinds:
        same = [at for at, story in told if story.mistake.kind == kind]
        together = np.max([odds[at] for at in same], axis=0)
        claimed = np.flatnonzero(together > _CLAIMED)
        against = _recur(weighed.suspects.values) & (together > _CLAIMED)
        if _goes_both_ways(weighed.stories, odds, same):
            against[:] = True
        else:
            against |= _are_of_tail(weighed, odds, same)
            against[claimed] |= are_next(rows[claimed], seen.n) | are_of_level(seen, rows[claimed])
        for at in same:
            odds[at] = odds[at] - _AGAINST * against
    return replace(weighed, log_odds=tuple(odds))


def _are_of_tail(weighed: Weighed, odds: Sequence[Floats], same: Sequence[int]) -> np.ndarray:
    """Which claimed values have many others on the way from what was meant to them, or beyond them."""
    sizes = np.abs(weighed.suspects.values)
    is_claimed = np.max([odds[at] for at in same], axis=0) > _CLAIMED
    is_other = ~is_claimed & (sizes > 0)
    others = np.log(sizes[is_other])
    means = weighed.suspects.beside.mean
    enough = max(_TAIL_ROWS, _TAIL_TIMES * int(is_claimed.sum()))
    found = np.zeros(len(sizes), dtype=np.bool_)
    for at in same:
        story = weighed.stories[at]
        if not story.times:
            continue
        for place in np.flatnonzero((odds[at] > _CLAIMED) & (sizes > 0)):
            # Of the way, on the scale of orders of magnitude: 0 where the value meant lies, 1 at the value.
            way = (others - np.log(sizes[place])) / np.log(story.times) + 1
            # What other levels of a label have says nothing of this one.
            is_alike = np.abs(means[is_other] - means[place]) <= weighed.suspects.beside.spread[place]
            found[place] |= (is_alike & (way >= _FAR_ON_THE_WAY)).sum() >= enough
    return found


def _recur(values: Floats) -> np.ndarray:
    """Which values stand in several of the cells."""
    different, counts = np.unique(values, return_counts=True)
    return np.asarray(counts[np.searchsorted(different, values)] >= _RECURS)


def _goes_both_ways(stories: Sequence[Story], odds: Sequence[Floats], same: Sequence[int]) -> bool:
    """Whether values are too large and too small, more than one each: the column has every size."""
    counts = {1: 0, -1: 0}
    for at in same:
        if stories[at].times:
            counts[1 if stories[at].times > 1 else -1] += int((odds[at] > _CLAIMED).sum())
    few, many = sorted(counts.values())
    return few >= 1 and many >= _FEWEST - 1


def are_next(rows: Integers, n: int) -> np.ndarray:
    """Which of some rows, in rising order, follow each other, if that is no chance.

    Examples
    --------
    >>> are_next(np.array([3, 4, 5, 90]), 1000).tolist(), are_next(np.array([3, 70]), 1000).tolist()
    ([True, True, True, False], [False, False])
    """
    if len(rows) < 2:
        return np.zeros(len(rows), dtype=np.bool_)
    close = np.diff(rows) <= _NEXT
    found = np.r_[close, False] | np.r_[False, close]
    by_chance = len(rows) * min(2.0 * _NEXT * len(rows) / n, 1.0)
    # Two may be neighbours by chance; what comes together comes in threes at least.
    is_chance = found.sum() <= max(3 * by_chance, 2) or found.sum() < len(rows) / 2
    return np.zeros(len(rows), dtype=np.bool_) if is_chance else found


def are_of_level(seen: Facts, rows: Integers) -> np.ndarray:
    """Which of some rows share a label with so many others of them that this is what the label is like."""
    found = np.zeros(len(rows), dtype=np.bool_)
    for labels in seen.labels.values():
        if len(rows) < _FEWEST or len(labels.names) > _MOST_LEVELS:
            continue
        codes = labels.codes[rows]
        here = np.bincount(codes[codes >= 0], minlength=len(labels.names))
        all_of = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.names))
        is_own = (here >= _FEWEST) & (here > _OF_LEVEL * all_of)
        if len(rows) > _HANDFUL:  # of all rows of these levels together, fewer are a group
            is_own |= (here > 0) & (len(rows) > _OF_LEVELS * all_of[here > 0].sum())
        found |= (codes >= 0) & is_own[np.maximum(codes, 0)]
    return found


def told_together(seen: Facts, weighed: Sequence[Weighed]) -> list[Weighed]:
    """Restrain each column; and all of a table in which most columns seem to err in one way."""
    calm = [restrained(seen, each) for each in weighed]
    counts: dict[str, int] = {}
    for each in calm:
        kinds = {
            story.mistake.kind
            for story, odds in zip(each.stories, each.log_odds, strict=True)
            if story.mistake is not PLACEHOLDER and (odds > _CLAIMED).sum() >= _FEWEST
        }
        for kind in kinds:
            counts[kind] = counts.get(kind, 0) + 1
    if not counts or max(counts.values()) <= max(_FEWEST, len(calm) / 3):
        return calm
    return [replace(each, log_odds=tuple(odds - _AGAINST for odds in each.log_odds)) for each in calm]
