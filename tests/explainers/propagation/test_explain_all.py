"""Several explanations from one forward pass are those of separate calls."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from zoo.networks import MODELS, build  # noqa: E402

from tellwhy.core.errors import InvalidInput, InvalidParameter  # noqa: E402
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
    explain_all,
)


class Counted(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.count = 0

    def forward(self, x):
        self.count += 1
        return self.model(x)


def every_kind(model, *, rectifiers=True):
    """One explainer of every kind; those that replace rectifiers only where there are no other functions."""
    replacing = {"deconvnet": DeconvNet(model), "guided": GuidedBackprop(model)} if rectifiers else {}
    return replacing | {
        "gradient": Gradient(model),
        "input x gradient": InputTimesGradient(model, target=1),
        "z": LRP(model, rule="z"),
        "epsilon": LRP(model, target=0, rule="epsilon"),
        "preset b": LRP(model, composite="preset_b"),
        "flat": LRP(model, rule="flat"),
        "even": LRP(model, rule="z_plus", residual="equal", pooling="flat"),
        "shortcut": LRP(model, rule="epsilon", residual="shortcut"),
        "plus": LRP(model, rule="z", residual="z_plus"),
        "deep Taylor": DeepTaylor(model, low=-9, high=9),
        "contrastive": ExcitationBackprop(model, contrastive=True),
    }


class Various(nn.Module):
    """Functions of single elements, a product, a norm and an average."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = (
            nn.Conv2d(2, 4, 3, padding=1),
            nn.GroupNorm(2, 4),
            nn.Linear(4, 3),
        )

    def forward(self, x):
        y = torch.nn.functional.silu(self.norm(self.first(x)))
        y = torch.nn.functional.leaky_relu(y * torch.sigmoid(y.mean((2, 3), keepdim=True)), 0.2)
        return self.second(y.mean((2, 3)))


@pytest.mark.parametrize("name", [*MODELS, "various"])
def test_shared_forward_changes_nothing(name):
    if name == "various":
        torch.manual_seed(0)
        model, x = Various().double().eval(), torch.randn(5, 2, 6, 6, dtype=torch.float64)
    else:
        model, x = build(name)
    model = Counted(model).eval()
    rectifiers = name not in ("unet", "various")
    explainers = every_kind(model, rectifiers=rectifiers)
    for explainer in explainers.values():
        explainer.batch_size = 3
    together = explain_all(explainers, x)
    # Two batches, for gradients, rectified ones and relevance. Changed views are verified by a plain pass, and a
    # gradient that meets a change of what autograd keeps runs once more.
    further = {"in_place": 4, "residual": 1}.get(name, 0)
    assert model.count == 2 * (2 + rectifiers) + further
    assert list(together) == list(explainers)
    for label, explainer in explainers.items():
        alone = explainer.explain(x)
        size = max(np.abs(alone.values).max(), 1)
        np.testing.assert_allclose(together[label].values / size, alone.values / size, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(together[label].scores, alone.scores)
        assert together[label].params == alone.params


def test_a_gradient_beside_one_that_is_rectified_stays_the_gradient():
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU6(), nn.Linear(6, 2)).double().eval()
    model[0].weight.data.mul_(20)  # so that some units are above the bound
    x = torch.randn(5, 4, dtype=torch.float64)
    alone = Gradient(model, target=0).explain(x).values
    for others in ([GuidedBackprop(model, target=0)], [LRP(model, target=0, rule="flat")]):
        found = explain_all([Gradient(model, target=0), *others], x)
        np.testing.assert_array_equal(found[0].values, alone)


def test_treatments_of_batch_norm_need_their_own_pass():
    model, x = build("residual")
    model = Counted(model).eval()
    treatments = ("merged", "one_linear", "two_linear", "four_coefficients")
    explainers = [*(LRP(model, batch_norm=treatment) for treatment in treatments), Gradient(model)]
    together = explain_all(explainers, x)
    # The gradient takes two: this network changes in place what autograd keeps, which shows on the way down.
    assert model.count == 6
    for explainer, found in zip(explainers, together, strict=True):
        np.testing.assert_allclose(found.values, explainer.explain(x).values, atol=1e-12)


def test_other_rows_and_other_models_run_on_their_own():
    model, x = build("shared")
    other, _ = build("shared", seed=1)
    smooth = SmoothGrad(model, n_samples=2, random_state=0)
    explainers = [LRP(model), smooth, LRP(other), LRP(model, batch_size=2), IntegratedGradients(model)]
    for explainer, found in zip(explainers, explain_all(explainers, x), strict=True):
        np.testing.assert_allclose(found.values, explainer.explain(x).values, atol=1e-12)


def test_memory_does_not_grow_with_the_number_of_explainers():
    """The recorded pass is the same tensors however many ways down there are."""
    kept = []

    class Watched(nn.Module):
        def forward(self, x):
            with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.nbytes) or t, lambda t: t):
                return torch.relu(nn.functional.linear(x, torch.ones(4, 6, dtype=x.dtype))) @ torch.ones(
                    4, 2, dtype=x.dtype
                )

    model, x = Watched().eval(), torch.randn(3, 6, dtype=torch.float64)
    sizes = []
    for n in (1, 4):
        kept.clear()
        explain_all([LRP(model, rule="epsilon") for _ in range(n)], x)
        sizes.append(sum(kept))
    assert sizes[0] == sizes[1] > 0


def test_bad_explainers():
    model, x = build("shared")
    with pytest.raises(InvalidInput, match="no `explain`"):
        explain_all([LRP(model), "LRP"], x)
    with pytest.raises(InvalidParameter, match="batch_size"):
        explain_all([LRP(model), LRP(model, batch_size=0)], x)
    assert explain_all([], x) == []
