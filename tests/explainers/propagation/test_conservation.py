"""Where rules promise that all relevance arrives, an explanation that loses some says so."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from zoo.networks import Function  # noqa: E402

from tellwhy.core.errors import TellwhyWarning  # noqa: E402
from tellwhy.explainers import LRP, DeepTaylor  # noqa: E402
from tellwhy.explainers.propagation.batches import warn_if_lost  # noqa: E402


def network(*, bias, loses=False):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6, bias=bias), nn.ReLU(), nn.Linear(6, 2, bias=bias)).double().eval()
    if loses:  # an output that its bias alone makes positive: nobody can be given what it has
        model[2].weight.data = -model[2].weight.data.abs()
        model[2].bias.data.fill_(5.0)
    return model


X = torch.rand(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("rule", ["z_plus", "flat", "w_square"])
def test_nothing_is_said_where_the_promise_is_kept(rule):
    found = LRP(network(bias=True), rule=rule).explain(X)
    np.testing.assert_allclose(found.residual, 0, atol=1e-9)


def test_a_broken_promise_is_told_with_the_row_and_where_to_look():
    model = network(bias=True, loses=True)
    with pytest.warns(TellwhyWarning, match=r"5 of 5 rows more than 5% .*100%.*ledger"):
        LRP(model, rule="z_plus").explain(X)
    with pytest.warns(TellwhyWarning, match="DeepTaylor"):
        DeepTaylor(model, low=0).explain(X)


def test_biases_break_no_promise_of_rules_that_give_them_their_share():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rule in ("epsilon", "z", "gamma"):  # the residual is what biases took
            biased = LRP(network(bias=True, loses=True), rule=rule).explain(X)
            assert (np.abs(biased.residual) > 0.3).all()
        LRP(network(bias=False), rule="z").explain(X)


def test_without_biases_the_plain_rule_promises_too():
    model = nn.Sequential(nn.Linear(4, 2, bias=False), Function(torch.exp)).double().eval()
    nn.init.zeros_(model[0].weight)
    with pytest.warns(TellwhyWarning, match="100%"):  # exp(0) = 1: an output that no input made
        LRP(model, rule="gamma").explain(X)


def test_the_tolerance_is_five_per_cent():
    scores = np.array([1.0, 2.0, 0.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_lost("LRP", scores, np.array([0.96, 2.09, 3.0]))
    with pytest.warns(TellwhyWarning, match=r"1 of 3 rows .*row 1: 6%"):
        warn_if_lost("LRP", scores, np.array([0.96, 2.12, 3.0]))
