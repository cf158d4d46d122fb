"""DMM-MEN as people use it: global and local explanations, intervals, insights, models of all sorts, bad input."""

import warnings
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from oracles.mixture_calibration import coverage
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression

from tellwhy.core.errors import DataNotice, InvalidInput, InvalidParameter, NotConverged
from tellwhy.core.explanation import Explanation
from tellwhy.explainers import DMMMEN, PRESETS, Priors
from tellwhy.explainers.surrogate.insight import _describe_ranges

SHORT = {"n_components": 4, "n_sweeps": 400, "n_burn": 200}
needs_torch = pytest.mark.skipif(not find_spec("torch"), reason="needs PyTorch")


def two_regimes(X):
    return np.where(X[:, 0] > 0, 10 + 3 * X[:, 1], -10 - 2 * X[:, 2])


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(300, 4))


@pytest.fixture(scope="module")
def fitted(X):
    return DMMMEN(two_regimes, **SHORT).fit(X)


def test_coefficients_of_each_regime(fitted, X):
    explanation = fitted.explain(X)
    right = X[:, 0] > 0
    coefficients = explanation.extras["coefficients"]
    np.testing.assert_allclose(coefficients[right].mean(axis=0), [0, 3, 0, 0], atol=0.25)
    np.testing.assert_allclose(coefficients[~right].mean(axis=0), [0, 0, -2, 0], atol=0.25)
    assert (explanation.values[right].__abs__().argmax(axis=1) == 1).mean() > 0.8


def test_explanation_adds_up_and_says_how_sure_it_is(fitted, X):
    explanation = fitted.explain(X[:20])
    predicted = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(explanation.residual, two_regimes(X[:20]) - predicted, atol=1e-10)
    np.testing.assert_allclose(
        predicted, fitted.surrogates_[0].predict(X[:20], explanation.scores), atol=1e-8
    )
    assert np.abs(explanation.residual).max() < 1.0
    low, high = np.moveaxis(explanation.extras["interval"], -1, 0)
    assert (low <= explanation.values + 1e-9).mean() > 0.97
    assert (high >= explanation.values - 1e-9).mean() > 0.97
    assert (explanation.stderr >= 0).all()
    assert (explanation.stderr < 0.5 * (high - low) + 1e-9).mean() > 0.95, "the mean is surer than one draw"
    np.testing.assert_allclose(
        explanation.values, explanation.extras["coefficients"] * (X[:20] - X.mean(axis=0))
    )


def test_a_column_of_equal_numbers_sets_no_rows_apart():
    is_member = np.arange(50) < 17
    X = np.column_stack([np.full(50, 0.1), np.random.default_rng(0).normal(size=50) + 3 * is_member])
    assert X[:, 0].std() > 0  # by a rounding error
    assert [name for name, _, _ in _describe_ranges(X, is_member, ["equal", "other"])] == ["other"]


@pytest.mark.parametrize("n_members", [20, 200, 1000])
def test_columns_that_differ_by_chance_set_no_rows_apart(n_members):
    rng = np.random.default_rng(1)
    named = 0
    for _ in range(20):
        X = rng.normal(size=(2000, 8))
        named += len(_describe_ranges(X, np.arange(2000) < n_members, [f"x{k}" for k in range(8)]))
    assert named <= 2, "of 160 columns"


def test_insights_name_the_features_and_where_they_apply(fitted):
    insights = fitted.insights(2)
    assert min(i.share for i in insights[:2]) > 0.4
    named = {i.names[0]: i for i in insights[:2]}
    assert set(named) == {"x1", "x2"}
    assert named["x1"].interval[1, 0] < 3 < named["x1"].interval[1, 1] + 0.05
    assert named["x1"].applies[0][0] == "x0"
    assert named["x1"].applies[0][1] > -0.5, "it applies where x0 > 0"
    assert np.ptp([insights[0].share, *insights[0].share_interval]) < 0.2
    frame = named["x2"].to_frame()
    assert list(frame.columns) == ["feature", "coefficient", "low", "high", "effect"]
    assert "x1" in repr(named["x1"])


def test_average_insight_is_the_mean_of_the_rows(fitted, X):
    overall = fitted.insights(4, per="target")
    assert len(overall) == 1
    posterior = fitted.surrogates_[0].posterior
    rows = posterior.coef[np.arange(len(posterior.z))[:, None], posterior.z.astype(int), 1:].mean(axis=(0, 1))
    surrogate = fitted.surrogates_[0]
    expected = surrogate.columns.spread(rows * surrogate.unit / surrogate.columns.unit)
    np.testing.assert_allclose(overall[0].coefficients, expected)


def test_interval_of_a_row_between_two_components_holds_both():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(200, 1))
    X[0] = 0.001
    slopes = rng.choice([-2.0, 2.0], size=200)
    known = {
        row.tobytes(): s * row[0] + 0.02 * e
        for row, s, e in zip(X, slopes, rng.normal(size=200), strict=True)
    }
    explainer = DMMMEN(lambda rows: np.array([known[r.tobytes()] for r in rows]), **SHORT).fit(X)
    low, high = explainer.explain(X[:1]).extras["coefficient_interval"][0, 0]
    assert low < -1.8
    assert high > 1.8


def test_coverage_of_local_intervals():
    """Planted coefficients lie within the intervals as often as these say, within five points."""
    found = coverage([0.8, 0.95], 20)
    assert abs(found[0.8].mean() - 0.8) < 0.07, "twenty sets leave some points to chance"
    assert abs(found[0.95].mean() - 0.95) < 0.05


@pytest.mark.slow
def test_coverage_of_local_intervals_long():
    for level, found in coverage([0.5, 0.8, 0.9, 0.95], 300).items():
        assert abs(found.mean() - level) < 0.05, level


def test_classifier_gets_one_mixture_per_class(X):
    y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = LogisticRegression(C=1.0).fit(frame, y)
    explainer = DMMMEN(model, n_components=2, n_sweeps=300, n_burn=200).fit(frame)
    assert set(explainer.convergence_) == {"down", "up"}
    explanation = explainer.explain(frame.iloc[:30])
    odds = model.decision_function(frame.iloc[:30])
    np.testing.assert_allclose(explanation.scores, np.abs(odds), atol=1e-8)
    sign = np.where(odds > 0, 1.0, -1.0)
    expected = sign[:, None] * model.coef_[0]
    np.testing.assert_allclose(explanation.extras["coefficients"], expected, atol=0.15)
    assert explanation.feature_names == ["a", "b", "c", "d"]
    assert {i.target for i in explainer.insights(2)} == {"down", "up"}


def test_regressors_and_forests(X):
    regressor = LinearRegression().fit(X, X @ [1.0, 2.0, 0.0, 0.0])
    explanation = DMMMEN(regressor, n_components=1, n_sweeps=100, n_burn=100).fit(X).explain(X[:3])
    np.testing.assert_allclose(
        explanation.extras["coefficients"], np.tile([1.0, 2.0, 0.0, 0.0], (3, 1)), atol=0.1
    )
    forest = RandomForestClassifier(20, random_state=0).fit(
        X, X[:, 0] > 0
    )  # gives probabilities of exactly 0 and 1
    preset = DMMMEN(forest, **PRESETS["random forest"], n_sweeps=100, n_burn=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        preset.fit(X)
    found = preset.explain(X[:5])
    assert np.abs(found.scores).max() == pytest.approx(np.log(1e6), rel=1e-6)
    assert np.isfinite(found.values).all()


def test_function_that_gives_probabilities(X):
    def model(rows):
        p = 1 / (1 + np.exp(-2 * rows[:, 3]))
        return np.column_stack([1 - p, p])

    explainer = DMMMEN(model, n_components=1, n_sweeps=200, n_burn=100).fit(X)
    explanation = explainer.explain(X[:5])
    expected = np.where(X[:5, 3] > 0, 2.0, -2.0)
    np.testing.assert_allclose(explanation.extras["coefficients"][:, 3], expected, atol=0.1)
    assert explanation.extras["target"].tolist() == (X[:5, 3] > 0).astype(int).tolist()


@needs_torch
def test_network_is_explained_and_left_as_it_was(X):
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.9), torch.nn.Identity())
    network[0].weight.data = torch.tensor([[3.0, 0, 0, 0], [0, 3.0, 0, 0], [0, 0, 3.0, 0]])
    network.train()
    network[2].eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        explainer = DMMMEN(network, n_components=2, n_sweeps=100, n_burn=50).fit(X)
    explanation = explainer.explain(X[:40])
    assert network.training
    assert not network[2].training
    assert len(explainer.targets_) == 3
    chosen = explanation.extras["coefficients"][np.arange(40), explanation.extras["target"]]
    assert np.median(chosen) > 1.0, "each class rises with its own column"
    assert (chosen > 0).mean() > 0.9


@needs_torch
@pytest.mark.parametrize("features", [None, "segments"])
def test_network_with_dropout_and_batch_norm_is_not_touched(X, features):
    """Every module is in training mode, and stays as it is: buffers, gradients, hooks, random numbers."""
    import torch
    from oracles.network_state import network_state, same_state

    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(4, 6),
        torch.nn.BatchNorm1d(6),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(6, 2),
    )
    network(torch.tensor(X[:50], dtype=torch.float32)).sum().backward()
    modes = []
    network[1].register_forward_hook(lambda *_: modes.append(network.training and network[1].training))
    before = network_state(network)
    own = {"features": features, "n_neighbors": 64} if features else {}
    explainer = DMMMEN(network, **own, n_components=2, n_sweeps=20, n_burn=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        explanation = explainer.fit(X).explain(X[:2])
    assert same_state(network_state(network), before)
    assert modes
    assert all(modes), "the network itself never leaves training mode, not even while it is read"
    evaluated = (
        torch.nn.Sequential(*network).eval()(torch.tensor(X[:2], dtype=torch.float32)).detach().double()
    )
    expected = evaluated.max(dim=1).values - evaluated.min(dim=1).values
    np.testing.assert_allclose(explanation.scores, expected, rtol=1e-4)


@needs_torch
def test_images_are_explained_by_segments():
    import torch

    images = np.random.default_rng(0).random((30, 1, 8, 8))
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    network[1].weight.data.zero_()
    network[1].weight.data[1].reshape(8, 8)[:4, :4] = 1.0
    network[1].bias.data = torch.tensor([0.0, -1.0])
    explainer = DMMMEN(
        network, features="segments", baseline=0.0, n_segments=16, n_sweeps=200, n_burn=100, n_components=2
    )
    explanation = explainer.fit(images).explain(images[:2])
    assert explanation.values.shape == (2, 1, 8, 8)
    assert explanation.extras["segments"].shape == (2, 1, 8, 8)
    total = explanation.base_values + explanation.values.reshape(2, -1).sum(axis=1) + explanation.residual
    np.testing.assert_allclose(total, explanation.scores)
    assert np.abs(explanation.residual).max() < 0.5
    in_quarter = np.zeros((8, 8))
    in_quarter[:4, :4] = 1.0
    for i in range(2):
        label = explanation.extras["segments"][i, 0]
        truth = np.bincount(label.ravel(), (images[i, 0] * in_quarter).ravel())[label]
        np.testing.assert_allclose(explanation.extras["coefficients"][i, 0], truth, atol=0.2)
    again = explainer.explain(images[1:2])
    np.testing.assert_allclose(again.values[0], explanation.values[1], rtol=1e-4)


def test_groups_of_columns_are_explained_together(X):
    explainer = DMMMEN(
        two_regimes, features=[[0, 1], [2, 3]], n_neighbors=200, n_sweeps=200, n_burn=100, n_components=3
    )
    explanation = explainer.fit(X).explain(X[:3])
    np.testing.assert_allclose(explanation.values[:, 0], explanation.values[:, 1])
    np.testing.assert_array_equal(explanation.extras["segments"][0], [0, 0, 1, 1])
    with pytest.raises(InvalidInput, match="global fit"):
        explainer.insights()


def test_only_the_most_correlated_columns_are_used(X):
    model = DMMMEN(
        lambda rows: rows @ [0.0, 5.0, 0.1, 3.0], features=2, n_components=1, n_sweeps=100, n_burn=50
    )
    explanation = model.fit(X).explain(X[:2])
    assert (explanation.values[:, [0, 2]] == 0).all()
    assert np.abs(explanation.extras["coefficients"] - [0, 5, 0, 3]).max() < 0.2


def test_gates_tell_where_components_are():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(-4, 1, size=(150, 2)), rng.normal(4, 1, size=(150, 2))])

    def model(rows):
        return np.where(rows[:, 0] > 0, rows[:, 1] - 4, -rows[:, 1] - 4)

    fitted = DMMMEN(model, gating="gaussian", **SHORT).fit(X)
    surrogate = fitted.surrogates_[0]
    z = surrogate.posterior.z
    sides = [(z[d][:150, None] == z[d][150:]).mean() for d in range(0, len(z), 20)]
    assert np.mean(sides) < 0.02, "no component lies on both sides"


def test_modes_merge_components_that_overlap():
    X = np.random.default_rng(0).normal(size=(200, 2))
    noise = {row.tobytes(): e for row, e in zip(X, np.random.default_rng(1).normal(size=200), strict=True)}

    def model(rows):
        return rows[:, 0] + np.array([noise[r.tobytes()] for r in rows])

    settings = {"n_components": 5, "n_sweeps": 200, "n_burn": 100, "priors": Priors(alpha_shape=50.0)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        apart, merged = (DMMMEN(model, assignment=a, **settings).fit(X) for a in ("component", "mode"))
    spread = [np.ptp(e.explain(X).extras["coefficients"], axis=0).mean() for e in (apart, merged)]
    assert spread[1] < spread[0]


def test_same_seed_same_bits_and_checkpoints(X, tmp_path):
    settings = {"n_components": 3, "n_sweeps": 60, "n_burn": 40}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        one, two, other = (
            DMMMEN(two_regimes, **settings, n_jobs=jobs, random_state=state).fit(X, checkpoint=folder)
            for jobs, state, folder in ((1, 0, None), (2, 0, tmp_path / "chains"), (1, 1, None))
        )
    np.testing.assert_array_equal(one.explain(X[:9]).values, two.explain(X[:9]).values)
    assert not np.array_equal(one.explain(X[:9]).values, other.explain(X[:9]).values)
    assert (tmp_path / "chains" / "target-0" / "chains.json").is_file()


def test_chains_that_disagree_are_told(X):
    with pytest.warns(NotConverged, match="do not agree yet"):
        DMMMEN(lambda rows: rows[:, 0] ** 3 * rows[:, 1], n_components=20, n_sweeps=20, n_burn=0).fit(X)


def test_constant_target(X):
    explainer = DMMMEN(lambda rows: np.full(len(rows), 3.0), **SHORT)
    with pytest.warns(DataNotice, match="gives 3 for all 300 rows"):
        explainer.fit(X)
    explanation = explainer.explain(X[:4])
    np.testing.assert_allclose(explanation.values, 0, atol=0.05)
    np.testing.assert_allclose(explanation.base_values, 3.0, atol=0.05)


def test_more_columns_than_rows():
    X = np.random.default_rng(0).normal(size=(40, 120))
    explainer = DMMMEN(lambda rows: 2 * rows[:, 7] - rows[:, 50], n_components=1, n_sweeps=300, n_burn=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        explainer.fit(X)
    values = np.abs(explainer.explain(X).values).mean(axis=0)
    assert set(np.argsort(-values)[:2]) == {7, 50}


def test_duplicated_and_constant_columns():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(100, 2))
    X = np.column_stack([base[:, 0], base[:, 0], base[:, 1], np.full(100, 7.0)])
    explanation = (
        DMMMEN(lambda rows: 2 * rows[:, 0], n_components=1, n_sweeps=1000, n_burn=300).fit(X).explain(X[:10])
    )
    coefficients = explanation.extras["coefficients"][0]
    assert coefficients[:2].sum() == pytest.approx(2.0, abs=0.1)
    assert np.abs(coefficients[2:]).max() < 0.05
    assert (explanation.values[:, 3] == 0).all()


def test_class_of_one_sample_is_named(X):
    def model(rows):
        return np.eye(3)[np.where(rows[:, 0] == X[0, 0], 2, (rows[:, 1] > 0).astype(int))] * 0.9 + 0.1 / 3

    explainer = DMMMEN(model, **SHORT)
    with pytest.warns() as caught:
        explainer.fit(X)
    assert any("fewer than 2 of the rows into 2" in str(w.message) for w in caught)
    with pytest.raises(InvalidInput, match="Row 0 belongs to '2'"):
        explainer.explain(X[:1])


def test_replacement_must_fit_the_rows(X):
    explainer = DMMMEN(two_regimes, features="segments", baseline=np.zeros(3)).fit(X)
    with pytest.raises(InvalidParameter, match=r"shape \(4,\)"):
        explainer.explain(X[:1])


def test_the_former_name_of_the_replacement_is_answered(X):
    """Elsewhere `background` means ordinary rows; here it was what replaced segments show."""
    for given in (0.0, X):
        with pytest.raises(InvalidParameter, match=r"no parameter 'background'.* baseline='mean'.* fit\(X\)"):
            DMMMEN(two_regimes, features="segments", background=given)


def test_explanation_is_saved_with_its_intervals(fitted, X, tmp_path):
    explanation = fitted.explain(X[:3])
    loaded = Explanation.load(explanation.save(tmp_path / "e"))
    np.testing.assert_array_equal(loaded.extras["interval"], explanation.extras["interval"])
