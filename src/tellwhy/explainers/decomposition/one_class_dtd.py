"""One-Class DTD: deep Taylor decomposition of one-class models.

Kauffmann, Müller and Montavon, "Towards explaining anomalies: a deep Taylor decomposition of one-class
models", Pattern Recognition 101 (2020). The model is read as a network of distances and soft-min pooling; its
output is redistributed to the support points (equations 4 and 5), then to the input features (equation 6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.capabilities import HasExpansion, LeavesRowsOut
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.params import Rules, instance_of, none, one_of, validate_parameters
from tellwhy.core.registry import register
from tellwhy.core.score_function import (
    CentreDistance,
    Floats,
    Integers,
    KernelExpansion,
    NeighbourDistance,
    Remembered,
)
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer, lacks
from tellwhy.scoring import CentreScore, KernelScore, NeighbourScore
from tellwhy.scoring.scores._compiled import spread_over_features

_DIGITS_KEPT = 1e-9  # relative error above which relevance is computed again, slowly and exactly


@dataclass(frozen=True, eq=False)
class SupportExplanation:
    """A score told in terms of the model's support points: Σ_j values[i, j] = scores[i].

    Attributes
    ----------
    values
        Relevance of each support point for each row, shape (n, m).
    scores
        The inlierness g(x) or the outlierness o(x) that is explained.
    points
        The support points, shape (m, d).
    training_rows
        The training row that each support point was, where known.
    """

    values: Floats
    scores: Floats
    points: Floats
    training_rows: Integers | None
    explains: str

    def top(self, row: int, k: int = 5) -> list[tuple[int, float]]:
        """Return the k most relevant support points of a row as (index of the point, relevance)."""
        order = np.argsort(-self.values[row], kind="stable")[:k]
        return [(int(j), float(self.values[row, j])) for j in order]


@register(
    "explainer",
    family="decomposition",
    needs="a model made of distances to support points (kernel, neighbours or centres)",
    cost="O(n m d): about three times the cost of scoring",
    exactness="closed form; what is not attributed is stated",
    citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020) 107198",
    applies=lambda score: isinstance(score, HasExpansion),
    automatic=0,
)
class OneClassDTD(ScoreExplainer):
    """Explain outlierness by features at about the cost of computing it.

    With p_j = α_j k_j / g and r_j = ‖x − u_j‖, R_i = Σ_j Δ_j (x_i − u_ji)² / r_j², where

    - exponential kernels: Δ_j = p_j · min(o, (r_j/σ)^q / q);
    - t-Student kernels: Δ_j = p_j · (r_j/σ)^q / (a + (r_j/σ)^q) · o, with base value m·a, the least score
      there is;
    - mean distance to k neighbours: R_i = (1/k) Σ_j (x_i − u_ji)² / r_j;
    - squared distance to the nearest centre: R_i = (x_i − c_i)².

    Parameters
    ----------
    model
        A fitted `OneClassSVM`, `SVDD`, `KernelDensity` or `NearestNeighbours` of this library, scikit-learn's
        `OneClassSVM(kernel="rbf")` or `KernelDensity`, a pipeline around one of them, or any score function
        with an `expansion`.
    training_rows
        A row that the model was trained on is its own support point, which hides how odd it is; it is left
        out by index, and the weights of the others rescaled. "auto" recognises such rows by exact equality,
        None never leaves one out, an array gives the training row of each explained row (−1 for a new row).
        The score that is explained is then the left-out one; `extras["left_out"]` tells which rows this
        concerns.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.detectors import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> explanation = OneClassDTD(OneClassSVM().fit(X)).explain([[0.0, 6.0, 0.0]])
    >>> int(explanation.values.argmax())
    1
    """

    leaves_rows_out = True
    _parameters: ClassVar[dict[str, Rules]] = {
        "training_rows": (
            one_of("auto"),
            none,
            instance_of(np.ndarray, list, words="an array of training rows"),
        )
    }

    def __init__(self, model: object, *, training_rows: ArrayLike | str | None = "auto"):
        super().__init__(model)
        self.training_rows = training_rows

    def _attribute(self, rows: Rows) -> Attribution:
        score = rows.score
        if not isinstance(score, HasExpansion):
            raise lacks(score, "OneClassDTD", "support points and a kernel (method='auto' picks another)")
        if isinstance(score.expansion, CentreDistance):
            return _attribute_centre(rows)
        base: Floats | float = 0.0
        if isinstance(score.expansion, NeighbourDistance):
            values, scores = _attribute_neighbours(rows)
        else:
            values, scores = _attribute_kernel(rows)
            base = rows.score.base_values(rows.skipped)
        params = {"rows_left_out": int((rows.skipped >= 0).sum())}
        return Attribution(values, scores, base, params=params)

    def explain_support(self, X: ArrayLike) -> SupportExplanation:
        """Explain outlierness by support points, equations 4 and 5: R_j = p_j · o (Σ_j R_j = o)."""
        validate_parameters(self)
        rows = self._kernel_rows(X)
        score: KernelScore = rows.score
        shares = np.empty((len(rows.X), len(score.expansion.weights)))
        scores = np.empty(len(rows.X))
        for batch in score.pooled(rows.X, "shares", rows.skipped):
            shares[batch.rows] = batch.coefficients
            scores[batch.rows] = batch.outlierness
        return _support(score, shares * scores[:, None], scores, score.describes)

    def explain_inliers(self, X: ArrayLike) -> SupportExplanation:
        """Explain inlierness by support points, equation 3: R_j = α_j k(r_j) (Σ_j R_j = g)."""
        validate_parameters(self)
        rows = self._kernel_rows(X)
        score: KernelScore = rows.score
        values = np.empty((len(rows.X), len(score.expansion.weights)))
        for batch in score.pooled(rows.X, "shares", rows.skipped):
            inlierness = score.inlierness_of(batch.outlierness, rows.skipped[batch.rows])
            values[batch.rows] = batch.coefficients * inlierness[:, None]
        return _support(score, values, values.sum(axis=1), "inlierness g(x) = Σ_j α_j k(‖x − u_j‖)")

    def _kernel_rows(self, X: ArrayLike) -> Rows:
        rows = self.rows(X)
        if not isinstance(rows.score, HasExpansion):
            raise lacks(rows.score, "OneClassDTD", "support points and a kernel")
        if not isinstance(rows.score.expansion, KernelExpansion):
            raise UnsupportedModel(
                "Only kernel models are explained by support points; "
                f"{rows.score.describes} is a plain distance."
            )
        return rows

    def _left_out(self, score: LeavesRowsOut, X: Floats) -> Integers:
        """Support point that each row leaves out, or −1."""
        if self.training_rows is None:
            return np.full(len(X), -1, dtype=np.int64)
        if isinstance(self.training_rows, str):
            return super()._left_out(score, X)
        given = np.asarray(self.training_rows)
        if given.shape != (len(X),) or not np.issubdtype(given.dtype, np.integer):
            raise InvalidInput(
                f"training_rows must hold one whole number per explained row ({len(X)}), −1 for a new row. "
                f"Got an array of shape {given.shape} and dtype {given.dtype}."
            )
        return score.leave_some(_points_of(given, score.remembered))


def _points_of(training_rows: Integers, expansion: Remembered) -> Integers:
    rows = expansion.training_rows
    n_training = expansion.n_training
    if rows is None or n_training is None:
        raise InvalidInput("This model does not record its training rows; use training_rows='auto' or None.")
    if len(training_rows) and training_rows.max() >= n_training:
        raise InvalidInput(
            f"training_rows names row {training_rows.max()} of a model trained on {n_training} rows."
        )
    # one entry more than there are rows: the last one stands for "a new row", which is no point
    point_of_row = np.full(n_training + 1, -1, dtype=np.int64)
    point_of_row[rows] = np.arange(len(rows))
    return np.asarray(point_of_row[np.where(training_rows < 0, n_training, training_rows)])


def _attribute_kernel(rows: Rows) -> tuple[Floats, Floats]:
    """R = x²·Σ_j w_j − 2x⊙(w U) + w U² with w_j = Δ_j / r_j²: two matrix products per batch."""
    score: KernelScore = rows.score
    n, d = rows.X.shape
    values = np.empty((n, d))
    scores = np.empty(n)
    for batch in score.pooled(rows.X, "relevance", rows.skipped):
        W = batch.coefficients  # (rows, points)
        Z = batch.scaled  # (rows, d), in units of the bandwidth from the middle of the points
        sums = W @ score.coordinates_and_squares
        weight = W.sum(axis=1)
        relevance = Z * (Z * weight[:, None] - 2.0 * sums[:, :d]) + sums[:, d:]
        norms = np.einsum("ij,ij->i", Z, Z)
        # The three terms nearly cancel where a row is near its points and both are far from the origin. Where
        # their rounding error is no longer small beside the sum, the sum is taken over differences instead.
        error = 16 * np.finfo(float).eps * (weight * norms + W @ score.points.squared_norms)
        lost = np.flatnonzero(error > _DIGITS_KEPT * batch.attributed)
        if len(lost):
            exact = np.empty((len(lost), d))
            spread_over_features(Z[lost], score.points.scaled, W[lost], exact)
            relevance[lost] = exact
        values[batch.rows] = np.maximum(relevance, 0.0, out=relevance)  # −0 and rounding below it
        scores[batch.rows] = batch.outlierness
    return values, scores + score.offset


def _attribute_neighbours(rows: Rows) -> tuple[Floats, Floats]:
    score: NeighbourScore = rows.score
    index, distance = score.neighbours(rows.X, rows.skipped)
    values = np.zeros_like(rows.X)
    for j, r in zip(index.T, distance.T, strict=True):
        difference = rows.X - score.expansion.points[j]
        # divided before it is squared, so that 1e200 does not overflow; equal rows have nothing to share
        values += difference * (difference / np.where(r > 0, r, np.inf)[:, None])
    return values / score.expansion.n_neighbours, distance.mean(axis=1)


def _attribute_centre(rows: Rows) -> Attribution:
    score: CentreScore = rows.score
    values = (rows.X - score.nearest(rows.X)) ** 2
    return Attribution(values, values.sum(axis=1))


def _support(score: KernelScore, values: Floats, scores: Floats, explains: str) -> SupportExplanation:
    expansion = score.expansion
    return SupportExplanation(values, scores, expansion.points, expansion.training_rows, explains)
