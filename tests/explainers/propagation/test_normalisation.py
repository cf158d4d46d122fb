"""Layer, group, instance and root-mean-square norm: linear once the standard deviation is a constant."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tellwhy.explainers import LRP, Gradient, coverage  # noqa: E402

NORMS = {
    "layer": lambda: nn.LayerNorm([4, 6, 6]),
    "layer, last axis": lambda: nn.LayerNorm(6),
    "layer, wide": lambda: nn.LayerNorm(6, eps=0.1),
    "layer, no factors": lambda: nn.LayerNorm([6, 6], elementwise_affine=False),
    "group": lambda: nn.GroupNorm(2, 4),
    "group, wide": lambda: nn.GroupNorm(2, 4, eps=0.1),
    "instance": lambda: nn.InstanceNorm2d(4),
    "instance, factors": lambda: nn.InstanceNorm2d(4, affine=True),
    "rms": lambda: nn.RMSNorm([6, 6]),
}


def build(name):
    """A network with one norm, whose factors and shifts have both signs."""
    torch.manual_seed(0)
    norm = NORMS[name]()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    head = nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3)
    return nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), norm, *head).double().eval()


X = torch.randn(3, 2, 6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def axes_of(norm):
    """Axes of (n, channels, height, width) that are normalised together, with channels in groups."""
    if isinstance(norm, (nn.LayerNorm, nn.RMSNorm)):
        return 4, tuple(range(4 - len(norm.normalized_shape), 4))
    return getattr(norm, "num_groups", 4), None


def with_constant_deviation(norm, x):
    """The norm written out; the gradient does not see the standard deviation."""
    groups, axes = axes_of(norm)
    parts = x if axes else x.reshape(len(x), groups, -1)
    over = axes or (2,)
    mean = 0 if isinstance(norm, nn.RMSNorm) else parts.mean(over, keepdim=True)
    eps = norm.eps if norm.eps is not None else torch.finfo(x.dtype).eps
    deviation = ((parts - mean).square().mean(over, keepdim=True) + eps).sqrt().detach()
    y = ((parts - mean) / deviation).reshape(x.shape)
    weight, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    shape = (-1, 1, 1) if axes is None else None
    if weight is not None:
        y = y * (weight.reshape(shape) if shape else weight)
    if bias is not None:
        y = y + (bias.reshape(shape) if shape else bias)
    return y


@pytest.mark.parametrize("name", NORMS)
def test_lrp_0_is_input_times_the_gradient_without_the_deviation(name):
    model = build(name)
    leaf = X.clone().requires_grad_()
    hidden = with_constant_deviation(model[1], model[0](leaf))
    outputs = model[2:](hidden)
    torch.testing.assert_close(outputs, model(X), rtol=1e-10, atol=1e-10)
    chosen = outputs.max(dim=1).values.sum()
    expected = (X * torch.autograd.grad(chosen, leaf)[0]).numpy()
    found = LRP(model, rule="z").explain(X)
    np.testing.assert_allclose(found.values, expected, atol=1e-10)
    assert coverage(model, X)["rule"].tolist()[1] == "standard deviation as a constant"


@pytest.mark.parametrize("name", NORMS)
def test_gradients_see_the_deviation(name):
    model = build(name)
    leaf = X.clone().requires_grad_()
    expected = torch.autograd.grad(model(leaf).max(dim=1).values.sum(), leaf)[0]
    np.testing.assert_allclose(Gradient(model).explain(X).values, expected.numpy(), atol=1e-12)


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("composite", ["preset_a", "preset_b_flat"])
def test_relevance_and_ledger_through_a_norm(name, composite):
    model = build(name)
    explainer = LRP(model, target=0, composite=composite)
    found, ledger = explainer.explain(X), explainer.ledger(X)
    assert np.isfinite(found.values).all()
    np.testing.assert_allclose(ledger["absorbed"].sum(), found.residual.sum(), atol=1e-9)


def test_running_statistics_make_instance_norm_a_linear_map():
    torch.manual_seed(0)
    norm = nn.InstanceNorm2d(4, affine=True, track_running_stats=True)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    nn.init.normal_(norm.running_mean)
    nn.init.normal_(norm.weight)
    model = nn.Sequential(nn.Conv2d(2, 4, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(64, 2)).double().eval()
    leaf = X.clone().requires_grad_()
    slopes = torch.autograd.grad(model(leaf).max(dim=1).values.sum(), leaf)[0]
    found = LRP(model, rule="z").explain(X).values
    np.testing.assert_allclose(found, (X * slopes).numpy(), atol=1e-10)
