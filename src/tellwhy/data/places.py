"""Where a cell is, in words that lead the user to it: data row, line of the file, column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from tellwhy.core.errors import InvalidInput

_KEY = "tellwhy_lines"  # in DataFrame.attrs: FileLines of each file that the rows came from, in order


class FileLines(NamedTuple):
    """Which rows of a frame a file gave."""

    file: str  # "" where there is but one
    first_line: int | None  # 1-based line of its first data row; None where lines are not known
    n_rows: int


class _Marks(tuple[FileLines, ...]):
    """What `attrs` hold. pandas copies that, and all inside, whenever a column is taken from a frame."""

    __slots__ = ()

    def __deepcopy__(self, memo: dict[int, Any]) -> _Marks:
        return self  # nobody changes it; of thousands of files a copy takes longer than the column


def mark_lines(frame: pd.DataFrame, first_line: int) -> None:
    """Remember that data row i of a frame just read stands in line `first_line` + i of its file."""
    mark_files(frame, [FileLines("", first_line, len(frame))])


def mark_files(frame: pd.DataFrame, files: Sequence[FileLines]) -> None:
    """Remember the files that a frame's rows came from, one after the other."""
    frame.attrs[_KEY] = _Marks(files)


def find_first_line(frame: pd.DataFrame) -> int | None:
    """Line of the first data row of a frame read from one file; None where lines are not known."""
    return frame.attrs[_KEY][0].first_line if is_marked(frame) else None


def is_marked(frame: pd.DataFrame) -> bool:
    """Tell whether the frame, or the one it was cut from, was read from a file line by line."""
    return _KEY in frame.attrs


def find_line(frame: pd.DataFrame, position: int) -> int | None:
    """Return the 1-based line of the file in which a row of a read frame stands; None where not known."""
    found = _find_place(frame, position)
    if found is None or found[0].first_line is None:
        return None
    return found[1] + found[0].first_line


def find_file(frame: pd.DataFrame, position: int) -> str | None:
    """Return the file that a row came from, where there are several; None otherwise."""
    found = _find_place(frame, position)
    return None if found is None else found[0].file or None


def _find_place(frame: pd.DataFrame, position: int) -> tuple[FileLines, int] | None:
    """The file of a row, and the row's number among those of that file."""
    if not is_marked(frame):
        return None
    files: Sequence[FileLines] = frame.attrs[_KEY]
    n_rows = sum(file.n_rows for file in files)
    was_reset = isinstance(frame.index, pd.RangeIndex) and frame.index.start == 0 and len(frame) < n_rows
    if was_reset or not pd.api.types.is_integer_dtype(frame.index.dtype):
        return None
    row = int(frame.index[position])
    for file in files:
        if row < file.n_rows:
            return file, row
        row -= file.n_rows
    return None


def place_of(frame: pd.DataFrame, position: int) -> str:
    """Return 'row 17 (line 19 of the file)': the 0-based data row, and the line where that is certain.

    Rows cut out of a read frame keep their labels, so their data row stays known; once labels have been
    reset, only the position in the given frame is.
    """
    line = find_line(frame, position)
    if line is None:
        return f"row {position}"
    return f"row {int(frame.index[position])} (line {line} of {find_file(frame, position) or 'the file'})"


def show_cell(value: object, limit: int = 60) -> str:
    """Return a cell as it can stand in a sentence: quoted, cut when it is long."""
    text = repr(value.item() if hasattr(value, "item") else value)  # -inf, not np.float64(-inf)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def refuse_cell(
    frame: pd.DataFrame, column: str, position: int, *, expected: str, advice: str
) -> InvalidInput:
    """Return the error that names one cell of a frame."""
    cell = show_cell(frame[column].iloc[position])
    return InvalidInput(
        f"Column {column!r} holds {cell} in {place_of(frame, position)}; expected {expected}. {advice}"
    )
