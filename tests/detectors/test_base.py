"""What every detector shares: thresholds, signs, and the rows that thresholds are drawn from."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.detectors import KernelDensity, NearestNeighbours, PCADetector
from tellwhy.detectors.base import CALIBRATION_ROWS, choose_calibration_rows

X = np.random.default_rng(0).normal(size=(80, 3))
NEW = 2.0 * np.random.default_rng(1).normal(size=(30, 3))


@pytest.fixture(params=[KernelDensity, NearestNeighbours, PCADetector], ids=lambda cls: cls.__name__)
def detector(request):
    return request.param().fit(X)


def test_signs_and_thresholds_belong_together(detector):
    odd = detector.outlierness(NEW)
    np.testing.assert_array_equal(detector.score_samples(NEW), -odd)
    np.testing.assert_allclose(detector.decision_function(NEW), detector.threshold_ - odd, atol=1e-12)
    assert detector.offset_ == -detector.threshold_
    np.testing.assert_array_equal(detector.predict(NEW), np.where(odd > detector.threshold_, -1, 1))


def test_a_row_on_the_threshold_is_normal(detector):
    odd = detector.outlierness(NEW)
    for row in (0, 7):
        assert detector.set_threshold(value=odd[row]).predict(NEW)[row] == 1
        assert detector.set_threshold(value=np.nextafter(odd[row], -np.inf)).predict(NEW)[row] == -1


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5])
def test_a_share_of_the_training_scores_lies_above(detector, share):
    detector.set_threshold(contamination=share)
    assert (detector.training_scores_ > detector.threshold_).mean() == pytest.approx(share, abs=1 / len(X))
    assert detector.to_score().threshold == detector.threshold_


def test_thresholds_are_given_in_exactly_one_way(detector):
    before = detector.threshold_
    for given in ({}, {"contamination": 0.1, "value": 3.0}):
        with pytest.raises(InvalidInput, match="exactly one of them"):
            detector.set_threshold(**given)
    for share in (0.0, 0.6, -0.1):
        with pytest.raises(InvalidParameter, match=r"'contamination' parameter of \w+\.set_threshold"):
            detector.set_threshold(contamination=share)
    assert detector.threshold_ == before
    with pytest.raises(NotFittedError):
        type(detector)().set_threshold(value=1.0)


def test_every_row_calibrates_a_threshold_until_there_are_too_many():
    np.testing.assert_array_equal(choose_calibration_rows(CALIBRATION_ROWS), np.arange(CALIBRATION_ROWS))
    many = choose_calibration_rows(3 * CALIBRATION_ROWS)
    assert len(many) == CALIBRATION_ROWS
    assert (np.diff(many) > 0).all()  # in order, none twice
    assert many.max() > 2.9 * CALIBRATION_ROWS
    np.testing.assert_array_equal(many, choose_calibration_rows(3 * CALIBRATION_ROWS))


def test_fewer_rows_than_neighbours_leave_all_the_others():
    rows = np.array([[0.0], [1.0], [5.0]])
    detector = NearestNeighbours(10).fit(rows)
    np.testing.assert_allclose(detector.training_scores_, [(1 + 5) / 2, (1 + 4) / 2, (5 + 4) / 2])
    np.testing.assert_allclose(detector.outlierness([[6.0]]), [(1 + 5) / 2])
