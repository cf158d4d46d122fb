"""New and rare labels, and rare pairs of them.

Levels that are new, gone, or far rarer than every other level of their column.

Two common levels that hardly ever come together: country = US with payment = invoice.

Another value in a column that never varied in the reference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd

from tellwhy.checks.chance import LEVEL, beyond_evidence, edge_evidence, few
from tellwhy.checks.facts import Coded, Facts, coded_labels, coded_numbers
from tellwhy.checks.mistakes import NEW_LEVEL, RARE_LEVEL, RARE_PAIR, VANISHED_LEVEL
from tellwhy.core.score import Floats, Integers
from tellwhy.data.columns.reading import read_numbers_or_missing
from tellwhy.results.result import Finding

_RATIO_OF_LABELS = 30  # a rare level is so many times rarer than the rarest of the others
_MOST_RARE_LABELS = 3
_MOST_OFF = 6
_RATIO_OFF = 8
_OFF = 0.005  # a step with more rows than this is one of the scale
_MOST_WHOLE = 15  # different whole numbers up to which a column is a scale (ratings, grades)
_SURE = 1.5  # a smaller surprise makes no row odd
_ODD_ROWS = 3  # a rare level of more rows than this, and of a larger share, is small but no error
_ODD_SHARE = 0.0005
_FEW = 5
_LONG_SCALE = 5  # steps; the next after a shorter scale is merely the next


def find_levels(seen: Facts, known: Facts) -> list[Finding]:
    """New and vanished levels against a reference, and single ones among common ones."""
    findings: list[Finding] = []
    columns = [name for name in seen.labels if seen.roles[name].kind != "boolean"]
    for column in columns:
        coded = coded_labels(seen, known, column)
        if seen is not known:
            findings += _new(seen, column, coded, len(columns))
            findings += _vanished(seen, column, coded, len(columns))
        findings += _rare(seen, column, coded, len(columns))
    for column in (name for name in known.recall(learn_scales) if name in seen.numbers):
        findings += _off_scale(seen, column, coded_numbers(seen, known, column))
    return findings


def _new(seen: Facts, column: str, coded: Coded, n_columns: int) -> Iterator[Finding]:
    """Levels that the reference lacks: each one where they are odd, all in one line where they are not."""
    counts = coded.counts()
    here = np.bincount(coded.seen[coded.seen >= 0], minlength=len(coded.names))
    usual: list[int] = []
    for code in np.flatnonzero((counts == 0) & (here > 0)):
        surprise = _news(counts, here, int(code)) - math.log(n_columns)
        if surprise < _SURE:
            usual.append(int(code))
            continue
        rows = np.flatnonzero(coded.seen == code)
        yield NEW_LEVEL.report(seen, column, rows, {"level": coded.names[code]}, surprise=surprise)
    if usual:
        rows = np.flatnonzero(np.isin(coded.seen, usual))
        facts = {"n": len(usual), "level": coded.names[usual[0]]}
        yield NEW_LEVEL.report(seen, column, rows, facts, form="new_levels")


def _news(counts: Integers, here: Integers, code: int) -> float:
    """−log of how often a level that was never met comes up.

    As Good and Turing have it, the rare levels of the reference tell; these count fivefold, for where there
    are some there are more.
    """
    n_learned = int(counts.sum())
    as_rare = 3 * here[code] * n_learned / max(int(here.sum()), 1)
    n_rare = int(counts[counts <= max(as_rare, _FEW)].sum())
    return -math.log((5 * n_rare + 1) / (n_learned + 1))


def _vanished(seen: Facts, column: str, coded: Coded, n_columns: int) -> Iterator[Finding]:
    counts = coded.counts()
    here = np.bincount(coded.seen[coded.seen >= 0], minlength=len(coded.names))
    expected = counts * here.sum() / max(int(counts.sum()), 1)
    for code in np.flatnonzero((here == 0) & (expected > 0)):
        if few(0, float(expected[code])) - math.log(n_columns * len(coded.names)) > LEVEL:
            level = coded.names[code]
            usual = {"n": int(counts[code])}
            yield VANISHED_LEVEL.report(seen, column, (), {"level": level}, usual, cells={column: level})


def _rare(seen: Facts, column: str, coded: Coded, n_columns: int) -> Iterator[Finding]:
    """A level with a handful of rows where every other level has many times more."""
    counts = np.bincount(coded.seen[coded.seen >= 0], minlength=len(coded.names))
    codes = rare_codes(counts)
    n_levels = int((counts > 0).sum())
    for code in codes:
        if not coded.counts()[code]:
            continue  # told as new
        surprise = math.log(counts.sum() / counts[code]) - math.log(n_levels * n_columns)
        if surprise < _SURE:
            continue
        rows = np.flatnonzero(coded.seen == code)
        least = int(np.min(np.delete(counts, codes)[np.delete(counts, codes) > 0]))
        is_odd = len(rows) <= max(_ODD_ROWS, _ODD_SHARE * seen.n)
        yield RARE_LEVEL.report(
            seen,
            column,
            rows,
            {"level": coded.names[code]},
            {"n_levels": n_levels - len(codes), "least": least},
            surprise=surprise if is_odd else 0.0,
        )


def rare_codes(
    counts: Integers, most_rare: int = _MOST_RARE_LABELS, ratio: float = _RATIO_OF_LABELS, *, fewest: int = 2
) -> Integers:
    """Codes of the levels below a gap in the counts, if these are few; none in a column of many sizes."""
    order = np.argsort(counts, kind="stable")
    order = order[counts[order] > 0]
    for n_rare in range(1, min(most_rare, len(order) - fewest) + 1):
        if counts[order[n_rare]] >= ratio * counts[order[n_rare - 1]]:
            return order[:n_rare]
    return order[:0]


def learn_scales(known: Facts) -> list[str]:
    """Columns of few whole numbers: ratings, grades, numbers of children."""
    found = []
    for column, numbers in known.numbers.items():
        probe = numbers.filled
        if len(probe) >= 50 and numbers.grain == 1 and probe[-1] - probe[0] < 1000:
            n_values = len(np.unique(probe))
            if 4 <= n_values <= _MOST_WHOLE:
                found.append(column)
    return found


def _off_scale(seen: Facts, column: str, coded: Coded) -> Iterator[Finding]:
    """Whole numbers off a scale all of whose steps are common: a rating of 7 among 1 to 5."""
    values = seen.numbers[column].values
    counts = np.bincount(coded.seen[coded.seen >= 0], minlength=len(coded.names))
    rare = rare_codes(counts, _MOST_OFF, _RATIO_OFF)
    others = np.sort(values[(coded.seen >= 0) & ~np.isin(coded.seen, rare)])
    if not len(rare) or not _is_scale(others):
        return
    with np.errstate(invalid="ignore"):
        sides = (np.flatnonzero(values < others[0]), np.flatnonzero(values > others[-1]))
    for rows, ends in zip(sides, (others, -others[::-1]), strict=True):
        if not 0 < len(rows) <= max(_OFF * seen.n, 3):
            continue
        gap = int(np.abs(values[rows][:, None] - others[[0, -1]]).min())
        if gap < 2 and len(np.unique(others)) < _LONG_SCALE:
            continue  # one bedroom where others have two to four
        # The step after the last common one may be its tail: 40 families of 3 children, and one of 4.
        evidence = edge_evidence(ends, beyond=len(rows), step=1.0)
        evidence = max(evidence, beyond_evidence(ends, k=len(rows), gap=gap, step=1.0))
        evidence -= math.log(len(seen.numbers))
        if evidence <= LEVEL:
            continue
        facts = {"values": np.unique(values[rows]).tolist()}
        usual = seen.ends(column, others)
        yield RARE_LEVEL.report(seen, column, rows, facts, usual, form="off_scale", surprise=evidence)


def _is_scale(others: np.ndarray) -> bool:
    """Whether every step between the least and the greatest value is taken."""
    return len(np.unique(others)) == int(others[-1] - others[0]) + 1


_MOST_COLUMNS = 30
_MOST_LEVELS = 60
_MOST_VALUES = 20  # of a column of numbers
_RATIO_OF_PAIRS = 0.1  # of the rows that independent columns would have
_RARE_PAIR = 0.001  # of all rows: a pair that more rows have is a habit of the data
_RARE_ROWS = 3
_OF_LEVEL = 0.004  # of the rows of the rarer level: a pair that more of them have is an exception, no error
_MOST_PAIRS = 2  # of two columns: where more pairs are rare, the columns go together more or less
_ENOUGH = 5  # rows expected, from which a pair can be told to be rare
_FORBIDDEN = 0.02
_USUAL = 0.3  # a level's other partners come together at least so often as independent ones would


def find_rare_pairs(seen: Facts, known: Facts) -> list[Finding]:
    """Rows with a pair of levels, each common, that is much rarer than if the columns were independent."""
    columns = dict(list(_coded_columns(seen, known).items())[:_MOST_COLUMNS])
    tables = {
        pair: _counted(columns[pair[0]], columns[pair[1]])
        for pair in combinations(columns, 2)
        if set(pair) & set(seen.labels)
    }
    n_tried = sum(table.size for table in tables.values())
    found: dict[tuple[int, ...], Finding] = {}
    for pair, table in tables.items():
        of_pair = list(_of_pair(seen, pair, (columns[pair[0]], columns[pair[1]]), table, n_tried))
        for finding in of_pair if len(of_pair) <= _MOST_PAIRS else []:
            # Columns that say the same of a row (a party, and whether it is this one) are told once.
            before = found.setdefault(tuple(finding.rows), finding)
            if finding.surprise > before.surprise:
                found[tuple(finding.rows)] = finding
    return list(found.values())


def _coded_columns(seen: Facts, known: Facts) -> dict[str, Coded]:
    """Labels, and beside labels also numbers with few values, such as doors of a car."""
    names = [name for name in seen.labels if 2 <= len(known.labels[name].counts()) <= _MOST_LEVELS]
    columns = {name: coded_labels(seen, known, name) for name in names}
    for name, numbers in known.numbers.items():
        if columns and 2 <= numbers.n_different <= _MOST_VALUES:
            columns[name] = coded_numbers(seen, known, name)
    return columns


def _counted(x: Coded, y: Coded) -> Integers:
    """How often each pair of levels occurs in the rows to learn from."""
    rows = (x.known >= 0) & (y.known >= 0)
    n_y = len(y.names)
    pairs = np.bincount(x.known[rows] * n_y + y.known[rows], minlength=len(x.names) * n_y)
    return pairs.reshape(len(x.names), n_y)


def _of_pair(
    seen: Facts, pair: tuple[str, str], coded: tuple[Coded, Coded], table: Integers, n_tried: int
) -> Iterator[Finding]:
    n = int(table.sum())
    expected = table.sum(axis=1)[:, None] * table.sum(axis=0)[None, :] / max(n, 1)
    suspects = (
        (table <= _RATIO_OF_PAIRS * expected)
        & (expected >= LEVEL)
        & (table <= max(_RARE_PAIR * n, _RARE_ROWS))
    )
    for i, j in np.argwhere(suspects):
        evidence = few(float(table[i, j]), float(expected[i, j])) - math.log(n_tried)
        if evidence <= LEVEL or not _stands_alone(table, expected, int(i), int(j)):
            continue
        # One senator of 55 who votes with the other party is rare, and no error.
        if table[i, j] > _OF_LEVEL * min(table[i].sum(), table[:, j].sum()):
            continue
        rows = np.flatnonzero((coded[0].seen == i) & (coded[1].seen == j))
        if not len(rows):
            continue
        counts = [int(table[i].sum()), int(table[:, j].sum())]
        facts = {"levels": [coded[0].names[i], coded[1].names[j]]}
        usual = {"counts": counts, "expected": float(expected[i, j])}
        surprise = min(evidence, math.log(n / max(int(table[i, j]), 1)) + LEVEL)
        yield RARE_PAIR.report(seen, pair, rows, facts, usual, surprise=surprise)


def _stands_alone(table: Integers, expected: Floats, i: int, j: int) -> bool:
    """Whether other pairs of these two levels are either as frequent as by chance, or as good as forbidden.

    Pairs in between say that one column goes with the other more or less, and a rare pair is then one end of
    that: the lowest mark in one subject with the highest in another.
    """
    with np.errstate(all="ignore"):
        ratio = table / expected
    row = np.delete(ratio[i], j)[np.delete(expected[i], j) >= _ENOUGH]
    column = np.delete(ratio[:, j], i)[np.delete(expected[:, j], i) >= _ENOUGH]
    both = np.concatenate([row, column])
    if not (row > _USUAL).any() or not (column > _USUAL).any():
        return False
    mostly = float((both > _USUAL).mean()) >= 0.7
    return mostly or bool(((both > _USUAL) | (both <= _FORBIDDEN)).all())


_NEW_USUAL = 0.5  # values of a larger share of the rows are the new usual ones, and no errors


def find_changed_constants(seen: Facts, known: Facts) -> list[Finding]:
    """Values that a column has beside the single one of the reference, where there is a reference."""
    if seen is known:
        return []
    names = [name for name, role in known.roles.items() if role.kind == "constant"]
    names = [name for name in names if name in known.frame and name in seen.frame]
    found = [_changed(seen, known, name, len(names)) for name in names]
    return [finding for finding in found if finding is not None]


def _changed(seen: Facts, known: Facts, name: str, n_columns: int) -> Finding | None:
    constant = known.frame[name].dropna()
    is_one = constant.nunique() == 1
    rows = _others(seen.frame[name], constant.iloc[0]) if is_one else np.zeros(0, dtype=np.int64)
    if not len(rows):
        return None
    values = pd.unique(seen.frame[name].iloc[rows].astype(str))
    # By the rule of succession, one more row is otherwise with this probability.
    surprise = math.log(len(constant) + 1) - math.log(n_columns)
    is_odd = surprise >= _SURE and len(rows) <= _NEW_USUAL * seen.n
    facts = {"level": str(values[0]), "n": len(values)}
    return NEW_LEVEL.report(seen, name, rows, facts, surprise=surprise if is_odd else 0.0)


def _others(here: pd.Series, constant: object) -> Integers:
    """Rows whose cell is filled with something else, however numbers are stored."""
    filled = here.notna().to_numpy()
    is_flag = isinstance(constant, (bool, np.bool_)) and pd.api.types.is_numeric_dtype(here)
    if is_flag or pd.api.types.is_number(constant):
        known = float(constant)  # type: ignore[arg-type]
        return np.flatnonzero(filled & (read_numbers_or_missing(here) != known))
    if pd.api.types.is_datetime64_any_dtype(here):
        return np.flatnonzero(filled & (here != constant).to_numpy())
    return np.flatnonzero(filled & (here.astype(str) != str(constant)).to_numpy())
