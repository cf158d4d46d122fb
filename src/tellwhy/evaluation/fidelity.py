"""Fidelity: whether the features that an insight names are those that the model goes by.

Some features of inputs are changed to tell what a model goes by; inputs built from what it has learned show
what it is blind or gullible to; and `keep_top` tells what is left of a classifier's decision when only the
best-ranked parts of an input are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.old_names import takes_old_names
from tellwhy.core.params import Seed, generator, integer, one_of, real, seed, validate_value
from tellwhy.core.progress import track
from tellwhy.core.score import Floats, Integers
from tellwhy.scoring.class_scores import ClassScores, as_class_scores, learn_outputs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class ChangedInputs:
    """Inputs after the same features were changed in four ways.

    Attributes
    ----------
    nullified
        Rows of the class with the features set to the baseline.
    replaced
        Other rows with the features set to the mean of the class.
    crafted
        New inputs: the features as in a row of the class, every other one as in a row drawn at random.
    alone
        The same, but every other feature is at the baseline.
    """

    nullified: Floats
    replaced: Floats
    crafted: Floats
    alone: Floats

    def by_procedure(self) -> dict[str, Floats]:
        """All four by their names."""
        return {
            "nullified": self.nullified,
            "replaced": self.replaced,
            "crafted": self.crafted,
            "alone": self.alone,
        }


@dataclass(frozen=True, eq=False)
class InputSample:
    """Rows to be changed, all flat: rows of a class, other rows, and rows mixed from cells of many.

    Attributes
    ----------
    inside, outside
        Rows that the model puts into the class, and the others.
    mixed
        As many as `inside`; every cell is that of a row drawn at random.
    mean
        Mean of the rows of the class.
    baseline
        Value of a nullified feature.
    shape
        Of one input.
    """

    inside: Floats
    outside: Floats
    mixed: Floats
    mean: Floats
    baseline: float
    shape: tuple[int, ...]

    @classmethod
    def of(
        cls,
        X: Floats,
        is_inside: NDArray[np.bool_],
        everyone: Floats,
        *,
        baseline: float,
        rng: np.random.Generator,
    ) -> InputSample:
        """Take rows apart by class; mixed rows take their cells from `everyone`."""
        flat = X.reshape(len(X), -1)
        inside = flat[is_inside]
        source = everyone.reshape(len(everyone), -1)
        drawn = rng.integers(
            len(source), size=inside.shape
        )  # a row for each cell: columns become independent
        return cls(
            inside=inside,
            outside=flat[~is_inside],
            mixed=source[drawn, np.arange(source.shape[1])],
            mean=inside.mean(axis=0) if len(inside) else np.zeros(flat.shape[1]),
            baseline=baseline,
            shape=X.shape[1:],
        )

    def changed(self, features: Integers) -> ChangedInputs:
        """Return the inputs with some features changed, in the shape that they came in."""
        nullified = self.inside.copy()
        nullified[:, features] = self.baseline
        replaced = self.outside.copy()
        replaced[:, features] = self.mean[features]
        crafted = self.mixed.copy()
        crafted[:, features] = self.inside[:, features]
        alone = np.full_like(self.inside, self.baseline)
        alone[:, features] = self.inside[:, features]
        return ChangedInputs(*(self._shaped(flat) for flat in (nullified, replaced, crafted, alone)))

    def _shaped(self, flat: Floats) -> Floats:
        return flat.reshape(len(flat), *self.shape)


PROCEDURES = ("nullified", "replaced", "crafted", "alone")
COUNTS = (50, 75, 100, 125, 150)  # those of Guo et al. (2018)
LEVEL = 0.95

Decision = Callable[[Floats], NDArray[np.bool_]]
"""From inputs to whether the model puts each of them into a class."""


@dataclass(frozen=True, eq=False)
class Fidelity:
    """Positive classification rates after changes to the top features, and to as many random ones.

    Attributes
    ----------
    target
        The class, or 'score'.
    counts
        How many features were changed.
    rates, random_rates
        For each procedure, the share of changed inputs that the model still (or now) puts into the class,
        shape (bootstraps, counts): "nullified" of the class's own rows, whose top features are set to the
        baseline; "replaced" of the other rows, whose top features get the mean of the class; "crafted" of new
        inputs with the top features of a row of the class, while every other feature takes its value in a row
        drawn at random; "alone" of the same, while every other feature is at the baseline.
    """

    target: str
    counts: tuple[int, ...]
    rates: dict[str, Floats]
    random_rates: dict[str, Floats]

    def to_frame(self) -> pd.DataFrame:
        """One line per procedure, number and choice of features, with 95 % limits over the bootstraps."""
        import pandas as pd

        lines = []
        for chosen, rates in (("top", self.rates), ("random", self.random_rates)):
            for procedure, found in rates.items():
                low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
                for i, n in enumerate(self.counts):
                    line = (self.target, procedure, n, chosen, found[:, i].mean(), low[i], high[i])
                    lines.append(line)
        names = ["target", "procedure", "features", "chosen", "rate", "low", "high"]
        return pd.DataFrame(lines, columns=names)


class RanksFeatures(Protocol):
    """What is known of a target by its features; an `Insight` of `DMMMEN` is one."""

    @property
    def target(self) -> str:
        """The class, or the score, that it is about."""
        ...

    @property
    def coefficients(self) -> Floats:
        """One number per feature, in the shape of a row."""
        ...

    @property
    def examples(self) -> Floats:
        """Rows of the target."""
        ...

    @property
    def others(self) -> Floats:
        """Rows outside of the target."""
        ...

    def ranking(self, baseline: float) -> Integers:
        """Features in the order of what they say about the target, against a baseline."""
        ...


def fidelity(
    insight: RanksFeatures,
    model: object,
    X: ArrayLike,
    *,
    counts: Sequence[int] = COUNTS,
    n_bootstraps: int = 50,
    share: float = 0.3,
    baseline: float = 0.0,
    random_state: Seed = 0,
) -> Fidelity:
    """Change the features that an insight ranks highest, and watch how often the model decides for its class.

    The three procedures of Guo et al. (2018), with as many random features beside them, on the same
    bootstraps. What they set the other features of new inputs to can be read in two ways: both are measured
    ("crafted", "alone").

    Parameters
    ----------
    insight
        From `DMMMEN.insights`; features are taken by `Insight.ranking`.
    model
        What the insight is about.
    X
        Rows, shaped like the inputs that the insight was made from.
    counts
        Numbers of features to change; those above the number of features are left out.
    n_bootstraps, share
        Bootstraps, and the share of the rows that each draws.
    baseline
        Value of a nullified feature.
    random_state
        Seed of the bootstraps, the random features and the crafted inputs.

    Returns
    -------
    Fidelity
        Rates of decisions for the class after changes to the top features, and to as many random ones.

    Examples
    --------
    >>> from tellwhy.explainers import DMMMEN
    >>> X = np.random.default_rng(0).normal(size=(300, 4)) + 1.0
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-4 * X[:, 2] + 4))
    ...     return np.column_stack([1 - p, p])
    >>> insight = DMMMEN(model, n_components=1, n_sweeps=100, n_burn=50).fit(X).insights(per="target")[1]
    >>> found = fidelity(insight, model, X, counts=[1], n_bootstraps=5)
    >>> float(found.rates["nullified"].mean())
    0.0
    """
    validate_value("fidelity", "n_bootstraps", n_bootstraps, integer(2))
    validate_value("fidelity", "share", share, real(0, 1, closed="right"))
    validate_value("fidelity", "random_state", random_state, seed)
    rows = _rows(X, insight)
    is_positive = _decision(model, insight.target, rows)
    positive = is_positive(rows)
    if positive.all() or not positive.any():
        raise InvalidInput(
            f"fidelity needs rows inside and outside of {insight.target!r}: the model puts "
            f"{int(positive.sum())} of {len(rows)} rows into it. Give more rows."
        )
    ranking = insight.ranking(baseline)
    kept = tuple(int(count) for count in counts if 0 < count <= len(ranking))
    found = Fidelity(
        insight.target,
        kept,
        _make_room_for_rates(n_bootstraps, kept),
        _make_room_for_rates(n_bootstraps, kept),
    )
    rng = generator(random_state)
    for b in track(range(n_bootstraps), n_bootstraps, "measuring fidelity"):
        drawn = rng.choice(len(rows), size=max(2, round(share * len(rows))), replace=True)
        sample = InputSample.of(rows[drawn], positive[drawn], rows, baseline=baseline, rng=rng)
        shuffled = rng.permutation(len(ranking))
        for i, count in enumerate(kept):
            _measure(found.rates, (b, i), sample, ranking[:count], is_positive)
            _measure(found.random_rates, (b, i), sample, shuffled[:count], is_positive)
    return found


def _make_room_for_rates(n_bootstraps: int, counts: tuple[int, ...]) -> dict[str, Floats]:
    """Room for the rates of each procedure."""
    return {name: np.zeros((n_bootstraps, len(counts))) for name in PROCEDURES}


def _measure(
    rates: dict[str, Floats],
    place: tuple[int, int],
    sample: InputSample,
    features: Integers,
    is_positive: Decision,
) -> None:
    """Write the rate of each procedure, after some features were changed, into its place."""
    for name, changed in sample.changed(features).by_procedure().items():
        # A bootstrap may have drawn rows of one side only: then there is nothing to count on the other.
        rates[name][place] = is_positive(changed).mean() if len(changed) else np.nan


def _rows(X: ArrayLike, insight: RanksFeatures) -> Floats:
    """Return the rows as numbers, after checking that the insight is about rows of this shape."""
    rows = np.asarray(X, dtype=np.float64)
    if rows.shape[1:] != insight.coefficients.shape:
        raise InvalidInput(
            f"X has rows of shape {rows.shape[1:]}; the insight is about rows of shape "
            f"{insight.coefficients.shape}."
        )
    return rows


def _decision(model: object, target: str, rows: Floats) -> Decision:
    """Return the function that tells which inputs the model puts into the target.

    Of a score, that is what lies above its threshold or, without one, above the median of the rows.
    """
    score = learn_outputs(as_class_scores(model), rows)
    if isinstance(score, ClassScores):
        if target not in score.names:
            raise InvalidInput(f"The model has no class {target!r}: its classes are {score.names}.")
        number = score.names.index(target)
        return lambda X: score.outputs(X).argmax(axis=1) == number
    limit = score.threshold if score.threshold is not None else float(np.median(score.value(rows)))
    return lambda X: score.value(X) > limit


@dataclass(frozen=True, eq=False)
class Vulnerabilities:
    """Inputs that show what a model is blind or gullible to.

    Attributes
    ----------
    hidden
        Rows of the class without its top features: they look right, and may no longer be recognised.
    planted
        Other rows with the class's mean values in its top features: they may be taken for the class.
    crafted
        Every feature drawn from a row of its own at random, but the top features, which are those of rows of
        the class.
    features
        The features that were changed.
    """

    hidden: Floats
    planted: Floats
    crafted: Floats
    features: Integers


def adversarial(
    insight: RanksFeatures, *, k: int = 100, baseline: float = 0.0, random_state: Seed = 0
) -> Vulnerabilities:
    """Build inputs that exploit an insight, from the rows that it carries with it.

    Parameters
    ----------
    insight
        From `DMMMEN.insights`; features are taken by `Insight.ranking`.
    k
        How many features to change.
    baseline
        Value of a hidden feature.
    random_state
        Seed of the crafted inputs.

    Returns
    -------
    Vulnerabilities
        Inputs that show what the model is blind or gullible to.

    Examples
    --------
    >>> from tellwhy.explainers import DMMMEN
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-3 * X[:, 1]))
    ...     return np.column_stack([1 - p, p])
    >>> explainer = DMMMEN(model, n_components=1, n_sweeps=100, n_burn=50).fit(X)
    >>> found = adversarial(explainer.insights(per="target")[1], k=1)
    >>> bool((model(found.planted)[:, 1] > 0.5).all()), found.features
    (True, array([1]))
    """
    validate_value("adversarial", "k", k, integer(1))
    rows = np.concatenate([insight.examples, insight.others])
    is_inside = np.arange(len(rows)) < len(insight.examples)
    sample = InputSample.of(rows, is_inside, rows, baseline=baseline, rng=generator(random_state))
    features = insight.ranking(baseline)[:k]
    made = sample.changed(features)
    return Vulnerabilities(made.nullified, made.replaced, made.crafted, features)


@dataclass(frozen=True, eq=False)
class KeepTop:
    """What is left of a decision when only the top segments (or features) of each input are kept.

    Attributes
    ----------
    probability
        Probability of the explained class, one per row.
    accuracy
        Whether the model still decides for the explained class, one per row.
    """

    method: str
    k: int
    probability: Floats
    accuracy: Floats

    def interval(
        self, of: str = "probability", *, n_bootstraps: int = 1000, random_state: Seed = 0
    ) -> tuple[float, float]:
        """95 % limits of the mean of "probability" or "accuracy", by bootstrap over the rows."""
        validate_value("KeepTop.interval", "of", of, one_of("probability", "accuracy"))
        rows = self.probability if of == "probability" else self.accuracy
        drawn = generator(random_state).integers(len(rows), size=(n_bootstraps, len(rows)))
        low, high = np.quantile(rows[drawn].mean(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)


@takes_old_names
def keep_top(
    explanation: Explanation,
    model: object,
    *,
    k: int = 20,
    baseline: ArrayLike = 0.0,
    segments: ArrayLike | None = None,
) -> KeepTop:
    """Keep the k segments (or features) of each row with the highest values, replace the rest, ask the model.

    Parameters
    ----------
    explanation
        Of a classifier's decisions, by any method.
    model
        The classifier.
    k
        How many segments to keep.
    baseline
        A number or an input that replaces the rest.
    segments
        Segment of each cell, shaped like the rows; by default `extras["segments"]`, else every cell is its
        own.

    Returns
    -------
    KeepTop
        What is left of the decisions when only the top segments or features are kept.

    Examples
    --------
    >>> X = np.array([[2.0, 1.0], [1.0, 3.0]])
    >>> def model(X):
    ...     p = 1 / (1 + np.exp(-X[:, 0]))
    ...     return np.column_stack([1 - p, p])
    >>> e = Explanation(values=X * [1, 0], scores=X[:, 0], method="Example", data=X)
    >>> keep_top(e, model, k=1).accuracy
    array([1., 1.])
    """
    validate_value("keep_top", "k", k, integer(1))
    X = np.asarray(explanation.data, dtype=np.float64)
    score = learn_outputs(as_class_scores(model), X)
    if not isinstance(score, ClassScores):
        raise InvalidInput("keep_top measures decisions of a classifier; this model gives one score.")
    label = _segments(X, explanation.extras.get("segments") if segments is None else segments)
    kept = np.empty_like(X)
    for i, x in enumerate(X):
        kept[i] = _keep(x, explanation.values[i], label[i], k=k, baseline=baseline)
    recorded = explanation.extras.get("target")  # the explained class need not be the preferred one
    chosen = score.outputs(X).argmax(axis=1) if recorded is None else np.asarray(recorded, dtype=np.int64)
    odds = score.outputs(kept)
    probability = 1.0 / (1.0 + np.exp(-odds[np.arange(len(X)), chosen]))
    return KeepTop(explanation.method, k, probability, (odds.argmax(axis=1) == chosen).astype(np.float64))


def _segments(X: Floats, given: ArrayLike | None) -> Integers:
    """Segment of each cell; where none are given, every cell of an input is its own."""
    if given is not None:
        return np.asarray(given)
    return np.broadcast_to(np.arange(X[0].size).reshape(X.shape[1:]), X.shape)


def _keep(x: Floats, values: Floats, label: Integers, *, k: int, baseline: ArrayLike) -> Floats:
    """Return one input with its k best segments; a segment is worth the sum of the values of its cells."""
    worth = np.bincount(label.ravel(), values.ravel())
    best = np.argsort(-worth, kind="stable")[:k]
    return np.where(np.isin(label, best), x, baseline)
