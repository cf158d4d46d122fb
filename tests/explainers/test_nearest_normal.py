"""Every attribution of an anomaly score tells the nearest normal version of each row, when asked."""

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest

from tellwhy.core.registry import cards
from tellwhy.detectors import GaussianMixture, KernelDensity, NearestNeighbours, OneClassSVM, PCADetector
from tellwhy.explainers import (
    AnomalyShapley,
    Compensation,
    Ensemble,
    IntegratedGradients,
    Occlusion,
    OneClassDTD,
    Sensitivity,
)
from tellwhy.scoring import FunctionScore, as_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)) * [1.0, 5.0, 0.2] + [0.0, 50.0, 1.0]
NEW = X[:5] + np.array([[0.0, 0.0, 0.0]] * 2 + [[9.0, 0.0, 0.0], [0.0, 60.0, 0.0], [6.0, 0.0, 3.0]])
DETECTORS = [GaussianMixture(), PCADetector(1), OneClassSVM(), KernelDensity(), NearestNeighbours()]
FAMILIES = ("decomposition", "gradients", "perturbation", "shapley")  # others do not attribute anomaly scores
METHODS = [card for card in cards("explainer") if card.family in FAMILIES]


def ready(cls, model):
    explainer = cls(model)
    return explainer.fit(X) if hasattr(explainer, "fit") else explainer


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("card", METHODS, ids=lambda c: c.name)
def test_the_point_is_normal_near_and_seen(card, detector):
    score = as_score(detector.fit(X))
    if not card.applies(score):
        pytest.skip("does not apply")
    e = ready(card.cls, detector).explain(NEW)
    if e.kind != "attribution":
        assert "nearest_normal" not in e.extras
        return
    points = e.extras["nearest_normal"]
    assert points.shape == NEW.shape
    assert (detector.outlierness(points)[e.scores > score.threshold] <= detector.threshold_).all()
    changed = points != NEW
    assert ((points >= X.min(axis=0)) & (points <= X.max(axis=0)))[changed].all()
    np.testing.assert_array_equal(changed.any(axis=1), e.scores > score.threshold)


def test_all_general_attributions_are_among_them():
    model = GaussianMixture().fit(X)
    general = [card for card in METHODS if card.applies(as_score(model))]
    having = {card.name for card in general if "nearest_normal" in ready(card.cls, model).explain(NEW).extras}
    assert having >= {
        "AnomalyShapley",
        "KernelShap",
        "IntegratedGradients",
        "Occlusion",
        "AnomalyContribution",
    }


class Counted:
    """A score that counts the rows it is asked about."""

    def __init__(self):
        self.n_rows = 0

    def __call__(self, Z):
        self.n_rows += len(Z)
        return ((Z / X.std(axis=0)) ** 2).sum(axis=1)


def test_explaining_asks_for_nothing_more_and_slices_ask_for_their_rows():
    asked = {}
    for threshold in (None, 300.0):
        counted = Counted()
        e = Occlusion(FunctionScore(counted, threshold=threshold)).fit(X).explain(NEW)
        asked[threshold] = counted.n_rows
        assert ("nearest_normal" in e.extras) == (threshold is not None)
    assert asked[None] == asked[300.0]
    before = counted.n_rows
    one = e[3:4].extras["nearest_normal"]
    for_one = counted.n_rows - before
    assert for_one > 0
    everyone = e.extras["nearest_normal"]
    np.testing.assert_array_equal(everyone[3:4], one)
    assert counted.n_rows - before - for_one > for_one
    before = counted.n_rows
    e.extras["nearest_normal"], e[1:].extras["nearest_normal"]
    assert counted.n_rows == before


def test_one_class_dtd_scores_nothing_more_either(monkeypatch):
    model = OneClassSVM().fit(X)
    explainer = OneClassDTD(model)
    calls = []
    monkeypatch.setattr(type(explainer.score), "value", lambda self, *_: calls.append(1))
    e = explainer.explain(NEW)
    assert "nearest_normal" in e.extras
    assert calls == []


def test_background_rows_serve_where_the_model_kept_none():
    forest = IsolationForest(n_estimators=10, random_state=0).fit(X)
    e = AnomalyShapley(forest).fit(X).explain(NEW[2:3])
    score = as_score(forest)
    assert score.value(e.extras["nearest_normal"]) <= score.threshold
    gradient = FunctionScore(Counted(), gradient=lambda Z: 2 * Z / X.var(axis=0), threshold=300.0)
    assert "nearest_normal" not in IntegratedGradients(gradient, baseline=X[0]).explain(NEW).extras
    assert "nearest_normal" in IntegratedGradients(gradient).fit(X).explain(NEW).extras


def test_ensembles_have_that_of_the_scores_they_show():
    mixture, density = GaussianMixture().fit(X), KernelDensity().fit(X)
    both = Ensemble([Compensation(mixture), Occlusion(density), Occlusion(mixture)]).fit(X).explain(NEW)
    assert (mixture.outlierness(both.extras["nearest_normal"]) <= mixture.threshold_).all()
    neither = Ensemble([Sensitivity(mixture), Occlusion(density)]).fit(X).explain(NEW)
    assert "nearest_normal" not in neither.extras
