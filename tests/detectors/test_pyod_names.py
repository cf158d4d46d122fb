"""Our detectors beside those of PyOD: what its tools ask of a fitted detector is there."""

import numpy as np
import pytest

from tellwhy.detectors import GaussianMixture, KernelDensity, OneClassSVM

X = np.append(np.random.default_rng(0).normal(size=(80, 3)), [[7.0] * 3, [-7.0] * 3], axis=0)


@pytest.mark.parametrize("detector", [KernelDensity(), OneClassSVM(nu=0.1), GaussianMixture(1)])
def test_scores_and_labels_of_training_rows_have_the_names_of_pyod(detector):
    assert not hasattr(detector, "decision_scores_")
    assert not hasattr(detector, "labels_")
    detector.fit(X).set_threshold(contamination=0.05)
    np.testing.assert_array_equal(detector.decision_scores_, detector.training_scores_)
    np.testing.assert_array_equal(detector.labels_, detector.training_scores_ > detector.threshold_)
    assert detector.labels_.sum() <= 5
