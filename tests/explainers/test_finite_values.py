"""Numbers so large or small that results leave the range of floating-point numbers: an error tells."""

import warnings

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.registry import cards
from tellwhy.detectors import GaussianMixture, KernelDensity, NearestNeighbours, OneClassSVM
from tellwhy.explainers.base import check_finite

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [1.0, 2.0, 0.5]
NEW = X[:2] + np.array([0.0, 9.0, 0.0])
CASES = {
    "far rows": (X, NEW * 1e160),
    "rows near 0": (X, NEW * 1e-160),
    "one column": (X * [1, 1e160, 1], NEW * [1, 1e160, 1]),
    "one small column": (X * [1, 1e-160, 1], NEW * [1, 1e-160, 1]),
    "all": (X * 1e160, NEW * 1e160),
    "all small": (X * 1e-160, NEW * 1e-160),
}
METHODS = [card.cls for card in cards("explainer") if card.name != "DMMMEN"]  # which samples for long


@pytest.mark.parametrize("detector", [KernelDensity, NearestNeighbours, GaussianMixture, OneClassSVM])
@pytest.mark.parametrize("case", CASES)
def test_every_result_is_finite_or_an_error(detector, case):
    background, rows = CASES[case]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = detector().fit(background)
        for method in METHODS:
            try:
                explainer = method(fitted)
                if hasattr(explainer, "fit"):
                    explainer.fit(background)
                found = explainer.explain(rows)
            except (InvalidInput, UnsupportedModel):
                continue
            for array in (found.values, found.scores, found.base_values, found.stderr):
                assert array is None or np.isfinite(array).all(), method


def test_scores_of_rows_out_of_all_proportion():
    fitted = NearestNeighbours().fit(X)
    for ask in (fitted.outlierness, fitted.score_samples, fitted.predict):
        with pytest.raises(InvalidInput, match=r"outlierness of row 1 is inf by NearestNeighbours"):
            ask(np.array([[0.0, 0.0, 0.0], [1e300, 0.0, 0.0]]))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"values": np.array([[1.0, 2.0], [np.nan, 1.0]])}, r"nan in its values for row 1, column 'a'"),
        ({"scores": np.array([1.0, -np.inf])}, r"-inf in its scores for row 1:"),
        ({"values": np.full((2, 2, 2), np.inf)}, r"inf in its values for row 0, cell \(0, 0\)"),
        ({"base values": np.nan}, "nan in its base values for row 0"),
    ],
)
def test_the_first_number_is_named(given, told):
    with pytest.raises(InvalidInput, match=told):
        check_finite("Method", ["a", "b"], **given)
    check_finite("Method", None, values=np.ones((2, 2)), stderr=None)
