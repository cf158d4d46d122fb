"""Grids of explanations: each cell is the explanation that it says it is."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from tellwhy.core.errors import InvalidInput, InvalidParameter  # noqa: E402
from tellwhy.explainers import LRP, Gradient, PatternNet, SmoothGrad  # noqa: E402
from tellwhy.workflow import architecture_grid, batch_norm_grid, image_grid, neuron_grid, sweep_grid  # noqa: E402


class Residual(nn.Module):
    """A convolution with batch norm beside a shortcut."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 1, 3, padding=1)
        self.norm = nn.BatchNorm2d(1)
        self.head = nn.Linear(36, 3)
        self.norm.running_mean.fill_(0.2)
        self.norm.weight.data.fill_(-1.5)

    def forward(self, x):
        return self.head(torch.relu(x + self.norm(self.conv(x))).flatten(1))


@pytest.fixture(scope="module")
def nets():
    torch.manual_seed(0)
    chain = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)).eval()
    return {"chain": chain, "residual": Residual().eval()}


@pytest.fixture(scope="module")
def X():
    return torch.rand(4, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def test_rows_are_outputs(nets, X):
    grid = neuron_grid(nets["chain"], X[0], [2, 0], methods="lrp-epsilon,gradient", names=["a", "b", "c"])
    assert (list(grid.rows), list(grid.columns)) == (["c", "a"], ["LRP ε", "Gradient"])
    for row, output in enumerate((2, 0)):
        np.testing.assert_allclose(
            grid.cells[row][0].values, LRP(nets["chain"], target=output).explain(X[:1]).values
        )
        np.testing.assert_allclose(
            grid.cells[row][1].values, Gradient(nets["chain"], target=output).explain(X[:1]).values
        )
        outputs = nets["chain"](X[:1])[0].detach()
        share = 100 * outputs.softmax(0)[output]
        assert grid.notes[row] == f"{outputs[output]:.2f} ({share:.1f} %)"


def test_rows_are_inputs(nets, X):
    grid = image_grid(nets["chain"], X, {"G": Gradient}, labels=list("wxyz"))
    expected = Gradient(nets["chain"]).explain(X).values
    np.testing.assert_allclose(np.concatenate([row[0].values for row in grid.cells]), expected, atol=1e-7)
    np.testing.assert_array_equal(grid.pictures[3], X[3])
    with pytest.raises(InvalidInput, match="1 labels for 4 inputs"):
        image_grid(nets["chain"], X, labels=["one"])


def test_a_method_that_refuses_one_network_leaves_a_gap(nets, X):
    methods = {"LRP": LRP, "PatternNet": lambda m, t: PatternNet(m, target=t).fit(X)}
    grid = architecture_grid(nets, X[0], methods)
    assert list(grid.rows) == ["chain", "residual"]
    assert grid.cells[0][1] is not None
    assert grid.cells[1][1] is None
    assert "add" in grid.refusals[1, 1]


def test_treatments_of_batch_norm(nets, X):
    grid = batch_norm_grid({"residual": nets["residual"]}, X[0], composite="epsilon_plus")
    assert list(grid.columns) == ["merged", "one linear", "two linear", "four coefficients"]
    expected = LRP(nets["residual"], composite="epsilon_plus", batch_norm="two_linear").explain(X[:1]).values
    np.testing.assert_allclose(grid.cells[0][2].values, expected)
    assert not np.allclose(grid.cells[0][0].values, grid.cells[0][1].values)


def test_settings_from_low_to_high(nets, X):
    rows = {"SmoothGrad": lambda noise: SmoothGrad(nets["chain"], noise=noise, n_samples=4)}
    grid = sweep_grid(rows, [0.0, 0.5], X[0])
    assert list(grid.columns) == ["0.0", "0.5"]
    np.testing.assert_allclose(
        grid.cells[0][0].values, Gradient(nets["chain"]).explain(X[:1]).values, atol=1e-6
    )
    assert not np.allclose(grid.cells[0][0].values, grid.cells[0][1].values)


def test_a_grid_without_rows_is_refused(nets, X):
    with pytest.raises(InvalidParameter, match="at least one row"):
        neuron_grid(nets["chain"], X[0], [])
