"""What other methods are compared with, one class each.

Expected value and squared differences to the nearest support point, terms of a diagonal Gaussian, edges of a
picture (which know nothing of the model), random numbers (which every method must beat), and the shares that
a score knows itself, such as a committee's.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import ndimage

from tellwhy.core.arrays import ColumnSpread
from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.params import Rules, Seed, generator, real, seed
from tellwhy.core.score import (
    CentreDistance,
    Expansion,
    Floats,
    HasExpansion,
    HasShares,
    KernelExpansion,
    support_points,
)
from tellwhy.data.pieces import HasPatches
from tellwhy.explainers.base import BackgroundExplainer, ScoreExplainer, lacks
from tellwhy.explainers.rows import BATCH_PARAMETERS, Attribution, Rows
from tellwhy.scoring.distance_scores import find_nearest_points
from tellwhy.scoring.function_scores import FlatScore


class ExpectedValue(ScoreExplainer):
    """R_i = (x_i − ū_i)² with ū = Σ_j α_j u_j, the weighted mean of the support points.

    Examples
    --------
    >>> from tellwhy.detectors import KernelDensity
    >>> model = KernelDensity(bandwidth=1.0).fit([[0.0, 0.0], [4.0, 4.0]])
    >>> ExpectedValue(model).explain([[1.0, 2.0]]).values
    array([[1., 0.]])
    """

    kind = "ranking"

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasExpansion):
            raise lacks(rows.score, "ExpectedValue", "support points")
        expected = _compute_expected(rows.score.expansion)
        # the score of a training row includes itself here: ū does, too
        return Attribution(np.square(rows.X - expected), rows.scores())


def _compute_expected(expansion: Expansion) -> Floats:
    """Mean of the points that a score is made of, by their weights where they have any."""
    if isinstance(expansion, KernelExpansion):
        return np.asarray(expansion.weights @ expansion.points)
    points = expansion.centres if isinstance(expansion, CentreDistance) else expansion.points
    return np.asarray(points.mean(axis=0))


class NearestSupport(ScoreExplainer):
    """R_i = (x_i − u_i)² for the support point u nearest to x (another one than x itself).

    Examples
    --------
    >>> from tellwhy.detectors import KernelDensity
    >>> model = KernelDensity(bandwidth=1.0).fit([[0.0, 0.0], [4.0, 4.0]])
    >>> NearestSupport(model).explain([[1.0, 2.0]]).values
    array([[1., 4.]])
    """

    kind = "ranking"
    leaves_rows_out = True

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasExpansion):
            raise lacks(rows.score, "NearestSupport", "support points")
        points = support_points(rows.score)
        if points is None:
            raise UnsupportedModel(
                "NearestSupport needs support points; this model is a distance to a centre."
            )
        nearest = find_nearest_points(points, rows.X, rows.skipped)
        return Attribution((rows.X - points[nearest]) ** 2, rows.scores())


class GaussianNLL(BackgroundExplainer):
    """R_i = (x_i − μ_i)² / (2 (s_i² + λ v)): how far each feature is from its own mean.

    What the model says does not enter: this is what a reader sees in a table of z-scores.

    μ_i and s_i² are the mean and the variance of the background rows, and v the mean variance over the
    features, so that λ has no unit and a constant feature does not divide by zero.

    Parameters
    ----------
    model
        The model whose scores are shown; its structure is not used.
    regularisation
        λ.

    Examples
    --------
    >>> from tellwhy.explainers import GaussianNLL
    >>> background = np.random.default_rng(0).normal(size=(500, 2))
    >>> explainer = GaussianNLL(lambda X: np.abs(X).sum(axis=1)).fit(background)
    >>> int(explainer.explain(np.array([[0.0, 5.0]])).values.argmax())
    1
    """

    kind = "ranking"
    _parameters: ClassVar[dict[str, Rules]] = {"regularisation": real(0, np.inf, closed="left")}

    def __init__(self, model: object, *, regularisation: float = 1e-3):
        super().__init__(model)
        self.regularisation = regularisation

    def _fit(self, X: ArrayLike) -> None:
        """Learn mean and variance of each feature from background rows."""
        background = self.rows(X).X
        spread = ColumnSpread.of(background)
        self.mean_ = spread.mean
        self.variance_ = spread.deviation**2

    def _attribute(self, rows: Rows) -> Attribution:
        self._check_fitted("mean_")
        # where all columns are constant there is no mean variance either: then any positive number will do
        unit = max(float(self.variance_.mean()), np.finfo(float).tiny)
        variance = self.variance_ + self.regularisation * unit
        difference = rows.X - self.mean_
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(difference == 0, 0.0, difference**2 / (2 * variance))
        # a value never seen in a constant column is as odd as can be told, not infinitely odd
        return Attribution(np.minimum(terms, np.finfo(float).max), rows.scores())


CHANNELS = (1, 3, 4)


class Sobel(ScoreExplainer):
    """R_p = Σ over the axes of (Sobel filter along the axis at p)², for each channel.

    Parameters
    ----------
    model
        A model of pictures or series, such as a `PatchModel`.

    Examples
    --------
    >>> from tellwhy.detectors import PatchModel
    >>> rng = np.random.default_rng(0)
    >>> model = PatchModel(patch_size=(3, 3)).fit(rng.normal(size=(3, 8, 8)))
    >>> step = np.zeros((1, 8, 8))
    >>> step[0, :, 4:] = 1.0
    >>> Sobel(model).explain(step).values[0, 4]
    array([ 0.,  0.,  0., 16., 16.,  0.,  0.,  0.])
    """

    kind = "ranking"

    def _attribute(self, rows: Rows) -> Attribution:
        shape = rows.X.shape[1:] if rows.shape is None else rows.shape
        n_axes = _count_axes(rows.score, shape)
        inputs = rows.X.reshape(len(rows.X), *shape)
        edges = np.stack([_edges(one, n_axes) for one in inputs])
        return Attribution(edges.reshape(rows.X.shape), rows.scores())


def _count_axes(score: object, shape: tuple[int, ...]) -> int:
    """Axes of a picture or series, without that of its channels."""
    inner = score.inner if isinstance(score, FlatScore) else score
    if isinstance(inner, HasPatches):
        return len(inner.patch_rows.windows.size)
    if len(shape) == 2 or (len(shape) == 3 and shape[-1] in CHANNELS):
        return 2
    raise UnsupportedModel(f"Sobel needs pictures (h, w) or (h, w, channels); rows have the shape {shape}.")


def _edges(one: Floats, n_axes: int) -> Floats:
    if n_axes == 1:
        slope = ndimage.convolve1d(one, [1.0, 0.0, -1.0], axis=0, mode="nearest")
        return np.asarray(slope**2)
    channels = one[..., None] if one.ndim == 2 else one
    found = np.empty_like(channels)
    for c in range(channels.shape[2]):
        picture = channels[..., c]
        found[..., c] = sum(ndimage.sobel(picture, axis=axis, mode="nearest") ** 2 for axis in (0, 1))
    return found.reshape(one.shape)


class RandomAttribution(ScoreExplainer):
    """R_i drawn uniformly from [0, 1), independently of the row and the model.

    Parameters
    ----------
    model
        The model whose scores are shown.
    random_state
        Seed; the same seed gives the same numbers.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; None: one, −1: one per core. Results do not depend
        on it.

    Examples
    --------
    >>> import numpy as np
    >>> RandomAttribution(lambda X: X.sum(axis=1)).explain(np.ones((4, 3))).values.shape
    (4, 3)
    """

    kind = "ranking"
    reads_rows = False
    calls_in_batches = True
    _parameters: ClassVar[dict[str, Rules]] = {"random_state": seed, **BATCH_PARAMETERS}

    def __init__(
        self,
        model: object,
        *,
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _attribute(self, rows: Rows) -> Attribution:
        # one generator per call: the same rows get other numbers in another batch, and no seed is used up
        values = generator(self.random_state).random((len(rows.X), rows.n_owners))
        return Attribution(values, rows.scores())


class CommitteeShares(ScoreExplainer):
    """R_i = Σ_m p_m · r_mi / s_m: p_m is the part of member m in the surprise, r_mi that of column i in s_m.

    A row that the model was trained on is judged without itself.

    Examples
    --------
    >>> import numpy as np
    >>> from tellwhy.detectors import Committee
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> explanation = CommitteeShares(Committee().fit(X)).explain([[0.1, 9.0, 0.2]])
    >>> int(explanation.values.argmax())
    1
    """

    leaves_rows_out = True

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasShares):
            raise lacks(rows.score, "CommitteeShares", "shares of its own")
        return Attribution(rows.score.shares(rows.X, *rows.without), rows.scores())
