"""Flipping of whole pictures and series, and how well maps of scores show where pictures are odd.

Flipping is Algorithm 4 of the One-Class DTD paper, for the sum over patches: a cell that is taken away is
taken away in every patch that covers it, for all of its channels. Maps are judged by pixel AUROC and AU-PRO,
as of MVTec's benchmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage
from sklearn.metrics import roc_auc_score

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.old_names import explanation_first
from tellwhy.core.params import integer, validate_value
from tellwhy.core.running import in_threads
from tellwhy.core.score import Floats, HasExpansion, LeavesRowsOut
from tellwhy.data.pieces import HasFeatures, HasPatches, OnDevice, Piece
from tellwhy.evaluation.flipping import HasOffset, pooling
from tellwhy.scoring import as_score


@dataclass(frozen=True, eq=False)
class PatchFlipping:
    """Curves of flipping.

    Attributes
    ----------
    curves
        Score of each input after 0, 1, …, n_steps equal parts of its cells were taken away, brought to 1 with
        all of them and 0 with none, shape (n, n_steps + 1).
    """

    curves: Floats

    @property
    def areas(self) -> Floats:
        """Area below each curve, between 0 and 1: lower is better."""
        return np.asarray(np.trapezoid(self.curves, dx=1.0 / (self.curves.shape[1] - 1), axis=1))

    @property
    def area(self) -> float:
        """Mean area."""
        return float(self.areas.mean())


@explanation_first
def patch_flipping(explanation: Explanation, model: object, *, n_steps: int = 20) -> PatchFlipping:
    """Take cells away in the order of their relevance, and score what is left.

    Parameters
    ----------
    explanation
        Of pictures or series by the model, by any method; channels of a cell are added up.
    model
        A `PatchModel` whose detector is made of distances (kernel, neighbours or centres), or its score.
    n_steps
        Steps in which all cells are taken away.

    Returns
    -------
    PatchFlipping
        Curves and areas, per input.

    Examples
    --------
    >>> from tellwhy.detectors import KernelDensity, PatchModel
    >>> from tellwhy.explainers import PatchRelevance
    >>> X = np.random.default_rng(0).normal(size=(4, 9, 9))
    >>> model = PatchModel(KernelDensity(), (3, 3)).fit(X)
    >>> odd = np.array(X[:1])
    >>> odd[0, 4, 4] = 9.0
    >>> bool(patch_flipping(PatchRelevance(model).explain(odd), model).area < 0.5)
    True
    """
    validate_value("patch_flipping", "n_steps", n_steps, integer(1))
    score: Any = as_score(model)
    if isinstance(score, HasFeatures):
        raise UnsupportedModel(
            "patch_flipping takes pixels away from distances between patches; a model with features= has "
            "distances between activations only. Leave features= out, or use keep_top."
        )
    if not isinstance(score, HasPatches):
        raise UnsupportedModel(f"patch_flipping needs a PatchModel; {score.describes} has no patches.")
    if explanation.data is None:
        raise InvalidInput("patch_flipping needs the explained inputs: this explanation holds no data.")
    inputs = score.checked(explanation.data)
    ranks = _ranks(explanation.values, len(score.patch_rows.windows.size))
    n_cells = ranks[0].size
    curves = np.empty((len(inputs), n_steps + 1))
    for step in range(n_steps + 1):
        is_there = ranks >= round(step * n_cells / n_steps)
        curves[:, step] = _summed(score, inputs, is_there)
    # The score without any cell is the same for every order: a floor, as in `flipping`.
    height = curves[:, :1] - curves[:, -1:]
    return PatchFlipping((curves - curves[:, -1:]) / np.where(height > 0, height, 1.0))


def _ranks(values: Floats, n_axes: int) -> Any:
    """Place of each cell in the order in which cells are taken away, shape (n, *axes)."""
    by_cell = values.reshape(*values.shape[: 1 + n_axes], -1).sum(axis=-1)
    flat = by_cell.reshape(len(by_cell), -1)
    order = np.argsort(-flat, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(flat.shape[1])[None, :], axis=1)
    return ranks.reshape(by_cell.shape)


def _summed(score: Any, inputs: Floats, is_there: Any) -> Floats:
    """Score of each input whose absent cells differ from no support point."""
    if isinstance(score, OnDevice):
        return np.asarray(score.on_device.masked_sums(inputs, is_there))
    rules = score.patch_rows
    prepared = rules.prepared(inputs)
    has_channels = inputs.ndim > is_there.ndim
    there = np.broadcast_to(is_there[..., None], inputs.shape) if has_channels else is_there
    masks = there.astype(np.float64)
    tasks = score.pieces_and_scores(inputs.shape)
    totals = np.zeros(len(inputs))

    def scores_of(task: tuple[Piece, Any]) -> Floats:
        piece, inner = task
        rows = rules.cut(prepared, piece)
        kept = np.ones_like(rows)
        cells = rules.windows.cut(masks, piece)
        kept[:, : cells.shape[1]] = cells  # the place of a patch, where it counts, stays
        return _score_masked(inner, rows, kept)

    for (piece, _), found in zip(tasks, in_threads(scores_of, tasks, "flipping"), strict=True):
        n = len(range(*piece.inputs.indices(len(inputs))))
        totals[piece.inputs] += found.reshape(n, -1).sum(axis=1)
    return totals


def _score_masked(inner: Any, rows: Floats, kept: Floats) -> Floats:
    """Score rows by their distances in the columns that are kept."""
    if not isinstance(inner, HasExpansion):
        raise UnsupportedModel(
            f"patch_flipping needs a detector made of distances; {inner.describes} is not."
        )
    points, pool = pooling(inner)
    Z = points.rescale(rows)
    # Σ_i k_i (z_i − v_i)² in three products; a sum of squares is not negative, but for rounding.
    squares = (kept * Z * Z).sum(axis=1)[:, None] - 2.0 * (kept * Z) @ points.scaled.T
    squares += kept @ (points.scaled**2).T
    left_out = inner.match(rows) if isinstance(inner, LeavesRowsOut) else np.full(len(rows), -1)
    found = pool(np.ascontiguousarray(np.maximum(squares, 0.0)), left_out)
    return found + (inner.offset if isinstance(inner, HasOffset) else 0.0)


LIMIT = 0.3  # false positives up to which AU-PRO is integrated, as published


def pixel_auroc(maps: Sequence[ArrayLike], masks: Sequence[ArrayLike]) -> float:
    """Area under the ROC curve of all pixels of all pictures, by their scores.

    Parameters
    ----------
    maps
        Score of each pixel, one array per picture.
    masks
        True where a pixel is odd; pictures without an odd pixel count as ordinary.

    Returns
    -------
    float
        The area: ½ where scores say nothing, 1 where all marked pixels come first.

    Examples
    --------
    >>> pixel_auroc([np.array([[0.1, 0.9], [0.2, 0.3]])], [np.array([[False, True], [False, False]])])
    1.0
    """
    scores, truth = _flat(maps, masks)
    return float(roc_auc_score(truth, scores))


def au_pro(maps: Sequence[ArrayLike], masks: Sequence[ArrayLike], *, limit: float = LIMIT) -> float:
    """Area under the curve of per-region overlap against false positives, up to a limit, divided by it.

    For each threshold, the share of every odd region that is above it, averaged over regions: a small defect
    counts as much as a large one (Bergmann, Fauser, Sattlegger, Steger, CVPR 2019).

    Returns
    -------
    float
        The area as a share of what it can be: from 0 to 1.

    Examples
    --------
    >>> mask = np.zeros((8, 8), dtype=bool)
    >>> mask[2:4, 2:4] = True
    >>> round(au_pro([mask.astype(float)], [mask]), 6)
    1.0
    """
    scores, truth = _flat(maps, masks)
    weights = np.concatenate([_weigh_regions(np.asarray(mask, dtype=bool)).ravel() for mask in masks])
    weights = weights / weights.sum()
    order = np.argsort(-scores, kind="stable")
    overlap = np.cumsum(weights[order])
    false = np.cumsum(~truth[order]) / max(int((~truth).sum()), 1)
    ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # ties are passed together
    x = np.append(0.0, false[ends])
    y = np.append(0.0, overlap[ends])
    inside = np.append(x[x < limit], limit)
    return float(np.trapezoid(np.interp(inside, x, y) if len(x) > 1 else y, inside) / limit)


def _weigh_regions(mask: np.ndarray) -> Floats:
    """Weight of each odd pixel: one over the size of its region."""
    labels, _ = ndimage.label(mask, structure=np.ones((3, 3)))
    sizes = np.bincount(labels.ravel())
    return np.where(mask, 1.0 / sizes[labels], 0.0)


def _flat(maps: Sequence[ArrayLike], masks: Sequence[ArrayLike]) -> tuple[Floats, np.ndarray]:
    """All pixels in a line, with whether they are odd."""
    if len(maps) != len(masks) or not len(maps):
        raise InvalidInput(f"There are {len(maps)} maps and {len(masks)} masks; expected one mask per map.")
    for k, (one, mask) in enumerate(zip(maps, masks, strict=True)):
        if np.shape(one) != np.shape(mask):
            raise InvalidInput(f"Map {k} has the shape {np.shape(one)}, its mask {np.shape(mask)}.")
    scores = np.concatenate([np.asarray(one, dtype=np.float64).ravel() for one in maps])
    truth = np.concatenate([np.asarray(mask, dtype=bool).ravel() for mask in masks])
    if not truth.any() or truth.all():
        raise InvalidInput("The masks mark all pixels, or none: nothing can be told apart.")
    return scores, truth
