"""Functions of one's own for operations, by their neighbours too, and for whole modules."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tellwhy.core.errors import InvalidInput  # noqa: E402
from tellwhy.explainers import LRP, Gradient, coverage, explain_all  # noqa: E402
from tellwhy.explainers.propagation import Handover  # noqa: E402
from tellwhy.explainers.propagation.rules import quotient  # noqa: E402

X = torch.rand(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Strange(nn.Module):
    """sinc has no rule of its own, and a branch that looks at numbers is beside it."""

    def forward(self, x):
        return torch.sinc(x) * (1 if float(x.detach().sum()) > -1e9 else 2)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4, bias=False), Strange(), nn.Linear(4, 2, bias=False)).double().eval()


def passes_on(inputs, out, R):
    return R


def test_a_module_is_one_step_whatever_is_in_it():
    model = network()
    found = LRP(model, rule="z", own=[Handover("1", passes_on)]).explain(X)
    wanted = LRP(model, rule="z", operations={"sinc": "elementwise"}).explain(X)
    torch.testing.assert_close(torch.as_tensor(found.values), torch.as_tensor(wanted.values))
    listed = coverage(model, X, explainer=LRP(model, own=[Handover("1", passes_on)]))
    assert listed.operation.tolist() == ["linear", "module", "linear"]
    assert listed.rule[1] == "by a function of your own"


def test_an_operation_is_chosen_by_its_neighbours():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 3, bias=False), nn.Linear(3, 3, bias=False)

        def forward(self, x):
            return torch.tanh(self.b(torch.tanh(self.a(x))))

    model = Two().double().eval()
    seen = []

    def second(op):
        return op.name == "tanh" and op.before[0].path == "b"

    def halves(inputs, out, R):
        seen.append(out.shape)
        return R / 2

    found = LRP(model, rule="z", own=[Handover(second, halves)]).explain(X)
    whole = LRP(model, rule="z").explain(X)
    torch.testing.assert_close(torch.as_tensor(found.values), torch.as_tensor(whole.values) / 2)
    assert len(seen) == 1


@pytest.mark.parametrize("rule", ["z", "flat"])  # contributions travel, or relevance
def test_operations_of_several_inputs(rule):
    class Max(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 3, bias=False), nn.Linear(4, 3, bias=False)

        def forward(self, x):
            return torch.hypot(self.a(x), self.b(x))

    def by_squares(inputs, out, R):
        return [quotient(R * x**2, out**2) for x in inputs]

    model = Max().double().eval()
    own = [Handover(lambda op: op.name == "hypot", by_squares, name="hypot")]
    found = LRP(model, rule=rule, own=own).explain(X)
    assert abs(found.residual).max() < 1e-9
    with pytest.raises(InvalidInput, match=r"'mine' must return relevance like its inputs"):
        LRP(model, own=[Handover(lambda op: op.name == "hypot", passes_on, name="mine")]).explain(X)


def test_gradients_of_the_same_pass_go_through_the_module():
    model = network()
    both = explain_all([Gradient(model), LRP(model, own=[Handover("1", passes_on)])], X)
    alone = Gradient(model).explain(X)
    torch.testing.assert_close(torch.as_tensor(both[0].values), torch.as_tensor(alone.values))


def test_the_ledger_and_latent_relevance_see_it():
    model = network()
    explainer = LRP(model, rule="z", own=[Handover("1", passes_on)])
    ledger = explainer.ledger(X).set_index("path")
    assert abs(ledger.absorbed["1"]) < 1e-9
    assert explainer.latent(X, "1")["1"].shape == (3, 4)
