"""Rectifiers in every spelling, for the methods that replace their backward pass."""

from __future__ import annotations

from torch import Tensor

from tellwhy.explainers.propagation.operations.calls import Call

_ALWAYS = frozenset(("relu", "relu6"))
# Functions that may be ReLU, depending on their arguments: their output tells.
_MAYBE = frozenset(
    ("clamp", "clip", "clamp_min", "hardtanh", "threshold", "maximum", "max", "mul", "where", "masked_fill")
) | {"setitem"}
# Activation functions that are no rectifiers: guided backprop and DeconvNet do not say what becomes of them.
_SMOOTH = """leaky_relu prelu rrelu elu selu celu silu gelu mish softplus sigmoid tanh hardswish hardsigmoid
    logsigmoid softsign tanhshrink softshrink hardshrink hardtanh threshold lstm gru rnn_tanh lstm_cell
    gru_cell rnn_tanh_cell abs erf exp expm1 sin cos atan"""
OTHERS = frozenset(_SMOOTH.split())
_OF_TWO = frozenset(("where", "maximum", "max"))


def is_rectifier(call: Call) -> bool:
    """Whether a call cuts off what is below zero, perhaps also above a bound, and changes nothing else."""
    if call.name in _ALWAYS:
        return True
    if call.name not in _MAYBE or len(call.activations) != 1:
        return False
    z = call.activations[0].detach()
    if z.is_complex():
        return False
    result = call.run_detached()
    if not isinstance(result, Tensor) or result.shape != z.shape or not bool((z < 0).any()):
        return _by_bounds(call)
    largest = float(result.max())
    return largest > 0 and bool((result == z.clamp(min=0, max=largest)).all())


def is_leaky(call: Call) -> bool:
    """Whether a call chooses between z and a multiple of z: a leaky ReLU, in other words."""
    if call.name not in _OF_TWO or len(call.activations) != 2:
        return False
    first, second = (t.detach() for t in call.activations)
    if first.shape != second.shape or first.is_complex():
        return False
    if not bool((first != 0).any()):
        return False
    ratios = (second / first)[first != 0]
    return bool((ratios - ratios[0]).abs().max() <= 1e-4 * ratios[0].abs())


def _by_bounds(call: Call) -> bool:
    """The same from the arguments alone, where no element is negative that could tell."""
    if call.name == "hardtanh":
        return call.arguments(("input", "min_val")).get("min_val", -1.0) == 0
    return call.name in ("clamp", "clip", "clamp_min") and call.arguments(("input", "min")).get("min") == 0
