"""One-Class DTD: deep Taylor decomposition of one-class models. Its formulas stand in `scoring/one_class.py`.

The model is read as a network of distances and soft-min pooling; its output is redistributed to the support
points (equations 4 and 5), then to the input features (equation 6: `relevance` there, Δ_j beside it in
`_compiled_one_class`). Training rows are explained without themselves (`_left_out`). `OneClassDTD` is the
method; `OrdinaryRows` tell how much relevance columns usually have, and whether to show a row's beside that.

Kauffmann, Müller and Montavon, "Towards explaining anomalies: a deep Taylor decomposition of one-class
models", Pattern Recognition 101 (2020) 107198.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.params import Rules, instance_of, none, one_of, validate_parameters
from tellwhy.core.score import Floats, HasExpansion, Integers, KernelExpansion, LeavesRowsOut, Remembered
from tellwhy.explainers.base import ScoreExplainer, lacks
from tellwhy.explainers.rows import Attribution, Rows
from tellwhy.scoring.moved_columns import LEAST_MOVED, MovedColumns, Naming
from tellwhy.scoring.one_class import KernelScore, measure_usual_relevance, relevance
from tellwhy.scoring.reference_rows import find_reference_rows

MOST_ROWS = 300  # ordinary rows, and as many with one column moved: their explanation costs little
LEAST_ROWS = 20  # fewer do not tell what is usual


# What was found for a model is kept as long as its expansion is, by whose `id` it is known: explaining rows
# one by one must not find it each time. Only numbers are kept, nothing that would keep the model itself.
_FOUND: dict[int, dict[tuple[str, bytes], Any]] = {}


@dataclass(frozen=True, eq=False)
class OrdinaryRows:
    """Rows that a model was trained on or that were given as ordinary, each judged without itself.

    `some` are at most 300 of them, in the columns that the score sees, and `known` all that are known.
    `are_given` tells that they are not the model's own.
    """

    some: Rows
    known: Floats
    are_given: bool

    @classmethod
    def of(cls, explained: Rows, given: Floats | None) -> OrdinaryRows | None:
        """Take the given rows, in the score's columns, or those that the model keeps; None: too few."""
        X = given
        if X is None:
            kept = find_reference_rows(explained.score)
            X = None if kept is None else np.asarray(kept.rows, dtype=np.float64)
        if X is None or len(X) < LEAST_ROWS:
            return None
        some = X[spread_evenly(len(X), MOST_ROWS)]
        return cls(replace(explained, X=some, left_out=None, output=None), X, given is not None)

    @cached_property
    def rows(self) -> Rows:
        """The rows, with what each of them leaves out."""
        score = self.some.score
        if not isinstance(score, LeavesRowsOut):
            return self.some
        return replace(self.some, left_out=score.match(self.some.X))

    @cached_property
    def usual(self) -> Floats:
        """The relevance that each of the user's columns usually has."""
        found: Floats = self._find_once("usual", self._find_usual)
        return found

    @cached_property
    def naming(self) -> Naming:
        """Which form names the moved column of altered ordinary rows; the same rows every time."""
        found: Naming = self._find_once("naming", self._find_naming)
        return found

    def _find_once(self, what: str, find: Callable[[], Any]) -> Any:
        """Find something, or take what was found before for the same model and columns."""
        if self.are_given:
            return find()
        expansion = self.some.score.expansion
        if id(expansion) not in _FOUND:
            _FOUND[id(expansion)] = {}
            weakref.finalize(expansion, _FOUND.pop, id(expansion), None)
        found = _FOUND[id(expansion)]
        key = (what, self.some.owner.tobytes())
        if key not in found:
            found[key] = find()
        return found[key]

    def _find_usual(self) -> Floats:
        values, scores = relevance(self.rows.score, self.rows.X, self.rows.skipped)
        return measure_usual_relevance(self.rows.by_owner(values), scores)

    def _find_naming(self) -> Naming:
        rows = self.rows
        rng = np.random.default_rng(0)
        moved = MovedColumns.drawn(rows.X, rows.owner, MOST_ROWS, rng, known=self.known)
        if len(moved.X) < LEAST_MOVED:
            return Naming(0.0, 0.0, 0.0, 0)
        values, _ = relevance(rows.score, moved.X, self._left_out(moved))
        return Naming.of(moved, rows.by_owner(values), self.usual)

    def _left_out(self, moved: MovedColumns) -> Integers:
        """What the row that each was made from leaves out: beside itself, no row would look odd."""
        return np.asarray(self.rows.skipped[moved.origin])


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
    relative
        False: R_i, which adds up to the score but for a residual. It is about the squared distance of the
        cell from rows nearby, plus the spread of those rows: a noisy column has relevance on every row. True:
        R_i beside what is usual of its column, values_i = R_i / usual_i, 1 = as on ordinary rows. usual_i is
        the mean of R_i over ordinary rows, each judged without itself, plus a tenth of the average column's.
        The result's `kind` is "relative": its values do not add up to the score, but
        scores = base_values + Σ_i values_i · usual_i + a rest; `extras["relevance"]` holds R, and
        `params["usual_relevance"]` the usual one. "auto" shows the form that names the moved column of up to
        300 altered ordinary rows better; `params["form"]` says which, and why. Ordinary rows are those that
        the model keeps, or that `remember` was given.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.detectors import OneClassSVM
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> explanation = OneClassDTD(OneClassSVM().fit(X)).explain([[0.0, 6.0, 0.0]])
    >>> int(explanation.values.argmax())
    1

    Beside what is usual of each column:

    >>> relative = OneClassDTD(OneClassSVM().fit(X), relative=True).explain([[0.0, 6.0, 0.0]])
    >>> relative.kind, (relative.values > 1).tolist()
    ('relative', [[False, True, False]])
    """

    leaves_rows_out = True
    when_automatic: ClassVar[dict[str, object]] = {"relative": "auto"}
    _parameters: ClassVar[dict[str, Rules]] = {
        "training_rows": (
            one_of("auto"),
            none,
            instance_of(np.ndarray, list, words="an array of training rows"),
        ),
        "relative": one_of(False, True, "auto"),
    }

    def __init__(
        self,
        model: object,
        *,
        training_rows: ArrayLike | str | None = "auto",
        relative: bool | str = False,
    ):
        super().__init__(model)
        self.training_rows = training_rows
        self.relative = relative

    def _attribute(self, rows: Rows) -> Attribution:
        score = rows.score
        if not isinstance(score, HasExpansion):
            raise lacks(score, "OneClassDTD", "support points and a kernel (method='auto' picks another)")
        values, scores = relevance(score, rows.X, rows.skipped)
        base = score.base_values(rows.skipped) if isinstance(score, KernelScore) else 0.0
        plain = Attribution(values, scores, base, params={"rows_left_out": int((rows.skipped >= 0).sum())})
        return plain if self.relative is False else self._compare_with_usual(rows, plain)

    def _compare_with_usual(self, rows: Rows, plain: Attribution) -> Attribution:
        """Relevance beside what is usual of it, or as it is where the rule of "auto" says so."""
        ordinary = self._ordinary(rows)
        if ordinary is None and self.relative is True:
            raise InvalidInput(
                f"OneClassDTD(relative=True) compares relevance with that of ordinary rows: the model keeps "
                f"fewer than {LEAST_ROWS}. Call remember(X_train) with the rows it was fitted on first."
            )
        if ordinary is None:
            words = "plain relevance: there are no ordinary rows to compare it with"
            return replace(plain, params={**plain.params, "form": words})
        if self.relative == "auto" and not ordinary.naming.prefers_relative:
            return replace(plain, params={**plain.params, "form": f"plain relevance: {_tell_why(ordinary)}"})
        values = rows.by_owner(plain.values)
        why = "asked for" if self.relative is True else _tell_why(ordinary)
        params = {
            "form": f"relevance beside the usual one: {why}",
            "usual_relevance": ordinary.usual.tolist(),
        }
        return replace(
            plain,
            values=values / ordinary.usual,
            extras={"relevance": rows.shaped(values)},
            params={**plain.params, **params},
            per_owner=True,
            kind="relative",
        )

    def _ordinary(self, rows: Rows) -> OrdinaryRows | None:
        """Ordinary rows with what is usual of them, found once for each model and what was remembered."""
        given = self._ordinary_rows()
        known = vars(self).get("_known_ordinary")
        if known is None or known[0] is not rows.score or known[1] is not given:
            X = None if given is None else self._read(given).X
            known = (rows.score, given, OrdinaryRows.of(rows, X))
            self._known_ordinary = known
        found: OrdinaryRows | None = known[2]
        return found

    def explain_support(self, X: ArrayLike) -> SupportExplanation:
        """Explain outlierness by support points, equations 4 and 5: R_j = p_j · o (Σ_j R_j = o)."""
        validate_parameters(self)
        rows = self._find_kernel_rows(X)
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
        rows = self._find_kernel_rows(X)
        score: KernelScore = rows.score
        values = np.empty((len(rows.X), len(score.expansion.weights)))
        for batch in score.pooled(rows.X, "shares", rows.skipped):
            inlierness = score.inlierness_of(batch.outlierness, rows.skipped[batch.rows])
            values[batch.rows] = batch.coefficients * inlierness[:, None]
        return _support(score, values, values.sum(axis=1), "inlierness g(x) = Σ_j α_j k(‖x − u_j‖)")

    def _find_kernel_rows(self, X: ArrayLike) -> Rows:
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
        return score.leave_some(_find_points_of(given, score.remembered))


def _tell_why(ordinary: OrdinaryRows) -> str:
    """What the choice between the two forms rests on."""
    naming = ordinary.naming
    if not naming.n:
        return "no column of the ordinary rows changes"
    verb = "better" if naming.prefers_relative else "no better"
    return (
        f"of {naming.n} ordinary rows with one column moved, the relative form names that column {verb} than "
        f"the plain one (mean reciprocal rank {naming.relative:.2f} against {naming.plain:.2f})"
    )


def _find_points_of(training_rows: Integers, expansion: Remembered) -> Integers:
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


def _support(score: KernelScore, values: Floats, scores: Floats, explains: str) -> SupportExplanation:
    expansion = score.expansion
    return SupportExplanation(values, scores, expansion.points, expansion.training_rows, explains)
