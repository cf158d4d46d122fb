"""Noise around any explainer: against copies that are explained one by one."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import IsolationForest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.explainers import KernelShap, Noise, Sensitivity
from tellwhy.scoring import FunctionScore, PredictionScore

X = np.random.default_rng(0).normal(size=(60, 3)) * [1.0, 10.0, 0.1]
ODD = np.array([[2.0, 5.0, 0.3], [-1.0, 30.0, 0.0]])
SCORE = FunctionScore(
    lambda Y: Y[:, 0] ** 3 + Y[:, 1] * Y[:, 2],
    gradient=lambda Y: np.column_stack([3 * Y[:, 0] ** 2, Y[:, 2], Y[:, 1]]),
)
SUMS = {
    "mean": lambda each: each.mean(axis=0),
    "absolute": lambda each: np.abs(each).mean(axis=0),
    "square": lambda each: (each**2).mean(axis=0),
    "variance": lambda each: each.var(axis=0),
}


def one_by_one(explainer, rows, widths, noise, n, seed=0):
    """What the explainer finds on each noisy copy, (copies, rows, columns)."""
    rng = np.random.default_rng(seed)
    draws = rng.standard_normal((n, rows.shape[1]))
    return np.array(
        [[explainer.explain(x[None] + noise * widths * z).values[0] for x in rows] for z in draws]
    )


@pytest.mark.parametrize("statistic", list(SUMS))
def test_the_statistic_is_that_of_single_copies(statistic):
    found = Noise(Sensitivity(SCORE), n_samples=7, statistic=statistic).fit(X).explain(ODD)
    each = one_by_one(Sensitivity(SCORE), ODD, X.std(axis=0), 0.1, 7)
    np.testing.assert_allclose(found.values, SUMS[statistic](each), rtol=1e-10)
    if statistic in ("mean", "square"):
        powers = each**2 if statistic == "square" else each
        np.testing.assert_allclose(found.stderr, powers.std(axis=0, ddof=1) / np.sqrt(7), rtol=1e-6)


@pytest.mark.parametrize("statistic", ["mean", "square", "variance"])
def test_standard_errors_tell_how_far_the_statistic_is_off(statistic):
    exact = Noise(Sensitivity(SCORE), n_samples=20_000, statistic=statistic).fit(X).explain(ODD[:1])
    gaps = []
    for seed in range(60):
        noisy = Noise(Sensitivity(SCORE), n_samples=100, statistic=statistic, random_state=seed + 1)
        found = noisy.fit(X).explain(ODD[:1])
        gaps.append((found.values - exact.values)[0] / found.stderr[0])
    spread = np.sqrt(np.mean(np.square(gaps), axis=0))
    assert (spread > 0.7).all()
    assert (spread < 1.4).all()


def test_a_mean_of_attributions_says_what_noise_changed():
    found = Noise(KernelShap(SCORE), n_samples=5).fit(X).explain(ODD)
    assert found.kind == "attribution"
    np.testing.assert_allclose(found.scores, SCORE.value(ODD))
    np.testing.assert_allclose(found.base_values, SCORE.value(X).mean())
    assert np.abs(found.residual).max() > 1e-6


def test_of_networks_it_is_smooth_grad():
    torch = pytest.importorskip("torch")
    from tellwhy.explainers import Gradient, SmoothGrad

    torch.manual_seed(0)
    network = (
        torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).double().eval()
    )
    row = np.random.default_rng(1).normal(size=(1, 3))
    around = Noise(Gradient(network), n_samples=40).explain(row)
    own = SmoothGrad(network, n_samples=40).explain(row)
    np.testing.assert_allclose(around.values, own.values, rtol=1e-9)  # from the same seed the same noise
    np.testing.assert_array_equal(around.extras["output"], own.extras["output"])
    assert around.values.std() > 0.01


def test_of_the_output_that_the_row_has_itself():
    torch = pytest.importorskip("torch")
    from tellwhy.explainers import Gradient

    network = torch.nn.Linear(2, 2, bias=False).eval()
    network.weight.data.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    found = Noise(Gradient(network), noise=5.0).explain(np.array([[1.0, 0.9]]))
    np.testing.assert_array_equal(found.values, [[1.0, 0.0]])


def test_several_inputs_have_an_explanation_each():
    torch = pytest.importorskip("torch")
    from tellwhy.explainers import InputTimesGradient

    class Both(torch.nn.Module):
        def forward(self, a, b):
            return (a * b).sum(dim=1, keepdim=True)

    a, b = torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)
    first, second = Noise(InputTimesGradient(Both().eval()), n_samples=400).explain((a, b))
    assert first.values.shape == second.values.shape == (2, 3)
    np.testing.assert_allclose(second.values, b.numpy(), atol=0.3)


def test_categories_of_frames_stay():
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y")})
    encoder = make_column_transformer((OneHotEncoder(), ["b"]), remainder="passthrough")
    model = make_pipeline(encoder, IsolationForest(n_estimators=10, random_state=0)).fit(frame)
    found = Noise(KernelShap(model), n_samples=3).fit(frame).explain(frame[:2])
    assert found.feature_names == ["a", "b"]


def test_a_row_is_explained_alike_whatever_stands_beside_it():
    noisy = Noise(Sensitivity(SCORE), n_samples=6).fit(X)
    np.testing.assert_allclose(noisy.explain(ODD).values[1], noisy.explain(ODD[1:]).values[0], rtol=1e-12)


def test_what_is_missing_is_said():
    with pytest.raises(InvalidInput, match=r"call fit\(X\)"):
        Noise(Sensitivity(SCORE)).explain(ODD)
    with pytest.raises(InvalidParameter, match="'explainer'"):
        Noise(Sensitivity).fit(X)
    classes = PredictionScore(lambda Y: np.column_stack([Y[:, 0], 2.1 - Y[:, 0]]), ["a", "b"])
    with pytest.raises(InvalidParameter, match="choose one"):
        Noise(KernelShap(classes), noise=2.0).fit(X).explain(ODD[:1] * 0.5)


def test_the_one_liner_takes_it_as_it_is_and_knows_its_other_names():
    found = tellwhy.explain(SCORE, ODD, Noise(Sensitivity(SCORE), n_samples=3), background=X)
    assert found.method == "Noise"
    with pytest.raises(InvalidParameter, match="Noise\\(Gradient"):
        tellwhy.explain(SCORE, ODD, "NoiseTunnel")
