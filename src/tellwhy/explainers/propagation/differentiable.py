"""Explanations that can be differentiated, with respect to the input and to the network's parameters.

The model runs once, under a capture that keeps for each activation a tensor with its history. The way down is
then made of functions of these tensors, and autograd records it like any other computation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.attention import SDPBackend, sdpa_kernel

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.explainers.propagation.batches import batches, finish_on_device
from tellwhy.explainers.propagation.engine.calls import Call, Histories, Operation, map_tensors
from tellwhy.explainers.propagation.engine.capture import Capture, ModulePaths
from tellwhy.explainers.propagation.engine.derivative_steps import remembered
from tellwhy.explainers.propagation.engine.methods import Method
from tellwhy.explainers.propagation.engine.passes import (
    DETACHED,
    Forward,
    captured_forward,
    choose_rules,
    values_of,
)
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_passes import (
    CheckedTarget,
    TrailingSoftmax,
    check_target,
    chosen_outputs,
    of_rows,
    pick_scores,
    untouched,
)

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.base import NetworkExplainer, Pass


class RememberingCapture(Capture):
    """A capture that keeps the history of each activation; `given` are the inputs of floats, by number."""

    def __init__(self, methods: Sequence[Method], paths: ModulePaths, given: Mapping[int, Tensor]):
        self.kept = Histories()
        self.histories = self.kept
        self._given = given
        super().__init__(methods, paths)

    def add_leaf(self, leaf: Tensor, number: int, *, nonnegative: bool = False) -> None:
        """Let a tensor be one that relevance is handed to: a copy of an input, or tokens' embedding."""
        super().add_leaf(leaf, number, nonnegative=nonnegative)
        if number in self._given:
            self.kept.keep(leaf, self._given[number])

    def is_activation(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on the explained input, and not on parameters alone."""
        return not self.kept.is_constant(tensor) and super().is_activation(tensor)

    def run_constant(self, call: Call) -> Any:
        """What depends on parameters alone gets no relevance, and is differentiated all the same."""
        result = call.function(*call.args, **call.kwargs)
        return map_tensors(lambda t: self.kept.keep_constant(t) if t.requires_grad else t, result)

    def run_unknown(self, call: Call, operation: Operation) -> Any:
        """Gradients need no rule: the derivative serves."""
        if self.follows_rules:
            return super().run_unknown(call, operation)
        return remembered(self.current, call, operation, call.activations)

    def token_leaf(self, call: Call, embedded: Tensor) -> Tensor:
        """Return the embedding of tokens, which the embedding's weights have made."""
        leaf = super().token_leaf(call, embedded)
        if leaf is embedded:
            return leaf
        return self.kept.keep(leaf, embedded if embedded.requires_grad else leaf.detach().requires_grad_())


def explain_differentiably(explainer: NetworkExplainer, X: Any) -> Any:
    """Explain X; values and scores are tensors whose history goes back to X and to the parameters."""
    model, rows = explainer.prepare(X)
    _check(explainer, model)
    rows = _attached(rows, X)
    target = check_target(explainer.target, len(rows))
    parts = []
    label = f"explaining with {type(explainer).__name__}"
    with untouched(rows.tensors[0].device), torch.enable_grad():
        for batch, part in batches(rows, explainer.rows_at_once, label):
            parts.append(_explained(explainer.passes(), model, batch, of_rows(target, part)))
            if not all(bool(v.detach().isfinite().all()) for v in (*parts[-1].values, parts[-1].scores)):
                explainer.raise_not_finite(model, batch)
        whole = _joined(parts)
    return finish_on_device(explainer, X, rows, whole, target)


def _check(explainer: NetworkExplainer, model: Module) -> None:
    """Refuse what has no derivative, or one that would not reach the parameters."""
    name = type(explainer).__name__
    if not explainer.goes_down_only:
        raise InvalidInput(
            f"An explanation by {name} cannot be differentiated. Gradient, InputTimesGradient, LRP, "
            "DeepTaylor and ExcitationBackprop can be."
        )
    ways = explainer.passes()
    if any(way.method.own for way in ways):
        raise InvalidInput(
            f"{name} with functions of your own (own=...) cannot be differentiated: leave them out, or write "
            "a Rule."
        )
    if not {id(p) for p in explainer.model.parameters()} <= {id(p) for p in model.parameters()}:
        raise InvalidInput(
            f"{name}(device={str(explainer.device)!r}) works on a copy of the model, whose parameters are "
            "other ones: move the model there yourself (model.to(...)) to differentiate the explanation."
        )


def _attached(rows: Inputs, X: Any) -> Inputs:
    """The inputs with the histories that they were given with."""
    given = [
        g.to(t.device) if isinstance(g, Tensor) and g.requires_grad else t
        for g, t in zip(rows.given(X), rows.tensors, strict=True)
    ]
    return replace(rows, tensors=tuple(given))


def _explained(ways: Sequence[Pass], model: Module, rows: Inputs, target: CheckedTarget) -> Result:
    """Explain a batch: gradients by PyTorch's own path where that can be, all else under capture."""
    # Of an input without a history the derivatives on the way are asked for all the same.
    given = [
        t if t.requires_grad or not t.is_floating_point() else t.detach().requires_grad_()
        for t in rows.tensors
    ]
    is_plain = all(t.is_floating_point() for t in given) and all(way.method.is_gradient for way in ways)
    if is_plain:
        try:
            return _gradients(ways, model, replace(rows, tensors=tuple(given)), target)
        except RuntimeError as error:
            if "inplace operation" not in str(error):  # what autograd kept: capture works on copies
                raise
    floats = {k: t for k, t in enumerate(given) if t.is_floating_point()}
    capture = RememberingCapture([way.method for way in ways], ModulePaths(model), floats)
    try:
        forward = captured_forward(model, rows, capture)
        seen = capture.kept.of(forward.outputs)
        return _summed(ways, target, seen, forward.softmax, partial(_down, forward, seen))
    finally:
        capture.kept.clear()


def _gradients(ways: Sequence[Pass], model: Module, rows: Inputs, target: CheckedTarget) -> Result:
    """Explain a batch by plain derivatives."""
    leaves = [t.view_as(t) for t in rows.tensors]
    watch = TrailingSoftmax()
    with watch, sdpa_kernel(SDPBackend.MATH):  # the fast kernels of attention have no second derivative
        made = rows.apply(model, [t.clone() for t in leaves])
    outputs, softmax = watch.left_out(made)
    if not isinstance(outputs, Tensor) or outputs.grad_fn is None:
        raise UnsupportedModel(f"{type(model).__name__} cannot be explained. {DETACHED}")

    def down(way: Pass, cotangent: Tensor) -> list[Tensor]:
        found = torch.autograd.grad(outputs, leaves, cotangent, create_graph=True, materialize_grads=True)
        return [c * x if way.method.multiply else c for c, x in zip(found, leaves, strict=True)]

    return _summed(ways, target, outputs, softmax, down)


def _summed(
    ways: Sequence[Pass],
    target: CheckedTarget,
    outputs: Tensor,
    softmax: str,
    down: Callable[[Pass, Tensor], list[Tensor]],
) -> Result:
    """Sum of all ways down, from outputs with a history."""
    values: list[Tensor] = []
    start = outputs.view_as(outputs)
    scores = pick_scores(start, target)
    for way in ways:
        (cotangent,) = torch.autograd.grad(scores, start, way.seed(scores), create_graph=True)
        parts = [way.weight * v for v in down(way, cotangent)]
        values = [a + b for a, b in zip(values, parts, strict=True)] if values else parts
    return Result(values, scores, chosen_outputs(outputs, target), softmax)


def _down(forward: Forward, outputs: Tensor, way: Pass, cotangent: Tensor) -> list[Tensor]:
    """One way down under capture."""
    capture = forward.capture
    choose_rules(capture, way.method, is_last=False)
    if way.method.carries == "relevance":
        cotangent = cotangent * outputs
    leaves = [leaf for leaf, _ in capture.leaves]
    found = torch.autograd.grad(forward.outputs, leaves, cotangent, create_graph=True, allow_unused=True)
    if all(part is None for part in found):
        raise UnsupportedModel(DETACHED)
    return values_of(forward, way.method, found)


def _joined(parts: Sequence[Result]) -> Result:
    """Results of all batches as one."""
    if len(parts) == 1:
        return parts[0]
    values = [torch.cat(pieces) for pieces in zip(*(part.values for part in parts), strict=True)]
    scores = torch.cat([part.scores for part in parts])
    return Result(values, scores, torch.cat([part.outputs for part in parts]), parts[0].softmax)
