"""Flipping: whether the score falls when the features said to matter stop being odd.

Models made of distances are flipped by Algorithm 4 of the One-Class DTD paper, in the space of differences to
support points. Such a model sees a row x only through Ψ_ij = x_i − u_ji: its score is a function of the
squared distances s_j = Σ_i Ψ_ij², pooled over the points. Taking feature i away sets Ψ_ij = 0 for every point
at once: the row then differs from no support point in that feature, which no replaced value of x_i could
achieve. With all features away the score is the least there is. For any other score, features are replaced by
normal values, most relevant first.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.arrays import as_floats, spread_evenly, take_rows
from tellwhy.core.errors import DataNotice, InvalidInput, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import one_of, validate_value
from tellwhy.core.progress import track
from tellwhy.core.running import BATCH_BYTES, cut_batches, map_in_threads
from tellwhy.core.score import (
    Capability,
    CentreDistance,
    Floats,
    HasExpansion,
    Integers,
    KernelExpansion,
    LeavesRowsOut,
    NeighbourDistance,
    PointExpansion,
    ScoreFunction,
)
from tellwhy.evaluation._compiled import Differences, add_features_back
from tellwhy.evaluation.injection import is_frame, mix, stack
from tellwhy.kernels.distances import ScaledPoints, centre_and_unit
from tellwhy.scoring import EncodedScore, as_score
from tellwhy.scoring.distance_scores import points_of
from tellwhy.scoring.one_class import pool
from tellwhy.scoring.reference_rows import lower_half

Pool = Callable[[Floats, Integers], Floats]
"""From squared distances (k, m) and the point that each line does without (k,) to scores (k,)."""


@runtime_checkable
class HasOffset(Protocol, metaclass=Capability):
    """A score with a constant that is added after the distances have been pooled, as a density has."""

    @property
    def offset(self) -> float:
        """The constant."""
        ...


class _Pooling(NamedTuple):
    """The support points in scaled coordinates, and how the score pools scaled squared distances to them."""

    points: ScaledPoints
    pool: Pool


@dataclass(frozen=True)
class _Removal:
    """What the rows of one call share.

    Attributes
    ----------
    points_by_column
        Scaled support points, one line per column.
    starts, columns
        Feature f owns the columns columns[starts[f]:starts[f + 1]].
    order
        Features of each row, first to be taken away first.
    left_out
        Support point that each row does without, or −1.
    pool
        From squared distances to scores.
    """

    points_by_column: Floats
    starts: Integers
    columns: Integers
    order: Integers
    left_out: Integers
    pool: Pool

    @property
    def n_states(self) -> int:
        """How often a row is scored: with all features, and after each of the steps."""
        return self.order.shape[1] + 1


def draw_difference_curves(
    score: HasExpansion, X: Floats, order: Integers, *, owner: Integers, training_rows: Integers | None
) -> Floats:
    """Score of each row after 0, 1, …, d features have stopped differing from the support points.

    Parameters
    ----------
    score
        A score with an `expansion`.
    X
        Rows in the score's columns.
    order
        Features of each row, first to be taken away first, shape (n, d).
    owner
        The feature that each column of X belongs to.
    training_rows
        The training row that each row leaves out of the model, −1 for none. None: rows that the model was
        trained on leave themselves out.
    """
    points, pool = pooling(score)
    columns = np.argsort(owner, kind="stable")
    removal = _Removal(
        points_by_column=np.ascontiguousarray(points.scaled.T),
        starts=np.searchsorted(owner[columns], np.arange(order.shape[1] + 1)),
        columns=columns,
        order=order,
        left_out=_find_points_left_out(training_rows, score, X),
        pool=pool,
    )
    Z = points.rescale(X)
    batches = cut_batches(len(X), 8 * len(points.scaled) * (removal.n_states + 1))
    curves = map_in_threads(lambda rows: _draw_curves_of_batch(Z[rows], rows, removal), batches)
    return np.concatenate(curves) + (score.offset if isinstance(score, HasOffset) else 0.0)


def _draw_curves_of_batch(Z: Floats, rows: slice, removal: _Removal) -> Floats:
    """Go through the steps from the last to the first, as many at a time as memory allows."""
    n = len(Z)
    m = removal.points_by_column.shape[1]
    left_out = removal.left_out[rows]
    given = Differences(Z, removal.points_by_column, removal.order[rows], removal.starts, removal.columns)
    curves = np.empty((n, removal.n_states))
    running = np.zeros((n, m))  # the end: no feature is present
    for block in reversed(cut_batches(removal.n_states, 8 * n * m, BATCH_BYTES)):
        n_steps = block.stop - block.start
        S = np.empty((n * n_steps, m))
        add_features_back(given, block.start, block.stop, running, S)
        curves[:, block] = removal.pool(S, np.repeat(left_out, n_steps)).reshape(n, -1)
    return curves


def _find_points_left_out(training_rows: Integers | None, score: Any, X: Floats) -> Integers:
    """Support point that each row does without, or −1, from the training row it was explained without."""
    if training_rows is None:
        return score.match(X) if isinstance(score, LeavesRowsOut) else np.full(len(X), -1, dtype=np.int64)
    given = np.asarray(training_rows, dtype=np.int64)
    if isinstance(score.expansion, PointExpansion):
        given = points_of(given, score.expansion)
    return score.leave_some(given) if isinstance(score, LeavesRowsOut) else given


def pooling(score: Any) -> _Pooling:
    """Return the support points of a score and its way of pooling distances, by what it is made of."""
    expansion = score.expansion
    if isinstance(expansion, KernelExpansion):
        return _Pooling(
            ScaledPoints.of(expansion.points, expansion.kernel.bandwidth),
            lambda S, left_out: pool(expansion, S, left_out, "score")[0],
        )
    if isinstance(expansion, CentreDistance):
        unit = centre_and_unit(expansion.centres)[1]
        return _Pooling(ScaledPoints.of(expansion.centres, unit), lambda S, _: S.min(axis=1) * unit**2)
    if isinstance(expansion, NeighbourDistance):
        unit = centre_and_unit(expansion.points)[1]
        k = expansion.n_neighbours
        return _Pooling(
            ScaledPoints.of(expansion.points, unit), lambda S, out: _average_nearest(S, out, k) * unit
        )
    raise UnsupportedModel(
        f"flipping does not know the expansion of {score.describes}: {type(expansion).__name__}."
    )


def _average_nearest(S: Floats, left_out: Integers, k: int) -> Floats:
    """Mean distance to the k points that are nearest in the features still present."""
    lines = np.flatnonzero(left_out >= 0)
    S[lines, left_out[lines]] = np.inf
    S.partition(k - 1, axis=1)
    return np.asarray(np.sqrt(S[:, :k]).mean(axis=1))


N_REFERENCES = 16  # normal rows whose values replace those of each explained row
_LOOKED_AT = 512  # background rows that are scored to find them
_CALL_BYTES = 64 * 2**20  # of rows that are scored in one call


@dataclass(frozen=True)
class _Sources:
    """Explained rows with normal rows below them; `normal[i]` lists those that row i takes values from."""

    rows: Any
    normal: Integers


def draw_replacement_curves(
    explanation: Explanation, score: ScoreFunction, order: Integers, background: Any
) -> tuple[Floats, Floats]:
    """Score of each row after 0, 1, …, d of its features took normal values, averaged over the normal rows.

    Also the highest score among the normal rows of each row: only rows above it are odd. Both are NaN for
    rows that have no nearest normal version to take values from.
    """
    data = explanation.data if is_frame(explanation.data) else np.asarray(explanation.data)
    if background is not None:
        _check_background(background, data)
        normal = choose_reference_rows(background, score)
        below = len(data) + np.arange(len(normal))  # the same normal rows for every explained one
        return _compute_curves(score, _Sources(stack(data, normal), np.tile(below, (len(data), 1))), order)
    nearest = _find_nearest_normals(explanation, score)
    known = np.flatnonzero(_has_version(nearest))
    curves = np.full((len(order), order.shape[1] + 1), np.nan)
    highest = np.full(len(order), np.nan)
    rows = stack(take_rows(data, known), take_rows(nearest, known))
    sources = _Sources(rows, len(known) + np.arange(len(known))[:, None])
    curves[known], highest[known] = _compute_curves(score, sources, order[known])
    return curves, highest


def _compute_curves(score: ScoreFunction, sources: _Sources, order: Integers) -> tuple[Floats, Floats]:
    """Mean score after each step, and the highest score among the normal rows of each row."""
    n, d = order.shape
    curves = np.empty((n, d + 1))
    curves[:, 0] = score.value(take_rows(sources.rows, np.arange(n)))
    ends = score.value(take_rows(sources.rows, np.arange(n, len(sources.rows))))
    ends = ends[sources.normal - n]  # (n, normal rows)
    curves[:, d] = ends.mean(axis=1)
    if d > 1:
        # The ends are scored once per row; only the steps between them need new rows. The inverse of an order
        # is its argsort: the step at which each feature goes.
        curves[:, 1:d] = _between(score, sources, np.argsort(order, axis=1, kind="stable"))
    return curves, ends.max(axis=1)


def _between(score: ScoreFunction, sources: _Sources, place: Integers) -> Floats:
    """Scores of steps 1 … d − 1; `place[i, c]` is the step at which feature c of row i is replaced."""
    n, d = place.shape
    n_normal = sources.normal.shape[1]
    middle = np.empty(n * (d - 1))
    batches = cut_batches(len(middle), 16 * d * n_normal, _CALL_BYTES)
    for pairs in track(batches, len(batches), "flipping"):
        row, step = np.divmod(np.arange(pairs.start, pairs.stop), d - 1)
        gone = place[row] <= step[:, None]  # (pairs, d): step 0 here has one feature replaced
        source = np.where(gone[:, None, :], sources.normal[row][:, :, None], row[:, None, None])
        scores = score.value(mix(sources.rows, source.reshape(-1, d)))
        middle[pairs] = scores.reshape(-1, n_normal).mean(axis=1)
    return middle.reshape(n, d - 1)


def _find_nearest_normals(explanation: Explanation, score: ScoreFunction) -> Any:
    """Return the nearest normal version of each row, NaN for those that have none; one at least has."""
    nearest = explanation.extras.get("nearest_normal")
    if nearest is None:
        raise InvalidInput(
            f"flipping of {score.describes} needs normal values to put in the place of removed features, and "
            "the explanation has no extras['nearest_normal']. Pass background=…, rows that are mostly "
            "normal."
        )
    if np.shape(nearest) != explanation.values.shape:
        raise InvalidInput(
            f"extras['nearest_normal'] has shape {np.shape(nearest)}; expected one normal value per value "
            f"explained, {explanation.values.shape}."
        )
    lost = np.flatnonzero(~_has_version(nearest))
    if len(lost) == len(explanation):
        raise InvalidInput(
            "None of the rows has a normal version in extras['nearest_normal'] (all are NaN), so there is "
            "nothing to put in the place of removed features. Pass background=…, rows that are mostly "
            "normal."
        )
    if len(lost):
        warnings.warn(
            f"{len(lost)} of {len(explanation)} rows have no nearest normal version and are left out of "
            f"flipping (the first is row {lost[0]}).",
            DataNotice,
            stacklevel=4,
        )
    return nearest


def _has_version(nearest: Any) -> Any:
    """Tell which rows are not NaN: in any cell of an array, in all cells of a frame, which may lack some."""
    if is_frame(nearest):
        return ~np.asarray(nearest.isna()).all(axis=1)
    flat = np.asarray(nearest, dtype=np.float64).reshape(len(nearest), -1)
    return ~np.isnan(flat).any(axis=1)


def _check_background(background: Any, data: Any) -> None:
    """Raise unless background rows look like the explained ones, and there is one."""
    if np.shape(background)[1:] != np.shape(data)[1:]:
        raise InvalidInput(
            f"background has shape {np.shape(background)}; expected rows like the explained ones, whose "
            f"shape is {np.shape(data)}."
        )
    if len(background) == 0:
        raise InvalidInput("background is empty; at least one normal row is needed.")


def choose_reference_rows(background: Any, score: ScoreFunction) -> Any:
    """Return up to 16 rows of the background, evenly spread over the half of it that scores lowest."""
    rows = background if is_frame(background) else np.asarray(background)
    looked_at = spread_evenly(len(rows), _LOOKED_AT)
    return take_rows(rows, looked_at[lower_half(score.value(take_rows(rows, looked_at)), N_REFERENCES)])


@dataclass(frozen=True, eq=False)
class Flipping:
    """Scores of n rows as their d features are taken away in turn.

    Attributes
    ----------
    curves
        Shape (n, d + 1). Column 0 is the untouched score o₀, column t the score without the first t features.
    areas
        Normalised area of each row's curve, shape (n,): lower is better when the most relevant go first.
    method
        Name of the explainer that gave the order.
    order
        'most_relevant_first' or 'least_relevant_first'.

    Notes
    -----
    A curve c is normalised to (c − c_d)/(c_0 − c_d), which goes from 1 to 0. Its area is the mean height over
    the d steps, by the trapezoid rule. The end c_d, with every feature taken away, does not depend on the
    order: it is the same floor for every explanation of the row. Without a floor, a constant added to the
    score would change the area. For models of distances the floor is the least score there is: 0 (m·a for
    t-Student kernels) plus any offset, which is the base value of One-Class DTD too.

    A row whose score c_0 is not above c_d is not odd in the first place: there is nothing to take away. Where
    features take the values of several normal rows, c_0 must be above the scores of all of these. The area
    of other rows is NaN, and they count neither in `area` nor in `mean_curve`. This too does not depend on
    the order.
    """

    curves: Floats
    areas: Floats
    method: str
    order: str = "most_relevant_first"

    @property
    def area(self) -> float:
        """Mean normalised area over the rows that have one."""
        counted = self.areas[np.isfinite(self.areas)]
        return float(counted.mean()) if len(counted) else float("nan")

    def normalised(self) -> Floats:
        """Return the curves from 1 (untouched) to 0 (all features gone); NaN for rows that are not odd."""
        start = self.curves[:, :1]
        end = self.curves[:, -1:]
        odd = np.isfinite(self.areas)[:, None]
        return np.where(odd, (self.curves - end) / np.where(odd, start - end, 1.0), np.nan)

    def mean_curve(self) -> Floats:
        """Return the mean normalised curve over the rows that have one, shape (d + 1,)."""
        curves = self.normalised()[np.isfinite(self.areas)]
        return np.asarray(curves.mean(axis=0)) if len(curves) else np.full(self.curves.shape[1], np.nan)


def flipping(
    explanation: Explanation, model: object, *, background: Any = None, order: str = "most_relevant_first"
) -> Flipping:
    """Take features away in the order of an explanation, and watch the model's score.

    For models made of distances (kernel expansions, centres, neighbours; also behind an encoding of columns),
    a feature is taken away from all differences x − u_j to the support points at once. The score is pooled
    anew from the distances in the remaining features, over all points: the nearest centre or neighbours may
    change on the way. A row that was explained without itself as support point (`extras["left_out"]`) is
    flipped without it; where the explanation does not tell, rows that the model was trained on are, so that
    methods are compared on the same curve. An encoded column is taken away with all the model columns made
    from it.

    For any other score, the score is averaged over replacements by the values of up to 16 background rows,
    evenly spread over the half of the background that scores lowest: their values are seen together in real
    rows, which those of a column-wise median need not be, and odd background rows do not count. Without a
    background, a feature takes its value in `extras["nearest_normal"]`; rows that have no normal version
    there are left out, with a warning: their curves and areas are NaN.

    Parameters
    ----------
    explanation
        Of any kind; features are ordered by their signed values, ties by column.
    model
        The model, or score function, that was explained.
    background
        Mostly normal rows; needed only for scores without support points and explanations without nearest
        normals. Give the same rows for explanations that are compared.
    order
        'most_relevant_first' (a good explanation has a small area) or 'least_relevant_first' (a large one).

    Returns
    -------
    Flipping
        Scores of each row as its features are taken away in turn, with their mean curve and areas.

    References
    ----------
    Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020) 107198, Algorithm 4.

    Examples
    --------
    >>> from tellwhy.detectors import OneClassSVM
    >>> from tellwhy.explainers import OneClassDTD
    >>> model = OneClassSVM().fit(np.random.default_rng(0).normal(size=(200, 3)))
    >>> result = flipping(OneClassDTD(model).explain([[0.0, 6.0, 1.0]]), model)
    >>> result.mean_curve().round(2)
    array([1.  , 0.16, 0.08, 0.  ])
    """
    validate_value("flipping", "order", order, one_of("most_relevant_first", "least_relevant_first"))
    score = as_score(model)
    ranking = _ranking(explanation, score, order)
    rows = _find_distance_rows(explanation, score)
    if rows is None:
        curves, normal = draw_replacement_curves(explanation, score, ranking, background)
        _check_finite(curves, ~np.isnan(normal))
    else:
        training_rows = explanation.extras.get("left_out")
        curves = draw_difference_curves(
            rows.score, rows.X, ranking, owner=rows.owner, training_rows=training_rows
        )
        normal = curves[:, -1]
        _check_finite(curves, np.ones(len(curves), dtype=bool))
    return Flipping(curves, _compute_areas(curves, normal), explanation.method, order)


def _ranking(explanation: Explanation, score: ScoreFunction, order: str) -> Integers:
    """Features of each row in the order they go, shape (n, d), after checking that the explanation fits."""
    n = len(explanation)
    values = explanation.values.reshape(n, -1)
    if explanation.data is None:
        raise InvalidInput(
            "flipping needs the explained rows, and this explanation has none (its data is None)."
        )
    if n == 0 or len(explanation.data) != n:
        raise InvalidInput(
            f"The explanation has {n} rows, and its data {len(explanation.data)}; expected as many."
        )
    shape = tuple(score.feature_shape or np.shape(explanation.data)[1:])
    if int(np.prod(shape)) != values.shape[1]:
        raise InvalidInput(
            f"The explanation has values for {values.shape[1]} features, but {score.describes} takes "
            f"{int(np.prod(shape))}. Pass the model that was explained."
        )
    if not np.isfinite(values).all():
        row, column = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InvalidInput(
            f"The explanation has no finite value in row {row}, feature {column}: it gives no order."
        )
    # Signed: a negative value says that a feature makes the row look more normal, so it goes last.
    return np.argsort(-values if order == "most_relevant_first" else values, axis=1, kind="stable")


class _DistanceRows(NamedTuple):
    """A score made of distances, rows in its columns, and the feature that each column belongs to."""

    score: HasExpansion
    X: Floats
    owner: Integers


def _find_distance_rows(explanation: Explanation, score: ScoreFunction) -> _DistanceRows | None:
    """Return the explained rows as a score made of distances sees them; None where the score is not."""
    if isinstance(score, EncodedScore):
        if score.owner is None or not isinstance(score.inner, HasExpansion):
            return None
        return _DistanceRows(score.inner, score.encode(explanation.data), np.asarray(score.owner))
    if not isinstance(score, HasExpansion):
        return None
    flat = np.asarray(explanation.data)
    X = as_floats(explanation.data if flat.ndim == 2 else flat.reshape(len(flat), -1))
    return _DistanceRows(score, X, np.arange(X.shape[1]))


def _compute_areas(curves: Floats, normal: Floats) -> Floats:
    """Mean height of (c − c_d)/(c_0 − c_d) by the trapezoid rule; NaN where c_0 is not above `normal`."""
    start = curves[:, 0]
    end = curves[:, -1]
    # A row whose score did not change at all may still be above by a rounding error: that is not odd.
    odd = start - normal > 1e-12 * np.maximum(np.abs(start), np.abs(normal))
    heights = (curves[:, 1:] + curves[:, :-1]).mean(axis=1) / 2 - end
    return np.where(odd, heights / np.where(odd, start - end, 1.0), np.nan)


def _check_finite(curves: Floats, counted: NDArray[np.bool_]) -> None:
    """Raise for the first of the counted rows whose curve is not finite."""
    bad = np.flatnonzero(counted & ~np.isfinite(curves).all(axis=1))
    if len(bad):
        row = int(bad[0])
        raise InvalidInput(f"The score of row {row} is not finite; scale the columns, or leave the row out.")
