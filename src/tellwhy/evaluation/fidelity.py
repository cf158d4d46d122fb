"""Fidelity: whether the features that an insight names are those the model goes by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import generator, integer, real, seed, validate_value
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.surrogate import Insight
from tellwhy.scoring.class_scores import as_class_scores, as_outputs, with_known_outputs
from tellwhy.scoring.scores.log_odds import ClassScores

if TYPE_CHECKING:
    import pandas as pd

PROCEDURES = ("nullified", "replaced", "crafted", "alone")
COUNTS = (50, 75, 100, 125, 150)
LEVEL = 0.95


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
        """One line per procedure, number of features and choice of features, with 95 % limits over the bootstraps."""
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


def fidelity(
    insight: Insight,
    model: Any,
    X: Any,
    *,
    counts: Sequence[int] = COUNTS,
    n_bootstraps: int = 50,
    share: float = 0.3,
    baseline: float = 0.0,
    random_state: Any = 0,
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
    for name, value, rule in (
        ("n_bootstraps", n_bootstraps, integer(2)),
        ("share", share, real(0, 1, closed="right")),
    ):
        validate_value("fidelity", name, value, rule)
    validate_value("fidelity", "random_state", random_state, seed)
    rows = _rows(X, insight)
    is_positive = _decision(model, insight.target, rows)
    positive = is_positive(rows)
    if positive.all() or not positive.any():
        raise InvalidInput(
            f"fidelity needs rows inside and outside of {insight.target!r}: the model puts {int(positive.sum())} of "
            f"{len(rows)} rows into it. Give more rows."
        )
    ranking, size = insight.ranking(baseline), int(np.prod(rows.shape[1:]))
    kept = tuple(int(c) for c in counts if 0 < c <= size)
    rng = generator(random_state)
    shape = (n_bootstraps, len(kept))
    found, at_random = ({name: np.zeros(shape) for name in PROCEDURES} for _ in range(2))
    for b in track(range(n_bootstraps), n_bootstraps, "measuring fidelity"):
        drawn = rng.choice(len(rows), size=max(2, round(share * len(rows))), replace=True)
        sample = _Sample.of(rows[drawn], positive[drawn], rows, baseline, rng)
        shuffled = rng.permutation(size)
        for i, n in enumerate(kept):
            for rates, order in ((found, ranking), (at_random, shuffled)):
                for name, changed in sample.changed(order[:n]).items():
                    rates[name][b, i] = is_positive(changed).mean() if len(changed) else np.nan
    return Fidelity(insight.target, kept, found, at_random)


def _rows(X: Any, insight: Insight) -> Floats:
    rows = np.asarray(X, dtype=np.float64)
    if rows.shape[1:] != insight.coefficients.shape:
        raise InvalidInput(
            f"X has rows of shape {rows.shape[1:]}; the insight is about rows of shape {insight.coefficients.shape}."
        )
    return rows


def _decision(model: Any, target: str, rows: Floats) -> Callable[[Floats], Any]:
    """Return the function that tells which inputs the model puts into the target.

    Of a score, that is what lies above its threshold or, without one, above the median of the rows.
    """
    score = with_known_outputs(as_class_scores(model), rows)
    reader = as_outputs(score)
    if isinstance(reader, ClassScores):
        if target not in reader.names:
            raise InvalidInput(f"The model has no class {target!r}: its classes are {reader.names}.")
        number = reader.names.index(target)
        return lambda X: reader.outputs(X).argmax(axis=1) == number
    limit = score.threshold if score.threshold is not None else float(np.median(reader.outputs(rows)))
    return lambda X: reader.outputs(X)[:, 0] > limit


@dataclass(frozen=True, eq=False)
class _Sample:
    """A bootstrap: rows of the class, other rows, and noise, all flat; and what their features become."""

    positive: Floats
    negative: Floats
    noise: Floats
    mean: Floats
    baseline: float
    shape: tuple[int, ...]

    @classmethod
    def of(
        cls, X: Floats, positive: Any, everyone: Floats, baseline: float, rng: np.random.Generator
    ) -> _Sample:
        flat = X.reshape(len(X), -1)
        inside, outside = flat[positive], flat[~positive]
        source = everyone.reshape(len(everyone), -1)
        noise = source[rng.integers(len(source), size=inside.shape), np.arange(source.shape[1])]
        mean = inside.mean(axis=0) if len(inside) else np.zeros(flat.shape[1])
        return cls(inside, outside, noise, mean, baseline, X.shape[1:])

    def changed(self, features: Integers) -> dict[str, Floats]:
        """Return the inputs of each procedure, with some features changed."""
        nullified, replaced, crafted = self.positive.copy(), self.negative.copy(), self.noise.copy()
        nullified[:, features] = self.baseline
        replaced[:, features] = self.mean[features]
        crafted[:, features] = self.positive[:, features]
        alone = np.full_like(self.positive, self.baseline)
        alone[:, features] = self.positive[:, features]
        made = zip(PROCEDURES, (nullified, replaced, crafted, alone), strict=True)
        return {name: flat.reshape(len(flat), *self.shape) for name, flat in made}


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
        self, of: str = "probability", *, n_bootstraps: int = 1000, random_state: Any = 0
    ) -> tuple[float, float]:
        """95 % limits of the mean of "probability" or "accuracy", by bootstrap over the rows."""
        rows = getattr(self, of)
        drawn = generator(random_state).integers(len(rows), size=(n_bootstraps, len(rows)))
        low, high = np.quantile(rows[drawn].mean(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return float(low), float(high)


def keep_top(
    explanation: Explanation, model: Any, *, k: int = 20, background: Any = 0.0, segments: Any = None
) -> KeepTop:
    """Keep the k segments (or features) with the highest values of each row, replace the rest, and ask the model.

    Parameters
    ----------
    explanation
        Of a classifier's decisions, by any method.
    model
        The classifier.
    k
        How many segments to keep.
    background
        A number or an input that replaces the rest.
    segments
        Segment of each cell, shaped like the rows; by default `extras["segments"]`, else every cell is its
        own.

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
    score = with_known_outputs(as_class_scores(model), X)
    if not isinstance(score, ClassScores):
        raise InvalidInput("keep_top measures decisions of a classifier; this model gives one score.")
    label = explanation.extras.get("segments") if segments is None else np.asarray(segments)
    kept = np.array(
        [
            _keep(x, v, k, background, None if label is None else label[i])
            for i, (x, v) in enumerate(zip(X, explanation.values, strict=True))
        ]
    )
    chosen = np.asarray(explanation.extras.get("target", score.outputs(X).argmax(axis=1))).astype(np.int64)
    odds = score.outputs(kept)
    probability = 1.0 / (1.0 + np.exp(-odds[np.arange(len(X)), chosen]))
    return KeepTop(explanation.method, k, probability, (odds.argmax(axis=1) == chosen).astype(np.float64))


def _keep(x: Floats, values: Floats, k: int, background: Any, label: Any) -> Floats:
    label = np.arange(x.size).reshape(x.shape) if label is None else label
    worth = np.bincount(label.ravel(), values.ravel())
    best = np.argsort(-worth, kind="stable")[:k]
    return np.where(np.isin(label, best), x, background)


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
    insight: Insight, *, k: int = 100, baseline: float = 0.0, random_state: Any = 0
) -> Vulnerabilities:
    """Build inputs that exploit an insight, from the rows that it carries with it.

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
    positive = np.arange(len(rows)) < len(insight.examples)
    sample = _Sample.of(rows, positive, rows, baseline, generator(random_state))
    features = insight.ranking(baseline)[: min(k, insight.coefficients.size)]
    made = sample.changed(features)
    return Vulnerabilities(made["nullified"], made["replaced"], made["crafted"], features)
