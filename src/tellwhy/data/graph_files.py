"""Grids and edges as people have them in files."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.data.graphs import Graph, as_graph, from_edges, knn_graph
from tellwhy.data.reading.bytes import file_fingerprint
from tellwhy.data.sources import read_table
from tellwhy.data.table import Table
from tellwhy.results.notice import Notice, say_all
from tellwhy.storage.documents import load_arrays

# What numpy and zipfile raise for files that are cut, overwritten or made up.
_DAMAGES = (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile, zlib.error)


@dataclass(frozen=True, eq=False)
class GridArrays:
    """Arrays of one shape by name, from a file."""

    arrays: dict[str, NDArray[Any]]
    shape: tuple[int, ...]
    source: str
    said: tuple[Notice, ...]
    fingerprint: str

    @property
    def notices(self) -> tuple[str, ...]:
        """Which arrays were left out and why, one sentence each."""
        return tuple(say_all(self.said))


def read_grid(path: str | os.PathLike[str], *, columns: Sequence[str] | None = None) -> GridArrays:
    """Read the arrays of an .npz file that share a shape of two or three axes: one feature each.

    Parameters
    ----------
    path
        The file, as `numpy.savez` writes it; or an .npy file, whose array is named after the file.
    columns
        Names of the arrays to use; by default all of the most common shape (the larger one where it is a
        draw).

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/cube.npz"
    >>> np.savez(path, AI=np.ones((4, 5)), SI=np.zeros((4, 5)), note=np.arange(3))
    >>> found = read_grid(path)
    >>> list(found.arrays), found.shape, found.notices
    (['AI', 'SI'], (4, 5), ("Left out 'note': its shape is (3,), the grid's is (4, 5).",))
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput("A grid is one .npz or .npy file; got a table. Name the file alone, without --db.")
    stored = _read_arrays(Path(path))
    missing = [name for name in columns or () if name not in stored]
    if missing:
        raise InvalidInput(
            f"{path} has no array {missing[0]!r}. Its arrays are: {', '.join(map(repr, stored))}."
        )
    asked = stored if columns is None else {name: stored[name] for name in columns}
    usable = {n: a for n, a in asked.items() if a.ndim in (2, 3) and a.dtype.kind in "biuf" and a.size}
    if not usable:
        shapes = ", ".join(f"{n} {a.shape} {a.dtype}" for n, a in list(asked.items())[:10])
        raise InvalidInput(
            f"{path} holds no array of numbers with two or three axes; expected a grid. Got: {shapes}."
        )
    counts = Counter(a.shape for a in usable.values())
    shape = max(counts, key=lambda s: (counts[s], np.prod(s)))
    kept = {n: a for n, a in usable.items() if a.shape == shape}
    said = tuple(_tell_why_left_out(n, a, shape) for n, a in asked.items() if n not in kept)
    return GridArrays(kept, shape, str(path), said, file_fingerprint(Path(path)))


def compute_grid_fingerprint(path: str | os.PathLike[str]) -> str:
    """SHA-256 of the file of a grid."""
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput("A grid is one .npz or .npy file; got a table. Name the file alone, without --db.")
    if not Path(path).is_file():
        raise UnreadableFile(f"There is no file {path}.")
    return file_fingerprint(Path(path))


def _tell_why_left_out(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> Notice:
    if array.shape != shape:
        return Notice("array_of_other_shape", {"name": name, "shape": [*array.shape], "grid": [*shape]})
    return Notice("array_of_no_numbers", {"name": name, "type": str(array.dtype)})


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return load_arrays(path)
    except FileNotFoundError as error:
        raise UnreadableFile(f"There is no file {path}.") from error
    except _DAMAGES as error:
        raise UnreadableFile(
            f"{path} cannot be read as arrays of numbers ({error or type(error).__name__}). A grid is an "
            ".npz file, as numpy.savez writes it, with one array per feature, or an .npy file with a "
            "single one."
        ) from error


NEAREST = 6
PLACES = ("longitude", "latitude")  # of GeoJSON
_EARTH = {"lat": 90.0, "lon": 180.0, "lng": 180.0}  # how columns of degrees begin, and how far these go


@dataclass(frozen=True)
class Near:
    """Columns that say where rows are, and how many of the nearest are neighbours."""

    columns: tuple[str, ...]
    k: int


def read_near(edges: str | os.PathLike[str] | None, names: Sequence[str]) -> Near | None:
    """Read `near`, `near:X,Y` or `near:X,Y:10`; None for the name of a file.

    Examples
    --------
    >>> read_near("near:east,north:4", ["east", "north", "rent"])
    Near(columns=('east', 'north'), k=4)
    >>> read_near("edges.csv", ["east"])
    """
    told = str(edges).split(":")
    if told[0] != "near" or edges is None:
        return None
    columns = tuple(part.strip() for part in told[1].split(",")) if len(told) > 1 else PLACES
    absent = [name for name in columns if name not in names]
    if absent or len(told) > 3 or not (told[2:] or ["1"])[0].isdigit() or (told[2:] or ["1"])[0] == "0":
        wrong = f"there is no column {absent[0]!r}" if absent else f"got {edges}"
        raise InvalidInput(
            "Edges to the nearest rows are asked for by near:COLUMN,COLUMN or near:COLUMN,COLUMN:NUMBER; "
            f"{wrong}. The columns are {', '.join(map(repr, list(names)[:12]))}."
        )
    return Near(columns, int(told[2]) if len(told) > 2 else NEAREST)


def join_nearest(table: Table, near: Near) -> Graph:
    """Join each row with the nearest ones; rows without a place have no neighbours.

    Columns called latitude and longitude are degrees on the globe.
    """
    frame = table.frame[list(near.columns)]
    places = frame.apply(pd.to_numeric, errors="coerce").to_numpy(dtype=np.float64)
    there = np.flatnonzero(np.isfinite(places).all(axis=1))
    if len(there) <= near.k:
        raise InvalidInput(
            f"{table.source} has {len(there):,} rows with numbers in {' and '.join(near.columns)}; expected "
            f"more than the {near.k} neighbours of each."
        )
    pairs = knn_graph(_place_on_globe(places[there], near.columns), near.k).edges()
    return from_edges(there[pairs], len(places))


def _place_on_globe(places: NDArray[np.float64], columns: Sequence[str]) -> NDArray[np.float64]:
    """Points of the globe in space, where columns are latitude and longitude; else the places as they are."""
    starts = [name.lower().rpartition(".")[2][:3] for name in columns]
    if len(columns) != 2 or sorted({"lng": "lon"}.get(start, start) for start in starts) != ["lat", "lon"]:
        return places
    if any((np.abs(axis) > _EARTH[start]).any() for axis, start in zip(places.T, starts, strict=True)):
        return places
    angles = np.radians(places)
    latitude = angles[:, starts.index("lat")]
    longitude = angles[:, 1 - starts.index("lat")]
    across = np.cos(latitude)
    return np.column_stack([across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)])


def read_graph(edges: Any, ids: Sequence[str] | None, n_rows: int) -> Graph:
    """Read a graph of networkx, whose nodes are named as rows are, or what `as_graph` takes."""
    if ids is None or not (hasattr(edges, "nodes") and hasattr(edges, "edges")):
        return as_graph(edges, n_rows)
    place = {name: row for row, name in enumerate(ids)}
    strange = [node for node in edges.nodes if str(node) not in place]
    if strange:
        raise InvalidInput(
            f"The graph has the node {strange[0]!r}, which no row of the data has as its id "
            f"({len(strange):,} such nodes in all)."
        )
    pairs = [sorted((place[str(edge[0])], place[str(edge[1])])) for edge in edges.edges]
    return from_edges(sorted({tuple(pair) for pair in pairs if pair[0] != pair[1]}), n_rows)


def read_edges(path: str | os.PathLike[str], ids: Sequence[str] | None, n_rows: int) -> NDArray[np.int64]:
    """Read pairs of rows from the first two columns of a table.

    Parameters
    ----------
    path
        The table of edges.
    ids
        Name of each row of the data, in which the edges are given; None where they are 0-based row numbers.
    n_rows
        Number of rows of the data.
    """
    table = read_table(path)
    if table.frame.shape[1] < 2:
        raise InvalidInput(f"{path} has {table.frame.shape[1]} column; expected two, the ends of each edge.")
    if ids is None:
        return np.column_stack([_read_row_numbers(table, c, n_rows) for c in range(2)])
    place = {name: row for row, name in enumerate(ids)}
    if len(place) < len(ids):
        raise InvalidInput("Two rows have the same id; edges cannot tell them apart.")
    return np.column_stack([_find_named_rows(table, c, place) for c in range(2)])


def _read_row_numbers(table: Table, column: int, n_rows: int) -> NDArray[np.int64]:
    cells = table.frame.iloc[:, column]
    name = table.frame.columns[column]
    try:
        numbers = cells.to_numpy(dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"Column {name!r} of {table.source} holds text; expected 0-based row numbers. To give edges by "
            "name, say which column of the data holds the names with --id."
        ) from error
    wrong = ~((numbers >= 0) & (numbers < n_rows) & (numbers % 1 == 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInput(
            f"Row {row} of {table.source} names {cells.iloc[row]} in column {name!r}; expected a row number "
            f"of the data from 0 to {n_rows - 1}."
        )
    return numbers.astype(np.int64)


def _find_named_rows(table: Table, column: int, place: dict[str, int]) -> NDArray[np.int64]:
    # A column of whole numbers with a gap is read as floats: the name 30 would become 30.0.
    cells = [
        str(int(c)) if isinstance(c, float) and c.is_integer() else str(c)
        for c in table.frame.iloc[:, column]
    ]
    for row, name in enumerate(cells):
        if name not in place:
            raise InvalidInput(
                f"Row {row} of {table.source} names {name!r}, which no row of the data has as its id."
            )
    return np.array([place[name] for name in cells], dtype=np.int64)
