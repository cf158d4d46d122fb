"""Explanations as tensors, gradients by PyTorch's own path, and memory that is given back."""

import gc

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from zoo.networks import MODELS, Function, build  # noqa: E402

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyWarning  # noqa: E402
from tellwhy.explainers import LRP, Gradient, InputTimesGradient, SmoothGrad, coverage  # noqa: E402
from tellwhy.explainers.propagation import Rule, TensorExplanation, programs  # noqa: E402
from tellwhy.explainers.propagation.engine.passes import needs_capture  # noqa: E402
from tellwhy.scoring.network_inputs import OnDevice  # noqa: E402

# Small random networks lose relevance; that is told, and no matter here.
pytestmark = pytest.mark.filterwarnings("ignore:.* promises that its values add up")


@pytest.mark.parametrize("batch_size", [2, 32])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors_are_the_same_explanation(dtype, batch_size):
    model, x = build("residual")
    model, x = model.to(dtype), x.to(dtype)
    explainer = LRP(model, composite="preset_a", batch_size=batch_size)
    found, wanted = explainer.explain(x, output="torch"), explainer.explain(x)
    assert isinstance(found, TensorExplanation)
    assert found.values.dtype == dtype
    np.testing.assert_array_equal(found.values.double().numpy(), wanted.values)
    np.testing.assert_array_equal(found.outputs.numpy(), wanted.extras["output"])
    np.testing.assert_allclose(found.residual.double().numpy(), wanted.residual, atol=1e-5)
    made = found.numpy()
    np.testing.assert_array_equal(made.values, wanted.values)
    assert made.params == wanted.params
    with pytest.raises(InvalidInput, match="no residual"):
        _ = Gradient(model).explain(x, output="torch").residual
    with pytest.raises(InvalidParameter, match="output"):
        explainer.explain(x, output="jax")


def test_tensors_of_several_inputs_count_the_others_as_their_base():
    a, b = torch.rand(3, 2), torch.rand(3, 2)
    first, second = InputTimesGradient(
        Function(lambda a, b: (2 * a - b).sum(1, keepdim=True)).eval()
    ).explain((a, b), output="torch")
    torch.testing.assert_close(first.base_values, second.values.sum(1))
    torch.testing.assert_close(first.residual, torch.zeros(3))


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_pytorch(name):
    """The captured pass, which other methods share, gives the same as PyTorch's own."""
    model, x = build(name)
    plain = Gradient(model).explain(x)
    assert (model in needs_capture) == (name == "residual")  # it changes in place what autograd has kept
    needs_capture.add(model)
    captured = Gradient(model).explain(x)
    np.testing.assert_allclose(plain.values, captured.values, atol=1e-12)
    np.testing.assert_array_equal(plain.scores, captured.scores)
    assert len(coverage(model, x, explainer=Gradient(model))) > 3


def test_gradients_leave_a_trailing_softmax_out():
    model = nn.Sequential(nn.Linear(3, 4), nn.Softmax(dim=1)).double().eval()
    x = torch.rand(2, 3, dtype=torch.float64)
    found = Gradient(model, target=1).explain(x)
    np.testing.assert_allclose(found.values, model[0].weight[[1, 1]].detach().numpy(), atol=1e-15)
    assert "softmax" in found.params["explains"]


def test_rows_on_a_device_are_read_when_they_are_asked_for():
    rows = OnDevice(torch.arange(6.0).reshape(3, 2))
    assert len(rows) == 3
    assert rows.shape == (3, 2)
    np.testing.assert_array_equal(np.asarray(rows), np.arange(6.0).reshape(3, 2))
    np.testing.assert_array_equal(rows[1:], [[2, 3], [4, 5]])
    assert np.asarray(OnDevice(torch.ones(2, 2, dtype=torch.bfloat16))).dtype == np.float32


def test_rules_that_need_no_inputs_keep_none():
    """LRP-epsilon of a deep network keeps one tensor per layer; a rule that looks at inputs keeps two."""
    model = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(8, 8), nn.ReLU())]).eval()
    kept = {}
    for rule in ("epsilon", "z_plus"):
        sizes = {}

        def pack(t, sizes=sizes):
            if t.shape == (16, 8) and t.untyped_storage().nbytes() > 4:
                sizes[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            LRP(model, rule=rule).explain(torch.rand(16, 8))
        kept[rule] = sum(sizes.values())
    assert kept["epsilon"] <= 0.6 * kept["z_plus"]


class Alive(nn.Module):
    """Counts the tensors of a shape that Python still holds when the model comes here."""

    def forward(self, x):
        gc.collect()
        held = [t for t in gc.get_objects() if type(t) is torch.Tensor and t.shape == x.shape]
        self.count = len({t.untyped_storage().data_ptr() for t in held})
        return x


@pytest.mark.parametrize("inplace", [True, False])
def test_one_tensor_is_held_for_each_layer(inplace):
    """Neither the record of where activations came from, nor that of changes in place."""
    counts = {}
    for depth in (3, 9):
        probe = Alive()
        blocks = [part for _ in range(depth) for part in (nn.Conv2d(7, 7, 1), nn.ReLU(inplace=inplace))]
        model = nn.Sequential(*blocks, probe, nn.Flatten(), nn.Linear(7 * 11 * 11, 2)).eval()
        LRP(model).explain(torch.rand(2, 7, 11, 11))
        counts[depth] = probe.count
    # The output of each layer, which its rule looks at, and nothing else; autograd alone holds overwritten ones.
    assert counts[9] - counts[3] == (0 if inplace else 6)


class Twice(nn.Module):
    """A layer's output goes into a mean, and into a ReLU that overwrites it."""

    def __init__(self, *, early, inplace):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.head = nn.Linear(6, 2)
        self.early = early
        self.relu = nn.ReLU(inplace=inplace)

    def forward(self, x):
        z = self.layer(x)
        level = z.mean(dim=1, keepdim=True) if self.early else 0.0
        return self.head(self.relu(z) + level)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize(
    "settings", [{}, {"rule": "z"}, {"rule_params": {"epsilon": 0.5}}, {"rule": "gamma"}]
)
def test_a_relu_in_place_changes_no_value(settings, early):
    torch.manual_seed(0)
    plain = Twice(early=early, inplace=False).double().eval()
    written = Twice(early=early, inplace=True).double().eval()
    written.load_state_dict(plain.state_dict())
    x = torch.randn(5, 6, dtype=torch.float64)
    found, wanted = LRP(written, **settings).explain(x), LRP(plain, **settings).explain(x)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-12)
    places = {"at": "layer"}
    np.testing.assert_allclose(
        LRP(written, **settings).latent(x, **places)["layer"],
        LRP(plain, **settings).latent(x, **places)["layer"],
        rtol=1e-12,
    )


def test_a_rule_that_looks_at_idle_outputs_is_not_deceived():
    """A rule of one's own may use z where nothing comes down: it sees what the layer gave."""
    seen = []

    def function(layer, x, z, c):
        seen.append(z.detach().clone())
        return layer.backward(x, layer.weight, c)

    model = Twice(early=False, inplace=True).eval()
    x = torch.randn(4, 6)
    LRP(model, rule=Rule("mine", function, needs_input=False)).explain(x)
    assert any(torch.equal(z, model.layer(x)) for z in seen)


class Large(torch.nn.Module):
    """Takes more memory than there is, for more than three rows; `seen` are the rows of each attempt."""

    def __init__(self, most=3):
        super().__init__()
        self.most = most
        self.seen = []
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, x):
        self.seen.append(len(x))
        if len(x) > self.most:
            raise torch.OutOfMemoryError("there is no more")
        return self.layer(x)


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("explainer", [LRP, Gradient])
def test_a_batch_that_does_not_fit_is_explained_in_halves(explainer, output):
    torch.manual_seed(0)
    model = Large().eval().double()
    x = torch.randn(21, 4, dtype=torch.float64)
    target = np.arange(21) % 2
    wanted = explainer(model, target=target, batch_size=3).explain(x)
    model.seen.clear()
    with pytest.warns(TellwhyWarning, match="rows at once do not fit") as told:
        found = explainer(model, target=target, batch_size=10).explain(x, output=output)
    assert len(told) == 1
    assert sum(size for size in model.seen if size <= 3) == 21
    assert sum(size > 3 for size in model.seen) <= 4  # of the second batch it is known
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.scores, wanted.scores)


def test_one_row_that_does_not_fit_is_told():
    with pytest.raises(torch.OutOfMemoryError), pytest.warns(TellwhyWarning, match="do not fit"):
        LRP(Large(most=0).eval()).explain(torch.rand(2, 4))


@pytest.mark.parametrize("compiled", [False, "auto"])
def test_several_devices_share_the_batches(compiled, monkeypatch):
    """Two places on the processor, which has the code path of several GPUs."""
    monkeypatch.setattr(programs, "LEAST_BATCHES", 3)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).double().eval()
    targets = np.arange(23) % 3
    x = torch.randn(23, 5, dtype=torch.float64)
    alone = LRP(model, target=targets, batch_size=3).explain(x, compile=False)
    for devices in (["cpu", "cpu"], ("cpu",), ["cpu"] * 12):
        together = LRP(model, target=targets, batch_size=3, device=devices)
        found = together.explain(x, compile=compiled)
        np.testing.assert_allclose(found.values, alone.values, atol=1e-13)
        np.testing.assert_array_equal(found.extras["output"], targets)
        there = together.explain(x, output="torch", compile=compiled)
        np.testing.assert_allclose(there.values, alone.values, atol=1e-13)
    with pytest.raises(InvalidParameter, match="one device"):
        SmoothGrad(model, device=["cpu", "cpu"]).explain(x)
    with pytest.raises(InvalidParameter, match="device"):
        LRP(model, device=[]).explain(x)
    assert len(LRP(model, device=["cpu", "cpu"]).ledger(x)) == 3
