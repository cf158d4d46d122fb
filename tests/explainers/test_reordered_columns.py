"""Attributions are told in the user's columns, also where a pipeline puts them in another order."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tellwhy.explainers  # noqa: F401  (fills the registry)
from tellwhy.core.registry import cards
from tellwhy.detectors import OneClassSVM

X = np.random.default_rng(0).normal(size=(120, 3))
ODD = np.array([[0.1, -0.2, 8.0]])


@pytest.mark.parametrize("card", [c for c in cards("explainer") if c.cls.reads_rows], ids=lambda card: card.name)
def test_the_odd_column_is_named_after_reordering(card):
    reorder = make_column_transformer((StandardScaler(), [2]), ("passthrough", [0, 1]))
    explainer = card.cls(make_pipeline(reorder, OneClassSVM(nu=0.2)).fit(X))
    if hasattr(explainer, "fit"):
        explainer.fit(X)
    assert explainer.explain(ODD).values[0].argmax() == 2
