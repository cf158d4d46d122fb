"""Inputs that show what a model is blind or gullible to, built from what it has learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tellwhy.core.params import Seed, generator, integer, validate_value
from tellwhy.core.score_function import Floats, Integers
from tellwhy.evaluation.changed_inputs import InputSample
from tellwhy.evaluation.fidelity import RanksFeatures


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
