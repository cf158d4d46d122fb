"""Numbers that do not fit their row, and what may have happened to them: claims for the contest.

A number is weighed against the law of its cell (`row_law`). One that is unlikely there is a rare value, an
error of no known kind, or one of the mistakes in `number_errors`. What a mistake must beat is the number as
it stands: ordinary, or rare but legitimate. How often each of these happens is learned from the table,
whose rate of a kind of mistake has two humps: about what untouched tables have, or about one in a hundred.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tellwhy.checks.column_mass import ColumnMass
from tellwhy.checks.contest import Claim, decide
from tellwhy.checks.facts import Facts
from tellwhy.checks.mistakes import PLACEHOLDER
from tellwhy.checks.number_errors import RARE, Story, Suspects, stories
from tellwhy.checks.restraint import Weighed, told_together
from tellwhy.checks.row_law import (
    Beside,
    CellLaw,
    Cells,
    RowLaw,
    beside_of,
    learn_row_law,
    linear,
    log_given,
    read_cells,
)
from tellwhy.core.score import Floats, Integers
from tellwhy.results.result import Finding

Told = dict[str, Any]
_FAR = 2.0  # normal scores, and distances from what is expected, from which a cell is looked at
_MANY_CELLS = 2_000_000
_FARTHER = 2.8  # the same in tables of very many cells
_CHUNK = 100_000
_GUILTY = (
    3.0  # log of how much better something else explains a cell, for the others of its row to be judged anew
)
_LEAST_GAIN = -3.0
_BELOW = 4.0  # by how much less likely a value below 0 is where a column stays well above it
_ABOVE = 0.1  # of the middle value
_LEAST_SHARE = 0.03
_HANDFUL = 4
# Of the claims on numbers of real tables with P of .9 to .98, as they were read, one in four was right.
_SURE = 0.98
_ENDS = (0.02, 0.98)  # values beyond are far from all, whatever their label
_ROUNDS = 3
_RARE_MANY = 0.5  # chance that a table has columns in which rare values are many


def weigh_numbers(seen: Facts, known: Facts) -> tuple[RowLaw | None, list[Weighed]]:
    """Weigh every suspicious number of a table by the law of the table that is known."""
    laws = known.recall(learn_row_law)
    if not laws or not set(laws[0].names) <= set(seen.numbers):
        return None, []
    law = laws[0]
    cells = read_cells(law, seen, is_own=seen is known)
    suspects = _without_accomplices(law, cells, list(_suspects(law, cells)))
    told = [tuple(stories(law, cells, at, each)) for at, each in enumerate(suspects)]
    sizes = np.isfinite(cells.values).sum(axis=0)
    return law, _weighed(suspects, told, sizes)


def find_wrong_numbers(seen: Facts, known: Facts) -> list[Finding]:
    """Numbers that one of the known mistakes explains better than that they are ordinary or rare."""
    return decide(seen, claim_numbers(seen, known), sure=_SURE)


def claim_numbers(seen: Facts, known: Facts) -> list[Claim]:
    """Claim what mistakes may have made of numbers."""
    law, weighed = weigh_numbers(seen, known)
    if law is None:
        return []
    return [claim for each in told_together(seen, weighed) for claim in _claims(seen, law, each)]


def _suspects(law: RowLaw, cells: Cells) -> Iterator[Suspects]:
    """Cells of each column that are far out, alone or beside their row; the others are as they should be."""
    n, d = cells.values.shape
    far = _FAR if n * d <= _MANY_CELLS else _FARTHER
    expected = np.vstack(
        [
            law.expected(cells.scores[at : at + _CHUNK], cells.marks[at : at + _CHUNK])
            for at in range(0, n, _CHUNK)
        ]
    )
    for column in range(d):
        own = law.columns[column]
        rows = np.flatnonzero(~np.isnan(cells.values[:, column]))
        beside = beside_of(law, cells, rows, column, expected[rows, column])
        z = cells.scores[rows, column]
        away = np.abs(z - linear(own, beside)) / max(own.residual.width, 0.02)
        apart = np.abs(own.mass.bent(cells.values[rows, column]) - beside.mean) / beside.spread
        is_far = (np.abs(z) > far) | (away > far) | ((apart > far) & (own.parts[3] > 0))
        is_far |= own.mass.log_tail(cells.values[rows, column]) < np.log(0.02)
        chosen = np.flatnonzero(is_far)
        yield _judged(law, cells, column, rows[chosen], beside.taken(chosen))


def _judged(law: RowLaw, cells: Cells, column: int, rows: Integers, beside: Beside) -> Suspects:
    values = cells.values[rows, column]
    fits = log_given(law.columns[column], values, beside, own=cells.is_own)
    mass = law.columns[column].mass
    fits = fits - np.where((values < 0) & _stays_above_zero(mass), _BELOW, 0.0)
    slab = np.logaddexp(mass.log_mass(values, own=cells.is_own), mass.log_wild(values)) - np.log(2)
    return Suspects(rows, values, beside, fits, slab)


def _stays_above_zero(mass: ColumnMass) -> bool:
    """Whether even the least values of a column are well above 0: sizes and pressures are never negative."""
    return mass.quantile(min(max(_LEAST_SHARE, _HANDFUL / mass.n), 0.1)) > _ABOVE * mass.quantile(0.5) > 0


def _without_accomplices(law: RowLaw, cells: Cells, suspects: list[Suspects]) -> list[Suspects]:
    """Judge the other cells of a row anew where one is clearly wrong: as if it were what is expected.

    One wrong cell makes those that depend on it look wrong too.
    """
    n = len(cells.values)
    worst = np.full(n, _GUILTY)
    guilty = np.full(n, -1)
    for column, each in enumerate(suspects):
        gain = each.wild - each.fits
        better = gain > worst[each.rows]
        worst[each.rows[better]] = gain[better]
        guilty[each.rows[better]] = column
    rows = np.flatnonzero(guilty >= 0)
    if not len(rows) or len(law.names) < 2:
        return suspects
    scores = cells.scores[rows].copy()
    at = np.arange(len(rows))
    usual = law.expected(scores, cells.marks[rows])
    scores[at, guilty[rows]] = usual[at, guilty[rows]]
    anew = law.expected(scores, cells.marks[rows])
    place = np.full(n, -1)
    place[rows] = at
    judged = []
    for column, each in enumerate(suspects):
        changed = np.flatnonzero((place[each.rows] >= 0) & (guilty[each.rows] != column))
        told = anew[place[each.rows[changed]], column]
        judged.append(_judged_anew(law, cells, column, each, (changed, told)))
    return judged


def _judged_anew(
    law: RowLaw, cells: Cells, column: int, each: Suspects, changed: tuple[Integers, Floats]
) -> Suspects:
    """Suspects with what is expected of some of them changed."""
    places, expected = changed
    if not len(places):
        return each
    beside = replace(each.beside.taken(places), expected=expected)
    judged = _judged(law, cells, column, each.rows[places], beside)
    fits = each.fits.copy()
    fits[places] = np.maximum(judged.fits, fits[places])
    told = each.beside.expected.copy()
    told[places] = expected
    return replace(each, fits=fits, beside=replace(each.beside, expected=told))


def _weighed(suspects: list[Suspects], told: list[tuple[Story, ...]], sizes: Integers) -> list[Weighed]:
    """Learn how often values are rare, by turns with how often each mistake happens; then weigh them."""
    explained = [np.full(len(each.rows), -np.inf) for each in suspects]
    for _ in range(_ROUNDS):
        gains = [
            each.wild - np.logaddexp(each.fits, mistakes)
            for each, mistakes in zip(suspects, explained, strict=True)
        ]
        # Rare values are tried first: columns in which they are many are many.
        rates = learn_rates(gains, sizes, RARE, table=_RARE_MANY)
        rare = [float(np.log(rate.chance * rate.many + (1 - rate.chance) * rate.few)) for rate in rates]
        stands = [
            np.logaddexp(each.fits, rate + each.wild) for each, rate in zip(suspects, rare, strict=True)
        ]
        log_odds = _story_odds(told, stands, sizes)
        explained = [
            np.logaddexp.reduce([own + each for own in odds], axis=0)
            for odds, each in zip(log_odds, stands, strict=True)
        ]
    parts = zip(suspects, told, rare, log_odds, strict=True)
    return [Weighed(at, each, own, rate, odds) for at, (each, own, rate, odds) in enumerate(parts)]


def _story_odds(
    told: list[tuple[Story, ...]], stands: list[Floats], sizes: Integers
) -> list[tuple[Floats, ...]]:
    """Log-odds of each story of each column against the values as they stand."""
    found: list[dict[int, Floats]] = [{} for _ in told]
    names = dict.fromkeys(story.name for own in told for story in own)
    for name in names:
        places = [(at, i) for at, own in enumerate(told) for i, story in enumerate(own) if story.name == name]
        gains = [told[at][i].likely - stands[at] for at, i in places]
        usual = max(told[at][i].usual for at, i in places)
        rates = learn_rates(gains, sizes[[at for at, _ in places]], usual)
        for (at, i), gain, rate in zip(places, gains, rates, strict=True):
            found[at][i] = rate.log_odds(gain)
    return [tuple(odds[i] for i in range(len(own))) for own, odds in zip(told, found, strict=True)]


def _claims(seen: Facts, law: RowLaw, weighed: Weighed) -> Iterator[Claim]:
    name = law.names[weighed.column]
    for story, odds in zip(weighed.stories, weighed.log_odds, strict=True):
        chosen = np.flatnonzero(odds > _LEAST_GAIN)
        for key in np.unique(_causes(weighed, story)[chosen]):
            here = chosen[_causes(weighed, story)[chosen] == key]
            rows = weighed.suspects.rows[here]
            columns = (name,) if story.partner is None else (name, law.names[int(key)])
            facts, usual = _told(seen, law.columns[weighed.column], name, story, rows)
            meant = (
                tuple(float(value) for value in story.meant[here]) if np.isfinite(story.meant).all() else ()
            )
            yield Claim(story.mistake, columns, rows, odds[here], meant, facts, usual, story.form)


def _causes(weighed: Weighed, story: Story) -> Floats:
    """What tells apart the causes of a story: the value there, or the column that cells were swapped with."""
    if story.partner is not None:
        return story.partner.astype(float)
    if story.mistake is PLACEHOLDER:
        return weighed.suspects.values
    return np.zeros(len(weighed.suspects.rows))


def _told(seen: Facts, law: CellLaw, name: str, story: Story, rows: Integers) -> tuple[Told, Told]:
    """The facts of a claim, and what is usual there."""
    values = seen.numbers[name].values
    if story.partner is not None:
        return {}, {}
    if story.mistake is PLACEHOLDER:
        key = float(values[rows[0]])
        filled = seen.numbers[name].filled
        return {"value": key}, seen.ends(name, filled[filled != key])
    usual = seen.ends(name, np.nanquantile(values, [0.05, 0.95]))
    if story.form != "slip":
        return {}, usual
    facts: Told = {"times": story.times}
    label = law.levels.label
    low, high = np.nanquantile(values, _ENDS)
    if not label or not ((values[rows] >= low) & (values[rows] <= high)).any():
        return facts, usual
    codes = seen.labels[label].codes
    if len(np.unique(codes[rows])) > 1:
        return {**facts, "label": label}, {}
    there = seen.ends(name, np.nanquantile(values[codes == codes[rows[0]]], [0.05, 0.95]))
    return {**facts, "label": label, "level": seen.cell(label, int(rows[0]))}, there


_FEW = np.linspace(-0.9, 0.9, 7)  # decades about the rate of tables that hardly err
_MANY = np.linspace(-3.2, -1.6, 17)  # decades of the rates of tables that do
_TABLE = 2500.0  # chance that a table errs in a way, in multiples of the rate where it hardly does
_MOST_TABLES = 0.05
_COLUMN = 0.4  # chance that a column does, in a table that errs
_ALONE = 0.002  # the same in one that does not


@dataclass(frozen=True, eq=False)
class Rate:
    """The rate of a mistake in one column.

    Attributes
    ----------
    few, many
        Where the column hardly errs, and where it does.
    chance
        That it does.
    """

    few: float
    many: float
    chance: float

    def log_odds(self, gains: Floats) -> Floats:
        """Log-odds of the mistake in cells that it makes exp(gains) times as likely."""
        odds = np.array([np.log(self.few) + gains, np.log(self.many) + gains])
        wrong = np.exp(-np.logaddexp(0, -odds))
        chance = np.array([[1 - self.chance], [self.chance]])
        p = (wrong * chance).sum(axis=0)
        right = (np.exp(-np.logaddexp(0, odds)) * chance).sum(axis=0)
        return np.log(np.maximum(p, 1e-300)) - np.log(np.maximum(right, 1e-300))


def learn_rates(
    gains: list[Floats], sizes: Integers, usual: float, *, table: float | None = None
) -> list[Rate]:
    """Learn the rate of one kind of mistake in each column.

    Parameters
    ----------
    gains
        Of each column: log of how much likelier the mistake makes those cells that it may explain. The
        other cells are taken to be impossible under it.
    sizes
        Number of cells of each column.
    usual
        Rate of the mistake in tables that hardly err.
    table
        Chance that a table errs in this way, before it is looked at.
    """
    few = np.log(usual) + np.log(10) * _FEW
    many = np.log(10) * _MANY
    quiet = [_marginal(each, int(n), few) for each, n in zip(gains, sizes, strict=True)]
    loud = [_marginal(each, int(n), many) for each, n in zip(gains, sizes, strict=True)]
    low = np.array([total for total, _ in quiet])
    high = np.array([total for total, _ in loud])
    if_errs = _mixed(low, high, _COLUMN)
    if_not = _mixed(low, high, _ALONE)
    table = min(_TABLE * usual, _MOST_TABLES) if table is None else table
    errs = np.log(table) + if_errs.sum()
    chance = np.exp(errs - np.logaddexp(errs, np.log1p(-table) + if_not.sum()))
    column = chance * np.exp(np.log(_COLUMN) + high - if_errs) + (1 - chance) * np.exp(
        np.log(_ALONE) + high - if_not
    )
    pairs = zip(quiet, loud, np.clip(column, 0, 1), strict=True)
    return [Rate(few=q[1], many=m[1], chance=float(p)) for q, m, p in pairs]


def _mixed(low: Floats, high: Floats, share: float) -> Floats:
    return np.logaddexp(np.log1p(-share) + low, np.log(share) + high)


def _marginal(gains: Floats, size: int, rates: Floats) -> tuple[float, float]:
    """Log of the mean likelihood over rates given as logarithms, and the posterior mean of the rate."""
    spare = np.log1p(-np.exp(rates))
    each = np.logaddexp(spare[:, None], rates[:, None] + gains[None, :])
    found = each.sum(axis=1) + (size - len(gains)) * spare
    total = float(logsumexp(found))
    mean = float(np.exp(logsumexp(found + rates) - total))
    return total - np.log(len(rates)), mean
