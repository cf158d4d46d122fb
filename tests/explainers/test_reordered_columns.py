"""Attributions are told in the user's columns, also where a pipeline puts them in another order."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import tellwhy
from tellwhy.core.registry import cards
from tellwhy.detectors import OneClassSVM
from tellwhy.explainers import DMMMEN

X = np.random.default_rng(0).normal(size=(120, 3))
ODD = np.array([[0.1, -0.2, 8.0]])


OF_OTHER_MODELS = ("CommitteeShares", "LinearShapley", "PatchRelevance", "Sobel", "TreeShapley")
# Regressions see no slope in a score that rises on both sides; they have a test of their own below.
CARDS = [
    c
    for c in cards("explainer")
    if c.cls.reads_rows and c.family != "surrogate" and c.name not in OF_OTHER_MODELS
]


def reordered(model):
    return make_pipeline(make_column_transformer((StandardScaler(), [2]), ("passthrough", [0, 1])), model)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.name)
def test_the_odd_column_is_named_after_reordering(card):
    explainer = card.cls(reordered(OneClassSVM(nu=0.2)).fit(X))
    if hasattr(explainer, "fit"):
        explainer.fit(X)
    assert explainer.explain(ODD).values[0].argmax() == 2


@pytest.mark.parametrize("model", [LinearRegression(), DecisionTreeRegressor(max_depth=3)], ids=str)
def test_the_column_of_a_linear_model_and_of_trees_is_named_after_reordering(model):
    found = tellwhy.explain(reordered(model).fit(X, X[:, 2]), ODD, background=X)
    assert found.method in OF_OTHER_MODELS
    assert found.values[0].argmax() == 2


def test_a_surrogate_names_the_column_that_a_reordered_classifier_uses():
    model = reordered(LogisticRegression()).fit(X, X[:, 2] > 0)
    explanation = (
        DMMMEN(model, n_components=1, n_elastic_nets=1, n_sweeps=400, n_burn=200).fit(X).explain(ODD)
    )
    assert np.abs(explanation.values[0]).argmax() == 2
