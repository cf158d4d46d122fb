"""Fidelity: whether the features that an insight names are those that the model goes by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Seed, generator, integer, real, seed, validate_value
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats, Integers
from tellwhy.evaluation.changed_inputs import InputSample
from tellwhy.scoring.class_scores import as_class_scores, with_known_outputs
from tellwhy.scoring.scores.log_odds import ClassScores

if TYPE_CHECKING:
    import pandas as pd

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
    found = Fidelity(insight.target, kept, _no_rates(n_bootstraps, kept), _no_rates(n_bootstraps, kept))
    rng = generator(random_state)
    for b in track(range(n_bootstraps), n_bootstraps, "measuring fidelity"):
        drawn = rng.choice(len(rows), size=max(2, round(share * len(rows))), replace=True)
        sample = InputSample.of(rows[drawn], positive[drawn], rows, baseline=baseline, rng=rng)
        shuffled = rng.permutation(len(ranking))
        for i, count in enumerate(kept):
            _measure(found.rates, (b, i), sample, ranking[:count], is_positive)
            _measure(found.random_rates, (b, i), sample, shuffled[:count], is_positive)
    return found


def _no_rates(n_bootstraps: int, counts: tuple[int, ...]) -> dict[str, Floats]:
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
    score = with_known_outputs(as_class_scores(model), rows)
    if isinstance(score, ClassScores):
        if target not in score.names:
            raise InvalidInput(f"The model has no class {target!r}: its classes are {score.names}.")
        number = score.names.index(target)
        return lambda X: score.outputs(X).argmax(axis=1) == number
    limit = score.threshold if score.threshold is not None else float(np.median(score.value(rows)))
    return lambda X: score.value(X) > limit
