"""Which explanation of a cell wins: all that checks claim of a cell is weighed in one place.

A check that may be wrong does not find, it claims: each claim is an explanation of some cells with its
log-odds l against an ordinary cell, a rare but legitimate one among them. With what speaks for the cell, s,

    P(explanation k) = exp(l_k) / (exp(s) + Σ exp(l)),    P(wrong) = Σ exp(l) / (exp(s) + Σ exp(l)).

Of one kind of mistake only the best claim on a cell counts, with at most e^12 to 1: what one rule is sure of
is no surer than the rule. Cells are told, the most probable first, while the mean of 1 − P over what is told
is at most 10 % (the Bayesian false discovery rate) and P is at least one half; others with such a P are told
too, but make no row odd. The best explanation is told where it has most of P(wrong); otherwise the cell is
odd, without a story. Cells are treated as missing where P is at least .9 (of numbers .98), all others are
suspects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.checks.mistakes import ODD_CELL, Mistake
from tellwhy.core.score import Floats, Integers
from tellwhy.results.result import Finding

if TYPE_CHECKING:
    from tellwhy.checks.facts import Facts

CAP = 12.0  # log-odds of one kind of mistake
SURE = 0.9  # P from which a cell tells nothing and is treated as missing
TOLD = 0.5  # P from which a cell is told, and share of P(wrong) from which its explanation is
FALSE = 0.1  # mean of 1 − P over what is told, at most


@dataclass(frozen=True, eq=False)
class Claim:
    """One explanation of some cells of a column.

    Attributes
    ----------
    mistake
        Which kind of mistake it would be.
    columns
        That of the cells first, then the others that the explanation names.
    rows, log_odds
        Which cells, and how much likelier this explanation makes each than being ordinary does, on a
        logarithmic scale, the chance of such a mistake included.
    expected
        What each cell should hold; empty where that is not known.
    facts, usual, form
        As of a `Finding`: cells with equal facts have one cause and are told together.
    own
        What is to be told of each cell for itself; empty where the facts say all.
    is_one
        Whether it is one mistake, whatever the number of its cells: a column written in two ways.
    is_of_group
        Whether it was made by comparing rows of one group, so that it may fill the group.
    """

    mistake: Mistake
    columns: tuple[str, ...]
    rows: Integers
    log_odds: Floats
    expected: Sequence[Any] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)
    form: str = ""
    own: Sequence[Mapping[str, Any]] = ()
    is_one: bool = False
    is_of_group: bool = False


@dataclass(frozen=True, eq=False)
class Support:
    """What speaks for cells of a column being legitimate, on the scale of log-odds; it counts once a cell."""

    column: str
    rows: Integers
    log_odds: Floats


@dataclass(frozen=True, eq=False)
class Posterior:
    """The outcome for each cell that is claimed: P(wrong), the best claim, its cell in it, its part of P."""

    column: Integers  # place in the table
    row: Integers
    wrong: Floats
    claim: Integers
    place: Integers
    part: Floats


@dataclass(frozen=True, eq=False)
class _Entries:
    """All claimed cells in a list: cell (column · n + row), claim, place in the claim, kind, log-odds."""

    cell: Integers
    claim: Integers
    place: Integers
    kind: Integers
    log_odds: Floats

    def taken(self, chosen: Integers) -> _Entries:
        """Return some entries, in this order."""
        return _Entries(
            self.cell[chosen],
            self.claim[chosen],
            self.place[chosen],
            self.kind[chosen],
            self.log_odds[chosen],
        )


def decide(
    seen: Facts, claims: Sequence[Claim], supports: Sequence[Support] = (), *, sure: float = SURE
) -> list[Finding]:
    """Weigh all claims on the cells of a table against each other, and tell what wins.

    Cells of which a claim is as probable as `sure` are treated as missing.
    """
    claims = [claim for claim in claims if len(claim.rows)]
    if not claims:
        return []
    found = weigh(seen, claims, supports)
    told = choose(found.wrong, np.array([claims[c].is_one for c in found.claim]), found.claim)
    return _findings(seen, claims, found, told & (found.wrong >= sure), told)


def weigh(seen: Facts, claims: Sequence[Claim], supports: Sequence[Support] = ()) -> Posterior:
    """Return the posterior of every claimed cell, in the order of columns and rows."""
    entries = _best_of_kinds(_entries(seen, claims))
    first = np.flatnonzero(np.r_[True, np.diff(entries.cell) > 0])
    lengths = np.diff(np.r_[first, len(entries.cell)])
    cells = entries.cell[first]
    height = np.maximum(np.maximum.reduceat(entries.log_odds, first), 0.0)
    weight = np.exp(entries.log_odds - np.repeat(height, lengths))
    wrong = np.add.reduceat(weight, first)
    ordinary = np.exp(np.minimum(_supported(seen, cells, supports), 50.0) - height)
    # Within a cell the best entry comes last.
    best = first + lengths - 1
    return Posterior(
        cells // max(seen.n, 1),
        cells % max(seen.n, 1),
        wrong / (wrong + ordinary),
        entries.claim[best],
        entries.place[best],
        weight[best] / wrong,
    )


def _entries(seen: Facts, claims: Sequence[Claim]) -> _Entries:
    columns = {name: place for place, name in enumerate(seen.frame.columns)}
    kinds = {name: place for place, name in enumerate(dict.fromkeys(c.mistake.kind for c in claims))}
    sizes = [len(claim.rows) for claim in claims]
    return _Entries(
        np.concatenate([columns[c.columns[0]] * seen.n + np.asarray(c.rows, np.int64) for c in claims]),
        np.repeat(np.arange(len(claims)), sizes),
        np.concatenate([np.arange(size) for size in sizes]),
        np.repeat([kinds[claim.mistake.kind] for claim in claims], sizes),
        np.minimum(np.concatenate([np.asarray(c.log_odds, np.float64) for c in claims]), CAP),
    )


def _best_of_kinds(entries: _Entries) -> _Entries:
    """Of each cell the best claim of each kind, the cells in order, the best kind of a cell last."""
    order = np.lexsort((entries.log_odds, entries.kind, entries.cell))
    found = entries.taken(order)
    is_last = np.r_[(np.diff(found.cell) > 0) | (np.diff(found.kind) != 0), True]
    found = found.taken(np.flatnonzero(is_last))
    return found.taken(np.lexsort((found.log_odds, found.cell)))


def _supported(seen: Facts, cells: Integers, supports: Sequence[Support]) -> Floats:
    """The strongest support of each cell; 0 where nothing speaks for it."""
    columns = {name: place for place, name in enumerate(seen.frame.columns)}
    strongest = np.zeros(len(cells))
    for support in supports:
        its = columns[support.column] * seen.n + np.asarray(support.rows, np.int64)
        at = np.minimum(np.searchsorted(cells, its), len(cells) - 1)
        is_claimed = cells[at] == its
        np.maximum.at(strongest, at[is_claimed], np.asarray(support.log_odds, np.float64)[is_claimed])
    return strongest


def choose(wrong: Floats, is_one: np.ndarray, claim: Integers) -> np.ndarray:
    """Which cells are told: the most probable, while the mean of 1 − P over them is small enough.

    Cells of a claim that is one mistake count once.

    Examples
    --------
    >>> choose(np.array([0.99, 0.6, 0.55, 0.3]), np.zeros(4, bool), np.arange(4)).tolist()
    [True, False, False, False]
    """
    order = np.argsort(-wrong, kind="stable")
    once = is_one[order]
    _, first = np.unique(claim[order], return_index=True)
    counts = ~once | np.isin(np.arange(len(order)), first)
    mean = np.cumsum((1 - wrong[order]) * counts) / np.maximum(np.cumsum(counts), 1)
    told = np.zeros(len(wrong), dtype=np.bool_)
    told[order] = (mean <= FALSE) & (wrong[order] >= TOLD)
    return told


def _findings(
    seen: Facts, claims: Sequence[Claim], found: Posterior, is_sure: np.ndarray, told: np.ndarray
) -> list[Finding]:
    """Cells with one cause together, those that are sure apart from suspects."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for at in np.flatnonzero(found.wrong >= TOLD).tolist():
        claim = claims[found.claim[at]]
        is_told = found.part[at] >= TOLD
        cause = (claim.mistake.kind, claim.form, claim.columns, repr(sorted(claim.facts.items())))
        key = cause if is_told else (ODD_CELL.kind, "", claim.columns[:1], "")
        empties = is_told and (claim.form or claim.mistake.kind) in claim.mistake.empties
        groups.setdefault((*key, bool(told[at]), bool(is_sure[at] and empties)), []).append(at)
    return [_finding(seen, claims, found, np.array(group), key) for key, group in groups.items()]


def _finding(
    seen: Facts, claims: Sequence[Claim], found: Posterior, at: Integers, key: tuple[Any, ...]
) -> Finding:
    at = at[np.argsort(found.row[at], kind="stable")]
    chosen = [(claims[c], int(place)) for c, place in zip(found.claim[at], found.place[at], strict=True)]
    first = chosen[0][0]
    is_odd = key[0] == ODD_CELL.kind
    expected = [claim.expected[place] if len(claim.expected) else None for claim, place in chosen]
    own = [dict(claim.own[place]) if len(claim.own) else {} for claim, place in chosen]
    is_known = not is_odd and any(value is not None for value in expected)
    return (ODD_CELL if is_odd else first.mistake).report(
        seen,
        first.columns[:1] if is_odd else first.columns,
        found.row[at],
        {} if is_odd else first.facts,
        {} if is_odd else first.usual,
        form="" if is_odd else first.form,
        surprise=float(-np.log1p(-np.minimum(found.wrong[at], 1 - 1e-9)).max()) if key[-2] else 0.0,
        is_told_only=not key[-1],
        probabilities=tuple(round(float(p), 4) for p in found.wrong[at]),
        expected=tuple(expected) if is_known else (),
        own=tuple(own) if not is_odd and any(own) else (),
    )
