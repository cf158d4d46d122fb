"""Integrated gradients, and other explainers of scores, on PyTorch networks."""

import numpy as np
import pytest
from oracles import baseline_oracles as oracle

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from zoo.networks import Function, build  # noqa: E402

import tellwhy  # noqa: E402
from tellwhy.core.errors import InvalidInput  # noqa: E402
from tellwhy.explainers import IntegratedGradients, KernelShap, Occlusion, Sensitivity  # noqa: E402
from tellwhy.scoring import FunctionScore, NetworkOutput  # noqa: E402


def smooth_network():
    """Differentiable everywhere, so that a fine sum is an oracle."""
    torch.manual_seed(0)
    layers = nn.Conv2d(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 4, 3)
    return nn.Sequential(*layers).double().eval(), np.random.default_rng(0).normal(size=(3, 2, 4, 4))


def gradient_of(model, output):
    """Derivatives of one output by automatic differentiation."""

    def slopes(Z):
        leaf = torch.tensor(Z, requires_grad=True)
        return torch.autograd.grad(model(leaf)[:, output].sum(), leaf)[0].numpy()

    return slopes


@pytest.mark.parametrize("target", ["max", 1, [2, 0, 1]])
def test_each_value_is_the_integral_along_the_chosen_output(target):
    model, x = smooth_network()
    chosen = model(torch.tensor(x)).argmax(dim=1).tolist() if target == "max" else np.full(3, target)
    found = IntegratedGradients(model, target=target, tol=1e-9, batch_size=7).explain(x)
    assert found.values.shape == x.shape
    assert found.extras["output"].tolist() == list(chosen)
    for row, output, values in zip(x, chosen, found.values, strict=True):
        expected = oracle.riemann_integrated_gradients(
            gradient_of(model, output), row, np.zeros_like(row), steps=1000
        )
        np.testing.assert_allclose(values, expected, atol=1e-6)
    outputs = model(torch.tensor(x)).detach().numpy()
    np.testing.assert_allclose(found.scores, outputs[np.arange(3), chosen], rtol=1e-12)
    np.testing.assert_allclose(found.base_values, model(torch.zeros(1, 2, 4, 4).double())[0, chosen].detach())
    np.testing.assert_allclose(found.residual, 0, atol=1e-9)


def test_a_function_of_the_outputs_and_a_given_reference():
    model, x = smooth_network()
    found = IntegratedGradients(model, target=lambda y: y[:, 0] - y[:, 2], baseline=x[1]).explain(x[:1])
    apart = [IntegratedGradients(model, target=k, baseline=x[1]).explain(x[:1]) for k in (0, 2)]
    np.testing.assert_allclose(found.values, apart[0].values - apart[1].values, atol=1e-9)
    assert "output" not in found.extras
    np.testing.assert_array_equal(IntegratedGradients(model, baseline=x[1]).explain(x[[1]]).values, 0)


def test_the_mean_of_background_pictures_can_be_the_reference():
    model, x = smooth_network()
    learned = IntegratedGradients(model, target=0, baseline="mean").fit(x).explain(x[:1])
    given = IntegratedGradients(model, target=0, baseline=torch.tensor(x.mean(axis=0))).explain(x[:1])
    np.testing.assert_allclose(learned.values, given.values, atol=1e-12)


def test_the_output_stays_the_same_along_the_line():
    """Class 0 wins at the row, class 1 half-way; the largest output on the way would give other values."""
    model = nn.Linear(2, 2).double().eval()
    model.weight.data = torch.tensor([[3.0, 0.0], [0.0, 1.0]]).double()
    model.bias.data = torch.tensor([0.0, 2.0]).double()
    found = IntegratedGradients(model).explain(np.array([[2.0, 1.0]]))
    np.testing.assert_allclose(found.values, [[6.0, 0.0]], atol=1e-12)
    np.testing.assert_allclose(found.base_values, [0.0])


@pytest.mark.filterwarnings("ignore::tellwhy.core.errors.NotConverged")  # of the rough one
@pytest.mark.parametrize("name", ["residual", "shared", "in_place", "unet"])
def test_networks_of_rectifiers_state_what_is_missing(name):
    model, x = build(name)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    rough = IntegratedGradients(model, n_steps=4, max_iter=4).explain(x)
    fine = IntegratedGradients(model, n_steps=4, max_iter=2048, tol=1e-4).explain(x)
    total = fine.base_values + fine.values.reshape(len(x), -1).sum(axis=1) + fine.residual
    np.testing.assert_allclose(total, fine.scores, rtol=1e-12)
    assert np.abs(fine.residual).max() < 2e-2 * np.abs(fine.scores - fine.base_values).max()
    assert np.abs(fine.residual).sum() <= np.abs(rough.residual).sum()
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert x.grad is None


def test_batches_give_the_same_values_and_float32_is_enough():
    model, x = build("residual")
    one = IntegratedGradients(model, batch_size=1).explain(x)
    many = IntegratedGradients(model, batch_size=64).explain(x)
    np.testing.assert_allclose(one.values, many.values, atol=1e-12)
    short = IntegratedGradients(model.float()).explain(x)
    np.testing.assert_allclose(short.values, many.values, atol=1e-4 * np.abs(many.values).max())


def test_a_trailing_softmax_is_left_out_and_said_so():
    model, x = smooth_network()
    plain = IntegratedGradients(model).explain(x)
    found = IntegratedGradients(nn.Sequential(model, nn.Softmax(dim=1)).eval()).explain(x)
    np.testing.assert_allclose(found.values, plain.values, atol=1e-12)
    assert "before the trailing softmax (left out)" in found.params["explains"]
    assert "softmax" not in plain.params["explains"]


def test_the_random_state_outside_does_not_move():
    model, x = smooth_network()
    noisy = nn.Sequential(model, Function(lambda y: y + 1e-3 * torch.randn_like(y))).eval()
    before = torch.get_rng_state()
    NetworkOutput(noisy).value(x)
    NetworkOutput(noisy).gradient(x)
    assert torch.equal(torch.get_rng_state(), before)


def test_from_the_one_liner():
    model, x = smooth_network()
    by_default = tellwhy.explain(model, x)
    assert by_default.method == "IntegratedGradients"
    np.testing.assert_allclose(by_default.values, IntegratedGradients(model).explain(x).values, atol=1e-12)
    chosen = tellwhy.explain(model, x, "IntegratedGradients", target=2)
    np.testing.assert_allclose(
        chosen.values, IntegratedGradients(model, target=2).explain(x).values, atol=1e-12
    )
    score = NetworkOutput(model, 1)
    np.testing.assert_allclose(
        IntegratedGradients(score).explain(x).values,
        IntegratedGradients(model, target=1).explain(x).values,
        atol=1e-12,
    )


def test_a_network_that_changes_its_input():
    x = np.arange(4.0).reshape(1, 2, 2)
    kept = x.copy()
    found = IntegratedGradients(
        Function(lambda x: x.mul_(2).flatten(1).cumsum(dim=1)).eval(), target=3
    ).explain(x)
    np.testing.assert_allclose(found.values, 2 * kept, atol=1e-6)
    np.testing.assert_array_equal(x, kept)


def test_each_row_keeps_its_output_over_batches():
    model, _ = smooth_network()
    x = np.random.default_rng(1).normal(size=(7, 2, 4, 4))
    target = np.array([0, 1, 2, 2, 1, 0, 1])
    expected = model(torch.tensor(x)).detach().numpy()[np.arange(7), target]
    score = NetworkOutput(model, target, batch_size=3)
    np.testing.assert_allclose(score.value(x), expected, rtol=1e-12)
    np.testing.assert_allclose(score.value_and_gradient(x)[0], expected, rtol=1e-12)
    np.testing.assert_allclose(NetworkOutput(model, batch_size=3).value(x, target), expected, rtol=1e-12)


def test_other_explainers_of_scores_take_networks_and_pictures():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 1, bias=False)).double().eval()
    weights = model[1].weight.detach().numpy().reshape(2, 2)
    x, background = np.ones((1, 2, 2)), np.zeros((5, 2, 2))
    for explainer in (Occlusion(model).fit(background), KernelShap(model, random_state=0).fit(background)):
        np.testing.assert_allclose(explainer.explain(x).values[0], weights, atol=1e-9)
    np.testing.assert_allclose(Sensitivity(model).explain(x).values[0], weights**2, atol=1e-12)


def test_functions_of_pictures():
    score = FunctionScore(
        lambda Z: (Z**2).sum(axis=(1, 2)), gradient=lambda Z: 2 * Z, feature_shape=(2, 3), describes="squares"
    )
    x = np.arange(6.0).reshape(1, 2, 3)
    np.testing.assert_allclose(IntegratedGradients(score, baseline="zero").explain(x).values, x**2)
    with pytest.raises(InvalidInput, match=r"\(n, 2, 3\).*Got \(1, 3, 2\)"):
        IntegratedGradients(score, baseline="zero").explain(x.reshape(1, 3, 2))
    with pytest.raises(InvalidInput, match="NaN in row 0, column 1"):
        IntegratedGradients(score, baseline="zero").explain(np.where(x == 1, np.nan, x))
