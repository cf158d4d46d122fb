"""Differences to a reference, handed down operation by operation: the backward pass of DeepLIFT.

The references go through the network first, and the rows after them. What is linear hands down its
derivative. What is not hands down a multiplier, such that multiplier times difference of the inputs is the
difference of the outputs:

- a function f of each element: (f(x) − f(r))/(x − r), or f'(x) where x is next to r (the rescale rule);
- a product of two activations a and b: for a the mean of b and its reference, for b that of a;
- a maximum over a window: a gain goes to where the row has its maximum, a loss to where the reference has;
- softmax: exponentials, their sum, and a quotient, each by the rules above.

Norms and attention are written out in these, so that differences add up whatever a network is made of. An
operation that is not known hands down its derivative, and what that misses is a residual.

Shrikumar, Greenside, Kundaje, ICML (2017); for the maximum: Lundberg, Lee, NeurIPS (2017), its appendix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from tellwhy.explainers.propagation.engine.calls import Call, Operation
from tellwhy.explainers.propagation.engine.derivative_steps import DerivativeStep
from tellwhy.explainers.propagation.engine.steps import Compute, Cotangents, Followed
from tellwhy.explainers.propagation.rules import quotient

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture

_NEXT = 1e-6  # a difference below which the derivative serves
MAXIMA = frozenset(f"{kind}max_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3))
# Functions of single elements that relevance has no rule for.
FURTHER = dict.fromkeys(("exp2", "log2", "tan", "asinh", "sinc", "nan_to_num", "float_power"), "elementwise")


class State(NamedTuple):
    """What went into an operation and came out, and where the maxima of windows were."""

    name: str
    inputs: list[Tensor]
    out: Tensor
    places: Tensor | None = None


class NotAlike(Exception):
    """The references went through other operations than the rows, or with tensors of other shapes."""


class Compared:
    """States of the operations that are not linear: noted from references, read for rows."""

    def __init__(self, noted: Sequence[State] | None = None):
        self.noted: list[State] = []
        self._read: Iterator[State] | None = None if noted is None else iter(noted)

    def run(self, operation: Operation, capture: Capture, call: Call) -> Any:
        """Run an operation on references, or on rows that are compared with them."""
        run = _with_places(call) if call.name in MAXIMA else call.run
        given = call.activations
        if self._read is None:
            with torch.no_grad():
                places = run(given)[1] if call.name in MAXIMA else None
            out = call.run(given)
            self.noted.append(State(call.name, [t.detach() for t in given], out.detach(), places))
            return out
        reference = next(self._read, None)
        if reference is None or reference.name != call.name:
            raise NotAlike
        if not all(map(_fits, given, reference.inputs)):
            raise NotAlike
        is_of_elements = operation.kind in ("elementwise", "rectifier")
        if is_of_elements and reference.out.shape != reference.inputs[0].shape:
            return call.run(given)
        step = _form(operation)(operation, capture.current, reference=reference, axis=_axis(call))
        return Followed.apply(step, run, *given)


def _with_places(call: Call) -> Callable[[list[Tensor]], Any]:
    """A pool that also tells the places of its maxima."""
    pool = getattr(functional, f"{call.name}_with_indices")
    further = {name: value for name, value in call.kwargs.items() if name != "return_indices"}
    return lambda inputs: pool(inputs[0], *call.args[1:], **further)


def _axis(call: Call) -> int:
    """The axis of a softmax."""
    given = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else -1)
    return given if isinstance(given, int) else -1


def _fits(x: Tensor, reference: Tensor) -> bool:
    """Whether a reference, which may stand for all rows, has a value for each element of x."""
    if x.ndim != reference.ndim:
        return False
    return all(b in (1, a) for a, b in zip(x.shape, reference.shape, strict=True))


@dataclass(kw_only=True)
class DifferenceStep(DerivativeStep):
    """An operation whose multiplier stands in the place of its derivative."""

    reference: State
    axis: int = -1  # of a softmax

    def ways(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Differences of the inputs to those of the reference."""
        return [x - r for x, r in zip(inputs, self.reference.inputs, strict=True)]


def _divided(change: Tensor, way: Tensor, slope: Tensor) -> Tensor:
    """change/way, and the slope where the way is next to nothing."""
    near = way.abs() < _NEXT
    return torch.where(near, slope, change / way.masked_fill(near, 1))


class ElementDifference(DifferenceStep):
    """A function of each element; a rectifier f has the derivative f(x)/x."""

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the operation."""
        is_rectifier = self.operation.kind == "rectifier"
        return compute(list(inputs)) if is_rectifier else super().compute(compute, inputs)

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """Change of the output by change of the input."""
        slope = c * quotient(out, inputs[0]) if self.local is None else self.derivative(c)[0]
        return [_divided(c * (out - self.reference.out), self.ways(inputs)[0], slope)]


class ProductDifference(DifferenceStep):
    """A function that is linear in each of its activations: each gets its slope in the middle of the way."""

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the product, and once more in the middle between rows and references."""
        middle = [(x + r) / 2 for x, r in zip(inputs, self.reference.inputs, strict=True)]
        super().compute(compute, tuple(middle))
        return compute(list(inputs))

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:  # noqa: ARG002
        """The derivative there."""
        return self.derivative(c)


class MaximumDifference(DifferenceStep):
    """Maxima over windows, whose gains and losses go to the places of the maxima."""

    places: Tensor

    def compute(self, compute: Compute, inputs: tuple[Tensor, ...]) -> Tensor:
        """Run the pool, which also tells the places."""
        out, self.places = compute(list(inputs))
        return out

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:
        """What the row gains at its own maximum, and loses at that of the reference."""
        x = inputs[0]
        before = self.reference
        assert before.places is not None
        top = torch.maximum(out, before.out)
        gains = _put(x, self.places, c * (top - before.out))
        losses = _put(x, before.places.expand_as(self.places), c * (out - top))
        return [_divided(gains + losses, self.ways(inputs)[0], _put(x, self.places, c))]


def _put(x: Tensor, places: Tensor, amount: Tensor) -> Tensor:
    """Add amounts at places of maxima, which may be those of several windows; shaped like x."""
    flat = x.new_zeros((*x.shape[:2], x[0, 0].numel()))  # rows and channels come first
    return flat.scatter_add(2, places.flatten(2), amount.flatten(2)).reshape(x.shape)


class SoftmaxDifference(DifferenceStep):
    """Softmax s = e/Σe or its logarithm, with exponentials e that are scaled alike for row and reference."""

    def hand_down(self, c: Tensor, inputs: list[Tensor], out: Tensor) -> Cotangents:  # noqa: ARG002
        """To the exponentials, straight and by way of their sum, and to what these are of."""
        x = inputs[0]
        r = self.reference.inputs[0]
        peak = torch.maximum(x, r).amax(self.axis, keepdim=True)
        powers = [(t - peak).exp() for t in (x, r)]
        sums = [t.sum(self.axis, keepdim=True) for t in powers]
        slope = _divided(powers[0] - powers[1], x - r, powers[0])
        if self.operation.name == "log_softmax":
            by_sum = _divided(sums[0].log() - sums[1].log(), sums[0] - sums[1], 1 / sums[0])
            return [c - c.sum(self.axis, keepdim=True) * by_sum * slope]
        # From S to S' the quotient 1/S changes by −1/(S S') for each unit.
        by_sum = ((powers[0] + powers[1]) / 2 * c).sum(self.axis, keepdim=True) / (sums[0] * sums[1])
        return [(c * (1 / sums[0] + 1 / sums[1]) / 2 - by_sum) * slope]


_OF_KINDS: dict[str, type[DifferenceStep]] = {
    "elementwise": ElementDifference,
    "rectifier": ElementDifference,
    "product": ProductDifference,
}


def _form(operation: Operation) -> type[DifferenceStep]:
    """The step of an operation; `DifferenceStep` for one whose derivative serves."""
    if operation.name in MAXIMA and operation.kind == "copying":
        return MaximumDifference
    if operation.name in ("softmax", "log_softmax"):
        return SoftmaxDifference
    return _OF_KINDS.get(operation.kind, DifferenceStep)


def is_compared(operation: Operation) -> bool:
    """Whether an operation has a multiplier; of all others the derivative serves."""
    return _form(operation) is not DifferenceStep
