"""Our detectors beside those of PyOD: what its tools ask of a fitted detector is there."""

import numpy as np
import pytest

from tellwhy.detectors import GaussianMixture, KernelDensity, OneClassSVM

X = np.append(np.random.default_rng(0).normal(size=(80, 3)), [[7.0] * 3, [-7.0] * 3], axis=0)


@pytest.mark.parametrize("detector", [KernelDensity(), OneClassSVM(nu=0.1), GaussianMixture(1)])
def test_scores_of_training_rows_have_the_name_of_pyod(detector):
    assert not hasattr(detector, "decision_scores_")
    detector.fit(X)
    np.testing.assert_array_equal(detector.decision_scores_, detector.training_scores_)
