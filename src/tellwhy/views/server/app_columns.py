"""What is counted in one column of a table: labels with their alarms, and how numbers are distributed."""

from __future__ import annotations

from dataclasses import dataclass

from tellwhy.views.server.app_rows import RowTable
from tellwhy.views.server.app_view import ROW

MOST_LABELS = 200  # of a column, in the list of segments
FEW_LABELS = 60  # different cells of a column by which rows are told apart
N_BINS = 40  # of the distribution of a column
NUMBERS = ("DOUBLE", "FLOAT", "DECIMAL", "BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UINTEGER", "UBIGINT")
TIMES = ("TIMESTAMP", "DATE")


def list_segments(rows: RowTable, column: str) -> list[tuple[str, int, int]]:
    """Labels of a column, each with its rows and the alarms among them; those with most alarms first."""
    name = rows.name_column(column)
    asked = (
        f"SELECT coalesce(c.{name}::VARCHAR, ''), count(*), count(*) FILTER (l.alarm) FROM listed l "
        f'JOIN cells c ON c."{ROW}" = l.row GROUP BY 1 ORDER BY 3 DESC, 2 DESC LIMIT {MOST_LABELS}'
    )
    return [(str(label), int(n), int(n_alarms)) for label, n, n_alarms in rows.ask(asked)]


def find_labelled(rows: RowTable) -> list[str]:
    """Columns of few different cells, by which rows can be told apart."""
    if not rows.columns:
        return []
    counted = ", ".join(f"approx_count_distinct({rows.name_column(name)})" for name in rows.columns)
    [found] = rows.ask(f"SELECT {counted} FROM cells")
    return [name for name, n in zip(rows.columns, found, strict=True) if 1 < n <= FEW_LABELS]


@dataclass(frozen=True)
class Distribution:
    """How many rows have numbers in each of some intervals of equal width.

    Attributes
    ----------
    low, high
        The ends of the axis: one row in two hundred lies below, one above.
    counts
        Of rows below it, in each interval, and above it.
    are_times
        Whether numbers are seconds since 1970.
    """

    low: float
    high: float
    counts: tuple[int, ...]
    are_times: bool


def measure_distribution(rows: RowTable, column: str) -> Distribution | None:
    """How the numbers or dates of a column are distributed over all rows; None of other columns."""
    name = rows.name_column(column)
    are_times = rows.kinds[column].startswith(TIMES)
    if not are_times and not rows.kinds[column].startswith(NUMBERS):
        return None
    number = f"epoch({name})::DOUBLE" if are_times else f"{name}::DOUBLE"
    cells = f"(SELECT {number} AS x FROM cells WHERE isfinite({number}))"
    [(ends, least, most)] = rows.ask(f"SELECT quantile_cont(x, [0.005, 0.995]), min(x), max(x) FROM {cells}")
    if ends is None or not least < most:
        return None
    low, high = ends if ends[0] < ends[1] else (least, most)
    inside = f"least({N_BINS - 1}, floor((x - ?) / ?)::INTEGER)"
    place = f"CASE WHEN x < ? THEN -1 WHEN x > ? THEN {N_BINS} ELSE {inside} END"
    counted = f"SELECT {place} AS k, count(*) FROM {cells} GROUP BY k"
    counts = dict(rows.ask(counted, [low, high, low, (high - low) / N_BINS]))
    return Distribution(low, high, tuple(counts.get(k, 0) for k in range(-1, N_BINS + 1)), are_times)
