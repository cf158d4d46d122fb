import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.evaluation import inject_anomalies


def table(n=200, d=5):
    return np.random.default_rng(0).normal(size=(n, d)) * [1, 10, 100, 0.1, 1e-6] + 1e3


def test_changes_are_one_to_two_standard_deviations_of_the_chosen_features():
    X = table()
    before = X.copy()
    odd, truth = inject_anomalies(X, 2, 0)
    np.testing.assert_array_equal(X, before)
    assert (truth.sum(axis=1) == 2).all()
    np.testing.assert_array_equal(odd[~truth], X[~truth])
    change = ((odd - X) / X.std(axis=0))[truth]
    assert (np.abs(change) > 1 - 1e-4).all()
    assert (np.abs(change) < 2 + 1e-4).all()
    assert 0.4 < (change > 0).mean() < 0.6
    assert np.abs(change).mean() == pytest.approx(1.5, abs=0.05)


def test_every_feature_is_chosen_about_equally_often():
    _, truth = inject_anomalies(np.random.default_rng(0).normal(size=(5_000, 4)), 1, 0)
    np.testing.assert_allclose(truth.mean(axis=0), 0.25, atol=0.03)


def test_same_seed_same_anomalies():
    X = table()
    first, again, other = inject_anomalies(X, 1, 3), inject_anomalies(X, 1, 3), inject_anomalies(X, 1, 4)
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.truth, again.truth)
    assert (first.truth != other.truth).any()
    drawn = inject_anomalies(X, 1, np.random.default_rng(3))
    np.testing.assert_array_equal(first.X, drawn.X)


def test_range_and_scale_are_followed():
    odd, truth = inject_anomalies(np.zeros((50, 3)), 3, 0, low=4, high=5, scale=[1.0, 2.0, 3.0])
    assert truth.all()
    size = np.abs(odd) / [1.0, 2.0, 3.0]
    assert (size >= 4).all()
    assert (size <= 5).all()
    odd, _ = inject_anomalies(np.zeros((50, 3)), 1, 0, low=1, high=1, scale=7)
    np.testing.assert_array_equal(np.abs(odd).sum(axis=1), np.full(50, 7.0))


def test_binary_columns_are_flipped():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(2, size=100), rng.normal(size=100)])
    odd, truth = inject_anomalies(X, 2, 0)
    assert truth.all()
    np.testing.assert_array_equal(odd[:, 0], 1 - X[:, 0])
    moved, _ = inject_anomalies(X, 2, 0, binary=np.array([False, False]))
    assert not np.isin(moved[:, 0], [0.0, 1.0]).any()


def test_constant_columns_are_never_chosen():
    X = table()
    X[:, 2] = 1e9 + 0.1  # its computed standard deviation need not be exactly 0
    _, truth = inject_anomalies(X, 4, 0)
    assert not truth[:, 2].any()
    assert truth[:, [0, 1, 3, 4]].all()
    with pytest.raises(InvalidInput, match="only 4 of 5 can: the others are constant"):
        inject_anomalies(X, 5, 0)


@pytest.mark.parametrize("scale", [1e300, 1e308, 1e-300])
def test_extreme_units_stay_finite(scale):
    X = np.random.default_rng(0).uniform(-0.2, 0.2, size=(20, 2)) * scale
    odd, truth = inject_anomalies(X, 1, 0)
    assert np.isfinite(odd).all()
    np.testing.assert_array_equal((odd != X), truth)


def test_pandas_frames_keep_names_labels_and_types():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=40),
            "count": rng.integers(50, size=40),
            "flag": rng.random(40) < 0.5,
            "maybe": pd.array(rng.integers(2, size=40), dtype="Int64"),
            "name": ["a", "b"] * 20,
            "day": pd.date_range("2024-01-01", periods=40),
            "kind": pd.Categorical(["u", "v"] * 20),
        },
        index=np.repeat(np.arange(20), 2),
    )
    frame.loc[3, "size"] = np.nan
    before = frame.copy(deep=True)
    odd, truth = inject_anomalies(frame, 3, 0)
    pd.testing.assert_frame_equal(frame, before)
    assert list(odd.columns) == list(frame.columns)
    assert odd.index.equals(frame.index)
    assert (truth.sum(axis=1) == 3).all()
    assert not truth[:, 4:].any()
    assert not truth[6:8, 0].any()
    changed = np.column_stack([(odd[c] != frame[c]).fillna(False).to_numpy(bool) for c in frame.columns])
    changed[6:8, 0] = False  # NaN differs from itself
    np.testing.assert_array_equal(changed, truth)
    types = [str(odd[c].dtype) for c in ("count", "flag", "maybe", "kind")]
    assert types == ["float64", "bool", "Int64", "category"]


def test_polars_frames_keep_names_and_types():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {"a": [1.0, 2.0, None, 4.0], "b": [True, False, True, True], "c": ["x", "y", "z", "w"]}
    )
    odd, truth = inject_anomalies(frame, 1, 0)
    assert odd.schema == frame.schema
    assert not truth[2, 0]
    assert odd["a"][2] is None
    same = np.array([[odd[c][i] == frame[c][i] for c in ("b", "c")] for i in range(4)])
    np.testing.assert_array_equal(~same, truth[:, 1:])


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (np.ones((3, 2)), {"n_features": 3}, "'n_features' parameter of inject_anomalies"),
        (np.ones((3, 2)), {"n_features": 0}, "'n_features' parameter of inject_anomalies"),
        (np.ones((3, 2)), {}, "only 0 of 2 can"),
        (np.array([[1.0, np.nan]]), {}, "NaN in row 0, column 1"),
        (np.array([["a", "b"]]), {}, "in row 0, column 0; expected a number"),
        (np.ones(3), {}, "Expected a 2D array"),
        (table(d=5), {"low": -1.0}, "'low' parameter"),
        (table(d=5), {"low": 3.0}, "'high' parameter"),
        (table(d=5), {"scale": [1.0, 2.0]}, "scale must hold one number per column"),
        (table(d=5), {"scale": -1.0}, "not negative"),
        (table(d=5), {"binary": "yes"}, "binary must be 'auto' or a mask"),
        (table(d=5), {"binary": np.array([True] * 5)}, "Column 0 is declared binary but holds"),
        (table(d=5), {"random_state": "seed"}, "'random_state' parameter"),
    ],
)
def test_bad_input_is_named(X, options, message):
    options = {"n_features": 1, "random_state": 0, **options}
    with pytest.raises(InvalidInput, match=message):
        inject_anomalies(X, **options)


def test_bad_frames_are_named():
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidInput, match="no number in any of its 1 columns"):
        inject_anomalies(pd.DataFrame({"a": ["x", "y"]}), 1, 0)
    with pytest.raises(InvalidInput, match="row 1, column 'a'"):
        inject_anomalies(pd.DataFrame({"a": [1.0, np.inf]}), 1, 0)
    assert issubclass(InvalidParameter, InvalidInput)
