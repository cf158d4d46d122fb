"""Batches that run as a program: the same values in double precision, and models that look at values are followed."""

import gc
import warnings
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from zoo.networks import UNet

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyWarning, UnsupportedModel
from tellwhy.explainers import LRP, DeepTaylor, Gradient, InputTimesGradient, SmoothGrad, explain_all
from tellwhy.explainers.propagation import ExcitationBackprop, GuidedBackprop, Handover, programs
from tellwhy.explainers.propagation.engine import graph_passes
from tellwhy.scoring.network_inputs import read_inputs


class Residual(nn.Module):
    """Convolutions with batch norm, rectifiers in place, and a sum of two ways."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(4)])
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.out = nn.Linear(4, 3)

    def forward(self, x):
        x = nn.functional.relu(self.norms[0](self.first(x)), inplace=True)
        y = self.norms[1](self.second(x))
        y += x
        return self.out(nn.functional.relu_(y).mean(dim=(2, 3)))


class Reader(nn.Module):
    """Tokens, a norm by hand, attention, a gate and a softmax that is not the last operation."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.keys = nn.Linear(8, 24, bias=False)
        self.gate = nn.Linear(8, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, tokens):
        x = self.embed(tokens)
        h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        q, k, v = self.keys(h).chunk(3, dim=-1)
        x = x + nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + nn.functional.silu(self.gate(x)) * x
        return self.out(x.mean(dim=1))


class Turning(nn.Module):
    """Takes another turn with values above one; `how` says in what the turns differ."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        turns = bool(x.max() > 1)
        a, b = torch.relu(self.a(x)), torch.relu(self.b(x))
        if self.how == "function":
            a = torch.tanh(a) if turns else torch.sigmoid(a)
        elif self.how == "setting":
            a = a * (3.0 if turns else 0.5)
        elif self.how == "input":
            a = torch.exp(b if turns else a)
        elif self.how == "more":
            a = a + b if turns else a
        elif self.how == "output":
            both = self.out(a), self.out(b)
            return both[int(turns)]
        return self.out(a)


class Lookup(nn.Module):
    """A layer whose weights, which are constants, depend on the tokens of the batch."""

    def __init__(self, where):
        super().__init__()
        self.where = where
        self.embed = nn.Embedding(11, 4)
        self.bank = nn.Parameter(torch.randn(11, 4, 4))
        self.out = nn.Linear(4, 2)

    def forward(self, tokens):
        x = self.embed(tokens)
        weight = self.bank[tokens[0, 0]]
        if self.where == "layer":
            x = nn.functional.linear(x, weight)
        elif self.where == "norm":
            x = nn.functional.layer_norm(x, (4,), weight[0])
        elif self.where == "bias":
            x = nn.functional.linear(x, self.bank[0]) + weight[0]
        else:
            x = x @ weight
        return self.out(x.mean(dim=1))


class Keeping(nn.Module):
    """Uses an activation of its first call again in later ones, which also compute it anew."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.out = nn.Linear(4, 2)
        self.kept = None

    def forward(self, x):
        h = torch.relu(self.inner(x))
        self.kept = h if self.kept is None else self.kept
        return self.out(self.kept)


class Pointing(nn.Module):
    """Looks up the largest elements: whole numbers that depend on the input go into later operations."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 6)
        self.out = nn.Linear(2, 2)

    def forward(self, x):
        h = torch.relu(self.inner(x))
        places = h.max(dim=1, keepdim=True).indices
        h = torch.pow(h + 0.5, places)
        return self.out(torch.cat([h.gather(1, places), h[:, :1] * (h > 0.1)[:, :1]], dim=1))


class Telling(nn.Module):
    """Takes a number out of a tensor in a way that PyTorch cannot see."""

    def __init__(self, how):
        super().__init__()
        self.how = how
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        first = x.detach()[0, 0]
        number = {"tolist": first.tolist, "numpy": lambda: float(first.numpy()), "item": first.item}[
            self.how
        ]()
        return self.out(x * (2.0 if number > 1 else 0.5))


@pytest.fixture(autouse=True)
def _seeded(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(programs, "LEAST_BATCHES", 3)


def residual():
    model = Residual().eval()
    for norm in model.norms:
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    return model.double()


def record(explainer):
    (found,) = programs._records[explainer].values()
    return found


def compared(explainer, x):
    """Values by a program, its record, and values by following each batch."""
    values = explainer.explain(x).values
    return values, record(explainer), explainer.explain(x, compile=False).values


SETTINGS = [{"rule": rule} for rule in ("z", "epsilon", "gamma", "alpha_beta", "z_plus", "flat", "w_square")]
SETTINGS += [{"composite": name} for name in ("preset_a", "preset_b", "preset_a_flat")]
SETTINGS += [{"batch_norm": name} for name in ("one_linear", "two_linear", "four_coefficients")]
SETTINGS += [{"residual": "equal"}, {"residual": "alpha_beta"}, {"pooling": "flat"}]


@pytest.mark.filterwarnings("ignore:LRP promises")
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_program_gives_what_following_each_batch_gives(settings):
    x = torch.randn(11, 2, 6, 6, dtype=torch.float64)
    values, made, wanted = compared(LRP(residual(), batch_size=2, **settings), x)
    assert made.n_checked == programs.N_CHECKED
    np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=1e-12 * abs(wanted).max())


@pytest.mark.parametrize(
    "method", [DeepTaylor, ExcitationBackprop, Gradient, InputTimesGradient, GuidedBackprop]
)
def test_all_methods_run_as_programs(method):
    x = torch.rand(11, 2, 6, 6, dtype=torch.float64)
    values, made, wanted = compared(method(residual(), batch_size=2), x)
    assert made.n_checked == programs.N_CHECKED
    np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=1e-12 * abs(wanted).max())


@pytest.mark.parametrize("method", [LRP, InputTimesGradient])
@pytest.mark.parametrize("attention", ["attnlrp", "detached"])
def test_tokens_run_as_programs(method, attention):
    settings = {"attention": attention} if method is LRP else {}
    x = torch.randint(11, (10, 5))
    values, made, wanted = compared(method(Reader().eval().double(), batch_size=2, **settings), x)
    assert made.program is not None
    np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=1e-12)


def test_a_network_with_ways_around_runs_as_a_program():
    x = torch.randn(10, 2, 8, 8, dtype=torch.float64)
    explainer = LRP(UNet().eval().double(), target=lambda out: out.sum(1), batch_size=2)
    explainer.explain(x)
    assert not programs._records.get(explainer)  # a function of the outputs may look at values
    explainer = LRP(UNet().eval().double(), batch_size=2)
    values, made, wanted = compared(explainer, x)
    assert made.program is not None
    np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "model",
    [Turning(how) for how in ("function", "setting", "input", "more", "output")]
    + [Telling(how) for how in ("tolist", "numpy", "item")],
    ids=lambda model: model.how,
)
def test_a_model_that_looks_at_values_is_followed(model):
    x = torch.rand(10, 4)
    x[6:8] += 1  # one of the later batches turns
    with pytest.warns(TellwhyWarning, match="each is followed") as told:
        values, made, wanted = compared(LRP(model.eval(), batch_size=2), x)
    assert len(told) == 1
    assert made.program is None
    np.testing.assert_array_equal(values, wanted)


@pytest.mark.filterwarnings("ignore:Batches of this network")
@pytest.mark.parametrize("where", ["layer", "norm", "bias", "product"])
def test_weights_that_depend_on_the_batch_are_those_of_the_batch(where):
    x = torch.arange(10)[:, None].repeat(1, 3)
    values, _, wanted = compared(LRP(Lookup(where).eval(), batch_size=2), x)
    np.testing.assert_allclose(values, wanted, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Batches of this network")
def test_an_activation_of_an_earlier_batch_is_not_taken_for_one_of_this():
    with pytest.raises(UnsupportedModel, match="does not depend on x"):
        LRP(Keeping().eval(), batch_size=2).explain(torch.rand(6, 4))


@pytest.mark.parametrize("method", [LRP, InputTimesGradient])
def test_whole_numbers_that_depend_on_the_input(method):
    values, made, wanted = compared(
        method(Pointing().eval().double(), batch_size=2), torch.randn(10, 4).double()
    )
    assert made.program is not None
    np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=1e-12)


def test_methods_together_run_as_one_program():
    x = torch.randn(12, 2, 6, 6, dtype=torch.float64)
    model = residual()
    explainers = {"epsilon": LRP(model, batch_size=2), "z": LRP(model, rule="z", batch_size=2)}
    together = explain_all(explainers, x)
    for name, explainer in explainers.items():
        wanted = explainer.explain(x, compile=False).values
        np.testing.assert_allclose(together[name].values, wanted, rtol=1e-9, atol=1e-12)


def test_a_program_serves_later_calls_with_the_weights_of_then():
    model = residual()
    x = torch.randn(10, 2, 6, 6, dtype=torch.float64)
    explainer = LRP(model, rule="z_plus", batch_size=2)
    explainer.explain(x)
    program = record(explainer).program
    with torch.no_grad():
        model.first.weight.data.mul_(-2)  # no counter of versions shows this
        model.norms[0].running_var.mul_(3)
        model.out.bias.mul_(2)
    values, made, wanted = compared(explainer, x)
    assert made.program is program
    np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("change", ["setting", "model", "parameter", "shape"])
def test_another_setting_or_model_gets_a_program_of_its_own(change):
    model = Turning("setting")
    model.factor = 2.0
    model.forward = lambda x: model.out(torch.relu(model.a(x)) * model.factor)
    explainer = LRP(model.eval().double(), rule="epsilon", batch_size=2)
    x = torch.randn(10, 4, dtype=torch.float64)
    explainer.explain(x)
    if change == "setting":
        explainer.rule = "alpha_beta"
    elif change == "model":
        model.factor = 3.0
    elif change == "parameter":
        model.out.weight = nn.Parameter(torch.randn(2, 4, dtype=torch.float64))
    else:
        explainer.batch_size = 1
    np.testing.assert_allclose(
        explainer.explain(x).values, explainer.explain(x, compile=False).values, rtol=1e-9, atol=1e-12
    )
    assert len(programs._records[explainer]) == 2


def test_watched_models_and_functions_of_ones_own_are_followed():
    calls = []
    model = residual()
    x = torch.randn(10, 2, 6, 6, dtype=torch.float64)
    own = LRP(model, own=[Handover(lambda op: op.name == "mean", lambda xs, out, R: xs[0] * 0)], batch_size=2)
    own.explain(x)
    assert own not in programs._records
    model.out.register_forward_hook(lambda *_: calls.append(1))
    InputTimesGradient(model, batch_size=2).explain(x)
    assert len(calls) == 5


def test_a_wrong_program_is_not_used(monkeypatch):
    real = programs.traced

    def wrong(explained, tensors):
        return real(lambda *given: [2 * t for t in explained(*given)], tensors)

    monkeypatch.setattr(programs, "traced", wrong)
    x = torch.randn(10, 2, 6, 6, dtype=torch.float64)
    with pytest.warns(TellwhyWarning, match="gave other values"):
        values, made, wanted = compared(LRP(residual(), batch_size=2), x)
    assert made.program is None
    assert made.is_settled
    np.testing.assert_array_equal(values, wanted)


def test_a_program_that_rounds_otherwise_is_judged_by_what_is_exact(monkeypatch):
    x = torch.randn(10, 2, 6, 6)
    monkeypatch.setattr(programs, "_tolerance", lambda _: 1e-12)  # as if rounding were much
    explainer = LRP(residual().float(), batch_size=2)
    explainer.explain(x)
    assert record(explainer).n_checked == programs.N_CHECKED
    work = programs.Programmed(None, lambda *_: [exact], record(explainer), 2, 5, "auto")
    exact = programs.Result([x[:2]], x[:2, 0, 0, 0], torch.zeros(2))
    near = programs.Result([x[:2] * 1.01], x[:2, 0, 0, 0], torch.zeros(2))
    far = programs.Result([x[:2] * 1.03], x[:2, 0, 0, 0], torch.zeros(2))
    rows = read_inputs(x[:2], torch.float32)
    assert not work._is_right([far], [near], rows)  # three times as far from what is exact
    assert work._is_right([near], [far], rows)


class Viewed(nn.Module):
    """Changes a tensor in place of which there is a view, which has to be verified."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 6)
        self.out = nn.Linear(6, 2)

    def forward(self, x):
        h = self.inner(x)
        h.view(-1)
        return self.out(h.relu_())


def test_what_is_verified_when_followed_runs_as_a_program():
    x = torch.randn(10, 4, dtype=torch.float64)
    values, made, wanted = compared(LRP(Viewed().eval().double(), batch_size=2), x)
    assert made.program is not None
    np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_runs_as_a_program(approximate):
    model = nn.Sequential(nn.Linear(4, 6), nn.GELU(approximate), nn.Linear(6, 2)).eval().double()
    x = torch.randn(10, 4, dtype=torch.float64)
    values, made, wanted = compared(LRP(model, batch_size=2), x)
    kept = [node for node in made.program.graph.graph.nodes if "gelu" in str(node.target)]
    assert len(kept[0].users) == 1  # the next layer: the way down does without its output
    np.testing.assert_allclose(values, wanted, rtol=1e-9, atol=1e-12)


def test_few_batches_are_followed(monkeypatch):
    monkeypatch.setattr(programs, "LEAST_BATCHES", 6)
    explainer = LRP(residual(), batch_size=2)
    x = torch.randn(10, 2, 6, 6, dtype=torch.float64)
    explainer.explain(x)
    assert record(explainer).program is None
    explainer.explain(x)  # as many may come again
    assert record(explainer).program is not None


def test_compiled_on_request():
    x = torch.randn(6, 4, dtype=torch.float64)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).eval().double()
    explainer = LRP(model, batch_size=2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        values = explainer.explain(x, compile=True).values
    if any("compiler failed" in str(warning.message) for warning in told):
        pytest.skip("there is no compiler on this machine")
    assert record(explainer).n_checked == programs.N_CHECKED
    np.testing.assert_allclose(values, explainer.explain(x, compile=False).values, rtol=1e-9, atol=1e-12)


def test_a_compiler_that_fails_is_told_once_and_the_program_runs_without(monkeypatch):
    def fails(self, tensors, **_):
        raise RuntimeError("no compiler here")

    monkeypatch.setattr(programs.Program, "compile", fails)
    explainer = LRP(residual(), batch_size=2)
    x = torch.randn(10, 2, 6, 6, dtype=torch.float64)
    with pytest.warns(TellwhyWarning, match="no compiler here") as told:
        values = explainer.explain(x, compile=True).values
    assert len(told) == 1
    np.testing.assert_allclose(values, explainer.explain(x, compile=False).values, rtol=1e-9, atol=1e-12)


def test_a_network_that_cannot_be_compiled_says_so():
    said = r"__bool__ reads values .*test_programs.py, line \d+: turns = bool\(x.max\(\) > 1\)"
    with pytest.warns(TellwhyWarning, match=said):
        LRP(Turning("more").eval(), batch_size=2).explain(torch.rand(6, 4), compile=True)
    with pytest.raises(InvalidParameter, match="'compile' parameter"):
        LRP(Turning("more").eval()).explain(torch.rand(6, 4), compile="always")


def test_nothing_of_a_batch_is_kept_for_the_next_one():
    seen_inputs = []

    class Watched(nn.Linear):
        def forward(self, x):
            seen_inputs.append(weakref.ref(x))
            return super().forward(x)

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), Watched(4, 2)).eval()
    gc.disable()
    try:
        LRP(model, batch_size=2).explain(torch.randn(4, 4))
    finally:
        gc.enable()
    assert len(seen_inputs) == 2
    assert all(ref() is None for ref in seen_inputs)


def test_programs_go_with_their_explainer():
    explainer = LRP(residual(), batch_size=2)
    explainer.explain(torch.randn(10, 2, 6, 6, dtype=torch.float64))
    program = weakref.ref(record(explainer).program)
    del explainer
    gc.collect()
    assert program() is None


def test_a_number_for_each_row_is_an_input_of_the_program():
    model = residual()
    x = torch.randn(9, 2, 6, 6, dtype=torch.float64)
    targets = np.array([0, 1, 2, 2, 1, 0, 1, 1, 2])
    explainer = LRP(model, target=targets, batch_size=2)
    found = explainer.explain(x)
    made = record(explainer)
    assert made.program is not None
    wanted = explainer.explain(x, compile=False)
    np.testing.assert_allclose(found.values, wanted.values, atol=1e-12)
    np.testing.assert_array_equal(found.extras["output"], targets)
    explainer.target = targets[::-1].copy()
    np.testing.assert_allclose(explainer.explain(x).scores, explainer.explain(x, compile=False).scores)
    explainer.target = np.array([0, 1, 2, 2, 1, 0, 1, 3, 2])
    with pytest.raises(InvalidInput, match="target 3 is out of range"):
        explainer.explain(x)


def test_smoothgrad_goes_down_by_programs():
    model = residual()
    x = torch.randn(6, 2, 6, 6, dtype=torch.float64)
    explainer = SmoothGrad(model, batch_size=3, n_samples=8)
    found = explainer.explain(x).values
    assert [r.program is not None for r in programs._records[explainer].values()] == [True, True]  # 3 and 2
    np.testing.assert_allclose(found, explainer.explain(x, compile=False).values, atol=1e-12)


def test_the_graph_after_each_pass_can_be_looked_at():
    found = LRP(residual(), rule="epsilon").graphs(torch.randn(2, 2, 6, 6, dtype=torch.float64))
    names = [name.partition(" ")[2] for name in found]
    assert names == ["written_down", *(change.__name__ for change in graph_passes.PASSES)]
    sizes = [sum(node.op == "call_function" for node in graph.nodes) for graph in found.values()]
    assert sizes[-1] < sizes[0]
    assert "batch_norm" in str(next(iter(found.values())))
    assert "batch_norm" not in str(list(found.values())[-1])
    with pytest.raises(UnsupportedModel, match="has no graph"):
        LRP(Turning("relu").eval()).graphs(torch.rand(2, 4))
