"""Prediction difference analysis: how the odds change when nobody knows a part of the input.

The part is drawn anew given the cells around it, from a Gaussian distribution learned from rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from sklearn.covariance import ledoit_wolf

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Rules, Seed, integer, one_of, seed
from tellwhy.core.progress import track
from tellwhy.core.score import Floats, Integers, IsPrediction
from tellwhy.explainers.base import BackgroundExplainer, refuse_set
from tellwhy.explainers.perturbation.occlusion import (
    WINDOW_PARAMETERS,
    Canvas,
    PatchWindows,
    Sizes,
    input_shape,
    windows,
)
from tellwhy.explainers.rows import BATCH_PARAMETERS, Attribution, Rows

_LEAST = 1e-9  # of a variance, relative to the mean variance: constant cells have none


@dataclass(frozen=True)
class ConditionalGaussian:
    """x_w given x_near ~ N(mean_w + slopes (x_near − mean_near), spread spreadᵀ)."""

    mean: Floats
    mean_near: Floats
    slopes: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: Floats, cells: Integers, near: Integers) -> ConditionalGaussian:
        """Learn it; the covariance is shrunk, since rows may be fewer than cells."""
        both = np.concatenate([cells, near])
        some = rows[:, both]
        scale = some.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        mean = some.mean(axis=0)
        covariance = np.asarray(ledoit_wolf((some - mean) / scale, assume_centered=True)[0])
        covariance[np.diag_indices_from(covariance)] += _LEAST * max(
            float(np.trace(covariance)) / len(both), _LEAST
        )
        k = len(cells)
        factor = cho_factor(covariance[k:, k:], lower=True)
        slopes = cho_solve(factor, covariance[k:, :k]).T
        left = covariance[:k, :k] - slopes @ covariance[k:, :k]
        # A root that also serves where rounding made a variance of zero slightly negative.
        eigenvalues, vectors = np.linalg.eigh((left + left.T) / 2)
        spread = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
        return cls(mean[:k], mean[k:], slopes * scale[:k, None] / scale[k:], spread * scale[:k, None])

    def draw(self, near: Floats, normal: Floats) -> Floats:
        """Draws for every row, (rows, draws, cells), from standard normal numbers (draws, cells)."""
        centre = self.mean + (near - self.mean_near) @ self.slopes.T
        return np.asarray(centre[:, None, :] + normal @ self.spread.T)


_SUM = 1e-3  # outputs of a row that add up to 1 within this are probabilities
_MOST_ROWS = 1000  # background rows that are kept


class PredictionDifference(BackgroundExplainer):
    """L(p(x)) − L(mean_s p(x with part w drawn)), with L(p) = log2(p/(1 − p)): evidence of a part, in bits.

    A part is a column, or a patch that is moved over a picture; not knowing it means averaging over what it
    could have been. "marginal" draws it from background rows. "conditional" draws it from a Gaussian
    distribution of the part given what surrounds it, learned from background rows: a patch that its
    surroundings tell is not missed.

    What a part is worth is shared evenly by its cells, as in `Occlusion`. Of scores that are no probabilities
    the difference itself is taken, in the unit of the score.

    Parameters
    ----------
    model
        Any model or function that `tellwhy.scoring.as_score` reads.
    patch, stride, axes
        As in `Occlusion`; without a patch, one column or cell at a time.
    sampling
        "conditional" or "marginal".
    n_samples
        Draws per part.
    margin
        Cells around a patch, along the axes it moves on, that a conditional draw looks at; columns of a table
        look at all others.
    scale
        "probability": the score is one, and evidence is in bits; "log_odds": the score is a logarithm of
        odds, and evidence is in bits, too; "score": differences of the score; "auto": a classifier's
        probabilities are taken as such, everything else as scores.
    random_state
        Seed of the draws.
    batch_size, n_jobs
        As in `Occlusion`.

    Examples
    --------
    >>> background = np.random.default_rng(0).normal(size=(200, 2))
    >>> sure = PredictionDifference(lambda X: 3 * X[:, 0], scale="log_odds", sampling="marginal")
    >>> bool(sure.fit(background).explain(np.array([[2.0, 1.0]])).values[0, 0] > 6)
    True
    """

    calls_in_batches = True
    least_rows = 2
    _parameters: ClassVar[dict[str, Rules]] = {
        **WINDOW_PARAMETERS,
        "sampling": one_of("conditional", "marginal"),
        "n_samples": integer(2),
        "margin": integer(1),
        "scale": one_of("auto", "probability", "log_odds", "score"),
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
        sampling: str = "conditional",
        n_samples: int = 32,
        margin: int = 4,
        scale: str = "auto",
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(model)
        self.patch_size = patch_size
        self.stride = stride
        self.axes = axes
        self.sampling = sampling
        self.n_samples = n_samples
        self.margin = margin
        self.scale = scale
        self.random_state = random_state
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    def _fit(self, X: ArrayLike) -> None:
        """Keep background rows."""
        everyone = self.rows(X).X
        chosen = np.random.default_rng(self._seed()).permutation(len(everyone))[:_MOST_ROWS]
        self.background_ = everyone[np.sort(chosen)]

    def _attribute(self, rows: Rows) -> Attribution:
        self._check_fitted("background_")
        parts = self._parts(rows)
        scale = self._scale(rows)
        scores = rows.scores()
        evidence = np.empty((len(rows.X), len(parts.cells)))
        errors = np.empty_like(evidence)
        for number, cells in track(enumerate(parts.cells), len(parts.cells), "leaving parts unknown"):
            draws = self._draws(rows.X, cells, parts.near[number])
            for i in range(len(rows.X)):
                fill = np.tile(rows.X[i], (self.n_samples, 1))
                fill[:, cells] = draws[i]
                found = Canvas(rows, i).scores(np.zeros(fill.shape, dtype=bool), fill)
                known = _evidence(scores[i : i + 1], scale, len(self.background_))[0]
                unknown = _evidence(found, scale, len(self.background_))
                evidence[i, number] = known - unknown[0]
                errors[i, number] = unknown[1]
        explained = np.array([_evidence(s[None], scale, len(self.background_))[0] for s in scores])
        base = _base(rows, self.background_, scale)
        shared = [parts.share(*each) for each in zip(evidence, errors, strict=True)]
        unit = "score" if scale == "score" else "bits"
        return Attribution(
            np.stack([values for values, _ in shared]),
            explained,
            base,
            np.stack([spread for _, spread in shared]),
            params={"scale": scale, "unit": unit},
            per_owner=parts.moved is None,
        )

    def _parts(self, rows: Rows) -> _Parts:
        if self.patch_size is None and self.stride is None and self.axes is None:
            refuse_set(self, "margin", "patches, around which it looks")
            cells = [np.flatnonzero(rows.owner == owner) for owner in range(rows.n_owners)]
            near = [np.flatnonzero(rows.owner != owner) for owner in range(rows.n_owners)]
            return _Parts(cells, near, None)
        moved = windows(input_shape(rows, "PredictionDifference"), self.patch_size, self.stride, self.axes)
        both = [moved.around(k, self.margin) for k in range(len(moved))]
        return _Parts([np.flatnonzero(a) for a, _ in both], [np.flatnonzero(b) for _, b in both], moved)

    def _draws(self, X: Floats, cells: Any, near: Any) -> Floats:
        """What a part could have been, for every row: (rows, n_samples, cells)."""
        # The same numbers for every part: differences between parts are not those of the draws.
        rng = np.random.default_rng(self._seed())
        if self.sampling == "conditional" and len(near) and len(cells):
            known = ConditionalGaussian.of(self.background_, cells, near)
            return known.draw(X[:, near], rng.normal(size=(self.n_samples, len(cells))))
        chosen = rng.integers(len(self.background_), size=self.n_samples)
        drawn = self.background_[chosen][:, cells]
        return np.broadcast_to(drawn, (len(X), *drawn.shape))

    def _scale(self, rows: Rows) -> str:
        """How scores are read."""
        score: Any = rows.score
        if self.scale == "auto":
            if not isinstance(score, IsPrediction) or not hasattr(score, "outputs"):
                return "score"
            found = np.asarray(score.outputs(rows.X[:20]))
            inside = found.min() >= 0 and found.max() <= 1 and found.shape[1] > 1
            return "probability" if inside and np.allclose(found.sum(axis=1), 1, atol=_SUM) else "score"
        if self.scale == "probability":
            found = rows.scores()
            if found.min() < 0 or found.max() > 1:
                raise InvalidInput(
                    "PredictionDifference(scale='probability') needs scores between 0 and 1; "
                    f"{score.describes} is between {found.min():g} and {found.max():g} here. "
                    "Use scale='log_odds' or 'score'."
                )
        return self.scale

    def _seed(self) -> int:
        return int(self.random_state) if isinstance(self.random_state, (int, np.integer)) else 0


class _Parts:
    """The parts of an input: the cells of each, those near them, and how cells share what is found."""

    def __init__(self, cells: list[Any], near: list[Any], moved: PatchWindows | None):
        self.cells = cells
        self.near = near
        self.moved = moved

    def share(self, evidence: Floats, errors: Floats) -> tuple[Floats, Floats]:
        """Values and standard errors per cell, or per column of the user's."""
        if self.moved is None:
            return evidence, errors
        return self.moved.per_cell(evidence), self.moved.error_per_cell(errors)


def _evidence(scores: Floats, scale: str, n_rows: int) -> tuple[float, float]:
    """L of the mean, and its standard error over the draws."""
    if scale == "score":
        return float(scores.mean()), _estimate_standard_error(scores)
    p = scores if scale == "probability" else 1 / (1 + np.exp(-np.clip(scores, -700, 700)))
    # Laplace's correction: of n rows that said so, one more each way; odds stay finite.
    mean = float((p.mean() * n_rows + 1) / (n_rows + 2))
    slope = 1 / (np.log(2) * mean * (1 - mean))
    return float(np.log2(mean / (1 - mean))), _estimate_standard_error(p) * slope


def _estimate_standard_error(numbers: Floats) -> float:
    return float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else 0.0


def _base(rows: Rows, background: Floats, scale: str) -> Floats:
    """Evidence of a row of which nothing is known: that of the mean over background rows."""
    outputs = [None] if rows.output is None else [int(output) for output in np.unique(rows.output)]
    found = {}
    for output in outputs:
        own = () if output is None else (np.full(len(background), output, dtype=np.int64),)
        found[output] = _evidence(np.asarray(rows.score.value(background, *own)), scale, len(background))[0]
    keys = [None] * len(rows.X) if rows.output is None else [int(output) for output in rows.output]
    return np.array([found[key] for key in keys])
