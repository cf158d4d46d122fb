"""How much a score falls when one column, or a patch of an input, takes other values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.parallel import row_batches, tracked_batches
from tellwhy.core.params import Rule, Rules, Seed, generator, integer, one_of, seed
from tellwhy.core.progress import track
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.explainers.base import Attribution, BackgroundExplainer, Rows, mean_of_rows
from tellwhy.explainers.in_batches import BATCH_PARAMETERS
from tellwhy.explainers.perturbation.canvas import Canvas, baseline_row, baseline_words, input_shape
from tellwhy.explainers.perturbation.windows import WINDOW_PARAMETERS, Sizes, windows

baseline_rule: Rules = (
    one_of("background"),
    Rule(
        "a number, or an array like one input", lambda value: not isinstance(value, str) and value is not None
    ),
)


@register(
    "explainer",
    family="perturbation",
    needs="any score; background rows",
    cost="d × n_background scores per row; of patches, one per patch and background row",
    exactness="exact for the drawn background; interactions are stated as residual",
    citation="Zeiler, Fergus, ECCV (2014); Robnik-Šikonja, Kononenko, IEEE TKDE 20 (2008)",
    applies=lambda _: True,
    automatic=10,
)
class Occlusion(BackgroundExplainer):
    """R_i = o(x) − mean_b o(x with column i taken from background row b), for any score at all.

    One column is replaced at a time, so what several columns cause only together is not attributed; it stays
    in the residual. A negative value says that the column makes the row look more normal. The base value is
    the mean score of the background, which is what a row without any odd column would have.

    Of pictures and other arrays, a `patch` is moved over the input. What the score falls by is shared evenly
    by the cells of the patch; a cell under several patches gets the mean of its shares.

    Parameters
    ----------
    model
        Any model or function that `tellwhy.scoring.as_score` reads.
    patch
        Size of the patch along each of `axes`; None: one column or cell at a time.
    stride
        Step along each of them; None: the size of the patch, so that patches do not overlap.
    axes
        Axes of one input that the patch moves along, all others being covered as a whole: (0,) with patch=1
        takes one channel of (channels, time) at a time. By default the two axes of a picture, or the one of a
        sequence.
    baseline
        What comes into the place of a column or a patch: values of "background" rows, a number, or an array
        like one input. The latter two need no `fit`, and the base value is then the score of the baseline.
    n_background
        Background rows drawn per explanation (fewer where there are fewer).
    random_state
        Seed of that draw.
    batch_size
        Rows that the model gets per call, at most; None: as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; −1: one per core. Results do not depend on it.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> background = np.random.default_rng(0).normal(size=(100, 2))
    >>> explainer = Occlusion(lambda X: (X**2).sum(axis=1)).fit(background)
    >>> explainer.explain(np.array([[0.0, 5.0]])).values.round()
    array([[-1., 24.]])
    >>> picture = np.arange(16.0).reshape(1, 4, 4)
    >>> score = FunctionScore(lambda X: X[:, :2, :2].sum(axis=(1, 2)), feature_shape=(4, 4))
    >>> Occlusion(score, patch=2, baseline=0.0).explain(picture).values[0]
    array([[2.5, 2.5, 0. , 0. ],
           [2.5, 2.5, 0. , 0. ],
           [0. , 0. , 0. , 0. ],
           [0. , 0. , 0. , 0. ]])
    """

    calls_in_batches = True
    _parameters: ClassVar[dict[str, Rules]] = {
        **WINDOW_PARAMETERS,
        "baseline": baseline_rule,
        "n_background": integer(1),
        "random_state": seed,
        **BATCH_PARAMETERS,
    }

    def __init__(
        self,
        model: object,
        *,
        patch: Sizes = None,
        stride: Sizes = None,
        axes: Sequence[int] | None = None,
        baseline: ArrayLike | str = "background",
        n_background: int = 32,
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int = 1,
    ):
        super().__init__(model)
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.patch = patch
        self.stride = stride
        self.axes = axes
        self.baseline = baseline
        self.n_background = n_background
        self.random_state = random_state

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]
        """Whether background rows come into the place of columns."""
        return isinstance(self.baseline, str)

    def _fit(self, X: ArrayLike) -> None:
        """Draw the background rows."""
        everyone = self.rows(X).X
        chosen = generator(self.random_state).permutation(len(everyone))[: self.n_background]
        # in their own order: the same rows give the same sums, whatever order they were drawn in
        self.background_ = everyone[np.sort(chosen)]

    def _attribute(self, rows: Rows) -> Attribution:
        if self.needs_rows:
            self._check_fitted("background_")
        if self.patch is None and self.stride is None and self.axes is None and self.needs_rows:
            return self._by_column(rows)
        return self._by_window(rows)

    def _by_window(self, rows: Rows) -> Attribution:
        """Move the patch over every row."""
        moved = windows(input_shape(rows, "Occlusion"), self.patch, self.stride, self.axes)
        fills = self.background_ if self.needs_rows else baseline_row("Occlusion", self.baseline, rows)[None]
        scores = rows.scores()
        values = np.empty(rows.X.shape)
        base = np.zeros(len(rows.X))
        parts = row_batches(len(moved), 2 * rows.X.shape[1])
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
        return Attribution(values, scores, base, params=baseline_words(self.baseline))

    def _by_column(self, rows: Rows) -> Attribution:
        scores = rows.scores()
        values = np.empty((len(rows.X), rows.n_owners))
        bytes_per_row = 8 * rows.X.shape[1] * len(self.background_)
        for batch in tracked_batches(len(rows.X), bytes_per_row, "explaining by occlusion"):
            for column in range(rows.n_owners):
                occluded = self._replaced(rows, batch, rows.owner == column)
                values[batch, column] = scores[batch] - occluded
        base = mean_of_rows(rows, self.background_)
        return Attribution(values, scores, base, per_owner=True)

    def _replaced(self, rows: Rows, batch: slice, columns: NDArray[np.bool_]) -> Floats:
        """Return the mean score of each row with some columns taken from each background row."""
        X = rows.X[batch]
        own = tuple(each[batch] for each in rows.without)
        if not columns.any():  # the user's column has no part in the score: an encoder dropped it
            return np.asarray(rows.score.value(X, *own))
        many = np.repeat(X[:, None, :], len(self.background_), axis=1)
        many[:, :, columns] = self.background_[None, :, columns]
        repeated = tuple(np.repeat(each, len(self.background_)) for each in own)
        found = rows.score.value(many.reshape(-1, X.shape[1]), *repeated)
        return np.asarray(found.reshape(len(X), -1).mean(axis=1))
