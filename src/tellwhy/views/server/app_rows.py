"""The rows of a result as the page lists them: sorted, filtered, searched and counted by DuckDB.

All rows that were scored are there. What is told of the explained ones, and the cells of the table where they
are kept as Parquet, stand beside them and are read for those rows only that are asked for.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.optional import require
from tellwhy.core.score import Floats, Integers
from tellwhy.results.result import Anomaly, Result
from tellwhy.verdicts.headline import group_entries
from tellwhy.views.server.app_view import ROW, SHOWN, View, quote, write_condition, write_search

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from tellwhy.kinds.decisions import Standing

OWN = ("rank", "row", "score", "p", "name")  # what rows can be sorted by besides the table's columns
MEMORY = "128MB"
OF_ROWS = ("table", "graph")  # kinds whose anomalies are rows, each with a score


@dataclass(frozen=True)
class Listed:
    """One line of the list.

    Attributes
    ----------
    row, rank, score, is_alarm
        Of the row; ranks count from 1, the oddest first.
    place
        Its place among the explained rows; None where it was not explained.
    verdict
        What was decided about it.
    cause, n_alike
        Number of its cause, and how many listed rows share it, where rows are grouped.
    cells
        Those that the view asks for.
    """

    row: int
    rank: int
    score: float
    is_alarm: bool
    place: int | None
    verdict: str
    cause: int
    n_alike: int
    cells: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Page:
    """Some lines of the list, and how many rows there are in all."""

    lines: Sequence[Listed]
    n_rows: int
    n_lines: int
    view: View

    @property
    def n_pages(self) -> int:
        """How many pages there are."""
        return max(1, math.ceil(self.n_lines / self.view.size))


class RowTable:
    """The rows of a result in DuckDB.

    Parameters
    ----------
    result
        The result.
    cells
        Parquet file of the table, all rows in their order; without it, the explained rows alone have cells.
    """

    def __init__(self, result: Result, cells: Path | None = None):
        duckdb = require("duckdb", "The list of rows")
        spare = (
            f"{tempfile.gettempdir()}/tellwhy-rows-{os.getpid()}"  # made where the memory does not suffice
        )
        settings = {"memory_limit": MEMORY, "threads": 2, "temp_directory": spare}
        self._base = duckdb.connect(":memory:", config=settings)
        self.result = result
        self.numbers = number_anomalies(result)
        self.causes = _number_causes(result, self.numbers)
        self._add_rows()
        self.has_all_cells = cells is not None
        self._file = cells
        self.columns: tuple[str, ...] = self._add_cells(cells)
        self._base.execute("CREATE TABLE decided (row BIGINT, verdict VARCHAR)")
        self._n_records = -1
        self._alone = threading.Lock()

    def _add_rows(self) -> None:
        """Make the tables of all rows and of the explained ones."""
        import pyarrow as pa

        found = self.result
        rows, scores = _numbered_scores(found)
        order = np.argsort(-scores, kind="stable")
        rank = np.empty(len(scores), dtype=np.int32)
        rank[order] = np.arange(1, len(scores) + 1)
        alarms = scores > found.line
        if found.kind not in OF_ROWS:
            alarms = np.array([anomaly.is_alarm for anomaly in found.anomalies], dtype=bool)
        told = pa.table({"row": rows, "score": scores, "rank": rank, "alarm": alarms})
        self._base.register("told", told)
        self._base.execute("CREATE TABLE listed AS SELECT * FROM told")
        self._base.unregister("told")
        explained = pa.table(
            {
                "row": pa.array(self.numbers, pa.int64()),
                "place": pa.array(range(len(found.anomalies)), pa.int32()),
                "name": pa.array([a.id or "" for a in found.anomalies], pa.string()),
                "p": pa.array([a.p_value for a in found.anomalies], pa.float64()),
                "main": pa.array([_main(a) for a in found.anomalies], pa.string()),
                "cause": pa.array([self.causes[number] for number in self.numbers], pa.int32()),
                "said": pa.array([_said(a) for a in found.anomalies], pa.string()),
            }
        )
        self._base.register("told", explained)
        self._base.execute("CREATE TABLE explained AS SELECT * FROM told")
        self._base.unregister("told")

    def _add_cells(self, cells: Path | None) -> tuple[str, ...]:
        """Make a view of the cells of the table, by row; return the names of its columns."""
        if cells is not None:
            path = str(cells).replace("'", "''")
            self._base.execute(
                f"CREATE VIEW cells AS SELECT file_row_number AS {quote(ROW)}, * "
                f"EXCLUDE (file_row_number) FROM read_parquet('{path}', file_row_number = true)"
            )
        elif self.result.table_rows is not None and len(self.result.table_rows) == len(self.numbers):
            rows = self.numbers
            frame = self.result.table_rows.assign(**{ROW: rows})
            self._base.register("frame", frame)
            self._base.execute("CREATE TABLE cells AS SELECT * FROM frame")
            self._base.unregister("frame")
        else:
            return ()
        self.kinds = {line[0]: line[1] for line in self._base.execute("DESCRIBE cells").fetchall()}
        names = list(self.kinds)
        return tuple(name for name in names if name != ROW)

    def take_decisions(self, standing: Standing) -> None:
        """Know what is decided now."""
        with self._alone:
            if standing.n_records == self._n_records:
                return
            told = [(row, decision.verdict) for row, decision in standing.rows.items()]
            cursor = self._base.cursor()
            cursor.execute("BEGIN; DELETE FROM decided")
            if told:
                cursor.executemany("INSERT INTO decided VALUES (?, ?)", told)
            cursor.execute("COMMIT")
            self._n_records = standing.n_records

    def page(self, view: View) -> Page:
        """The lines that a view asks for."""
        asked = self._asked(view)
        names = ", ".join(f"c.{quote(name)}" for name in self._checked(view.columns))
        told = "l.row, l.rank, l.score, l.alarm, e.place, d.verdict, e.cause, count(*) OVER () AS n_rows"
        lines = f"SELECT {told}, 1 AS n_alike{', ' + names if names else ''} {asked.rows}"
        if view.group:
            lines = (
                f"SELECT * REPLACE (count(*) OVER alike AS n_alike) FROM ({lines}) "
                "WINDOW alike AS (PARTITION BY coalesce(cause, -1 - row)) "
                "QUALIFY row_number() OVER (alike ORDER BY rank) = 1"
            )
        order = self._order(view) if not view.group else "ORDER BY rank"
        cut = f"LIMIT {view.size} OFFSET {(view.page - 1) * view.size}"
        cursor = self._base.cursor()
        found = cursor.execute(f"{lines} {order} {cut}", asked.values).fetchall()
        n_rows = found[0][7] if found else self._count(asked)
        n_lines = self._count_causes(asked) if view.group else n_rows
        return Page([_listed(line) for line in found], n_rows, n_lines, view)

    def counts(self) -> dict[str, int]:
        """How many rows each choice of rows shows."""
        told = ", ".join(f"count(*) FILTER ({_SHOWN[name]}) AS {name}" for name in SHOWN)
        joined = "FROM listed l LEFT JOIN explained e USING (row) LEFT JOIN decided d USING (row)"
        found = self._base.cursor().execute(f"SELECT {told} {joined}").fetchone()
        return dict(zip(SHOWN, found, strict=True))

    def frame_of(self, row: int) -> pd.DataFrame | None:
        """One row of the table with all its columns, as pandas reads it; None where it is not known."""
        from tellwhy.data.reading.arrow_frames import frame_from_arrow

        if not self.columns:
            return None
        asked = f"SELECT * EXCLUDE ({quote(ROW)}) FROM cells WHERE {quote(ROW)} = ?"
        told = self._base.cursor().sql(asked, params=[row]).to_arrow_table()
        return frame_from_arrow(told) if told.num_rows else None

    def ask(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The lines that a query of the tables `listed`, `explained`, `decided` and `cells` gives."""
        return list(self._base.cursor().execute(query, list(values)).fetchall())

    def name_column(self, name: str) -> str:
        """A column of the table as it stands in a query; raise for one that is not there."""
        return quote(self._checked([name])[0])

    def main_columns(self) -> list[str]:
        """Columns that are first reasons, the most frequent first."""
        asked = "SELECT main FROM explained WHERE main <> '' GROUP BY main ORDER BY count(*) DESC, main"
        return [line[0] for line in self._base.cursor().execute(asked).fetchall()]

    def place_of(self, row: int, view: View) -> int | None:
        """The page on which a row is listed; None where the view does not show it."""
        asked = self._asked(view)
        order = self._order(view).removeprefix("ORDER BY ")
        numbered = f"SELECT l.row, row_number() OVER (ORDER BY {order}) AS place_in_list {asked.rows}"
        found = self._base.cursor().execute(
            f"SELECT place_in_list FROM ({numbered}) WHERE row = ?", [*asked.values, row]
        )
        line = found.fetchone()
        return None if line is None else (line[0] - 1) // view.size + 1

    def cells_of(self, row: int) -> dict[str, Any]:
        """The cells of one row, as the table has them; empty where they are not known."""
        told = self._read_row(row)
        return {} if told is None else dict(told.to_pylist()[0])

    def _read_row(self, row: int) -> pa.Table | None:
        """One row of the table; of a file, the piece that holds it is read and no other."""
        if self._file is not None:
            return _read_row_of_file(self._file, row)
        if not self.columns:
            return None
        asked = f"SELECT * EXCLUDE ({quote(ROW)}) FROM cells WHERE {quote(ROW)} = ?"
        told = self._base.cursor().sql(asked, params=[row]).to_arrow_table()
        return told if told.num_rows else None

    def rank_of(self, row: int) -> int:
        """The rank of a row, from 1; raise for one that was not scored."""
        return int(self._of_row(row)[0])

    def score_of(self, row: int) -> float:
        """The score of a row."""
        return float(self._of_row(row)[1])

    def _of_row(self, row: int) -> tuple[Any, ...]:
        found = self._base.cursor().execute("SELECT rank, score FROM listed WHERE row = ?", [row])
        line: tuple[Any, ...] | None = found.fetchone()
        if line is None:
            raise InvalidParameter(f"Row {row} is not among the rows that were scored.")
        return line

    def rows_of(self, view: View) -> Any:
        """All rows of a view with their cells, as an Arrow table: for a file."""
        asked = self._asked(view, with_cells=True)
        names = [f"c.{quote(name)} AS {quote(_own_name(name))}" for name in self.columns]
        told = [
            "l.row",
            "l.rank",
            "l.score",
            "e.p AS p_value",
            "l.alarm AS flagged",
            "coalesce(d.verdict, '') AS decided",
            "e.said AS reasons",
        ]
        lines = f"SELECT {', '.join([*told, *names])} {asked.rows} {self._order(view)}"
        return self._base.cursor().sql(lines, params=asked.values).to_arrow_table()

    def _count(self, asked: _Asked) -> int:
        found = self._base.cursor().execute(f"SELECT count(*) {asked.rows}", asked.values).fetchone()
        return int(found[0])

    def _count_causes(self, asked: _Asked) -> int:
        told = "SELECT count(DISTINCT coalesce(e.cause, -1 - l.row))"
        found = self._base.cursor().execute(f"{told} {asked.rows}", asked.values).fetchone()
        return int(found[0])

    def _asked(self, view: View, *, with_cells: bool = False) -> _Asked:
        """The part of a query that chooses rows, and the values that stand in it for question marks."""
        tests = [_SHOWN[view.show]]
        values: list[Any] = []
        if view.main:
            tests.append("e.main = ?")
            values.append(view.main)
        if view.cause:
            tests.append("e.cause = ?")
            values.append(view.cause)
        if view.where:
            test, found = write_condition(view.where, self.columns)
            tests.append(test)
            values += found
        if view.search:
            test, found = write_search(view.search, self.kinds if self.columns else {})
            tests.append(test)
            values += found
        is_needed = with_cells or view.where or view.search or view.columns or self._is_column(view.sort)
        join = f" LEFT JOIN cells c ON c.{quote(ROW)} = l.row" if self.columns and is_needed else ""
        rows = (
            "FROM listed l LEFT JOIN explained e USING (row) LEFT JOIN decided d USING (row)"
            f"{join} WHERE {' AND '.join(tests)}"
        )
        return _Asked(rows, values)

    def _order(self, view: View) -> str:
        name = view.sort.removeprefix("-")
        down = "DESC" if view.sort.startswith("-") else "ASC"
        if name in OWN:
            place = {"name": "e.name", "p": "e.p"}.get(name, f"l.{name}")
        else:
            place = f"c.{quote(self._checked([name])[0])}"
        return f"ORDER BY {place} {down} NULLS LAST, l.rank"

    def _is_column(self, sort: str) -> bool:
        return sort.removeprefix("-") not in OWN

    def _checked(self, names: Sequence[str]) -> Sequence[str]:
        for name in names:
            if name not in self.columns:
                raise InvalidParameter(f"The table has no column {name[:80]!r}.")
        return names


@dataclass(frozen=True)
class _Asked:
    """Rows that are chosen: the end of a query, and its values."""

    rows: str
    values: list[Any]


_SHOWN = {
    "alarms": "l.alarm",
    "undecided": "l.alarm AND d.verdict IS NULL",
    "benign": "d.verdict = 'benign'",
    "confirmed": "d.verdict = 'confirmed'",
    "explained": "e.place IS NOT NULL",
    "all": "true",
}


def _read_row_of_file(path: Path, row: int) -> pa.Table | None:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, memory_map=True) as file:
        first = 0
        for group in range(file.metadata.num_row_groups):
            n = file.metadata.row_group(group).num_rows
            if first <= row < first + n:
                return file.read_row_group(group, use_threads=False).slice(row - first, 1)
            first += n
    return None


def _listed(line: tuple[Any, ...]) -> Listed:
    return Listed(
        row=line[0],
        rank=line[1],
        score=line[2],
        is_alarm=line[3],
        place=line[4],
        verdict=line[5] or "",
        cause=line[6] or 0,
        n_alike=line[8],
        cells=tuple(line[9:]),
    )


def number_anomalies(result: Result) -> list[int]:
    """By which number each anomaly is listed: its row, or its place where it is no row of a table."""
    if result.kind in OF_ROWS:
        return [anomaly.row for anomaly in result.anomalies]
    return list(range(len(result.anomalies)))


def _numbered_scores(result: Result) -> tuple[Integers, Floats]:
    """The number of all that is listed, and its score."""
    if result.kind not in OF_ROWS:
        scores = np.array([anomaly.score for anomaly in result.anomalies], dtype=np.float64)
        return np.arange(len(scores)), scores
    scores = np.asarray(result.scores, dtype=np.float64)
    rows = np.arange(len(scores)) if result.rows is None else np.asarray(result.rows, dtype=np.int64)
    return rows, scores


def _number_causes(result: Result, numbers: Sequence[int]) -> dict[int, int]:
    """The number of each anomaly's cause, from 1, in the order of the oddest; each its own but of rows."""
    if result.kind not in OF_ROWS:
        return {number: number + 1 for number in numbers}
    entries = group_entries(result.anomalies, result.usual)
    return {a.row: number for number, entry in enumerate(entries, start=1) for a in entry.anomalies}


def _main(anomaly: Anomaly) -> str:
    return anomaly.reasons[0].feature if anomaly.reasons else ""


def _said(anomaly: Anomaly) -> str:
    return "; ".join(reason.text for reason in anomaly.reasons)


def _own_name(name: str) -> str:
    """The name of a column in a file beside those that are told of rows."""
    return (
        f"{name} (table)"
        if name in ("row", "rank", "score", "p_value", "flagged", "decided", "reasons")
        else name
    )
