"""Where a cell is, in words that lead the user to it: data row, line of the file, column."""

from __future__ import annotations

import pandas as pd

from tellwhy.core.errors import InvalidInput

_KEY = "tellwhy_lines"  # in DataFrame.attrs: (line of the first data row, number of data rows)


def mark_lines(frame: pd.DataFrame, first_line: int) -> None:
    """Remember that data row i of a frame just read stands in line `first_line` + i of its file."""
    frame.attrs[_KEY] = (first_line, len(frame))


def is_marked(frame: pd.DataFrame) -> bool:
    """Tell whether the frame, or the one it was cut from, was read from a file line by line."""
    return _KEY in frame.attrs


def line_of(frame: pd.DataFrame, position: int) -> int | None:
    """Return the 1-based line of the file in which a row of a read frame stands; None where not known."""
    if not is_marked(frame):
        return None
    first_line, n_rows = frame.attrs[_KEY]
    was_reset = isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0 and len(frame) < n_rows
    if was_reset or not pd.api.types.is_integer_dtype(frame.index.dtype):
        return None
    return int(frame.index[position]) + int(first_line)


def place_of(frame: pd.DataFrame, position: int) -> str:
    """Return 'row 17 (line 19 of the file)': the 0-based data row, and the line where that is certain.

    Rows cut out of a read frame keep their labels, so their data row stays known; once labels have been
    reset, only the position in the given frame is.
    """
    line = line_of(frame, position)
    if line is None:
        return f"row {position}"
    return f"row {int(frame.index[position])} (line {line} of the file)"


def shown(value: object, limit: int = 60) -> str:
    """Return a cell as it can stand in a sentence: quoted, cut when it is long."""
    text = repr(value.item() if hasattr(value, "item") else value)  # -inf, not np.float64(-inf)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def bad_cell(frame: pd.DataFrame, column: str, position: int, *, expected: str, advice: str) -> InvalidInput:
    """Return the error that names one cell of a frame."""
    cell = shown(frame[column].iloc[position])
    return InvalidInput(
        f"Column {column!r} holds {cell} in {place_of(frame, position)}; expected {expected}. {advice}"
    )
