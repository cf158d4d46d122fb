"""A table in memory: a pandas frame with text column names, where it came from, and what to know about it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame

from tellwhy.core.errors import InvalidInput
from tellwhy.data.places import is_marked
from tellwhy.data.reading.arrow_frames import frame_from_arrow, make_plain_column
from tellwhy.results.notice import Notice, as_notices, say_all


@dataclass(frozen=True, eq=False)
class Table:
    """Rows and named columns, as they were given.

    Parameters
    ----------
    frame
        The values; column names are text.
    source
        The file as the user named it, or what kind of object it was.
    said
        What the user should know about how it was read; `notices` are its sentences.
    fingerprint
        SHA-256 of the file's bytes, or of the values of an object.
    """

    frame: pd.DataFrame
    source: str
    said: tuple[Notice, ...] = ()
    fingerprint: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "said", as_notices(self.said))  # sentences are taken, too

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know about how it was read, one sentence each."""
        return tuple(say_all(self.said))


TableLike: TypeAlias = Table | pd.DataFrame | np.ndarray | Mapping[str, object] | IntoDataFrame


def as_table(obj: TableLike) -> Table:
    """Return any table in memory as a `Table`, over the same values where possible.

    The object is never changed.

    Parameters
    ----------
    obj
        A pandas or polars frame, a pyarrow table, a dict of columns, or a two-dimensional numpy array (its
        columns are named x0, x1, …). A `Table` is returned as it is.

    Examples
    --------
    >>> table = as_table({"height": [1.7, 1.8], "name": ["Ada", "Max"]})
    >>> list(table.frame.columns), table.source
    (['height', 'name'], 'dict of columns')
    """
    if isinstance(obj, Table):
        return obj
    frame = as_frame(obj)
    if not is_marked(frame):  # rows of a file keep their labels, by which their lines are found
        frame.index = pd.RangeIndex(len(frame))
    library = type(obj).__module__.partition(".")[0]
    source = "dict of columns" if isinstance(obj, dict) else f"{library}.{type(obj).__name__}"
    return Table(frame, source, (), frame_fingerprint(frame))


def as_frame(obj: TableLike) -> pd.DataFrame:
    """Return a new pandas frame over the same values, with unique text column names."""
    if isinstance(obj, Table):
        obj = obj.frame
    frame = _convert_to_pandas(obj)
    names = [str(name) for name in frame.columns]
    check_unique(names, where="The table")
    frame.columns = pd.Index(names, dtype=object)
    return frame


def _convert_to_pandas(obj: TableLike) -> pd.DataFrame:
    if isinstance(obj, pd.DataFrame):
        return _make_plain_dtypes(obj.copy(deep=False))
    if isinstance(obj, np.ndarray):
        return _read_array(obj)
    if isinstance(obj, Mapping):
        return _read_columns_of_mapping(obj)
    try:
        eager = nw.from_native(cast(IntoDataFrame, obj), eager_only=True)
    except TypeError as error:
        advice = " Call .collect() on a lazy frame first." if type(obj).__name__ == "LazyFrame" else ""
        raise InvalidInput(
            f"Cannot read a {type(obj).__name__} as a table; expected a pandas or polars frame, a pyarrow "
            f"table, a dict of columns or a 2D numpy array.{advice}"
        ) from error
    return frame_from_arrow(eager.to_arrow())


def _make_plain_dtypes(frame: pd.DataFrame) -> pd.DataFrame:
    for position, dtype in enumerate(frame.dtypes):
        if isinstance(dtype, pd.ArrowDtype):
            frame.isetitem(position, make_plain_column(frame.iloc[:, position]).array)
    return frame


def _read_array(array: np.ndarray) -> pd.DataFrame:
    if array.dtype.names is not None and array.ndim == 1:
        return pd.DataFrame({name: array[name] for name in array.dtype.names})
    if array.ndim != 2:
        raise InvalidInput(
            f"Expected a 2D array, one row per observation. Got {array.ndim}D, shape {array.shape}. Reshape "
            "a single row with X.reshape(1, -1), a single column with X.reshape(-1, 1)."
        )
    frame = pd.DataFrame(array, columns=[f"x{j}" for j in range(array.shape[1])], copy=False)
    return frame.infer_objects() if array.dtype == object else frame


def _read_columns_of_mapping(columns: Mapping[str, object]) -> pd.DataFrame:
    lengths: dict[str, object] = {}
    for name, values in columns.items():
        lengths[str(name)] = len(values) if np.ndim(values) else "one value"  # type: ignore[arg-type]
    if len(set(lengths.values())) > 1 or "one value" in lengths.values():
        listed = ", ".join(f"{name!r}: {n}" for name, n in list(lengths.items())[:10])
        raise InvalidInput(f"A dict of columns needs columns of equal length. Got lengths {{{listed}}}.")
    return pd.DataFrame(dict(columns))


def check_unique(names: Sequence[str], *, where: str, hint: str = "") -> None:
    """Raise with every name that occurs more than once, and its positions (from 1)."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if not repeated:
        return
    listed = []
    for name in repeated[:5]:
        positions = [str(i) for i, other in enumerate(names, start=1) if other == name]
        listed.append(f"{name!r} (columns {', '.join(positions[:10])})")
    more = f" and {len(repeated) - 5} more" if len(repeated) > 5 else ""
    raise InvalidInput(
        f"{where} has duplicate column names: {'; '.join(listed)}{more}. Expected each name once: rename or "
        f"remove the repeated columns.{hint}"
    )


def frame_fingerprint(frame: pd.DataFrame) -> str:
    """Return the SHA-256 of a frame's names, types and values."""
    digest = hashlib.sha256(repr([(str(n), str(t)) for n, t in frame.dtypes.items()]).encode())
    for _, column in frame.items():
        try:
            hashes = pd.util.hash_pandas_object(column, index=False)
        except TypeError:  # cells that cannot be hashed: lists, dicts
            hashes = pd.util.hash_pandas_object(column.map(repr), index=False)
        digest.update(hashes.to_numpy().tobytes())
    return digest.hexdigest()
