"""What is claimed of texts, codes and the links between columns, by all that knows something of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from tellwhy.checks.contest import Claim, Support
from tellwhy.checks.dates import MOST_UNREAD
from tellwhy.checks.dependencies import Dependency, learn_dependencies
from tellwhy.checks.entities import claim_reports
from tellwhy.checks.facts import Facts
from tellwhy.checks.formats import claim_formats
from tellwhy.checks.keyboard import Edit, Keyboard
from tellwhy.checks.places import claim_misplaced
from tellwhy.checks.spelling import CONFIDENT, claim_misspelt, claim_written_otherwise, misspelt_labels
from tellwhy.checks.votes import Votes
from tellwhy.checks.writing import Writing

_MOST_COLUMNS = 200


def claim_texts(seen: Facts, known: Facts) -> list[Claim | Support]:
    """Claim what is wrong with texts and codes, and with what follows from them."""
    if seen is not known:
        seen = replace(seen, raw=seen.frame, writings={})
    columns = columns_beside(seen, known)
    keyboard = known.recall(learn_keyboard)[0]
    reports = claim_reports(seen, known)
    contested = {claim.columns[0] for claim in reports}
    rules = _open(known.recall(learn_dependencies), columns, contested)
    found: list[Claim | Support] = [*reports]
    votes = Votes(columns, rules, keyboard, is_same=seen is known)
    found += votes.claims()
    for name, column in columns.items():
        slips = misspelt_labels(column, keyboard)
        found += claim_misspelt(name, column, slips)
        found += votes.support(name, slips)
        found += claim_written_otherwise(name, column)
        found += claim_formats(name, column, keyboard, is_read=_is_read(seen, name, column))
    found += claim_misplaced(columns)
    return list(_of_empty_cells(seen, found))


def _of_empty_cells(seen: Facts, claims: Iterable[Claim | Support]) -> Iterator[Claim | Support]:
    """Leave out claims that a value is missing where a finding emptied the cell."""
    for claim in claims:
        if not isinstance(claim, Claim) or claim.form != "missing_cell":
            yield claim
            continue
        kept = np.flatnonzero(~np.isin(claim.rows, seen.explained.get(claim.columns[0], ())))
        if len(kept) == len(claim.rows):
            yield claim
        elif len(kept):
            yield replace(
                claim,
                rows=claim.rows[kept],
                log_odds=claim.log_odds[kept],
                expected=[claim.expected[at] for at in kept.tolist()] if claim.expected else (),
                own=[claim.own[at] for at in kept.tolist()] if claim.own else (),
            )


def _is_read(seen: Facts, name: str, column: Writing) -> bool:
    """Whether cells of a column that are no number are told as unread ones."""
    if name not in seen.numbers and name not in seen.dates:
        return False
    return int(column.counts[~column.is_number].sum()) <= MOST_UNREAD * seen.n


def _open(rules: list[Dependency], columns: Mapping[str, Writing], contested: set[str]) -> list[Dependency]:
    """Dependencies that can be asked; attributes of a table of reports do not follow from each other."""
    return [r for r in rules if {r.source, r.target} <= set(columns) and r.target not in contested]


def columns_beside(seen: Facts, known: Facts) -> Mapping[str, Writing]:
    """Columns as written, with the counts of the rows to learn from; new cells are counted besides."""
    names = [name for name in seen.frame.columns[:_MOST_COLUMNS] if name in known.frame]
    if seen is known:
        return {name: seen.writing(name) for name in names}
    both = {name: (seen.writing(name), known.writing(name)) for name in names}
    return {name: _joined(*pair) for name, pair in both.items() if pair[0].is_text == pair[1].is_text}


def _joined(new: Writing, known: Writing) -> Writing:
    """The new rows in the codes of the known ones; each of their cells as if it alone were new."""
    place = dict(known.place)
    for name in new.names:
        place.setdefault(name, len(place))
    lookup = np.array([*(place[name] for name in new.names), -1], dtype=np.int64)
    counts = np.zeros(len(place), dtype=np.int64)
    counts[: known.k] = known.counts
    counts[lookup[:-1]] += 1
    return Writing(lookup[new.codes], tuple(place), known.is_text, counts)


def learn_keyboard(known: Facts) -> list[Keyboard]:
    """Which characters come in by mistake, from slips that are beyond doubt without knowing that."""
    plain = Keyboard()
    columns = columns_beside(known, known)
    slips: list[list[Edit]] = [
        slip.edits
        for column in columns.values()
        for slip in misspelt_labels(column, plain)
        if slip.log_odds > CONFIDENT
    ]
    rules = known.recall(learn_dependencies)
    slips += Votes(columns, rules, plain, is_same=True).slips()
    return [Keyboard.learned(slips)]
