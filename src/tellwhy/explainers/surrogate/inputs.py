"""What explainers by a mixture share: inputs of any shape, outputs, segments, and what replaces them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import check_finite, list_columns
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.params import Rule, Seed
from tellwhy.core.score import Floats, Integers, ScoreFunction
from tellwhy.data.pieces import neighbours
from tellwhy.explainers.base import BackgroundExplainer
from tellwhy.explainers.rows import Groups, Rows, group_numbers, read_replacement_row
from tellwhy.explainers.surrogate.mixture import RowFits
from tellwhy.scoring.class_scores import as_class_scores, as_outputs, learn_outputs

if TYPE_CHECKING:
    from tellwhy.explainers.surrogate.local_insight import LocalPlan


replacement_rule = Rule(
    "'mean', a number, or an array shaped like one input",
    lambda value: value == "mean" if isinstance(value, str) else isinstance(value, (int, float, np.ndarray)),
)


class InputExplainer(BackgroundExplainer):
    """Base of the explainers by a mixture: rows may be tables, images or other arrays of one shape."""

    baseline: ArrayLike  # what replaced parts of an input show
    shape_: tuple[int, ...] = ()  # of one input; empty until `fit` has seen one

    @classmethod
    def _check_given(cls, given: Mapping[str, Any]) -> None:
        """Answer a parameter that is often taken for another one."""
        if "background" in given:
            raise InvalidParameter(
                f"{cls.__name__} has no parameter 'background': what replaced segments show is called "
                "baseline='mean', a number or one input; ordinary rows are given to fit(X)."
            )
        super()._check_given(given)

    @cached_property
    def score(self) -> ScoreFunction:
        """The log-odds of the preferred class, or the score, that is explained."""
        return as_class_scores(self.model)

    def first_rows(self, X: ArrayLike) -> Rows:
        """Read the rows of a fit; learn from them what the model gives and which shape its inputs have."""
        self.shape_ = ()  # an earlier fit may have seen others
        given = np.shape(X)[1:]
        # Of a table, in the columns that the model sees: there may be more of them.
        first = self.rows(X).X[:2]
        self.score = learn_outputs(self.score, first.reshape(-1, *given) if len(given) > 1 else first)
        self.targets_ = list(as_outputs(self.score).names)
        rows = self.rows(X)
        self.shape_ = given if len(given) > 1 else (rows.X.shape[1],)
        self.names_ = self._names(X, rows)
        self.mean_ = rows.X.mean(axis=0)
        return rows

    def rows(self, X: ArrayLike) -> Rows:
        """Bring rows into the columns that the model sees; inputs of other shapes are flattened."""
        shape = np.shape(X)
        if len(shape) <= 2:
            found = super().rows(X)
            self._check_shape(found.X.shape[1:])
            return found
        self._check_shape(shape[1:])
        if 0 in shape:
            raise InvalidInput(f"X is empty: its shape is {shape}; at least 1 input with 1 cell is needed.")
        array = np.asarray(X, dtype=np.float64).reshape(shape[0], -1)
        check_finite(array)
        return Rows(self.score, array, np.arange(array.shape[1]), array.shape[1], shape[1:])

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise for rows of another shape than those that `fit` saw."""
        if self.shape_ and shape != self.shape_:
            raise InvalidInput(
                f"X has rows of shape {shape} (columns, …), but fit saw rows of shape {self.shape_}."
            )

    def _names(self, X: ArrayLike, rows: Rows) -> list[str]:
        """Return a name for each column: given, made from a raw column's, or from its place in the input."""
        given = self.score.feature_names or list_columns(X)
        if given is not None and len(given) == rows.X.shape[1]:
            return list(given)
        if given is not None:
            return [f"{given[o]} ({i})" for i, o in enumerate(rows.owner)]
        return ["x" + "_".join(str(i) for i in place) for place in np.ndindex(*self.shape_)]

    def outputs(self, rows: Rows, flat: Floats) -> Floats:
        """Outputs of the model for flattened inputs, shape (n, targets)."""
        shaped = flat.reshape(len(flat), *self.shape_) if len(self.shape_) > 1 else flat
        return as_outputs(rows.score).outputs(shaped)

    def replaced_by(self) -> Floats:
        """Values of replaced segments, one per column."""
        if isinstance(self.baseline, str):
            return np.asarray(self.mean_)
        return read_replacement_row(type(self).__name__, self.baseline, self.shape_)


def group_of_columns(groups: Groups | None, rows: Rows, names: list[str]) -> Integers | None:
    """Group of each column that the model sees; None where every row has segments of its own.

    Columns that were made from one of the user's columns stay together.
    """
    if groups is not None:
        return group_numbers(groups, rows.n_owners, names)[rows.owner]
    return None if rows.n_owners == rows.X.shape[1] else rows.owner


def sum_to_own_columns(found: RowFits, rows: Rows) -> RowFits:
    """Return what was found in the user's columns: those that were made from one column are one segment."""
    if rows.n_owners == rows.X.shape[1]:
        return found
    first = np.array([int(np.argmax(rows.owner == o)) for o in range(rows.n_owners)])

    def summed(values: Any) -> Any:
        parts = [values[:, rows.owner == o].sum(axis=1) for o in range(rows.n_owners)]
        return np.stack(parts, axis=1)

    extras = {name: extra[:, first] if extra.ndim > 1 else extra for name, extra in found.extras.items()}
    extras["interval"] = summed(found.extras["interval"])  # cells share the value of their segment
    return RowFits(summed(found.values), summed(found.stderr), found.base, extras)


def shaped(extra: Any, rows: Rows) -> Any:
    """Give an array per cell the shape of the inputs."""
    if rows.shape is None or extra.ndim < 2:
        return extra
    return extra.reshape(len(extra), *rows.shape, *extra.shape[2:])


def fix_seed(random_state: Seed) -> int:
    """Return a seed that gives every row the same draws, whatever was drawn before."""
    return int(random_state) if isinstance(random_state, (int, np.integer)) else 0


def draw_neighbour_masks(
    n_segments: int,
    n_neighbours: int,
    rng: np.random.Generator,
    *,
    kept: float = 0.75,
    with_input: bool = True,
) -> Floats:
    """Which segments each neighbour keeps (1) or loses (0); `with_input`, the first is the input itself.

    A share of the segments is kept, by a scrambled Sobol sequence: each segment, and nearly each pair, is
    lost equally often, so that coefficients depend little on the draw. Best with 2ᵐ neighbours and a share of
    ¼, ½ or ¾.

    Examples
    --------
    >>> masks = draw_neighbour_masks(4, 64, np.random.default_rng(1))
    >>> (masks[1:] == 0).sum(axis=0)
    array([16, 16, 16, 16])
    """
    from scipy.stats import qmc

    shown = min(n_segments, qmc.Sobol.MAXDIM)
    power = max(0, int(n_neighbours - 1).bit_length())  # the sequence is balanced at powers of two only
    places = qmc.Sobol(shown, seed=rng).random_base2(power)[:n_neighbours]
    rest = rng.random((n_neighbours, n_segments - shown))
    masks = (np.hstack([places, rest]) < kept).astype(np.float64)
    if with_input:
        masks[0] = 1.0  # the input itself, whose output the mixture should match
    return masks


CELLS = 2**23  # of neighbours that are asked about at once: 64 MiB


@dataclass(frozen=True, eq=False)
class RowSegments:
    """The segments of one row that a model can be asked about: those that a replacement would change."""

    x: Floats
    label: Integers
    differing: Integers
    n_segments: int
    how: LocalPlan

    @classmethod
    def of(cls, x: Floats, label: Integers, how: LocalPlan) -> RowSegments:
        """Find the segments that differ from their replacement."""
        n_segments = int(label.max()) + 1
        # Segments that already show the replacement cannot matter: they stay, and get no coefficient.
        changed = np.bincount(label, x != how.where.replacement, minlength=n_segments)
        return cls(x, label, np.flatnonzero(changed), n_segments, how)

    def whole(self, masks: Floats) -> Floats:
        """Masks of all segments from those of the differing ones."""
        found = np.ones((len(masks), self.n_segments))
        found[:, self.differing] = masks
        return found

    def outputs(self, masks: Floats) -> Floats:
        """All outputs of the model for masks of the differing segments, in batches that fit into memory."""
        size = max(1, CELLS // self.x.size)
        parts = [self.whole(masks[i : i + size]) for i in range(0, len(masks), size)]
        return np.concatenate([self.how.outputs(self._neighbours(part)) for part in parts])

    def _neighbours(self, masks: Floats) -> Any:
        """Inputs that keep the segments of each mask: an array or, of a network, a tensor."""
        if self._there is None:
            return neighbours(self.x, self.how.where.replacement, self.label, masks)
        return self._there.neighbours(masks)

    @cached_property
    def _there(self) -> PlacedRow | None:
        """The row where a network computes; None for other models."""
        place = self.how.place
        if place is None:
            return None
        x, replacement = place(np.stack([self.x, self.how.where.replacement]))
        return PlacedRow(x, replacement, place(self.label))


class PlacedRow(NamedTuple):
    """A row, what replaces its cells, and the segment of each cell, as tensors where a network computes.

    Only masks travel there: to make neighbours of a large image and to copy them would take longer than the
    network's answer.
    """

    x: Any
    replacement: Any
    label: Any

    def neighbours(self, masks: Floats) -> Any:
        """Return the row with the lost segments of each mask replaced."""
        import torch

        keep = torch.as_tensor(masks > 0, device=self.label.device)[:, self.label]
        return torch.where(keep, self.x, self.replacement)
