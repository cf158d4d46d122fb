"""The user's model, the random numbers and other threads do not notice an explanation."""

import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.modules import module as module_hooks  # noqa: E402
from zoo.networks import Function, build  # noqa: E402

from tellwhy.core.errors import UnsupportedModel  # noqa: E402
from tellwhy.explainers import (  # noqa: E402
    LRP,
    DeepTaylor,
    ExcitationBackprop,
    Gradient,
    GuidedBackprop,
    SmoothGrad,
    coverage,
    explain_all,
)
from tellwhy.explainers.propagation import RULES, Composite, Rule  # noqa: E402
from tellwhy.explainers.propagation.composites import convolution, dense  # noqa: E402

HOOKS = [name for name in vars(nn.Module()) if name.endswith("_hooks")]


def state(model):
    """All that could change: tensors, gradients, versions, attributes, hooks, flags, random numbers."""
    tensors = {
        n: (t.clone(), t.grad, t._version, t.requires_grad, id(t))
        for n, t in model.state_dict(keep_vars=True).items()
    }
    attributes = {
        n: (
            m.training,
            {key: id(value) for key, value in vars(m).items()},
            {k: len(getattr(m, k)) for k in HOOKS},
        )
        for n, m in model.named_modules()
    }
    hooks = len(module_hooks._global_forward_hooks), len(module_hooks._global_forward_pre_hooks)
    return tensors, attributes, hooks, torch.get_rng_state(), torch.is_grad_enabled()


def assert_same(before, after):
    assert before[1:3] == after[1:3]
    assert torch.equal(before[3], after[3])
    assert before[4] == after[4]
    for name, (tensor, *rest) in before[0].items():
        assert torch.equal(tensor, after[0][name][0])
        assert rest == list(after[0][name][1:])


@pytest.mark.parametrize("name", ["residual", "in_place"])
def test_model_is_bit_identical(name):
    model, x = build(name)
    gradients = {n: torch.randn_like(p) for n, p in model.named_parameters()}
    for n, p in model.named_parameters():
        p.grad = gradients[n].clone()  # of the user's own
    original, before = x.clone(), state(model)
    for explainer in (
        LRP(model),
        LRP(model, rule="flat"),
        DeepTaylor(model),
        Gradient(model),
        GuidedBackprop(model),
    ):
        explainer.explain(x)
    SmoothGrad(model, n_samples=2).explain(x)
    LRP(model, residual="equal").ledger(x)
    coverage(model, x)
    explain_all(
        [LRP(model, batch_norm=t) for t in ("merged", "one_linear", "two_linear")] + [Gradient(model)], x
    )
    ExcitationBackprop(model, contrastive=True).explain(x)
    assert all(torch.equal(p.grad, gradients[n]) for n, p in model.named_parameters())
    assert_same(before, state(model))
    assert torch.equal(x, original)
    assert x.grad is None
    assert not x.requires_grad


class FailsHalfway(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    def forward(self, x):
        x = self.inner(x)
        torch.rand(3)
        return torch.linalg.norm(x, ord=3, dim=1, keepdim=True)


def test_model_is_bit_identical_after_an_error():
    model = FailsHalfway().eval()
    before = state(model)
    with pytest.raises(UnsupportedModel, match="linalg_norm"):
        LRP(model).explain(torch.randn(2, 3, generator=torch.Generator()))
    assert_same(before, state(model))


def test_model_is_bit_identical_after_an_error_on_the_way_down():
    model, x = build("residual")
    before = state(model)

    def fails(layer, x, z, c):
        torch.rand(3)
        raise ArithmeticError("half-way")

    composite = Composite([(dense, RULES["z"]()), (convolution, Rule("fails", fails))])
    with pytest.raises(ArithmeticError, match="half-way"):
        LRP(model, composite=composite).explain(x)
    assert_same(before, state(model))
    np.testing.assert_array_equal(LRP(model).explain(x).values, LRP(model).explain(x).values)


def test_frozen_parameters_stay_frozen():
    model, x = build("residual")
    expected = LRP(model).explain(x).values
    model.requires_grad_(False)
    np.testing.assert_array_equal(LRP(model).explain(x).values, expected)
    assert not any(p.requires_grad for p in model.parameters())


def test_random_numbers_of_the_model_do_not_show():
    before = torch.get_rng_state()
    Gradient(Function(lambda x: x * torch.rand(3)).eval()).explain(np.ones((2, 3), dtype=np.float32))
    assert torch.equal(torch.get_rng_state(), before)


def test_works_where_gradients_are_off():
    model, x = build("shared")
    expected = LRP(model).explain(x).values
    with torch.no_grad():
        np.testing.assert_array_equal(LRP(model).explain(x).values, expected)
    with torch.inference_mode():
        np.testing.assert_array_equal(LRP(model).explain(x).values, expected)


def test_threads_do_not_disturb_each_other():
    model, x = build("residual")
    explainers = [
        LRP(model, rule="z"),
        LRP(model, rule="flat"),
        LRP(model, composite="preset_b"),
        GuidedBackprop(model),
    ]
    expected = [explainer.explain(x).values for explainer in explainers]
    found, errors = {}, []

    def work(k):
        try:
            for _ in range(5):
                found[k] = explainers[k].explain(x).values
                np.testing.assert_array_equal(found[k], expected[k])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(explainers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(found) == len(explainers)
