"""`compare` on pictures: methods of networks, ranked with intervals, beside chance."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from tellwhy.evaluation import compare, region_flipping  # noqa: E402
from tellwhy.explainers import LRP, InputTimesGradient, Occlusion  # noqa: E402
from tellwhy.explainers.propagation import GuidedBackprop  # noqa: E402


class Corner(nn.Module):
    """Speaks for class 1 where the upper left corner is bright, and sees nothing else."""

    def __init__(self):
        super().__init__()
        self.mask = nn.Parameter(torch.zeros(1, 12, 12))
        self.mask.data[0, :4, :4] = 1.0

    def forward(self, x):
        level = (x * self.mask).flatten(1).sum(dim=1, keepdim=True)
        return torch.cat([-level, level], dim=1)


X = torch.rand(6, 1, 12, 12, generator=torch.Generator().manual_seed(0)) + 0.2
X[:, :, :4, :4] += 1.5
MODEL = Corner().eval()


class Upside:
    """Says the contrary of what is right."""

    def __init__(self, model):
        self.model = model

    def explain(self, X):
        from dataclasses import replace

        found = InputTimesGradient(self.model, target=1).explain(X)
        return replace(found, values=-found.values, method="Upside")


def test_a_right_method_comes_first_a_wrong_one_after_chance():
    table = compare(
        {"right": InputTimesGradient(MODEL, target=1), "wrong": Upside(MODEL)}, MODEL, X, target=1
    )
    assert table.method.tolist() == ["right", "(random order)", "wrong"]
    for check in ("flipping", "irof", "road"):
        by = table.set_index("method")[check]
        assert by["right"] < by["(random order)"] < by["wrong"]
        assert (table[f"{check}_low"] <= table[check]).all()
        assert (table[check] <= table[f"{check}_high"]).all()
    area = region_flipping(InputTimesGradient(MODEL, target=1).explain(X), MODEL, target=1, patch_size=2).area
    assert table.flipping[0] == pytest.approx(area, abs=1e-6)


def test_methods_by_class_and_name_and_one_that_fails():
    table = compare(["LRP", GuidedBackprop, Occlusion], MODEL, X, target=1)
    found = table.set_index("method")
    assert found.note["GuidedBackprop"] == ""
    assert found.seconds_per_row["LRP"] > 0
    assert found.flipping["LRP"] < found.flipping["Occlusion"] < found.flipping["(random order)"]

    class Broken:
        def explain(self, X):
            raise RuntimeError("out of order")

    failed = compare({"LRP": LRP(MODEL, target=1), "broken": Broken()}, MODEL, X, target=1)
    assert "out of order" in failed.set_index("method").note["broken"]
    assert np.isnan(failed.set_index("method").flipping["broken"])
