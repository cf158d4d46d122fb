"""Questions about a row that are made where a network computes are the same questions."""

from __future__ import annotations

import numpy as np
import pytest

from tellwhy.explainers import LocalInsight

torch = pytest.importorskip("torch")


class _Counted(torch.nn.Module):
    """A small network of images that works in place, and remembers what it was given."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inside = torch.nn.Sequential(
            torch.nn.ReLU(inplace=True),
            torch.nn.Conv2d(3, 4, 3),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(400, 3),
        )
        self.types: set[torch.dtype] = set()

    def forward(self, x):
        self.types.add(x.dtype)
        return self.inside(x)


def _explained(*, is_placed: bool):
    X = np.random.default_rng(0).normal(size=(2, 3, 12, 12))
    network = _Counted().eval()
    explainer = LocalInsight(network, n_questions=256, n_segments=9, n_sweeps=20, n_burn=10).fit(X)
    assert explainer.score.place is not None
    if not is_placed:
        explainer.score.place = None
    asked: list[type] = []
    answer = explainer.score.outputs

    def outputs(rows):
        asked.append(type(rows))
        return answer(rows)

    explainer.score.outputs = outputs
    found = explainer.explain(X)
    return found, asked, network


def test_neighbours_made_where_the_network_is_give_the_same_explanation():
    placed, asked, network = _explained(is_placed=True)
    copied, asked_of_arrays, _ = _explained(is_placed=False)
    np.testing.assert_array_equal(placed.values, copied.values)
    for name, extra in copied.extras.items():
        np.testing.assert_array_equal(placed.extras[name], extra)
    # The rows themselves come as an array; every question after that is a tensor.
    assert asked.count(torch.Tensor) > 5
    assert torch.Tensor not in asked_of_arrays
    assert network.types == {torch.float32}


def test_rows_of_a_table_are_asked_about_as_arrays():
    network = torch.nn.Sequential(torch.nn.Linear(4, 2)).eval()
    X = np.random.default_rng(0).normal(size=(3, 4))
    explainer = LocalInsight(network, n_questions=64).fit(X)
    assert np.isfinite(explainer.explain(X).values).all()
