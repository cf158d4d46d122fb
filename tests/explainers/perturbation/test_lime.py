"""LIME beside an explicit weighted ridge regression, on tables, pictures and texts."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from tellwhy.core.errors import InvalidInput
from tellwhy.explainers import Lime
from tellwhy.explainers.perturbation.lime import design, draw_random_masks, make_all_masks, weigh_masks
from tellwhy.scoring import FunctionScore

rng = np.random.default_rng(0)
BACKGROUND = rng.normal(size=(60, 5))
ROWS = rng.normal(size=(3, 5)) + 2


def curved(X):
    return X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + 0.5 * X[:, 4]


@pytest.mark.parametrize("n_pieces", [6, 20])
def test_the_fit_is_scikit_learns_weighted_ridge(n_pieces):
    prepared = design(400, n_pieces, 0.25, 1.0, 3)
    outputs = rng.normal(size=len(prepared.masks))
    found = prepared.fit(outputs)
    oracle = Ridge(alpha=1.0).fit(prepared.masks, outputs, sample_weight=prepared.weights)
    np.testing.assert_allclose(found.coefficients, oracle.coef_, atol=1e-10)
    np.testing.assert_allclose(found.intercept, oracle.intercept_, atol=1e-10)


def test_weights_are_those_of_the_cosine_distance():
    masks = draw_random_masks(50, 7, 0)
    cosine = masks.sum(axis=1) / np.sqrt(np.maximum(masks.sum(axis=1), 1e-300) * 7)
    np.testing.assert_allclose(weigh_masks(masks, 0.25), np.sqrt(np.exp(-(((1 - cosine) / 0.25) ** 2))))
    assert len(np.unique(make_all_masks(4), axis=0)) == 16


def test_coefficients_at_many_samples_are_those_of_all_masks():
    """Twelve columns: 4,096 masks are enumerated, 3,000 random ones come as close as they say."""
    X, background = rng.normal(size=(1, 12)), rng.normal(size=(1, 12))
    weights = rng.normal(size=12)

    def score(rows):
        return np.tanh(rows @ weights / 4) + 0.1 * rows[:, 0] * rows[:, 1]

    def of(n, seed=0):
        return Lime(score, n_samples=n, random_state=seed).fit(background).explain(X)

    exact = of(4096)
    assert exact.stderr.max() < 1e-6
    many = [of(3000, seed) for seed in range(5)]
    apart = np.mean([np.abs(each.values - exact.values) for each in many])
    stated = np.mean([each.stderr for each in many])
    assert 0.3 * stated < apart < 1.5 * stated  # a mean distance is 0.8 standard errors
    assert apart < 0.05 * np.abs(exact.values).max()


@pytest.mark.parametrize("n_columns", [3, 20])
def test_a_linear_function_keeps_its_coefficients(n_columns):
    """Once 20, 30, 50 came out as 5.4, 10.4, 20.4, with standard errors of 0."""
    weights = 10.0 * np.arange(2, n_columns + 2)
    background = np.zeros((1, n_columns))
    X = np.ones((1, n_columns))
    found = Lime(lambda rows: rows @ weights).fit(background).explain(X)
    np.testing.assert_allclose(found.values[0], weights, rtol=1e-9 if n_columns == 3 else 2e-3)
    assert np.all(np.abs(found.values[0] - weights) <= 1.5 * found.stderr[0] + 1e-9 * weights)
    drawn_in = Lime(lambda rows: rows @ weights, alpha=1.0).fit(background).explain(X)
    missing = weights - drawn_in.values[0]
    assert np.all(missing > 0.0)
    assert np.all(np.abs(missing) <= 1.5 * drawn_in.stderr[0])


def test_tables_take_the_mean_over_background_rows():
    found = Lime(curved, n_samples=32 * 60).fit(BACKGROUND).explain(ROWS)
    masks = make_all_masks(5)
    weights = weigh_masks(masks, 0.25)
    for i, x in enumerate(ROWS):
        outputs = np.mean([curved(np.where(masks > 0, x, b)) for b in BACKGROUND], axis=0)
        oracle = Ridge(alpha=1e-9).fit(masks, outputs, sample_weight=weights)
        np.testing.assert_allclose(found.values[i], oracle.coef_, atol=1e-7)
    np.testing.assert_allclose(found.base_values + found.values.sum(1) + found.residual, curved(ROWS))


def test_the_object_in_a_picture_is_found():
    picture = np.zeros((1, 20, 20))
    picture[0, 4:10, 4:10] = 1.0
    score = FunctionScore(lambda X: X[:, 4:10, 4:10].mean(axis=(1, 2)), feature_shape=(20, 20))
    found = Lime(score, n_segments=12, baseline=0.0, n_samples=300).explain(picture)
    inside = picture[0] > 0
    assert found.values[0][inside].sum() > 0.95
    assert np.abs(found.values[0][~inside]).sum() < 0.05
    assert found.extras["segments"].shape == (1, 20, 20)


def test_words_of_a_bag_that_are_absent_have_no_value():
    bags = np.zeros((2, 30))
    bags[0, [3, 7]] = 1
    bags[1, [7, 9, 11]] = 2
    found = Lime(lambda X: X[:, 7] - 3 * X[:, 3], pieces="present").explain(bags)
    np.testing.assert_allclose(found.values[0], np.eye(30)[7] - 3 * np.eye(30)[3], atol=1e-6)
    np.testing.assert_allclose(found.values[1], 2 * np.eye(30)[7], atol=1e-6)


TEXTS = ["the good film was good", "a bad film", "good actors, a good plot", "bad plot and bad actors"]


def test_texts():
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(TEXTS, [1, 0, 1, 0])
    found = Lime(model).explain_texts(["A good, good plot!", "bad", ""], target=1)
    assert found.values.shape == (3, 4)
    assert found.data[0].tolist() == ["A", "good", "good", "plot"]
    weights = dict(zip(model[0].get_feature_names_out(), model[1].coef_[0], strict=True))
    wanted = [0.0, weights["good"], weights["good"], weights["plot"]]
    np.testing.assert_allclose(found.values[0], wanted, atol=1e-5)  # log-odds are linear in counts
    np.testing.assert_allclose(found.residual, 0, atol=1e-5)
    with pytest.raises(InvalidInput, match="list of at least one text"):
        Lime(model).explain_texts("one text")


def test_networks():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)).double().eval()
    picture = rng.normal(size=(1, 1, 8, 8))
    found = Lime(network, n_segments=9, baseline=0.0, n_samples=1024).explain(picture)
    np.testing.assert_allclose(found.residual, 0, atol=1e-6)  # a linear network is its own local model
    weights = network[1].weight[found.extras["output"][0]].detach().numpy().reshape(8, 8)
    labels = found.extras["segments"][0, 0]
    for number in np.unique(labels):
        shared = (weights * picture[0, 0])[labels == number].sum()
        np.testing.assert_allclose(found.values[0, 0][labels == number].sum(), shared, atol=1e-6)
