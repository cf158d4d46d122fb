"""Detectors through the plain one-liner: the column in which an ordinary row was made odd comes first."""

import importlib
import inspect

import numpy as np
import pytest
from sklearn.covariance import EllipticEnvelope
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.svm import OneClassSVM

import tellwhy
from tellwhy.core.errors import InvalidInput
from tellwhy.scoring import as_score
from tellwhy.scoring.reference_rows import find_reference_rows

MIXING = np.eye(5) + 0.3 * np.random.default_rng(1).normal(size=(5, 5))
ORDINARY = np.random.default_rng(2).normal(size=(400, 5)) @ MIXING
CENTRE, SCALE = ORDINARY.mean(axis=0), ORDINARY.std(axis=0)
TRUTH = np.arange(20) % 5


def planted():
    """Rows within one standard deviation of the mean but for one cell, six standard deviations out."""
    more = np.random.default_rng(3).normal(size=(900, 5)) @ MIXING
    odd = more[(np.abs(more - CENTRE) < SCALE).all(axis=1)][:20].copy()
    for row, column in enumerate(TRUTH):
        odd[row, column] = CENTRE[column] + (6 if row % 2 else -6) * SCALE[column]
    return odd


def n_first(model):
    """Planted columns that come first, alone where the model keeps what it needs, else with its rows."""
    odd = planted()
    try:
        found = tellwhy.explain(model, odd)
    except InvalidInput:  # it asks for ordinary rows
        found = tellwhy.explain(model, odd, background=ORDINARY)
    return int((found.values.argmax(axis=1) == TRUTH).sum())


@pytest.mark.parametrize(
    "model",
    [
        IsolationForest(random_state=0),
        OneClassSVM(nu=0.1),
        LocalOutlierFactor(novelty=True),
        EllipticEnvelope(random_state=0),
        GaussianMixture(2, random_state=0),
        KernelDensity(bandwidth=0.5),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scikit_learn(model):
    assert n_first(model.fit(ORDINARY)) >= 19


def make(kind):
    """A detector whose draws are the same each time: some clusterings of CBLOF end in an error of its own."""
    return kind(random_state=1) if "random_state" in inspect.signature(kind).parameters else kind()


# the whole list of 18 is in benchmarks/models/any_model.py; these take little time
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    "path", ["cblof.CBLOF", "copod.COPOD", "ecod.ECOD", "hbos.HBOS", "iforest.IForest", "mcd.MCD", "pca.PCA"]
)
def test_pyod(path):
    pytest.importorskip("pyod")
    module, name = path.split(".")
    detector = make(getattr(importlib.import_module(f"pyod.models.{module}"), name))
    assert n_first(detector.fit(ORDINARY)) >= 19


KEEP_ROWS = ["abod.ABOD", "inne.INNE", "knn.KNN", "lof.LOF", "qmcd.QMCD"]
HAVE_A_DISTRIBUTION = ["gmm.GMM", "hbos.HBOS", "mcd.MCD", "pca.PCA"]
ASK = ["cblof.CBLOF", "loda.LODA", "ocsvm.OCSVM", "sampling.Sampling"]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", [*KEEP_ROWS, *HAVE_A_DISTRIBUTION, *ASK])
def test_ordinary_rows_come_from_a_detector_that_has_them(path):
    pytest.importorskip("pyod")
    module, name = path.split(".")
    rows = ORDINARY * [1.0, 20.0, 0.3, 4.0, 1.0] + [0.0, 100.0, 0.0, -7.0, 3.0]
    detector = make(getattr(importlib.import_module(f"pyod.models.{module}"), name)).fit(rows)
    found = find_reference_rows(as_score(detector))
    if path in ASK:
        assert found is None
        return
    if path in KEEP_ROWS:  # exactly these rows
        gaps = np.abs(found.rows[:, None] - rows[None]).max(axis=2).min(axis=1)
        assert "rows that the model keeps" in found.words
        np.testing.assert_allclose(gaps, 0.0, atol=1e-11)
    else:
        assert "drawn from the distribution" in found.words
    middles = (found.rows.mean(axis=0) - rows.mean(axis=0)) / rows.std(axis=0)
    np.testing.assert_allclose(middles, 0.0, atol=0.2)
    spreads = found.rows.std(axis=0) / rows.std(axis=0)
    np.testing.assert_allclose(spreads, 1.0, atol=0.15)
    if name != "HBOS":  # which takes columns to be independent
        gap = np.corrcoef(found.rows.T) - np.corrcoef(rows.T)
        np.testing.assert_allclose(gap, 0.0, atol=0.15)
