"""Flipping: whether the score falls when the features said to matter stop being odd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.capabilities import HasExpansion
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import one_of, validate_value
from tellwhy.core.score_function import Floats, Integers, ScoreFunction
from tellwhy.core.tables import as_floats
from tellwhy.evaluation.differences import difference_curves
from tellwhy.evaluation.replacement import replacement_curves
from tellwhy.scoring import EncodedScore, as_score


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
    rows = _distance_rows(explanation, score)
    if rows is None:
        curves, normal = replacement_curves(explanation, score, ranking, background)
        _check_finite(curves, ~np.isnan(normal))
    else:
        training_rows = explanation.extras.get("left_out")
        curves = difference_curves(rows.score, rows.X, ranking, owner=rows.owner, training_rows=training_rows)
        normal = curves[:, -1]
        _check_finite(curves, np.ones(len(curves), dtype=bool))
    return Flipping(curves, _areas(curves, normal), explanation.method, order)


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


def _distance_rows(explanation: Explanation, score: ScoreFunction) -> _DistanceRows | None:
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


def _areas(curves: Floats, normal: Floats) -> Floats:
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
