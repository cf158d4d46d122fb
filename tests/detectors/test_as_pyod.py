"""Our detectors among PyOD's: signs, names, and the tools that combine them."""

import numpy as np
import pytest
from sklearn.base import clone

from tellwhy.core.errors import InvalidInput
from tellwhy.detectors import KernelDensity, NearestNeighbours, PCADetector, as_pyod

pytest.importorskip("pyod")
from pyod.models.base import BaseDetector
from pyod.utils.utility import standardizer

ROWS = np.append(np.random.default_rng(0).normal(size=(120, 3)), [[9.0, 9.0, 9.0]], axis=0)
NEW = np.array([[0.0, 0.0, 0.0], [7.0, -7.0, 7.0]])


def test_scores_and_labels_have_their_signs():
    found = as_pyod(KernelDensity(), contamination=0.05).fit(ROWS)
    own = KernelDensity().fit(ROWS)
    assert isinstance(found, BaseDetector)
    np.testing.assert_array_equal(found.decision_scores_, own.training_scores_)
    np.testing.assert_array_equal(found.decision_function(NEW), own.outlierness(NEW))
    assert found.predict(NEW).tolist() == [0, 1]
    assert found.labels_.sum() == 6
    assert found.labels_[-1] == 1
    assert found.threshold_ == pytest.approx(np.percentile(own.training_scores_, 95))
    chances = found.predict_proba(NEW)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert chances[1, 1] > chances[0, 1]
    assert found.predict_confidence(NEW).shape == (2,)


def test_one_that_is_fitted_stays_so_and_is_not_changed():
    own = PCADetector().fit(ROWS)
    found = as_pyod(own)
    np.testing.assert_array_equal(found.decision_function(NEW), own.outlierness(NEW))
    found.fit(ROWS[:50])
    assert own.training_scores_.shape == (121,)


def test_scores_are_combined_as_pyods_are():
    scores = [as_pyod(each).fit(ROWS).decision_scores_ for each in (KernelDensity(), NearestNeighbours())]
    assert standardizer(np.column_stack(scores)).mean(axis=1).argmax() == 120


def test_ensembles_make_copies_of_them():
    again = clone(as_pyod(NearestNeighbours(n_neighbors=7), contamination=0.2))
    assert again.get_params()["contamination"] == 0.2
    assert again.fit(ROWS).detector_.n_neighbors == 7


def test_what_is_no_detector_is_refused():
    with pytest.raises(InvalidInput, match="as_pyod takes a detector"):
        as_pyod(KernelDensity)
