"""Tables of the same columns, one below the other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_numeric_dtype

from tellwhy.core.errors import InvalidInput
from tellwhy.data.columns.labels import EXACT
from tellwhy.data.places import FileLines, find_first_line, mark_files
from tellwhy.data.table import Table

MOST_NAMES = 3


def join_tables(tables: Sequence[Table]) -> Table:
    """Put the rows of several tables below each other; each row remembers its file and its line there."""
    first = tables[0]
    for other in tables[1:]:
        _check_same_columns(first, other)
    frame = join_frames([table.frame for table in tables])
    mark_files(
        frame, [FileLines(table.source, find_first_line(table.frame), len(table.frame)) for table in tables]
    )
    digest = hashlib.sha256("".join(table.fingerprint for table in tables).encode())
    counts = ", ".join(f"{len(table.frame):,} from {table.source}" for table in tables[:MOST_NAMES])
    more = f" and {len(tables) - MOST_NAMES} more files" if len(tables) > MOST_NAMES else ""
    joined = f"{len(frame):,} rows of {len(tables)} files joined: {counts}{more}."
    return Table(frame, _name_source(tables), (joined, *_collect_notices(tables)), digest.hexdigest())


def join_frames(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Put frames of the same columns below each other.

    A column that is numbers in one and text in another is text in all: whoever reads columns later decides.

    Examples
    --------
    >>> a = pd.DataFrame({"code": [7, 8]})
    >>> join_frames([a, pd.DataFrame({"code": ["007"]})])["code"].tolist()
    ['7', '8', '007']
    """
    names = list(frames[0].columns)
    parts = [frame[names].copy(deep=False) for frame in frames]
    for part in parts:
        part.attrs = {}  # marks of lines are those of single files
    for name in names:
        _unify(parts, name)
    return pd.concat(parts, ignore_index=True)


def _unify(parts: Sequence[pd.DataFrame], name: str) -> None:
    """Give a column one kind in all parts; a part without any value has no say."""
    filled = [part for part in parts if part[name].notna().any()]
    kinds = {_find_kind(part[name]) for part in filled}
    if len(kinds) == 1:
        for part in parts:
            if not part[name].notna().any() and filled:
                part[name] = _make_empty(part.index, filled[0][name])
        if kinds != {"text"}:
            return
    for part in parts:
        if kinds and (len(kinds) > 1 or isinstance(part[name].dtype, pd.CategoricalDtype)):
            part[name] = _convert_to_text(part[name])


def _make_empty(index: pd.Index, like: pd.Series) -> pd.Series:
    """Missing cells that leave the kind of a column below or above them as it is."""
    if is_bool_dtype(like.dtype):
        return pd.Series(pd.NA, index=index, dtype="boolean")
    if is_datetime64_any_dtype(like.dtype):
        return pd.Series(pd.NaT, index=index, dtype=like.dtype)
    return pd.Series(float("nan") if is_numeric_dtype(like.dtype) else None, index=index)


def _find_kind(column: pd.Series) -> str:
    if is_bool_dtype(column.dtype):
        return "boolean"
    if is_datetime64_any_dtype(column.dtype):
        return "date"
    return "number" if is_numeric_dtype(column.dtype) else "text"


def _convert_to_text(column: pd.Series) -> pd.Series:
    filled = column.dropna()
    is_number = is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)
    is_whole = is_number and bool(((filled % 1 == 0) & (filled.abs() <= EXACT)).all())
    # Gaps make floats of whole numbers: 7.0 was written 7.
    written = column.astype("Int64") if is_whole else column
    return written.map(str, na_action="ignore").astype(object)


def _check_same_columns(first: Table, other: Table) -> None:
    names = set(first.frame.columns)
    lacks = [name for name in first.frame.columns if name not in other.frame.columns]
    adds = [name for name in other.frame.columns if name not in names]
    if not lacks and not adds:
        return
    said = []
    if lacks:
        said.append(f"lacks {', '.join(map(repr, lacks[:5]))}")
    if adds:
        said.append(f"has {', '.join(map(repr, adds[:5]))} besides")
    raise InvalidInput(
        f"{other.source} {' and '.join(said)}, compared with {first.source}; files that are read together "
        "need the same columns. Rename or remove columns, or read the files one by one."
    )


def _name_source(tables: Sequence[Table]) -> str:
    names = [Path(table.source).name for table in tables]
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _collect_notices(tables: Sequence[Table]) -> list[str]:
    """What is said of every file is said once; what is said of some names them."""
    told: dict[str, list[str]] = {}
    for table in tables:
        for notice in table.notices:
            told.setdefault(notice, []).append(Path(table.source).name)
    return [
        notice if len(names) == len(tables) else f"{', '.join(names)}: {notice}"
        for notice, names in told.items()
    ]
