"""Claim: tables without errors raise about as many alarms as chance, also where columns are mostly 0.

A value beside a spike (a value that most rows have) is judged among the values beside it. This was chosen on tables like
those of the first part with other seeds, and on the first slice of Adult (marked *); all others were looked at only
once it was fixed. CoverType and NSL-KDD (**) then showed that a distance of 0 on a grid passed for a placeholder, and
values at a limit or in a wide level for slips, which was mended.
Planted errors must still come first.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from benchmarks.tables._clean_tables import SHAPES, SHARES, adult, mostly_zero, other_shapes, public_tables
from tellwhy.workflow import explain_table

FIRST_SEED = 5_000
GENERATED_ROWS = 1_500
Cells = list[tuple[int, str, Any]]


def counted(table: pd.DataFrame) -> dict[str, float]:
    """Alarms of a table: all, those that rest on no finding of the quality pass, and what the run states."""
    run = explain_table(table.reset_index(drop=True))
    over = {int(r) for r, s in zip(run.rows, run.scores, strict=True) if s > run.threshold}
    told = {row for finding in run.findings if finding.kind != "odd_rows" for row in finding.rows}
    stated = run.alarms.expected_false
    return {
        "rows": len(table),
        "alarms": len(over),
        "by scores": len(over - told),
        "stated": round(stated, 1),
    }


def generated() -> Iterator[dict[str, Any]]:
    """Each share of zeros with each kind of other values, in columns that go together and that do not."""
    for i, share in enumerate(SHARES):
        found = []
        for j, shape in enumerate(SHAPES):
            seed = FIRST_SEED + 10 * i + j
            table = mostly_zero(seed, GENERATED_ROWS, share, shape, goes_together=(i + j) % 2 == 1)
            found.append(counted(table))
        yield {
            "table": f"{100 * share:.0f} % zeros",
            "tables": len(found),
            **pd.DataFrame(found).sum().to_dict(),
        }
    found = [counted(other_shapes(FIRST_SEED + seed, GENERATED_ROWS)) for seed in range(3)]
    yield {"table": "other shapes", "tables": len(found), **pd.DataFrame(found).sum().to_dict()}


def public() -> Iterator[dict[str, Any]]:
    for name, table in public_tables():
        yield {"table": name, "tables": 1, **counted(table)}


def errors(
    table: pd.DataFrame, spiked: str, rng: np.random.Generator
) -> Iterator[tuple[str, set[str], Cells]]:
    """Kind of error, the columns that are part of it, and the cells to write."""
    n = len(table)
    largest = table[spiked].max()
    paid = int(rng.choice(np.flatnonzero(table[spiked] > 0)))
    yield "age = 370", {"age"}, [(int(rng.integers(n)), "age", 370)]
    yield "10 times the largest", {spiked}, [(int(rng.integers(n)), spiked, 10 * largest)]
    yield "sign flipped", {spiked}, [(paid, spiked, -table[spiked].iloc[paid])]
    yield "−999 in 15 rows", {spiked}, [(int(i), spiked, -999) for i in rng.choice(n, 15, replace=False)]
    if "education" in table:
        row = int(np.flatnonzero(table["education"] == "Doctorate")[0])
        yield "contradiction", {"education", "education-num"}, [(row, "education-num", 2)]
    else:
        row = int(table["height"].argmin())
        yield "contradiction", {"height", "weight"}, [(row, "weight", float(table["weight"].max()))]


def tried(name: str, table: pd.DataFrame, spiked: str) -> Iterator[dict[str, Any]]:
    """Each error alone: is the row an alarm, where does it stand, and is its column named first?"""
    for error, right, cells in errors(table, spiked, np.random.default_rng(FIRST_SEED)):
        changed = table.copy()
        for row, column, value in cells:
            changed[column] = changed[column].astype(float) if isinstance(value, float) else changed[column]
            changed.loc[row, column] = value
        run = explain_table(changed)
        place = np.empty(len(changed), dtype=int)
        place[np.argsort(-run.scores, kind="stable")] = np.arange(1, len(changed) + 1)
        rows = [row for row, _, _ in cells]
        first = {a.row: a.reasons[0].feature for a in run.anomalies if a.reasons}
        yield {
            "error": error,
            "table": name,
            "planted": len(rows),
            "alarms": int(sum(run.scores[row] > run.threshold for row in rows)),
            "named": sum(first.get(row) in right for row in rows),
            "worst place": int(place[rows].max()),
        }


def planted() -> Iterator[dict[str, Any]]:
    yield from tried("Adult (test part)", adult("test").iloc[:3_000].reset_index(drop=True), "capital-loss")
    table = mostly_zero(FIRST_SEED + 900, 2_000, 0.95, "lognormal", goes_together=False)
    yield from tried("generated, 95 % zeros", table, "extra 2")


PARTS = {
    "Generated tables without errors, alarms of all tables of a kind; columns that are mostly 0 go together in every "
    "second one. Other shapes: long-tailed counts, capped shares, times and codes as numbers, rounded money. By "
    "scores: rows that no finding of the quality pass names. Stated: how many alarms the runs say that chance alone "
    "would raise.": generated,
    "Public tables as they are. Adult writes '?' and 99999 for what is not known: such rows are alarms by a "
    "finding. * the rows on which this was designed; ** looked at before further faults were mended.": public,
    "One kind of error planted in a table at a time: planted rows, those that are alarms, those whose first reason "
    "names the right column, and the place of the last of them.": planted,
}


if __name__ == "__main__":
    arguments(__doc__)
    warnings.simplefilter("ignore")
    tables = [(text, pd.DataFrame(make())) for text, make in PARTS.items()]
    publish("clean_tables", "Alarms on tables without errors", tables)
