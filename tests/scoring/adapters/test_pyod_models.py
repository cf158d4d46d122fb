import importlib

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.score import ScoreFunction
from tellwhy.scoring import FunctionScore, NeighbourScore, as_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)) @ RNG.normal(size=(4, 4)) + [5.0, -3.0, 0.0, 1.0]
NEW = np.vstack([X[:20] + RNG.normal(scale=0.3, size=(20, 4)), RNG.normal(scale=4.0, size=(20, 4))])

PYOD = {
    "cblof.CBLOF": {"random_state": 0},
    "gmm.GMM": {"random_state": 0},
    "hbos.HBOS": {},
    "iforest.IForest": {"random_state": 0},
    "kde.KDE": {},
    "knn.KNN": {},
    "lof.LOF": {},
    "loda.LODA": {},
    "mcd.MCD": {"random_state": 0},
    "ocsvm.OCSVM": {},
    "pca.PCA": {"random_state": 0},
}


def pyod_detector(path, **settings):
    pytest.importorskip("pyod")
    module, name = path.split(".")
    return getattr(importlib.import_module(f"pyod.models.{module}"), name)(**settings)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", PYOD)
def test_pyod_detectors(path):
    model = pyod_detector(path, **PYOD[path])
    with pytest.raises(NotFittedError):
        as_score(model)
    model.fit(X)
    score = as_score(model)
    assert isinstance(score, ScoreFunction)
    np.testing.assert_allclose(score.value(NEW), model.decision_function(NEW), rtol=1e-10)
    np.testing.assert_array_equal(score.value(NEW) > score.threshold, model.predict(NEW) == 1)
    assert not hasattr(score, "gradient")
    assert f"PyOD's {type(model).__name__}" in score.describes


def test_pyod_neighbours_by_mean_distance_have_an_expansion():
    model = pyod_detector("knn.KNN", method="mean", n_neighbors=7).fit(X)
    score = as_score(model)
    assert type(score) is NeighbourScore
    np.testing.assert_allclose(score.value(NEW), model.decision_function(NEW), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(score.value(X, score.match(X)), model.decision_scores_, rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(score.value(NEW) > score.threshold, model.predict(NEW) == 1)


@pytest.mark.parametrize("settings", [{"metric": "manhattan"}, {"p": 1}, {"metric": "cosine"}])
def test_pyod_neighbours_with_other_metrics(settings):
    model = pyod_detector("knn.KNN", method="mean", **settings).fit(X)
    score = as_score(model)
    assert type(score) is FunctionScore
    np.testing.assert_allclose(score.value(NEW), model.decision_function(NEW), rtol=1e-10, atol=1e-10)


def test_pyod_detectors_that_score_rows_together_are_refused():
    with pytest.raises(UnsupportedModel, match="compares the rows of one call with each other"):
        as_score(pyod_detector("sod.SOD", n_neighbors=10, ref_set=5).fit(X))


@pytest.mark.parametrize("name", ["ecod.ECOD", "copod.COPOD"])
def test_tails_are_those_of_a_row_alone_and_add_up(name):
    rng = np.random.default_rng(0)
    rows = rng.gamma(2.0, size=(60, 4)) * [1, -1, 1, 1]
    rows[:, 2] = np.round(rows[:, 2])  # ties
    new = np.vstack([rng.gamma(2.0, size=(20, 4)) * 2, rows[:5]])
    with pytest.raises(NotFittedError):
        as_score(pyod_detector(name))
    model = pyod_detector(name).fit(rows)
    score = as_score(model)
    alone = [model.decision_function(row[None])[0] for row in new]
    np.testing.assert_allclose(score.value(new), alone, rtol=1e-12)
    np.testing.assert_allclose(score.feature_errors(new).sum(axis=1), alone, rtol=1e-12)


def test_angles_have_the_order_of_the_detectors_own_scores():
    model = pyod_detector("abod.ABOD").fit(X)
    score = as_score(model)
    own = model.decision_function(NEW)
    np.testing.assert_array_equal(np.argsort(score.value(NEW)), np.argsort(own))
    np.testing.assert_array_equal(score.value(NEW) > score.threshold, own > model.threshold_)
