"""Region flipping against a slow loop, and on networks of which the answer is known."""

import numpy as np
import pytest
from oracles.evaluation_oracles import painted_scores
from scipy.ndimage import gaussian_filter

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.evaluation import region_flipping
from tellwhy.evaluation.region_flipping import tile
from tellwhy.scoring import FunctionScore

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 2, 6, 7)) + 1.0
WEIGHTS = RNG.normal(size=(2, 6, 7))


def score_of(Z):
    return np.tanh((Z * WEIGHTS).sum(axis=(1, 2, 3)) / 10) + 0.1 * (Z**2).mean(axis=(1, 2, 3))


SCORE = FunctionScore(score_of, feature_shape=(2, 6, 7), describes="a score of pictures")


def explanation(values, data=X, **changes):
    scores = np.zeros(len(values))
    return Explanation(values=values, scores=scores, method="Given", data=data, **changes)


VALUES = RNG.normal(size=X.shape)


@pytest.mark.parametrize("order", ["morf", "lerf"])
@pytest.mark.parametrize("region", [(3, 3), (1, 7), (2, 3)])
def test_curves_are_those_of_a_slow_loop(order, region):
    found = region_flipping(explanation(VALUES), SCORE, patch_size=region, order=order, batch_size=5)
    expected = painted_scores(
        score_of,
        X,
        np.broadcast_to(X.mean(axis=(2, 3), keepdims=True), X.shape),
        VALUES,
        region,
        descending=order == "morf",
    )
    np.testing.assert_allclose(found.curves, expected, rtol=1e-12)
    assert found.removed.tolist() == list(range(expected.shape[1]))
    assert found.order == {"morf": "most_relevant_first", "lerf": "least_relevant_first"}[order]


def test_the_fill_ins():
    low, high = X.min(axis=(2, 3), keepdims=True), X.max(axis=(2, 3), keepdims=True)
    blurred = np.stack([[gaussian_filter(channel, (3, 2), mode="nearest") for channel in x] for x in X])
    one = RNG.normal(size=(2, 6, 7))
    cases = {"zero": np.zeros_like(X), "mean": X.mean(axis=(2, 3), keepdims=True) + 0 * X, "blur": blurred}
    for fill, expected in [*cases.items(), (2.5, np.full_like(X, 2.5)), (one, one + 0 * X)]:
        found = region_flipping(explanation(VALUES), SCORE, patch_size=(3, 2), baseline=fill)
        np.testing.assert_allclose(found.curves[:, -1], score_of(expected), rtol=1e-12)
        np.testing.assert_allclose(found.curves[:, 0], score_of(X), rtol=1e-12)
    seen = []
    watching = FunctionScore(lambda Z: seen.append(Z.copy()) or score_of(Z), feature_shape=(2, 6, 7))
    region_flipping(explanation(VALUES), watching, patch_size=(3, 2), baseline="noise")
    noise = seen[1]
    assert (noise >= low).all()
    assert (noise <= high).all()
    assert len(np.unique(noise)) == noise.size


def test_fewer_steps_are_points_of_the_same_curve():
    whole = region_flipping(explanation(VALUES), SCORE, patch_size=2, n_steps=12)
    some = region_flipping(explanation(VALUES), SCORE, patch_size=2, n_steps=5)
    assert some.removed[[0, -1]].tolist() == [0, 12]
    assert len(some.removed) == 6
    np.testing.assert_allclose(some.curves, whole.curves[:, some.removed], rtol=1e-12)
    np.testing.assert_allclose(some.shares, some.removed / 12)


def test_areas_are_mean_heights_of_the_normalised_curves():
    found = region_flipping(explanation(VALUES), SCORE, patch_size=2, n_steps=5)
    curves = (found.curves - found.curves[:, -1:]) / (found.curves[:, :1] - found.curves[:, -1:])
    falls = found.curves[:, 0] > found.curves[:, -1]
    assert falls.any()
    np.testing.assert_allclose(
        found.areas[falls], np.trapezoid(curves[falls], found.shares, axis=1), rtol=1e-10
    )
    assert np.isnan(found.areas[~falls]).all()


def test_batches_seeds_and_axes_do_not_change_curves():
    plain = region_flipping(
        explanation(VALUES), SCORE, patch_size=3, baseline="noise", n_random=2, random_state=7
    )
    again = region_flipping(
        explanation(VALUES), SCORE, patch_size=3, baseline="noise", n_random=2, random_state=7, batch_size=1
    )
    np.testing.assert_array_equal(plain.random.curves, again.random.curves)
    np.testing.assert_array_equal(plain.curves, again.curves)
    other = region_flipping(
        explanation(-VALUES), SCORE, patch_size=3, baseline="noise", n_random=2, random_state=7
    )
    np.testing.assert_array_equal(
        plain.random.curves, other.random.curves
    )  # chance does not depend on the values
    last = FunctionScore(lambda Z: score_of(np.moveaxis(Z, -1, 1)), feature_shape=(6, 7, 2))
    moved = explanation(np.moveaxis(VALUES, 1, -1), np.moveaxis(X, 1, -1))
    there = region_flipping(moved, last, patch_size=3, axes=(0, 1))
    np.testing.assert_allclose(
        there.curves, region_flipping(explanation(VALUES), SCORE, patch_size=3).curves, rtol=1e-12
    )


def test_sensitivities_count_without_their_sign():
    found = region_flipping(explanation(VALUES, kind="sensitivity"), SCORE, patch_size=3)
    expected = region_flipping(explanation(np.abs(VALUES)), SCORE, patch_size=3)
    np.testing.assert_array_equal(found.curves, expected.curves)
    assert not np.array_equal(found.curves, region_flipping(explanation(VALUES), SCORE, patch_size=3).curves)


def test_sequences_are_cut_along_their_only_axis():
    rows = RNG.normal(size=(4, 10))
    found = region_flipping(explanation(rows, rows), lambda Z: Z.sum(axis=1), patch_size=4, baseline="zero")
    assert tile((10,), 4).index.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    parts = np.sort([[row[:4].sum(), row[4:8].sum(), row[8:].sum()] for row in rows], axis=1)[:, ::-1]
    np.testing.assert_allclose(found.curves[:, 0] - found.curves[:, 1], parts[:, 0], atol=1e-12)
    np.testing.assert_allclose(found.curves[:, -1], 0)


def test_nothing_of_the_users_is_modified():
    kept_values, kept_data = VALUES.copy(), X.copy()
    region_flipping(explanation(VALUES), SCORE, patch_size=3, baseline="noise")
    np.testing.assert_array_equal(VALUES, kept_values)
    np.testing.assert_array_equal(X, kept_data)


def test_bad_input():
    given = explanation(VALUES)
    with pytest.raises(InvalidParameter, match="'order' parameter of region_flipping"):
        region_flipping(given, SCORE, order="random")
    with pytest.raises(InvalidParameter, match="'baseline' parameter"):
        region_flipping(given, SCORE, baseline="black")
    with pytest.raises(InvalidInput, match=r"baseline has shape \(5,\)"):
        region_flipping(given, SCORE, baseline=np.zeros(5))
    with pytest.raises(InvalidInput, match="baseline is not finite"):
        region_flipping(given, SCORE, baseline=np.nan)
    with pytest.raises(InvalidParameter, match="'patch_size' parameter must be"):
        region_flipping(given, SCORE, patch_size=0)
    with pytest.raises(InvalidParameter, match="do not fit inputs of shape"):
        region_flipping(given, SCORE, patch_size=(2, 2), axes=(0, 3))
    with pytest.raises(InvalidParameter, match="more sizes than"):
        region_flipping(given, SCORE, patch_size=(2, 2, 2, 2))
    with pytest.raises(InvalidInput, match="its data is None"):
        region_flipping(explanation(VALUES, None), SCORE)
    with pytest.raises(InvalidInput, match=r"values of shape .* for data of shape"):
        region_flipping(explanation(VALUES[:, :1]), SCORE)
    with pytest.raises(InvalidInput, match="not finite in row 1"):
        region_flipping(explanation(np.where(np.arange(3)[:, None, None, None] == 1, np.nan, VALUES)), SCORE)
    with pytest.raises(InvalidParameter, match="target chooses an output of a network"):
        region_flipping(given, SCORE, target=1)
    for name in ("n_steps", "batch_size"):
        with pytest.raises(InvalidParameter, match=name):
            region_flipping(given, SCORE, **{name: 0})
