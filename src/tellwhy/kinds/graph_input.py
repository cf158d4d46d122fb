"""Nodes to judge in their context, and the latent classes that neighbours share.

A grid, a table in the order of time, or a table with edges becomes rows, what is around each, and what to
call it; latent classes are fitted to them, as many as the data tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from tellwhy import checks as quality
from tellwhy.checks.in_time.clock import Stamps, read_stamps
from tellwhy.checks.in_time.series import find_events, tell_seasons, without_cells
from tellwhy.checks.in_time.spikes import around
from tellwhy.checks.mistakes import PASSING_SHIFT, PLACEHOLDER
from tellwhy.core.arrays import Scaling
from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import (
    Fit,
    Rules,
    are_texts,
    generator,
    integer,
    none,
    one_of,
    real,
    seed,
    validate_parameters,
)
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table, TableEncoder
from tellwhy.data.columns.reading import Role
from tellwhy.data.columns.roles import ReadColumns, read_columns
from tellwhy.data.graph_files import join_nearest, read_edges, read_graph, read_grid, read_near
from tellwhy.data.graphs import Graph, chain, from_edges, grid
from tellwhy.data.table import TableLike
from tellwhy.detectors import LCCAD, suggest_lccad
from tellwhy.detectors.lccad.theta import spread_of, take_middle_part
from tellwhy.detectors.map_inference.field import Labels
from tellwhy.kinds.request import check_column, write_cell
from tellwhy.kinds.table_rows import check_has_columns, read_as_roles, read_source, take_as_named
from tellwhy.results.notice import Notice
from tellwhy.results.result import Finding
from tellwhy.verdicts.findings import RowFindings


@dataclass(frozen=True, kw_only=True)
class GraphRequest:
    """Settings of `explain_graph`, checked once.

    Attributes
    ----------
    time
        Column by which rows are ordered: each is the neighbour of the next.
    edges
        File with the two ends of each edge, as 0-based row numbers, or names in `id_column`; a networkx graph
        or a matrix of scipy; or `"near:X,Y"`: each row and the six nearest by these columns, which are then
        no features (`"near:X,Y:10"`: the ten nearest; `"near"` takes the places of GeoJSON).
    id_column
        Column that names rows; it is no feature.
    neighbours
        4 or 8 in a plane (in a volume: in each slice), 6 or 26 in a volume; None for 4 or 6.
    n_classes
        Number of latent classes, or None to find it.
    theta
        Weight of values against context, or None to find it.
    top, alarms, contamination, fdr, columns, exclude, random_state
        As in `Request`.
    """

    time: str | None = None
    edges: str | Path | None = None
    id_column: str | None = None
    neighbours: int | None = None
    n_classes: int | None = None
    theta: float | None = None
    top: int = 10
    alarms: int | None = None
    contamination: float | None = None
    fdr: float | None = None
    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    random_state: int = 0

    _parameters: ClassVar[dict[str, Rules]] = {
        "neighbours": (none, one_of(4, 8, 6, 26)),
        "n_classes": (none, integer(1, 127)),
        "theta": (none, real(0, 1, closed="both")),
        "top": integer(1, 10_000),
        "alarms": (none, integer(1)),
        "contamination": (none, real(0, 0.5, closed="right")),
        "fdr": (none, real(0, 1)),
        "random_state": seed,
    }

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> GraphRequest:
        """Check settings once; the file of edges is kept by its name, a graph by that of its class."""
        asked = dict(settings)
        if asked.get("edges") is not None:
            asked["edges"] = name_edges(asked["edges"])
        return cls(**asked)

    def __post_init__(self) -> None:
        validate_parameters(self)

    def _require(self) -> Iterator[Fit]:
        yield "top", self.top >= 1, True  # what else may be in it was checked when it was made


def name_edges(edges: Any) -> str:
    """What a request keeps of edges: the name of their file, or of the class of a graph.

    Examples
    --------
    >>> from scipy.sparse import eye_array
    >>> name_edges("friends.csv"), name_edges(eye_array(3))
    ('friends.csv', 'a dia_array')
    """
    return str(edges) if isinstance(edges, (str, Path)) else f"a {type(edges).__name__}"


@dataclass(frozen=True, eq=False)
class NodeCode:
    """How rows became comparable numbers, so that others become numbers likewise.

    Attributes
    ----------
    table_columns
        All columns of the table, or the arrays of a grid that are used.
    encoder, roles
        Of a table: how its columns become numbers, and what each of them is.
    scaling
        Of a grid: centre and spread of each array.
    """

    table_columns: tuple[str, ...]
    encoder: TableEncoder | None = None
    roles: Mapping[str, Role] = field(default_factory=dict)
    scaling: Scaling | None = None

    def _require(self) -> Iterator[Fit]:
        yield "table_columns", are_texts(*self.table_columns), True
        yield "encoder", (self.encoder is None) != (self.scaling is None), True
        yield "roles", all(isinstance(role, Role) for role in self.roles.values()), True


class Learned(Protocol):
    """What is asked of a model where other nodes are read as its own were."""

    @property
    def source(self) -> str:
        """What it was fitted to."""

    @property
    def code(self) -> NodeCode:
        """How its own became numbers."""


@dataclass(frozen=True, eq=False)
class NodeData:
    """Rows in the user's units (`frame`) and as comparable numbers (`X`), in the order of the graph's nodes.

    `owner[t]` is the column of `frame` that column t of `X` was made from; `names[i]` is what to call node i.
    """

    kind: str  # "grid" | "time" | "edges"
    frame: pd.DataFrame
    X: NDArray[Any]
    owner: Integers
    graph: Graph
    rows: Integers  # 0-based data row of each node
    names: Callable[[int], str]  # what a node is called
    source: str
    said: tuple[Notice, ...]
    fingerprint: str
    found: RowFindings  # what is wrong with the nodes as data; explained cells are missing in `frame`
    written: pd.DataFrame  # the nodes before that
    code: NodeCode  # how X was made of it
    seasonal: frozenset[str] = frozenset()  # columns that are compared with what their time usually has


def read_nodes(
    data: str | Path | TableLike,
    request: GraphRequest,
    learned: Learned | None = None,
    edges: Any = None,
) -> NodeData:
    """Read a grid from an .npz file, or rows from a table with a time column, or with edges.

    With a model, columns are read and become numbers as those of its own nodes did. Edges that are no file
    are given beside the request.
    """
    if request.time is not None and request.edges is not None:
        raise InvalidInput("Give either time or edges: rows are a sequence, or have edges of their own.")
    if request.time is None and request.edges is None:
        return _read_grid_nodes(data, request, learned)
    return _read_table_nodes(read_source(data), request, learned, edges)


def _read_grid_nodes(path: Any, request: GraphRequest, learned: Learned | None) -> NodeData:
    columns = request.columns if learned is None else learned.code.table_columns
    found = read_grid(path, columns=columns)
    kept = {n: a for n, a in found.arrays.items() if n not in request.exclude}
    if not kept:
        raise InvalidInput(f"No array of {found.source} is left to use; check columns and exclude.")
    stacked = np.column_stack([a.reshape(-1) for a in kept.values()])
    values = stacked if stacked.dtype == np.float32 else stacked.astype(np.float64)
    there = np.isfinite(values).all(axis=1)
    written = pd.DataFrame(values, columns=list(kept))
    placeholders = _find_placeholders(written, there)
    values = _fill_placeholders(values, written, placeholders)
    if not there.any():
        raise InvalidInput(f"Every node of {found.source} has a value that is missing or infinite.")
    said = list(found.said)
    if not there.all():
        said.append(Notice("nodes_left_out", {"n": int((~there).sum())}))
    neighbours = request.neighbours or (4 if len(found.shape) == 2 else 6)
    known = None if learned is None else learned.code.scaling
    scaling = Scaling.of(values[there], constant=1.0) if known is None else known
    return NodeData(
        kind="grid",
        frame=pd.DataFrame(values, columns=list(kept)),
        # Large grids come in single precision, and stay so: they would not fit otherwise.
        X=scaling.apply(values).astype(values.dtype),
        owner=np.arange(values.shape[1]),
        graph=grid(found.shape, neighbours, mask=there),
        rows=np.arange(len(values)),
        names=partial(_place, found.shape),
        source=found.source,
        said=tuple(said),
        fingerprint=found.fingerprint,
        found=RowFindings.of(placeholders, len(values)),
        written=written,
        code=NodeCode(tuple(kept), scaling=scaling),
    )


def _find_placeholders(frame: pd.DataFrame, there: NDArray[np.bool_]) -> list[quality.Finding]:
    """Placeholders among the nodes that are there: one of them would make a class of its own of its nodes."""
    places = np.flatnonzero(there)
    if len(places) < 2:
        return []
    found = quality.check_table(frame.iloc[places]).findings
    return [
        replace(finding, rows=tuple(places[list(finding.rows)].tolist()))
        for finding in found
        if finding.kind == PLACEHOLDER.kind and finding.surprise > 0
    ]


def _fill_placeholders(
    values: NDArray[Any], frame: pd.DataFrame, placeholders: Sequence[quality.Finding]
) -> NDArray[Any]:
    """Put the middle value of a column where it has a placeholder."""
    if not placeholders:
        return values
    filled = values.copy()
    for finding in placeholders:
        column = frame.columns.get_loc(finding.columns[0])
        rows = list(finding.rows)
        filled[rows, column] = np.nanmedian(np.delete(values[:, column], rows))
    return filled


def _place(shape: tuple[int, ...], node: int) -> str:
    """Name a node of a grid by its place: '(3, 17)'."""
    return "(" + ", ".join(str(int(i)) for i in np.unravel_index(node, shape)) + ")"


def _read_table_nodes(table: Table, request: GraphRequest, learned: Learned | None, edges: Any) -> NodeData:
    near = read_near(request.edges, list(map(str, table.frame.columns)))
    chosen = [name for name in _choose_features(table, request) if near is None or name not in near.columns]
    stamps = Stamps(np.arange(len(table.frame)), None)
    if request.time is not None:
        stamps = read_stamps(table, request.time)
    order = stamps.order
    read = _read(table, chosen, learned)
    written = read.frame.iloc[order].reset_index(drop=True)
    checked = quality.check_table(written, read.roles)
    ids = _name_nodes(table, request, order)
    names = [str(int(row)) for row in order] if ids is None else ids
    frame = checked.frame
    found = RowFindings.of(checked.findings, len(frame))
    said = [*table.said, *stamps.said, *read.said]
    seasonal: frozenset[str] = frozenset()
    if request.time is not None:
        events = find_events(frame, stamps, names.__getitem__)
        frame = without_cells(frame, events.findings)
        found = found.with_more(events.findings)
        told = [each for each in events.said if each not in stamps.said]
        said += [*told, *tell_seasons(events)]
        seasonal = frozenset(events.seasons)
    encoder = None if learned is None else learned.code.encoder
    if encoder is None:
        named = None if request.columns is None else chosen
        encoder = TableEncoder(missing="impute", columns=named, roles=take_as_named(read, named)).fit(frame)
        said += encoder.said_
    X = np.asarray(encoder.transform(frame))
    graph: Graph = chain(len(X))
    if near is not None:
        graph = join_nearest(table, near)
    elif request.edges is not None and not isinstance(edges, (str, Path, type(None))):
        graph = read_graph(edges, ids, len(X))
    elif request.edges is not None:
        graph = from_edges(read_edges(request.edges, ids, len(X)), len(X))
    return NodeData(
        kind="time" if request.time is not None else "edges",
        frame=frame[encoder.columns_],
        X=X,
        owner=encoder.owner_,
        graph=graph,
        rows=order,
        names=names.__getitem__,
        source=table.source,
        said=tuple(said),
        fingerprint=table.fingerprint,
        found=found,
        written=written,
        code=NodeCode(tuple(map(str, table.frame.columns)), encoder, read.roles),
        seasonal=seasonal,
    )


def _read(table: Table, chosen: list[str], learned: Learned | None) -> ReadColumns:
    """Read columns as their cells say, or as those of a model were read."""
    if learned is None:
        return read_columns(table.frame[chosen])
    if learned.code.encoder is None:
        raise InvalidInput(f"{table.source} is a table; the model was fitted on a grid ({learned.source}).")
    check_has_columns(table, learned.code.encoder.columns_, learned.code.table_columns, learned.source)
    return read_as_roles(table, learned.code.roles)


def _choose_features(table: Table, request: GraphRequest) -> list[str]:
    """Columns to use, after checking that all columns that were asked for exist."""
    asked = [request.time, request.id_column, *(request.columns or ()), *request.exclude]
    for column in asked:
        if column is not None:
            check_column(table, column)
    others = {request.time, request.id_column, *request.exclude}
    return [column for column in (request.columns or table.frame.columns) if column not in others]


def _name_nodes(table: Table, request: GraphRequest, order: Integers) -> list[str] | None:
    """What each node is called: by its id, else by its time; None where it has neither."""
    named = request.id_column or request.time
    if named is None:
        return None
    return [write_cell(cell) for cell in table.frame[named].iloc[order]]


MOST_CLASSES = 5
NODES_OF_A_CLASS = 4  # at least, on average, of as many classes as are tried
SAME = 1.1  # times as wide as before, within the classes, columns are taken to be as they were
_ROUNDS = 4  # of counting classes and of measuring how wide columns are within them


def fit_latent_classes(nodes: NodeData, request: GraphRequest) -> tuple[LCCAD, NDArray[Any]]:
    """Fit twice: with columns of equal spread, then of equal spread within the classes that were found.

    A column that tells the classes apart has most of its spread between them: what is odd within a class
    would hardly count. Returns the model, and what the columns were divided by when it was fitted last.
    """
    n_classes = request.n_classes
    scale = np.ones(nodes.X.shape[1])
    if n_classes is None:
        n_classes, scale = _count_classes(*take_middle_part(nodes.X, nodes.graph), request)
    first = _fit_classes(nodes.X / scale.astype(nodes.X.dtype), nodes.graph, n_classes, request)
    again = _spread(first)
    scale = (scale * again).astype(nodes.X.dtype)
    # From the classes that were found on: in other units, k-means might start elsewhere.
    return _fit_classes(nodes.X / scale, nodes.graph, n_classes, request, init=first.centres_ / again), scale


def _count_classes(X: NDArray[Any], graph: Graph, request: GraphRequest) -> tuple[int, Floats]:
    """Number of classes, and the spread of columns within them by which it was found.

    Columns of equal spread over all nodes hide classes that one column tells and others do not. Classes that
    were found tell the spread within them, and with columns of equal spread there more may be found. The
    criterion by which numbers of classes are compared is that of a density: in other units it is another one
    by a known number, so that all rounds can be compared.
    """
    most = min(MOST_CLASSES, max(1, len(X) // NODES_OF_A_CLASS))
    n_nodes = len(X) if graph.mask is None else int(graph.mask.sum())
    scale = np.ones(X.shape[1])
    best = np.inf
    chosen = (1, scale)
    for _ in range(_ROUNDS):
        scaled = X / scale.astype(X.dtype)
        found = suggest_lccad(scaled, graph, max_classes=most, random_state=request.random_state)
        criterion = min(c.criterion for c in found.candidates) + 2 * n_nodes * float(np.log(scale).sum())
        if criterion >= best:
            break
        best = criterion
        chosen = (found.n_classes, scale)
        again = _spread(_fit_classes(scaled, graph, found.n_classes, request))
        if again.max() <= SAME * again.min():
            break
        scale = scale * again
    return chosen


def _spread(model: LCCAD) -> Floats:
    """Spread of each column within the classes; 1 for columns that have none."""
    there = model.labels_ >= 0
    spread = spread_of(model.training_X_[there] - model.centres_[model.labels_[there]])
    return np.where(spread > 0, spread, 1.0)


def _fit_classes(X: NDArray[Any], graph: Graph, n_classes: int, request: GraphRequest, **start: Any) -> LCCAD:
    theta: str | float = "auto" if request.theta is None else request.theta
    seed = int(generator(request.random_state).integers(2**31 - 1))
    return LCCAD(n_classes, theta, random_state=seed, **start).fit(X, graph)


KNOWN = 0.05  # of all rows, that are elsewhere in the class of a visit
EXPLAINED = 0.5  # of a shift, that is there in its class anyway


def drop_visits(nodes: NodeData, labels: Labels) -> NodeData:
    """Drop the passing shifts that are visits of a class which many rows are in elsewhere."""
    kept = [finding for finding in nodes.found.findings if not _is_visit(finding, nodes, labels)]
    if len(kept) == len(nodes.found.findings):
        return nodes
    return replace(nodes, found=RowFindings.of(kept, len(nodes.found.added)))


def _is_visit(finding: Finding, nodes: NodeData, labels: Labels) -> bool:
    name = finding.columns[0] if finding.columns else ""
    if finding.kind != PASSING_SHIFT.kind or name in nodes.seasonal:
        return False
    if name not in nodes.frame or not is_numeric_dtype(nodes.frame[name]):
        return False
    rows = np.array(finding.rows)
    own = int(np.bincount(labels[rows]).argmax())
    elsewhere = np.setdiff1d(np.flatnonzero(labels == own), _visit(rows, labels, own))
    if len(elsewhere) < KNOWN * len(labels):
        return False
    values = nodes.frame[name].to_numpy(dtype=np.float64)
    return _measure_left(values, rows, elsewhere) < EXPLAINED


def _visit(rows: Integers, labels: Labels, own: int) -> Integers:
    """Rows of a stretch, and those before and after it that are in the same class without a break."""
    start = int(rows.min())
    end = int(rows.max()) + 1
    while start > 0 and labels[start - 1] == own:
        start -= 1
    while end < len(labels) and labels[end] == own:
        end += 1
    return np.arange(start, end)


def _measure_left(values: Floats, rows: Integers, elsewhere: Integers) -> float:
    """Part of a shift that is left if the stretch is compared with its class in place of what is around."""
    level = float(pd.Series(values[rows]).mean())
    off = level - around(values, int(rows.min()), int(rows.max()) + 1)
    usual = float(pd.Series(values[elsewhere]).median())
    return abs(level - usual) / abs(off) if off else np.inf
