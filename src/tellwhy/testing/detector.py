"""The contract of a detector, as a generator of checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats
from tellwhy.testing.cases import assert_refused, make_bad_rows

Check = tuple[str, Callable[[], None]]


def check_detector(detector: Any, *, generate_only: bool = False) -> Iterator[Check] | None:
    """Run the contract of a detector, or give its checks as (name, function) pairs.

    The detector is an unfitted instance with small defaults; it is cloned for every check. Raises
    `AssertionError` at the first promise it breaks.

    Examples
    --------
    >>> from tellwhy.detectors import NearestNeighbours
    >>> check_detector(NearestNeighbours())
    """
    checks = ((name, lambda check=check: check(clone(detector))) for name, check in _CHECKS.items())
    if generate_only:
        return checks
    for _, run in checks:
        run()
    return None


def _draw_training_rows() -> Floats:
    rng = np.random.default_rng(0)
    # two clouds of different width: a detector that sees one cloud only, or no width, scores them wrongly
    return np.vstack([rng.normal(size=(60, 4)), rng.normal(size=(60, 4)) * 0.5 + 4.0])


def _outlierness_is_high_for_anomalies(detector: Any) -> None:
    X = _draw_training_rows()
    detector.fit(X)
    # up to millions of standard deviations: where kernels underflow, scores must still tell rows apart
    far = X.mean(axis=0) + np.array([[40.0, 0, 0, 0], [0, 0, -4000.0, 0], [4e6, 0, 0, 0]])
    scores = detector.outlierness(far)
    assert np.isfinite(scores).all(), "far rows must have finite scores"
    assert (np.diff(scores) > 0).all(), "farther rows must have higher scores"
    assert scores[0] > detector.outlierness(X).max(), "a far row must score above every training row"


def _signs_follow_scikit_learn(detector: Any) -> None:
    X = _draw_training_rows()
    detector.fit(X)
    o = detector.outlierness(X)
    np.testing.assert_array_equal(detector.score_samples(X), -o)
    np.testing.assert_allclose(detector.decision_function(X), detector.threshold_ - o, rtol=1e-12)
    np.testing.assert_array_equal(detector.predict(X), np.where(detector.decision_function(X) >= 0, 1, -1))


def _threshold_moves_after_fitting(detector: Any) -> None:
    X = _draw_training_rows()
    detector.fit(X)
    for share in (0.05, 0.2):
        above = detector.set_threshold(contamination=share).training_scores_ > detector.threshold_
        assert abs(above.mean() - share) <= 1.0 / len(X) + 1e-12, (
            f"{above.mean()} of rows above, asked for {share}"
        )
    assert detector.set_threshold(value=1.5).threshold_ == 1.5
    for wrong in ({"contamination": 0.0}, {"contamination": 0.9}, {}, {"contamination": 0.1, "value": 1.0}):
        assert_refused(lambda kwargs: detector.set_threshold(**kwargs), wrong, f"set_threshold({wrong})")


def _score_function_gives_the_outlierness(detector: Any) -> None:
    X = _draw_training_rows()
    score = detector.fit(X).to_score()
    np.testing.assert_array_equal(score.value(X), detector.outlierness(X))
    assert score.feature_shape == (4,)
    assert score.threshold == detector.threshold_
    assert score.describes


def _rows_are_scored_one_by_one(detector: Any) -> None:
    X = _draw_training_rows()
    detector.fit(X)
    together = detector.outlierness(X)
    # products of larger matrices round differently: equal to nine digits, not to the last bit
    alone = np.concatenate([detector.outlierness(row[None]) for row in X[:5]])
    np.testing.assert_allclose(alone, together[:5], rtol=1e-9)
    np.testing.assert_allclose(detector.outlierness(X[::-1])[::-1], together, rtol=1e-9)


def _same_input_gives_same_bits(detector: Any) -> None:
    X = _draw_training_rows()
    first = clone(detector).fit(X).outlierness(X)
    np.testing.assert_array_equal(first, detector.fit(X).outlierness(X))


def _columns_are_interchangeable(detector: Any) -> None:
    X = _draw_training_rows()
    order = [2, 0, 3, 1]
    plain = clone(detector).fit(X).outlierness(X)
    # solvers stop a little elsewhere when sums are taken in another order
    np.testing.assert_allclose(detector.fit(X[:, order]).outlierness(X[:, order]), plain, rtol=1e-3)


def _nothing_of_the_users_is_modified(detector: Any) -> None:
    X = _draw_training_rows()
    kept = X.copy()
    detector.fit(X).outlierness(X)
    np.testing.assert_array_equal(X, kept)
    before = detector.outlierness(kept)
    X[:] = 0.0  # a detector that kept a view of the user's array would now remember zeros
    np.testing.assert_array_equal(detector.outlierness(kept), before)


def _large_offsets_do_not_flatten_scores(detector: Any) -> None:
    X = _draw_training_rows()
    plain = clone(detector).fit(X).outlierness(X)
    # |x|² − 2xy + |y|² keeps no digits here; differences must be taken first
    shifted = detector.fit(X + 1e9).outlierness(X + 1e9)
    assert np.corrcoef(plain, shifted)[0, 1] > 0.999, "an offset of 1e9 changed the scores"


def _extreme_scales_are_scored_or_refused(detector: Any) -> None:
    X = _draw_training_rows()
    plain = clone(detector).fit(X).outlierness(X)
    for factor in (1e300, 1e-300):
        scaled = X * factor
        try:
            scores = clone(detector).fit(scaled).outlierness(scaled)
        except InvalidInput:
            continue
        assert np.isfinite(scores).all(), f"scores at scale {factor:g} are not finite"
        unit = scores / np.abs(scores).max()  # correlations of 1e300 would overflow
        assert np.corrcoef(plain, unit)[0, 1] > 0.999, f"scale {factor:g} flattened the scores"


def _constant_columns_and_duplicates_are_no_obstacle(detector: Any) -> None:
    X = _draw_training_rows()
    X[:, 1] = 7.0
    odd = np.array([[0.0, 7.0, 0.0, 0.0], [0.0, 70.0, 0.0, 0.0]])  # differ in the constant column only
    scores = clone(detector).fit(X).outlierness(odd)
    assert scores[1] > scores[0], "a value never seen in a constant column must be odd"
    doubled = detector.fit(np.repeat(_draw_training_rows(), 3, axis=0)).outlierness(_draw_training_rows())
    assert np.isfinite(doubled).all()


def _equal_rows_are_fitted_or_refused(detector: Any) -> None:
    X = np.full((20, 3), 2.5)
    try:
        scores = detector.fit(X).outlierness(np.array([[2.5, 2.5, 2.5], [2.5, 2.5, 9.0]]))
    except InvalidInput as error:
        assert "equal" in str(error), f"the message does not say that all rows are equal: {error}"
    else:
        assert np.isfinite(scores).all()
        assert scores[1] > scores[0]


def _bad_rows_are_refused(detector: Any) -> None:
    X = _draw_training_rows()
    fitted = clone(detector).fit(X)
    for name, rows in make_bad_rows(X):
        assert_refused(clone(detector).fit, rows, f"fit with {name}")
        assert_refused(fitted.outlierness, rows, f"outlierness with {name}")
    assert_refused(clone(detector).fit, X[:1], "fit with one row")
    assert_refused(fitted.outlierness, X[:, :3], "one column too few", mentions="expecting 4")


def _unfitted_use_says_so(detector: Any) -> None:
    for method in ("outlierness", "predict", "score_samples", "decision_function"):
        try:
            getattr(detector, method)(_draw_training_rows())
        except NotFittedError:
            continue
        raise AssertionError(f"{method} of an unfitted detector must raise NotFittedError")


def _frames_keep_their_names(detector: Any) -> None:
    import pandas as pd

    frame = pd.DataFrame(_draw_training_rows(), columns=["a", "b", "c", "d"])
    detector.fit(frame)
    assert detector.to_score().feature_names == ["a", "b", "c", "d"]
    np.testing.assert_array_equal(detector.outlierness(frame), detector.to_score().value(frame.to_numpy()))


_CHECKS: dict[str, Callable[[Any], None]] = {
    function.__name__.lstrip("_"): function
    for function in (
        _outlierness_is_high_for_anomalies,
        _signs_follow_scikit_learn,
        _threshold_moves_after_fitting,
        _score_function_gives_the_outlierness,
        _rows_are_scored_one_by_one,
        _same_input_gives_same_bits,
        _columns_are_interchangeable,
        _nothing_of_the_users_is_modified,
        _large_offsets_do_not_flatten_scores,
        _extreme_scales_are_scored_or_refused,
        _constant_columns_and_duplicates_are_no_obstacle,
        _equal_rows_are_fitted_or_refused,
        _bad_rows_are_refused,
        _unfitted_use_says_so,
        _frames_keep_their_names,
    )
}
