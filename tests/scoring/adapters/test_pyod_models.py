import importlib

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tellwhy.core.score_function import ScoreFunction
from tellwhy.scoring import FunctionScore, NeighbourScore, as_score

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)) @ RNG.normal(size=(4, 4)) + [5.0, -3.0, 0.0, 1.0]
NEW = np.vstack([X[:20] + RNG.normal(scale=0.3, size=(20, 4)), RNG.normal(scale=4.0, size=(20, 4))])

PYOD = {
    "abod.ABOD": {},
    "cblof.CBLOF": {"random_state": 0},
    "copod.COPOD": {},
    "ecod.ECOD": {},
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


def test_pyod_detectors_that_score_rows_together_say_so():
    assert "depends on the rows scored with it" in as_score(pyod_detector("ecod.ECOD").fit(X)).describes
    assert "depends" not in as_score(pyod_detector("hbos.HBOS").fit(X)).describes
