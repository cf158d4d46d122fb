"""Networks whose outputs are not one per row, and which of a network's numbers is explained."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import tellwhy  # noqa: E402
from tellwhy.core.errors import InvalidInput  # noqa: E402

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 3))
BACKGROUND = RNG.normal(size=(20, 3))


class Reduced(nn.Module):
    """A linear layer, and something that does away with rows behind it."""

    def __init__(self, reduce):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.reduce = reduce

    def forward(self, x):
        return self.reduce(self.linear(x))


REDUCTIONS = {
    "one number in all": lambda y: y.mean().reshape(1),
    "no axis": lambda y: y.mean(),
    "a row too few": lambda y: y[: max(1, len(y) - 1)],
    "rows last": lambda y: y.T,
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    "method", ["auto", "KernelShap", "IntegratedGradients", "Lime", "LRP", "Gradient", "SmoothGrad"]
)
def test_outputs_that_are_not_one_for_each_row_are_refused(reduction, method):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Reduced(REDUCTIONS[reduction]).eval()
    background = BACKGROUND if method in ("KernelShap", "Lime") else None
    with pytest.raises(InvalidInput, match=r"for \d rows?; expected one output for each row, rows first"):
        tellwhy.explain(net, X, method, background=background)


@pytest.mark.parametrize("n", [30, 150])
def test_the_rows_given_for_a_network_are_the_rows_used(n):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double().eval()
    rows = RNG.normal(size=(n, 3))
    found = tellwhy.explain(net, X, "KernelShap", background=rows)
    with torch.no_grad():
        mean = net(torch.as_tensor(rows)).mean().item()
    np.testing.assert_allclose(found.base_values, mean, rtol=1e-10)
    assert found.params["reference_rows"] == n
