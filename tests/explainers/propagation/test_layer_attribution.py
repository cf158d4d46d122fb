"""Units of a layer, beside sums over many small steps, captum's definitions written out, and closed forms."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tellwhy  # noqa: E402
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel  # noqa: E402
from tellwhy.explainers import (  # noqa: E402
    GradCAM,
    Gradient,
    GuidedBackprop,
    GuidedGradCAM,
    IntegratedGradients,
    LayerAttribution,
    explain_all,
)
from tellwhy.scoring import UpToLayer  # noqa: E402


class Branches(torch.nn.Module):
    """A layer called twice over, beside a way around it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(3, 4).double()
        self.second = torch.nn.Linear(4, 2).double()

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        return self.second(hidden * hidden) + x[:, :2] ** 2


NETWORK = Branches().eval()
X = np.random.default_rng(0).normal(size=(3, 3))


def behind(hidden, x):
    """The output behind the first layer, of units and inputs."""
    units = torch.tanh(hidden)
    return NETWORK.second(units * units) + x[:, :2] ** 2


def parts(x, start=0.0):
    rows = torch.tensor(x)
    return NETWORK.first(rows).detach(), NETWORK.first(torch.full_like(rows, start)).detach(), rows


def slope(hidden, rows, target):
    leaf = hidden.clone().requires_grad_()
    return torch.autograd.grad(behind(leaf, rows)[:, target].sum(), leaf)[0]


def test_conductance_is_the_sum_over_many_small_steps():
    found = LayerAttribution(NETWORK, layer="first", target=1, n_steps=64).explain(X)
    rows = torch.tensor(X)
    total = torch.zeros(3, 4, dtype=torch.float64)
    n = 4000
    for step in range(n):
        middle = rows * (step + 0.5) / n
        moved = NETWORK.first(rows * (step + 1) / n) - NETWORK.first(rows * step / n)
        total += slope(NETWORK.first(middle).detach(), middle, 1) * moved.detach()
    np.testing.assert_allclose(found.values, total.numpy(), atol=2e-4)
    np.testing.assert_allclose(found.base_values, NETWORK(0 * rows)[:, 1].detach().numpy())


def test_integrated_gradients_keep_the_inputs():
    found = LayerAttribution(NETWORK, layer="first", target=0, method="integrated_gradients").explain(X)
    hidden, start, rows = parts(X)
    total = sum(slope(start + (k + 0.5) / 4000 * (hidden - start), rows, 0) for k in range(4000)) / 4000
    np.testing.assert_allclose(found.values, (total * (hidden - start)).numpy(), atol=1e-6)
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.base_values, behind(start, rows)[:, 0].detach().numpy())


def test_the_others_are_what_they_say():
    hidden, start, rows = parts(X)
    own = slope(hidden, rows, 0).numpy()

    def found(method):
        return LayerAttribution(NETWORK, layer="first", target=0, method=method).explain(X)

    np.testing.assert_allclose(found("gradient").values, own)
    np.testing.assert_allclose(found("activation_times_gradient").values, own * hidden.numpy())
    np.testing.assert_allclose(found("activation").values, hidden.numpy())
    np.testing.assert_array_equal(found("activation").data, hidden.numpy())
    ablated = found("ablation")
    for unit in range(4):
        changed = hidden.clone()
        changed[:, unit] = start[:, unit]
        fallen = (behind(hidden, rows) - behind(changed, rows))[:, 0].detach().numpy()
        np.testing.assert_allclose(ablated.values[:, unit], fallen, atol=1e-12)


def test_batches_do_not_matter_and_outputs_are_chosen_at_the_row():
    for method in ("conductance", "integrated_gradients", "ablation"):
        whole = LayerAttribution(NETWORK, layer="first", method=method).explain(X)
        small = LayerAttribution(NETWORK, layer="first", method=method, batch_size=2).explain(X)
        np.testing.assert_allclose(whole.values, small.values, atol=1e-12)
        chosen = NETWORK(torch.tensor(X)).argmax(dim=1).numpy()
        np.testing.assert_array_equal(whole.extras["output"], chosen)
        one = LayerAttribution(NETWORK, layer="first", method=method, target=int(chosen[0])).explain(X[:1])
        np.testing.assert_allclose(one.values[0], whole.values[0], atol=1e-12)


def test_maps_of_convolutions_have_a_value_for_each_unit():
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(48, 2)
    ).eval()
    pictures = torch.rand(2, 1, 6, 6)
    found = LayerAttribution(network, layer="1", method="integrated_gradients", target=0).explain(pictures)
    assert found.values.shape == (2, 3, 4, 4)
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-5)


def test_by_its_known_names():
    found = tellwhy.explain(NETWORK, X, "LayerConductance", layer="first", target=0)
    assert found.method == "LayerAttribution"
    assert found.params["method"] == "conductance"
    with pytest.raises(InvalidParameter, match="UpToLayer"):
        tellwhy.explain(NETWORK, X, "NeuronConductance")


def test_neurons_are_outputs():
    slopes = tellwhy.explain(UpToLayer(NETWORK, "first"), X, "Gradient", target=2).values
    np.testing.assert_allclose(slopes, np.repeat(NETWORK.first.weight[2:3].detach().numpy(), 3, axis=0))
    found = IntegratedGradients(UpToLayer(NETWORK, "first"), target=1).explain(X)
    np.testing.assert_allclose(found.values, NETWORK.first.weight[1].detach().numpy() * X, atol=1e-9)
    assert Gradient(NETWORK, target=0).explain(X).values.shape == X.shape  # nothing stays on the network


def test_what_does_not_fit_is_said():
    with pytest.raises(InvalidInput, match="no module 'third'"):
        LayerAttribution(NETWORK, layer="third").explain(X)
    with pytest.raises(InvalidParameter, match="baseline must be a number"):
        LayerAttribution(NETWORK, layer="first", baseline=np.zeros(5)).explain(X)


def test_it_shares_no_pass_with_others():
    with pytest.raises(UnsupportedModel, match="by itself"):
        explain_all([LayerAttribution(NETWORK, layer="first"), Gradient(NETWORK)], X)


def test_guided_grad_cam_is_a_product():
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(2, 3, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(75, 2)
    ).eval()
    pictures = torch.rand(3, 2, 5, 5)
    fine = GuidedBackprop(network, target=1).explain(pictures).values
    where = GradCAM(network, target=1).explain(pictures).values.sum(axis=1, keepdims=True)
    found = GuidedGradCAM(network, target=1).explain(pictures).values
    np.testing.assert_allclose(found, fine * where, atol=1e-6)
    assert np.abs(found).max() > 0
