"""Any explainer on noisy copies of the rows: the mean of what it finds, of its squares, or its variance."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import Frame
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explainer import Explains, LearnsFromRows
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Extras
from tellwhy.core.params import Rule, Rules, Seed, generator, integer, one_of, real, seed, validate_parameters
from tellwhy.core.progress import shown, track
from tellwhy.core.score import Floats, IsTensor
from tellwhy.explainers.base import ScoreExplainer

TOGETHER = 256  # noisy rows that are explained in one call, about

STATISTICS = ("mean", "absolute", "square", "variance")


class Noise:
    """What an explainer finds on noisy copies of each row, brought together.

    With the values φ of the explainer at x + ε, ε normal, it gives their mean ("mean", SmoothGrad where φ is
    a gradient), the mean of |φ| or of φ² ("absolute", "square"), or the variance of φ ("variance", VarGrad).
    A mean of attributions stays an attribution of the row's own score: the residual says what noise changed.

    Smilkov, Thorat, Kim, Viégas, Wattenberg, arXiv:1706.03825 (2017); Adebayo, Gilmer, Goodfellow, Kim, ICLR
    Workshop (2018).

    Parameters
    ----------
    explainer
        An explainer of a model, of scores or of a network.
    n_samples
        Noisy copies of each row.
    noise
        Standard deviation of the noise: of tables as a share of each column's standard deviation in the rows
        of `fit`; of pictures, sequences and what networks take, without `fit`, as a share of the range
        (largest − smallest value) of each row. Texts, tokens and categories stay as they are.
    statistic
        "mean", "absolute", "square" or "variance".
    random_state
        Seed of the noise, which is the same for all rows.

    Notes
    -----
    The output that is explained is the one chosen at the row itself. `stderr` is that of the statistic, as
    far as the number of copies goes.

    Examples
    --------
    >>> from tellwhy.explainers import Sensitivity
    >>> from tellwhy.scoring import FunctionScore
    >>> score = FunctionScore(lambda X: X[:, 0] ** 2, gradient=lambda X: 2 * X * [1.0, 0.0])
    >>> rows = np.random.default_rng(0).normal(size=(100, 2))
    >>> noisy = Noise(Sensitivity(score), noise=0.01).fit(rows)
    >>> noisy.explain(np.array([[3.0, 1.0]])).method
    'Noise'
    """

    kind: ClassVar[str] = "sensitivity"
    _parameters: ClassVar[dict[str, Rules]] = {
        "explainer": Rule(
            "an explainer of a model, such as LRP(model)",
            lambda given: isinstance(given, Explains) and not isinstance(given, type),
        ),
        "n_samples": integer(2),
        "noise": real(0, closed="left"),
        "statistic": one_of(*STATISTICS),
        "random_state": seed,
    }

    def __init__(
        self,
        explainer: Explains,
        *,
        n_samples: int = 50,
        noise: float = 0.1,
        statistic: str = "mean",
        random_state: Seed = 0,
    ):
        self.explainer = explainer
        self.n_samples = n_samples
        self.noise = noise
        self.statistic = statistic
        self.random_state = random_state

    @property
    def model(self) -> Any:
        """The model that is explained."""
        inner: Any = self.explainer
        return inner.model

    @property
    def score(self) -> Any:
        """The score that is explained."""
        inner: Any = self.explainer
        return inner.score

    def fit(self, X: ArrayLike) -> Self:
        """Learn from ordinary rows how wide each column is; the explainer learns from them where it does.

        Parameters
        ----------
        X
            Rows like those to explain.

        Returns
        -------
        Self
            The explainer. The one that was passed stays as it is: a copy of it learns.
        """
        validate_parameters(self)
        inner: Any = self.explainer
        if isinstance(inner, LearnsFromRows):
            inner = copy(inner).fit(X)
        self.fitted_ = inner
        self.widths_ = [_measure_width(part) for part in _list_parts(X)]
        return self

    def explain(self, X: ArrayLike, *, progress: bool | None = None) -> Any:
        """Explain noisy copies of each row of X.

        Parameters
        ----------
        X
            Rows as the explainer takes them; of networks also several inputs, in a tuple or a dict.
        progress
            Whether to show how far it is; None: on a terminal and in notebooks, after two seconds.

        Returns
        -------
        An `Explanation`; for several inputs one of each, in a tuple or a dict like X.
        """
        validate_parameters(self)
        inner: Any = vars(self).get("fitted_", self.explainer)
        with shown(progress):
            given = inner.explain(X)
            own = _list_parts(given)
            moments = self._gather(inner, X, own)
        made = [self._assemble(one, sums) for one, sums in zip(own, moments, strict=True)]
        return _put_like(given, made)

    def _gather(self, inner: Any, X: Any, own: list[Explanation]) -> list[_Moments]:
        """Explain copies, several of all rows at a time, and add up what is found."""
        parts = _list_parts(X)
        n = len(own[0])
        at_once = max(1, TOGETHER // n)
        rng = generator(self.random_state)
        deviations = self._find_deviations(inner, parts)
        moments = [_Moments(np.zeros(one.values.shape), self.statistic) for one in own]
        starts = range(0, self.n_samples, at_once)
        for start in track(starts, len(starts), "explaining noisy copies"):
            k = min(at_once, self.n_samples - start)
            noisy = [_add_noise(part, width, k, rng) for part, width in zip(parts, deviations, strict=True)]
            held = _hold_outputs(inner, own[0], k)
            found = _list_parts(held.explain(_put_like(X, noisy)))
            _check_outputs(found[0], own[0], k)
            for sums, one in zip(moments, found, strict=True):
                sums.add(one, k)
        return moments

    def _find_deviations(self, inner: Any, parts: list[Any]) -> list[Floats | None]:
        """Standard deviation of the noise of each cell of each input; None: nothing of it is changed."""
        widths: Any = vars(self).get("widths_")
        if widths is not None:
            return [None if width is None else self.noise * width for width in widths]
        if isinstance(inner, ScoreExplainer) and len(np.shape(parts[0])) == 2:
            raise InvalidInput(
                "Noise of tables is measured by the standard deviation of each column: call fit(X) with "
                "ordinary rows before explain(X)."
            )
        return [self._measure_ranges(part) for part in parts]

    def _measure_ranges(self, part: Any) -> Floats | None:
        if _is_of_levels(part):
            return None
        array = _as_array(part).reshape(len(part), -1)
        ranges = array.max(axis=1) - array.min(axis=1)
        return np.asarray(self.noise * ranges.reshape(-1, *[1] * (len(np.shape(part)) - 1)))

    def _assemble(self, own: Explanation, moments: _Moments) -> Explanation:
        """Make the explanation of one input."""
        is_share = self.statistic == "mean" and own.kind == "attribution"
        return replace(
            own,
            values=moments.statistic_of(self.n_samples),
            stderr=moments.error_of(self.n_samples),
            base_values=moments.base / self.n_samples if is_share else np.zeros(len(own)),
            method=type(self).__name__,
            kind=own.kind if self.statistic == "mean" else "sensitivity",
            params={
                **own.params,
                "of": own.method,
                "n_samples": self.n_samples,
                "noise": self.noise,
                "statistic": self.statistic,
            },
            extras=Extras({name: own.extras[name] for name in ("output", "explained") if name in own.extras}),
        )


class _Moments:
    """Sums of what was found on noisy copies of some rows, and of its powers."""

    def __init__(self, zeros: Floats, statistic: str):
        self.statistic = statistic
        self.base = np.zeros(len(zeros))
        self.sums = [zeros.copy() for _ in range(4)]

    def add(self, found: Explanation, k: int) -> None:
        """Take in an explanation of k copies of all rows, one copy after the other."""
        values = found.values.reshape(k, -1, *found.values.shape[1:])
        values = np.abs(values) if self.statistic == "absolute" else values
        self.base += found.base_values.reshape(k, -1).sum(axis=0)
        self.sums = [total + (values**k).sum(axis=0) for k, total in enumerate(self.sums, start=1)]

    def statistic_of(self, n: int) -> Floats:
        """What is asked for, from n copies."""
        first = self.sums[0] / n
        second = self.sums[1] / n
        if self.statistic == "variance":
            return np.asarray(np.maximum(second - first**2, 0.0))
        return np.asarray(second if self.statistic == "square" else first)

    def error_of(self, n: int) -> Floats:
        """Standard error of it."""
        means = [total / n for total in self.sums]
        squared = means[0] ** 2
        if self.statistic == "square":
            spread = means[3] - means[1] ** 2
        elif self.statistic == "variance":  # Var(s²) ≈ (μ₄ − σ⁴)/n, with μ₄ about the mean
            central = means[3] - 4 * means[2] * means[0] + 6 * means[1] * squared - 3 * squared**2
            spread = central - (means[1] - squared) ** 2
        else:
            spread = means[1] - squared
        return np.asarray(np.sqrt(np.maximum(spread, 0.0) / (n - 1)))


def _list_parts(given: Any) -> list[Any]:
    """One thing, or the things of several inputs, as a list."""
    if isinstance(given, dict):
        return list(given.values())
    return list(given) if isinstance(given, tuple) else [given]


def _put_like(given: Any, parts: list[Any]) -> Any:
    """Parts in the form that something else has."""
    if isinstance(given, dict):
        return dict(zip(given, parts, strict=True))
    return tuple(parts) if isinstance(given, tuple) else parts[0]


def _as_array(part: Any) -> Floats:
    return np.asarray(part.detach().cpu() if isinstance(part, IsTensor) else part, dtype=np.float64)


def _is_of_levels(part: Any) -> bool:
    """Whether an input holds tokens, texts or categories alone."""
    if isinstance(part, IsTensor):
        tensor: Any = part
        return not tensor.is_floating_point()
    return not isinstance(part, Frame) and np.asarray(part).dtype.kind not in "fiub"


def _to_pandas(table: Any) -> Any:
    return table if hasattr(table, "iloc") else table.to_pandas()


def _find_numeric(table: Any) -> list[int]:
    """Places of a table's columns of numbers."""
    kinds = [getattr(kind, "kind", "O") for kind in table.dtypes]
    return [place for place, kind in enumerate(kinds) if kind in "fiu"]


def _measure_width(part: Any) -> Floats | None:
    """Standard deviation of each cell over rows; 0 for what is no number, None where nothing is."""
    if _is_of_levels(part):
        return None
    if not isinstance(part, Frame):
        return np.asarray(_as_array(part).std(axis=0))
    table = _to_pandas(part)
    widths = np.zeros(table.shape[1])
    for place in _find_numeric(table):
        widths[place] = float(np.nanstd(table.iloc[:, place].to_numpy(dtype=np.float64)))
    return widths


def _add_noise(part: Any, deviation: Floats | None, k: int, rng: np.random.Generator) -> Any:
    """k copies of all rows, one after the other, each with noise that is the same for all rows."""
    if isinstance(part, Frame):
        return _add_to_table(_to_pandas(part), deviation, k, rng)
    shape = tuple(part.shape)
    if deviation is None:
        repeated = [k, *[1] * (len(shape) - 1)]
        held: Any = part
        return held.repeat(*repeated) if isinstance(part, IsTensor) else np.tile(part, repeated)
    drawn = deviation * rng.standard_normal((k, 1, *shape[1:]))
    noise = np.broadcast_to(drawn, (k, *shape)).reshape(k * shape[0], *shape[1:])
    if isinstance(part, IsTensor):
        import torch

        copies: Any = part.detach().repeat(k, *[1] * (len(shape) - 1))
        return copies + torch.from_numpy(noise.copy()).to(copies)
    return np.tile(_as_array(part), (k, *[1] * (len(shape) - 1))) + noise


def _add_to_table(table: Any, widths: Floats | None, k: int, rng: np.random.Generator) -> Any:
    import pandas as pd

    drawn = rng.standard_normal((k, table.shape[1]))
    copies = pd.concat([table] * k, ignore_index=True)
    for place in _find_numeric(table):
        width = 0.0 if widths is None else widths[place]
        noise = np.repeat(width * drawn[:, place], len(table))
        copies.isetitem(place, copies.iloc[:, place].to_numpy(dtype=np.float64) + noise)
    return copies


def _hold_outputs(inner: Any, own: Explanation, k: int) -> Any:
    """The explainer with the outputs chosen that rows have themselves, whatever noise does."""
    if "output" not in own.extras or not hasattr(inner, "target") or callable(inner.target):
        return inner
    held = copy(inner)
    held.target = np.tile(np.asarray(own.extras["output"]), k)
    vars(held).pop("score", None)  # which knows the output that was asked for before
    return held


def _check_outputs(found: Explanation, own: Explanation, k: int) -> None:
    """Raise where noise made the model say something else, and the explainer explained that."""
    if "output" in own.extras and not np.array_equal(
        np.asarray(found.extras["output"]), np.tile(np.asarray(own.extras["output"]), k)
    ):
        raise InvalidParameter(
            f"Noise changes which output of the model {own.method} explains: choose one, "
            "as_prediction(model, target='…')."
        )
