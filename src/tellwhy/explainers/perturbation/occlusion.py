"""Occlusion: how much a score falls when one column, or a patch of an input, takes other values.

Windows are moved over an input; changed inputs are composed where the model computes; each cell gets its part
of what the windows found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.arrays import list_columns
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.params import Rule, Rules, Seed, generator, integer, none, one_of, seed
from tellwhy.core.progress import track
from tellwhy.core.running import cut_batches, track_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.data.pieces import find_spatial_axes
from tellwhy.explainers.base import BackgroundExplainer
from tellwhy.explainers.rows import (
    BATCH_PARAMETERS,
    Attribution,
    Groups,
    Rows,
    average_rows,
    find_players,
    groups_rule,
    read_replacement_row,
)
from tellwhy.scoring import NetworkOutput
from tellwhy.scoring.function_scores import FlatScore


class Canvas:
    """One row of those that are explained; `scores` asks the model about mixtures of it and something else.

    Inputs of a network are put together on its device, batch by batch: only which cells are kept travels.
    """

    def __init__(self, rows: Rows, number: int):
        self.x = rows.X[number]
        self._score = rows.score
        self._own = tuple(each[number] for each in rows.without)
        self._network = _find_network_of(rows.score)
        self._there: Any = None if self._network is None else self._network.place(self._shaped(self.x[None]))

    def scores(self, keep: NDArray[np.bool_], fill: Floats, pieces: Integers | None = None) -> Floats:
        """Score of each mixture: the row where `keep` says so, elsewhere `fill`, (d,) or (m, d).

        `keep` tells it of each cell, (m, d); or of each piece, (m, n_pieces), where `pieces` holds the piece
        of each cell.
        """
        found = np.empty(len(keep))
        for part in self._parts(len(keep)):
            own = tuple(np.full(len(keep[part]), each) for each in self._own)
            some = fill[part] if fill.ndim > 1 else fill
            # Spread over the cells a few mixtures at a time: all at once would take most of the time.
            cells = keep[part] if pieces is None else np.take(keep[part], pieces, axis=1)
            found[part] = self._value(cells, some, own)
        return found

    def _parts(self, n: int) -> list[slice]:
        if self._network is None:
            return cut_batches(n, 24 * len(self.x))
        size = self._network.batch_size
        return [slice(start, start + size) for start in range(0, n, size)]

    def _value(self, keep: NDArray[np.bool_], fill: Floats, own: tuple[Any, ...]) -> Floats:
        if self._network is None:
            return np.asarray(self._score.value(np.where(keep, self.x, fill), *own))
        import torch

        there = torch.as_tensor(self._shaped(keep), device=self._there.device)
        other = self._network.place(self._shaped(fill if fill.ndim > 1 else fill[None]))
        return np.asarray(self._network.value(torch.where(there, self._there, other), *own))

    def _shaped(self, flat: Any) -> Any:
        return np.ascontiguousarray(flat).reshape(len(flat), *self._score.shape)


def _find_network_of(score: Any) -> NetworkOutput | None:
    """The network behind a score of flat rows; None for other models, and for tokens, which are not mixed."""
    if type(score) is not FlatScore or not isinstance(score.inner, NetworkOutput):
        return None
    return None if score.inner.has_levels else score.inner


def describe_baseline(given: Any) -> dict[str, Any]:
    """A baseline as an explanation is saved with it."""
    return {} if isinstance(given, str) or np.ndim(given) == 0 else {"baseline": "given values"}


def input_shape(rows: Rows, name: str) -> tuple[int, ...]:
    """Shape of one input that windows move over; encoded tables have none."""
    if rows.n_owners != rows.X.shape[1] or not np.array_equal(rows.owner, np.arange(rows.n_owners)):
        raise InvalidInput(
            f"{name} moves patches over pictures, sequences and other arrays; the columns here are made from "
            f"{rows.n_owners} columns of a table by an encoding. Leave 'patch_size' out."
        )
    return rows.input_shape


Sizes = int | Sequence[int] | None


def _is_sizes(value: object) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) > 0
        and all(isinstance(v, (int, np.integer)) and v >= 1 for v in value)
    )


def _is_axes(value: object) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(v, (int, np.integer)) for v in value)


WINDOW_PARAMETERS: dict[str, Rules] = {
    "patch_size": (none, integer(1), Rule("a size of at least 1 for each axis", _is_sizes)),
    "stride": (none, integer(1), Rule("a step of at least 1 for each axis", _is_sizes)),
    "axes": (none, Rule("axes of one input", _is_axes)),
}


@dataclass(frozen=True)
class PatchWindows:
    """PatchWindows of one size on inputs of one shape; those at the far edges are moved back inside.

    Attributes
    ----------
    shape
        Of one input.
    starts
        First place of each window along each axis, shape (n_windows, n_axes).
    sizes
        Length along each axis: the whole axis where windows are not moved along it.
    """

    shape: tuple[int, ...]
    starts: NDArray[np.int64]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.starts)

    def cells(self, part: slice) -> NDArray[np.bool_]:
        """Which cells some of the windows cover, shape (windows, cells)."""
        starts = self.starts[part]
        covered = np.ones((len(starts), *[1] * len(self.shape)), dtype=bool)
        for axis, (length, size) in enumerate(zip(self.shape, self.sizes, strict=True)):
            place = np.arange(length)
            first = starts[:, axis, None]
            inside = (place >= first) & (place < first + size)
            along = [1] * len(self.shape)
            along[axis] = length
            covered = covered & inside.reshape(len(starts), *along)
        return covered.reshape(len(starts), -1)

    def around(self, number: int, margin: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Cells of one window, and those that surround it up to a margin along the axes it moves on."""
        inside = np.zeros(self.shape, dtype=bool)
        near = np.zeros(self.shape, dtype=bool)
        start = self.starts[number]
        inside[tuple(slice(s, s + n) for s, n in zip(start, self.sizes, strict=True))] = True
        near[
            tuple(slice(max(0, s - margin), s + n + margin) for s, n in zip(start, self.sizes, strict=True))
        ] = True
        return inside.ravel(), (near & ~inside).ravel()

    def per_cell(self, found: Floats) -> Floats:
        """Give each cell the mean, over the windows that cover it, of its even share of what they found.

        `found` has one number per window; the shares of one that overlaps with none add up to its number.
        """
        size = int(np.prod(self.sizes))
        counts = self._added(np.ones(len(self)))
        return np.divide(
            self._added(found / size), counts, out=np.zeros(int(np.prod(self.shape))), where=counts > 0
        )

    def error_per_cell(self, errors: Floats) -> Floats:
        """The same for independent standard errors of the windows."""
        size = int(np.prod(self.sizes))
        counts = self._added(np.ones(len(self)))
        spread = np.sqrt(self._added(np.square(errors / size)))
        return np.divide(spread, counts, out=np.zeros_like(spread), where=counts > 0)

    def _added(self, found: Floats) -> Floats:
        total = np.zeros(self.shape)
        for start, number in zip(self.starts, found, strict=True):
            total[tuple(slice(s, s + n) for s, n in zip(start, self.sizes, strict=True))] += number
        return total.ravel()


def windows(
    shape: tuple[int, ...], patch_size: Sizes, stride: Sizes = None, axes: Sequence[int] | None = None
) -> PatchWindows:
    """PatchWindows of a size, moved by a stride, over inputs of a shape.

    Parameters
    ----------
    shape
        Of one input.
    patch_size
        Length along each of `axes`; one number stands for all of them; None: single cells of those axes.
    stride
        Step along each of them; None: the size of the patch, so that windows do not overlap.
    axes
        Axes that windows move along; by default those of a picture's places (channels come first or last), of
        a sequence its one axis. All other axes are covered as a whole.

    Examples
    --------
    >>> windows((1, 4, 5), (2, 3)).starts.tolist()
    [[0, 0, 0], [0, 0, 2], [0, 2, 0], [0, 2, 2]]
    """
    chosen = find_spatial_axes(shape) if axes is None else tuple(int(a) % len(shape) for a in axes)
    if (
        len(set(chosen)) != len(chosen)
        or not chosen
        or (axes is not None and max(map(abs, axes)) > len(shape))
    ):
        raise InvalidParameter(f"axes={axes!r} do not fit inputs of shape {shape}: name each axis once.")
    sizes = _each(1 if patch_size is None else patch_size, chosen, "patch_size", shape)
    steps = sizes if stride is None else _each(stride, chosen, "stride", shape)
    lengths = list(shape)
    starts: list[list[int]] = [[0] for _ in shape]
    for axis, size, step in zip(chosen, sizes, steps, strict=True):
        lengths[axis] = min(size, shape[axis])
        last = shape[axis] - lengths[axis]
        starts[axis] = sorted({min(place, last) for place in range(0, last + step, step)})
    return PatchWindows(tuple(shape), np.array(list(product(*starts)), dtype=np.int64), tuple(lengths))


def _each(given: int | Sequence[int], axes: Sequence[int], name: str, shape: tuple[int, ...]) -> list[int]:
    """One number for each axis."""
    listed = [given] * len(axes) if isinstance(given, (int, np.integer)) else list(given)
    if len(listed) != len(axes):
        raise InvalidParameter(
            f"{name}={given!r} has {len(listed)} numbers for {len(axes)} axes {tuple(axes)} of inputs of "
            f"shape {shape}: give one number, or one per axis, and say which with axes=…."
        )
    return [int(number) for number in listed]


baseline_rule: Rules = (
    one_of("background"),
    Rule(
        "a number, or an array like one input", lambda value: not isinstance(value, str) and value is not None
    ),
)


class Occlusion(BackgroundExplainer):
    """R_i = o(x) − mean_b o(x with column i taken from background row b), for any score at all.

    One column is replaced at a time, so what several columns cause only together is not attributed; it stays
    in the residual. A negative value says that the column makes the row look more normal. The base value is
    the mean score of the background, which is what a row without any odd column would have.

    Of pictures and other arrays, a patch of `patch_size` is moved over the input. What the score falls by
    is shared evenly by the cells of the patch; a cell under several patches gets the mean of its shares.

    Parameters
    ----------
    model
        Any model or function that `tellwhy.scoring.as_score` reads.
    patch_size
        Size of the patch along each of `axes`; None: one column or cell at a time.
    stride
        Step along each of them; None: the size of the patch, so that patches do not overlap.
    axes
        Axes of one input that the patch moves along, all others being covered as a whole: (0,) with
        patch_size=1 takes one channel of (channels, time) at a time. By default the two axes of a picture, or
        the one of a sequence.
    groups
        Columns or cells that are replaced together: lists of columns, by number or name, or one group number
        for each. What the score falls by is shared evenly by a group's columns;
        `extras["group_values"]` has it as a whole.
    baseline
        What comes into the place of a column or a patch: values of "background" rows, a number, or an array
        like one input. The latter two need no `fit`, and the base value is then the score of the baseline.
    max_background
        Background rows drawn per explanation (fewer where there are fewer).
    random_state
        Seed of that draw.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; None: one, −1: one per core. Results do not depend
        on it.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> background = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = Occlusion(lambda X: (X**2).sum(axis=1)).fit(background)
    >>> explainer.explain(np.array([[0.0, 5.0]])).values.round()
    array([[-1., 24.]])
    >>> picture = np.arange(16.0).reshape(1, 4, 4)
    >>> score = FunctionScore(lambda X: X[:, :2, :2].sum(axis=(1, 2)), feature_shape=(4, 4))
    >>> Occlusion(score, patch_size=2, baseline=0.0).explain(picture).values[0]
    array([[2.5, 2.5, 0. , 0. ],
           [2.5, 2.5, 0. , 0. ],
           [0. , 0. , 0. , 0. ],
           [0. , 0. , 0. , 0. ]])
    """

    calls_in_batches = True
    names_: Sequence[str] | None = None  # of the columns; a given baseline needs no `fit`, which would set it
    _parameters: ClassVar[dict[str, Rules]] = {
        **WINDOW_PARAMETERS,
        "groups": groups_rule,
        "baseline": baseline_rule,
        "max_background": integer(1),
        "random_state": seed,
        **BATCH_PARAMETERS,
    }

    def __init__(
        self,
        model: object,
        *,
        patch_size: Sizes = None,
        stride: Sizes = None,
        axes: Sequence[int] | None = None,
        groups: Groups | None = None,
        baseline: ArrayLike | str = "background",
        max_background: int = 32,
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.patch_size = patch_size
        self.stride = stride
        self.axes = axes
        self.groups = groups
        self.baseline = baseline
        self.max_background = max_background
        self.random_state = random_state

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]
        """Whether background rows come into the place of columns."""
        return isinstance(self.baseline, str)

    def _fit(self, X: ArrayLike) -> None:
        """Draw the background rows."""
        self.names_ = self.score.feature_names or list_columns(X)
        everyone = self.rows(X).X
        chosen = generator(self.random_state).permutation(len(everyone))[: self.max_background]
        # in their own order: the same rows give the same sums, whatever order they were drawn in
        self.background_ = everyone[np.sort(chosen)]

    def _attribute(self, rows: Rows) -> Attribution:
        if self.needs_rows:
            self._check_fitted("background_")
        is_plain = self.patch_size is None and self.stride is None and self.axes is None
        if self.groups is not None:
            if not is_plain:
                raise InvalidParameter(
                    "groups=… says what is replaced together, and so do patch_size, stride and axes. Leave "
                    "either out."
                )
            return self._by_group(rows)
        return self._by_column(rows) if is_plain and self.needs_rows else self._move_window(rows)

    def _move_window(self, rows: Rows) -> Attribution:
        """Move the patch over every row."""
        moved = windows(input_shape(rows, "Occlusion"), self.patch_size, self.stride, self.axes)
        fills = (
            self.background_
            if self.needs_rows
            else read_replacement_row("Occlusion", self.baseline, rows.input_shape)[None]
        )
        scores = rows.scores()
        values = np.empty(rows.X.shape)
        base = np.zeros(len(rows.X))
        parts = cut_batches(len(moved), 2 * rows.X.shape[1])
        for i in track(range(len(rows.X)), len(rows.X), "explaining by occlusion"):
            canvas = Canvas(rows, i)
            fallen = np.empty(len(moved))
            for part in parts:
                keep = ~moved.cells(part)
                fallen[part] = scores[i] - np.mean([canvas.scores(keep, fill) for fill in fills], axis=0)
            values[i] = moved.per_cell(fallen)
            base[i] = np.mean(
                [canvas.scores(np.zeros((1, len(canvas.x)), dtype=bool), fill)[0] for fill in fills]
            )
        return Attribution(values, scores, base, params=describe_baseline(self.baseline))

    def _by_group(self, rows: Rows) -> Attribution:
        """Replace the columns of one group after the other."""
        fills = (
            self.background_
            if self.needs_rows
            else read_replacement_row("Occlusion", self.baseline, rows.input_shape)[None]
        )
        players = find_players(rows, self.groups, self.names_ or self.score.feature_names)
        scores = rows.scores()
        fallen = np.empty((len(rows.X), players.n))
        for batch in track_batches(len(rows.X), 8 * rows.X.shape[1] * len(fills), "explaining by occlusion"):
            for player in range(players.n):
                replaced = _replace(rows, batch, players.of_column == player, fills)
                fallen[batch, player] = scores[batch] - replaced
        return Attribution(
            players.per_column(fallen),
            scores,
            average_rows(rows, fills),
            extras={"group_values": players.group_values(fallen)},
            params={"groups": players.group.tolist(), **describe_baseline(self.baseline)},
            per_owner=True,
        )

    def _by_column(self, rows: Rows) -> Attribution:
        scores = rows.scores()
        values = np.empty((len(rows.X), rows.n_owners))
        bytes_per_row = 8 * rows.X.shape[1] * len(self.background_)
        for batch in track_batches(len(rows.X), bytes_per_row, "explaining by occlusion"):
            for column in range(rows.n_owners):
                occluded = _replace(rows, batch, rows.owner == column, self.background_)
                values[batch, column] = scores[batch] - occluded
        base = average_rows(rows, self.background_)
        return Attribution(values, scores, base, per_owner=True)


def _replace(rows: Rows, batch: slice, columns: NDArray[np.bool_], fills: Floats) -> Floats:
    """Return the mean score of some rows with some columns taken from each fill."""
    X = rows.X[batch]
    own = tuple(each[batch] for each in rows.without)
    if not columns.any():  # the user's column has no part in the score: an encoder dropped it
        return np.asarray(rows.score.value(X, *own))
    many = np.repeat(X[:, None, :], len(fills), axis=1)
    many[:, :, columns] = fills[None, :, columns]
    repeated = tuple(np.repeat(each, len(fills)) for each in own)
    found = rows.score.value(many.reshape(-1, X.shape[1]), *repeated)
    return np.asarray(found.reshape(len(X), -1).mean(axis=1))
