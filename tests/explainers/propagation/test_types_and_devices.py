"""Types of numbers and devices: half precision, autocast, copies elsewhere."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tellwhy.core.errors import InvalidInput  # noqa: E402
from tellwhy.explainers import (  # noqa: E402
    LRP,
    DeconvNet,
    DeepTaylor,
    ExcitationBackprop,
    Gradient,
    GuidedBackprop,
    InputTimesGradient,
    IntegratedGradients,
    SmoothGrad,
)

# Small random networks lose relevance; that is told, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:.* promises that its values add up")


def network(activation=nn.SiLU):
    torch.manual_seed(0)
    stem = nn.Conv2d(2, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*stem, nn.Conv2d(8, 8, 3), activation(), nn.Flatten(), nn.Linear(32, 4)).eval()


X = torch.randn(3, 2, 8, 8, generator=torch.Generator().manual_seed(0))
METHODS = {
    "gradient": lambda m: Gradient(m, target=1),
    "input times gradient": lambda m: InputTimesGradient(m, target=1),
    "SmoothGrad": lambda m: SmoothGrad(m, target=1, n_samples=30, random_state=0),
    "integrated": lambda m: IntegratedGradients(m, target=1, max_iter=16),
    "DeconvNet": lambda m: DeconvNet(m, target=1),
    "guided": lambda m: GuidedBackprop(m, target=1),
    "excitation": lambda m: ExcitationBackprop(m, target=1),
    "deep Taylor": lambda m: DeepTaylor(m, target=lambda y: y[:, 1] + 2, low=-5, high=5),
    "z": lambda m: LRP(m, target=1, rule="z"),
    "epsilon": lambda m: LRP(m, target=1, rule="epsilon", rule_params={"epsilon": 0.01}),
    "gamma": lambda m: LRP(m, target=1, rule="gamma"),
    "alpha beta": lambda m: LRP(m, target=1, rule="alpha_beta"),
    "z box": lambda m: LRP(m, target=1, rule="z_box", rule_params={"low": -5.0, "high": 5.0}),
    "preset A flat": lambda m: LRP(m, target=1, composite="preset_a_flat"),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(
    ("dtype", "near"), [(torch.float16, 0.01), (torch.bfloat16, 0.12), (torch.float32, 1e-5)]
)
def test_every_method_works_in_narrow_types(name, dtype, near):
    activation = nn.ReLU6 if name in ("DeconvNet", "guided") else nn.SiLU
    expected = METHODS[name](network(activation).double()).explain(X.double())
    found = METHODS[name](network(activation).to(dtype)).explain(X.to(dtype))
    assert found.values.dtype == np.float64
    if name == "SmoothGrad":
        near *= 5  # rounding decides which of two pixels a pool takes
    largest = np.abs(expected.values).max()
    np.testing.assert_allclose(found.values / largest, expected.values / largest, atol=near)
    np.testing.assert_allclose(found.scores, expected.scores, atol=near)


def test_arrays_take_the_type_of_the_model_and_tensors_must_have_it():
    model = network().half()
    found = LRP(model).explain(X.double().numpy())
    np.testing.assert_array_equal(found.values, LRP(model).explain(X.half()).values)
    with pytest.raises(InvalidInput, match=r"x has dtype torch.float32.*use x.to\(torch.float16\)"):
        LRP(model).explain(X)


def test_relevance_that_overflows_half_precision_is_said():
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.Linear(2, 2, bias=False)).half().eval()
    for layer in model:
        layer.weight.data.fill_(300.0)
    x = torch.full((1, 3), 1e-3).half()
    assert bool(torch.isfinite(model(x)).all())
    with pytest.raises(InvalidInput, match=r"overflows torch.float16. Use a wider type \(model.double\(\)\)"):
        Gradient(model).explain(x)
    with pytest.raises(InvalidInput, match=r"not finite for row 0.*wide enough"):
        IntegratedGradients(model).explain(x)
    model[0].weight.data.fill_(6e4)
    with pytest.raises(InvalidInput, match="The output of 'linear' in module '0'"):
        LRP(model).explain(x + 1)


def test_a_narrow_and_a_wide_part_of_one_model():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.low, self.high = nn.Linear(4, 6).bfloat16(), nn.Linear(6, 2)

        def forward(self, x):
            return self.high(torch.relu(self.low(x)).float())

    torch.manual_seed(0)
    model, x = Mixed().eval(), torch.randn(5, 4).bfloat16()
    found, expected = LRP(model, rule="z").explain(x), InputTimesGradient(model).explain(x)
    np.testing.assert_allclose(found.values, expected.values, atol=0.02 * np.abs(expected.values).max())


def test_autocast_around_the_call():
    model = network()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = LRP(model, rule="z").explain(X)
    expected = LRP(model, rule="z").explain(X)
    np.testing.assert_allclose(found.values, expected.values, atol=0.05 * np.abs(expected.values).max())


@pytest.mark.parametrize("method", [Gradient, LRP, IntegratedGradients])
@pytest.mark.parametrize("device", ["cpu", torch.device("cpu"), None])
def test_the_device_it_is_on_changes_nothing(method, device):
    model = network()
    expected = method(model).explain(X)
    np.testing.assert_array_equal(method(model, device=device).explain(X).values, expected.values)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_copy_on_the_gpu():
    model = network().double()
    for name, make in METHODS.items():
        explainer = make(model)
        explainer.device = "cuda"
        found = explainer.explain(X.double())
        np.testing.assert_allclose(
            found.values, make(model).explain(X.double()).values, atol=1e-9, err_msg=name
        )
    assert next(model.parameters()).device.type == "cpu"
