"""LIME: a linear model of which pieces of an input matter, by weighted ridge regression around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import TOKENS, Extras
from tellwhy.core.params import Rule, Rules, Seed, integer, one_of, real, seed, validate_parameters
from tellwhy.core.progress import shown, track
from tellwhy.core.score import Floats, Integers
from tellwhy.data.pieces import segment
from tellwhy.explainers.base import BackgroundExplainer, Condition, refuse_set
from tellwhy.explainers.perturbation.occlusion import Canvas, describe_baseline
from tellwhy.explainers.rows import BATCH_PARAMETERS, Attribution, Rows, read_replacement_row
from tellwhy.scoring.class_scores import as_class_scores, as_outputs, learn_outputs
from tellwhy.scoring.function_scores import takes_arrays

_FIRM = 1e-12  # of the mean of N's diagonal: a penalty that does not show
_SHARE = 0.01  # of it, times pieces per mask: the penalty where masks are drawn, one in a hundred at most


@dataclass(frozen=True)
class LocalModel:
    """f(z) ≈ intercept + Σ_j coefficients_j z_j for masks z; `errors` are standard errors of coefficients."""

    coefficients: Floats
    intercept: float
    errors: Floats


def weigh_masks(masks: Floats, width: float) -> Floats:
    """Weight of each mask, sqrt(exp(−D²/width²)) with D the cosine distance from the mask that keeps all.

    Examples
    --------
    >>> weigh_masks(np.array([[1.0, 1.0], [1.0, 0.0]]), 0.25).round(3)
    array([1.   , 0.503])
    """
    kept = masks.mean(axis=1)
    distance = 1.0 - np.sqrt(kept)
    return np.exp(-0.5 * np.square(distance / width))


@dataclass(frozen=True)
class Design:
    """Masks and their weights, prepared for many regressions on the same masks.

    Ridge regression without a penalty on the intercept: masks are centred by their weighted means, and
    `solver` maps centred, weighted outputs to coefficients. With N the centred masks' weighted products, a
    penalty α makes (N + αI)⁻¹N w of the true w; `shrinkage` = αN⁻¹ tells from the result what that took away.
    """

    masks: Floats  # (samples, pieces)
    weights: Floats  # (samples,)
    means: Floats  # (pieces,)
    solver: Floats  # (pieces, samples)
    shrinkage: Floats  # (pieces, pieces)

    @property
    def is_complete(self) -> bool:
        """Whether these are all masks there are."""
        return len(self.masks) == 2.0 ** self.masks.shape[1]

    @classmethod
    def of(cls, masks: Floats, weights: Floats, alpha: float | str) -> Design:
        """Prepare masks for a penalty alpha; "auto": what keeps the solution firm where masks are drawn."""
        means = weights @ masks / weights.sum()
        centred = masks - means
        weighted = centred * weights[:, None]
        normal = centred.T @ weighted
        unit = np.eye(len(normal))
        usual = np.trace(normal) / len(normal) or 1.0  # a narrow kernel forgets all sets but one
        share = 0.0 if len(masks) == 2.0 ** len(normal) else _SHARE * len(normal) / len(masks)
        penalty = share * usual if isinstance(alpha, str) else alpha
        firm = normal + _FIRM * usual * unit  # invertible, however few the masks
        solver = np.linalg.solve(firm + penalty * unit, weighted.T)
        return cls(masks, weights, means, solver, penalty * np.linalg.inv(firm))

    def fit(self, outputs: Floats) -> LocalModel:
        """Fit the outputs of random masks."""
        found = self._fit_coefficients(outputs[None])[0]
        intercept = self._fit_intercepts(outputs[None], found[None])[0]
        misfit = outputs - intercept - self.masks @ found
        # What each sample adds to the coefficients, times its misfit: holds whatever the noise looks like.
        errors = np.hypot(np.sqrt(np.square(self.solver * misfit).sum(axis=1)), self.shrinkage @ found)
        return LocalModel(found, float(intercept), errors)

    def fit_each(self, outputs: Floats) -> LocalModel:
        """Mean of the fits to outputs (r, samples) of all masks, one row for each way to replace pieces.

        Standard errors are those of the mean over these ways, with what the penalty took; nothing else is
        left to chance.
        """
        found = self._fit_coefficients(outputs)
        intercepts = self._fit_intercepts(outputs, found)
        n = len(outputs)
        mean = found.mean(axis=0)
        errors = found.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(mean))
        return LocalModel(mean, float(intercepts.mean()), np.hypot(errors, self.shrinkage @ mean))

    def _levels(self, outputs: Floats) -> Floats:
        return np.asarray(outputs @ self.weights / self.weights.sum())

    def _fit_coefficients(self, outputs: Floats) -> Floats:
        return np.asarray((outputs - self._levels(outputs)[:, None]) @ self.solver.T)

    def _fit_intercepts(self, outputs: Floats, coefficients: Floats) -> Floats:
        return np.asarray(self._levels(outputs) - coefficients @ self.means)


def make_all_masks(n_pieces: int) -> Floats:
    """Every mask, the one that keeps everything first."""
    numbers = np.arange(2**n_pieces)[::-1, None]
    return ((numbers >> np.arange(n_pieces)) & 1).astype(np.float64)


def draw_random_masks(n_samples: int, n_pieces: int, seed: int) -> Floats:
    """Masks of zeros and ones, each with probability ½; the first keeps everything."""
    masks = np.random.default_rng(seed).integers(0, 2, size=(n_samples, n_pieces)).astype(np.float64)
    masks[0] = 1.0
    return masks


@lru_cache(maxsize=8)
def design(n_samples: int, n_pieces: int, width: float, alpha: float | str, seed: int) -> Design:
    """Masks, prepared: all of them where that are no more than the samples, random ones elsewhere.

    Inputs with as many pieces share them.
    """
    few = n_pieces < 31 and 2**n_pieces <= n_samples
    masks = make_all_masks(n_pieces) if few else draw_random_masks(n_samples, n_pieces, seed)
    return Design.of(masks, weigh_masks(masks, width), alpha)


_WORD = re.compile(r"\w+")


class Lime(BackgroundExplainer):
    """Coefficients of o(z) ≈ b + Σ_j w_j z_j, where z_j says whether piece j of the input was kept.

    Pieces are the columns of a table, segments of a picture or a sequence, or the cells of a bag of words
    that are not zero. Each sample keeps a random half of them; where there are few pieces, every set of them
    is tried. Samples near the input, in the cosine of their masks, weigh more; the coefficients are those of
    a ridge regression. A piece's coefficient is shared evenly by its cells, the base value is the intercept,
    and the residual is what the linear model misses at the input itself.

    `explain_texts` takes texts as they are, whose pieces are their words.

    Parameters
    ----------
    model
        Any model or function that `tellwhy.scoring.as_score` reads; for `explain_texts` a classifier of
        texts, or a function of a list of texts.
    n_samples
        Samples per row, the row itself among them.
    pieces
        "columns", "segments", "present" (cells that differ from the baseline: words of a bag of words), or
        "auto": segments of inputs with two axes or more, columns of all others.
    n_segments
        Segments of a picture, about.
    baseline
        What comes into the place of a piece that is not kept: "background" (rows of `fit`, another one for
        each sample, or several for each set), "mean" (of the piece's own cells, per channel), a number, an
        array like one input, or "auto": the background for columns, the mean for segments, zero for cells
        that are present.
    width
        Of the kernel: samples weigh sqrt(exp(−D²/width²)), D the cosine distance.
    alpha
        Penalty of the ridge regression, which draws coefficients towards zero; what it takes is part of the
        standard errors. "auto": none where all sets of pieces are tried, else one that is small.
    random_state
        Seed of the samples.
    batch_size, n_jobs
        As in `Occlusion`.

    Examples
    --------
    >>> background = np.random.default_rng(0).normal(size=(100, 3))
    >>> background -= background.mean(axis=0)
    >>> explainer = Lime(lambda X: 2 * X[:, 0] - X[:, 2]).fit(background)
    >>> explainer.explain(np.array([[1.0, 5.0, 3.0]])).values.round()
    array([[ 2.,  0., -3.]])
    """

    calls_in_batches = True
    _counts_with: ClassVar[dict[str, Condition]] = {
        "n_segments": ("pieces='segments' or 'auto'", lambda own: own.pieces in ("auto", "segments")),
    }
    _parameters: ClassVar[dict[str, Rules]] = {
        "n_samples": integer(4),
        "pieces": one_of("auto", "columns", "segments", "present"),
        "n_segments": integer(2),
        "baseline": (
            one_of("auto", "background", "mean"),
            Rule("a number, or an array like one input", lambda v: not isinstance(v, str) and v is not None),
        ),
        "width": real(0, np.inf),
        "alpha": (one_of("auto"), real(0, np.inf)),
        "random_state": seed,
        **BATCH_PARAMETERS,
    }

    def __init__(
        self,
        model: object,
        *,
        n_samples: int = 1000,
        pieces: str = "auto",
        n_segments: int = 50,
        baseline: ArrayLike | str = "auto",
        width: float = 0.25,
        alpha: float | str = "auto",
        random_state: Seed = 0,
        batch_size: int | None = None,
        n_jobs: int | None = None,
    ):
        super().__init__(model)
        self.n_samples = n_samples
        self.pieces = pieces
        self.n_segments = n_segments
        self.baseline = baseline
        self.width = width
        self.alpha = alpha
        self.random_state = random_state
        self.batch_size = batch_size
        self.n_jobs = n_jobs

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]
        """Whether pieces may be replaced by those of background rows."""
        if not isinstance(self.baseline, str) or self.baseline == "mean":
            return False
        of_columns = self.pieces == "columns" or (self.pieces == "auto" and not takes_arrays(self.score))
        return self.baseline == "background" or of_columns

    def _fit(self, X: ArrayLike) -> None:
        """Keep background rows."""
        self.background_ = self.rows(X).X

    def _attribute(self, rows: Rows) -> Attribution:
        if self._kind(rows) != "segments":
            refuse_set(self, "n_segments", "segments of pictures and sequences")
        values = np.zeros(rows.X.shape)
        stderr = np.zeros(rows.X.shape)
        base = np.zeros(len(rows.X))
        pieces = np.zeros(rows.X.shape, dtype=np.int64)
        for i in track(range(len(rows.X)), len(rows.X), "fitting linear models around inputs"):
            pieces[i] = self._pieces(rows, i)
            found = self._fitted(Canvas(rows, i), pieces[i], self._fill(rows, i, pieces[i]))
            base[i] = found.intercept
            shared = np.bincount(pieces[i], minlength=len(found.coefficients))
            values[i] = (found.coefficients / shared)[pieces[i]]
            stderr[i] = (found.errors / shared)[pieces[i]]
        errors = np.sqrt(rows.by_owner(np.square(stderr)))
        numbers: Any = pieces
        extras = {} if self._kind(rows) == "columns" else {"segments": rows.shaped(numbers)}
        return Attribution(
            values, rows.scores(), base, errors, extras=extras, params=describe_baseline(self.baseline)
        )

    def _kind(self, rows: Rows) -> str:
        if self.pieces != "auto":
            return self.pieces
        return "segments" if rows.shape is not None and len(rows.shape) > 1 else "columns"

    def _pieces(self, rows: Rows, i: int) -> Integers:
        """Number of each cell's piece; the last one may be that of cells that nothing would replace."""
        kind = self._kind(rows)
        if kind == "segments":
            x = rows.X[i]
            return segment(x if rows.shape is None else x.reshape(rows.shape), self.n_segments).ravel()
        if kind == "columns":
            return np.asarray(np.unique(rows.owner, return_inverse=True)[1], dtype=np.int64)
        usual = (
            0.0
            if isinstance(self.baseline, str)
            else read_replacement_row("Lime", self.baseline, rows.input_shape)
        )
        differs = rows.X[i] != usual
        numbers = np.full(len(differs), int(differs.sum()), dtype=np.int64)
        numbers[differs] = np.arange(int(differs.sum()))
        return numbers

    def _fill(self, rows: Rows, i: int, pieces: Integers) -> Floats:
        """What replaces cells: one row, or one for each sample."""
        given: Any = self.baseline
        kind = self._kind(rows)
        if isinstance(given, str) and given == "auto":
            given = {"columns": "background", "segments": "mean", "present": 0.0}[kind]
        if not isinstance(given, str):
            return read_replacement_row("Lime", given, rows.input_shape)
        if given == "mean":
            return _average_pieces(rows.X[i], pieces, rows.shape)
        self._check_fitted("background_")
        prepared = self._draw_design(pieces)
        drawn = np.random.default_rng([self._seed(), 1]).permutation(len(self.background_))
        if prepared.is_complete:  # the same rows for every set
            return self.background_[drawn[: max(1, self.n_samples // len(prepared.masks))]]
        return self.background_[np.resize(drawn, self.n_samples)]

    def _seed(self) -> int:
        return int(self.random_state) if isinstance(self.random_state, (int, np.integer)) else 0

    def _draw_design(self, pieces: Integers) -> Design:
        return design(self.n_samples, int(pieces.max()) + 1, self.width, self.alpha, self._seed())

    def _fitted(self, canvas: Canvas, pieces: Integers, fill: Floats) -> LocalModel:
        """Ask the model about samples around one row, and fit its answers."""
        prepared = self._draw_design(pieces)
        keep = prepared.masks > 0
        if not prepared.is_complete:
            return prepared.fit(canvas.scores(keep, fill, pieces))
        fills = np.atleast_2d(fill)
        every = canvas.scores(np.tile(keep, (len(fills), 1)), np.repeat(fills, len(keep), axis=0), pieces)
        return prepared.fit_each(every.reshape(len(fills), len(keep)))

    def explain_texts(
        self, texts: Sequence[str], *, target: int | None = None, progress: bool | None = None
    ) -> Explanation:
        """Explain texts by their words: a value per word, in the order of the text, zeros after the last.

        Samples leave words out. `data` holds the words; texts may have different numbers of them.

        Parameters
        ----------
        texts
            Texts as they are.
        target
            Number of the class whose log-odds are explained; None: that of the text's own class.
        progress
            As in `explain`.
        """
        with shown(progress):
            return self._explain_texts(texts, target)

    def _explain_texts(self, texts: Sequence[str], target: int | None) -> Explanation:
        validate_parameters(self)
        if isinstance(texts, str) or len(texts) == 0 or not all(isinstance(text, str) for text in texts):
            raise InvalidInput("texts must be a list of at least one text. Pass [text] for a single one.")
        score: Any = learn_outputs(as_class_scores(self.model), list(texts)[:2])
        words = [_WORD.findall(text) for text in texts]
        chosen = np.full(len(texts), -1 if target is None else target)
        if target is None:
            chosen = as_outputs(score).outputs(list(texts)).argmax(axis=1)
        shape = (len(texts), max(1, *(len(each) for each in words)))
        values = np.zeros(shape)
        stderr = np.zeros(shape)
        base = np.zeros(len(texts))
        scores = np.zeros(len(texts))
        for i in track(range(len(texts)), len(texts), "fitting linear models around texts"):
            found, scores[i] = self._fit_words_of(score, texts[i], int(chosen[i]))
            values[i, : len(words[i])] = found.coefficients
            stderr[i, : len(words[i])] = found.errors
            base[i] = found.intercept
        listed = np.array([each + [""] * (shape[1] - len(each)) for each in words])
        return Explanation(
            values=values,
            scores=scores,
            base_values=base,
            stderr=stderr,
            data=listed,
            method="Lime",
            params={"explains": score.describes, **self._settings(), TOKENS: "words"},
            extras=Extras({"output": chosen}),
        )

    def _fit_words_of(self, score: Any, text: str, target: int) -> tuple[LocalModel, float]:
        """Fit the words of one text; return the model's own output for it too, which is among the samples."""
        places = [match.span() for match in _WORD.finditer(text)]
        if not places:
            own = float(as_outputs(score).outputs([text])[0, target])
            return LocalModel(np.zeros(0), own, np.zeros(0)), own
        prepared = design(self.n_samples, len(places), self.width, self.alpha, self._seed())
        keep = prepared.masks > 0
        answers = np.asarray(as_outputs(score).outputs(_without(text, places, keep)))[:, target]
        own = float(answers[int(keep.all(axis=1).argmax())])
        return prepared.fit_each(answers[None]) if prepared.is_complete else prepared.fit(answers), own


def _without(text: str, places: list[tuple[int, int]], keep: np.ndarray) -> list[str]:
    """The text without the words that each row of `keep` leaves out."""
    starts, ends = zip(*places, strict=True)
    # Each word with what stands between it and the next one; that stays where the word goes.
    gaps = [text[end:start] for end, start in zip(ends, (*starts[1:], len(text)), strict=True)]
    words = [text[start:end] for start, end in places]
    kept = np.array([word + gap for word, gap in zip(words, gaps, strict=True)], dtype=object)
    before = text[: starts[0]]
    return [before + "".join(row) for row in np.where(keep, kept, np.array(gaps, dtype=object)).tolist()]


def _average_pieces(x: Floats, pieces: Integers, shape: tuple[int, ...] | None) -> Floats:
    """Mean of each piece, per channel where there are channels: the picture without details."""
    from tellwhy.data.pieces import find_spatial_axes

    shape = shape or x.shape
    others = [axis for axis in range(len(shape)) if axis not in find_spatial_axes(shape)]
    channel = np.zeros(shape, dtype=np.int64)
    for axis in others:
        along = [1] * len(shape)
        along[axis] = shape[axis]
        channel = channel * shape[axis] + np.arange(shape[axis]).reshape(along)
    # One number for each pair of a piece and a channel.
    group = pieces * (int(channel.max()) + 1) + channel.ravel()
    counts = np.bincount(group)
    return np.asarray((np.bincount(group, x) / np.maximum(counts, 1))[group])
