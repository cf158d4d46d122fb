"""Infidelity, sensitivity, sparseness, complexity and the pointing game, against their definitions."""

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.evaluation import complexity, infidelity, max_sensitivity, pointing_game, sparseness

RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 2, 3))


def linear(X):
    return 3 * X[:, 0].sum(axis=1) - X[:, 1].sum(axis=1)


SLOPES = np.broadcast_to(np.array([[3.0] * 3, [-1.0] * 3]), X.shape)


def made(values, kind="attribution", data=X):
    return Explanation(values=values, scores=linear(data), method="by hand", kind=kind, data=data)


@pytest.mark.parametrize(("kind", "values"), [("attribution", SLOPES * X), ("sensitivity", SLOPES)])
def test_a_linear_score_is_predicted_exactly_and_a_wrong_explanation_is_not(kind, values):
    assert infidelity(made(values, kind), linear).mean < 1e-20
    nothing = infidelity(made(np.zeros(X.shape), kind), linear)
    np.testing.assert_allclose(nothing.relative, 1, atol=1e-12)
    opposite = infidelity(made(-values, kind), linear)
    np.testing.assert_allclose(opposite.relative, 4, atol=1e-9)
    half = infidelity(made(values / 2, kind), linear, n_samples=5, random_state=3)
    np.testing.assert_allclose(half.relative, 0.25, atol=1e-9)


def test_signals_say_nothing_of_changes():
    with pytest.raises(InvalidInput, match="gives a signal"):
        infidelity(made(SLOPES, "signal"), linear)


def test_the_explained_output_of_a_network_is_watched():
    torch = pytest.importorskip("torch")
    from tellwhy.explainers import LRP, Gradient, InputTimesGradient

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4, bias=False)).double().eval()
    rows = torch.randn(5, 6, dtype=torch.float64)
    for explainer in (InputTimesGradient(model), LRP(model, rule="z"), Gradient(model)):
        assert infidelity(explainer.explain(rows), model).mean < 1e-18


class Steep:
    """Values that are the rows themselves, and jump by one where the first cell is above a half."""

    def explain(self, X):
        X = np.asarray(X)
        values = X + 100.0 * (X[:, :1] > 0.5)
        return Explanation(values=values, scores=X.sum(axis=1), method="steep")


def test_sensitivity_sees_a_jump_and_smooth_values_move_with_the_row():
    rows = np.array([[0.5, 0.0, 1.0], [0.1, 0.0, 1.0]])
    found = max_sensitivity(Steep(), rows, radius=0.01, n_samples=50)
    assert found[0] > 10
    assert 0 < found[1] < 0.02
    np.testing.assert_array_equal(found, max_sensitivity(Steep(), rows, radius=0.01, n_samples=50))
    with pytest.raises(InvalidInput, match="must be floats"):
        max_sensitivity(Steep(), np.arange(6).reshape(2, 3))


def gini(sizes):
    """Mean absolute difference of all pairs, by twice the mean."""
    return np.abs(sizes[:, None] - sizes[None]).mean() / (2 * sizes.mean())


def test_sparseness_and_complexity_are_their_definitions():
    explanation = made(RNG.normal(size=X.shape))
    sizes = np.abs(explanation.values.reshape(6, -1))
    np.testing.assert_allclose(sparseness(explanation), [gini(row) for row in sizes], atol=1e-12)
    shares = sizes / sizes.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(complexity(explanation), -(shares * np.log(shares)).sum(axis=1), atol=1e-12)
    empty = made(np.zeros(X.shape))
    np.testing.assert_array_equal(sparseness(empty), 0)
    np.testing.assert_array_equal(complexity(empty), 0)


def test_the_pointing_game_adds_channels_up_and_needs_marks():
    values = np.zeros((2, 2, 2, 2))
    values[0, 0, 0, 1], values[1, 0, 1, 1], values[1, 1, 0, 0] = 3.0, 2.0, 3.0
    pictures = Explanation(values=values, scores=np.zeros(2), method="by hand")
    marks = np.zeros((2, 2, 2), dtype=bool)
    marks[0, 0, 1] = marks[1, 1, 1] = True
    np.testing.assert_array_equal(pointing_game(pictures, marks), [1, 0])
    with pytest.raises(InvalidInput, match="Row 1 has no mark"):
        pointing_game(pictures, marks * np.array([True, False])[:, None, None])
    with pytest.raises(InvalidInput, match="The marks have shape"):
        pointing_game(pictures, marks[:, 0])
