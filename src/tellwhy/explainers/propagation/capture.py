"""Capture of operations: the model runs once, and each operation on activations is replaced by one with a rule.

An activation is a tensor that depends on the explained input. Parameters, and whatever is computed from them alone,
are constants. Operations that change a tensor in place are carried out on a copy that takes its place.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tellwhy.core.errors import UnsupportedModel
from tellwhy.explainers.propagation import passes
from tellwhy.explainers.propagation.calls import Call, batch_norm_line, map_tensors, tensors_in
from tellwhy.explainers.propagation.composites import Composite
from tellwhy.explainers.propagation.layers import LinearMap, read_layer
from tellwhy.explainers.propagation.module_paths import ModulePaths
from tellwhy.explainers.propagation.operations import Operation, kind_of, operation_name

_TRANSPOSED_VIEWS = {"T", "mT", "H", "mH"}


@dataclass(frozen=True)
class Method:
    """What travels backwards, and how.

    `carries` is "gradient" (plain derivatives), "contribution" (c = R/a) or "relevance" (R, where some rule gives
    relevance to zeros). `rectifier` replaces the backward pass of ReLU where gradients travel. `merge` takes batch
    norm and the layer before it as one layer. `multiply` multiplies what reaches the input by the input.
    """

    carries: str
    composite: Composite | None = None
    rectifier: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
    merge: bool = True
    multiply: bool = False


@dataclass(frozen=True)
class Origin:
    """Where an activation came from."""

    after_layer: bool
    operation: Operation
    inputs: tuple[Tensor, ...] = ()
    layer: LinearMap | None = None


class Capture(TorchFunctionMode):
    """Runs operations under the rules of a method and keeps a record of each."""

    def __init__(self, method: Method, paths: ModulePaths, *, ledger: bool = False, tolerant: bool = False):
        super().__init__()
        self.method = method
        self.paths = paths
        self.ledger = ledger
        self.tolerant = tolerant
        self.operations: list[Operation] = []
        self.leaves: list[Tensor] = []
        self.tokens: Tensor | None = None
        self.refusal: UnsupportedModel | None = None
        self.must_verify = False
        self._origins: dict[int, tuple[weakref.ref[Tensor], Origin]] = {}
        self._replaced: dict[int, tuple[Tensor, Tensor]] = {}
        self._viewed: set[int] = set()

    def origin(self, tensor: Tensor) -> Origin | None:
        """Return where an activation came from."""
        kept = self._origins.get(id(tensor))
        return kept[1] if kept is not None and kept[0]() is tensor else None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation."""
        args, kwargs = map_tensors(self._newest, args), map_tensors(self._newest, kwargs or {})
        name, in_place = operation_name(func)
        is_query = getattr(func, "__name__", "") == "__get__" and name not in _TRANSPOSED_VIEWS
        if is_query or (not torch.is_grad_enabled() and name != "embedding"):
            return func(*args, **kwargs)
        if name == "iter":
            return iter(self.__torch_function__(torch.Tensor.unbind, types, args))
        activations = [t for t in tensors_in((args, kwargs)) if self._is_activation(t)]
        if not activations:
            with torch.no_grad():
                result = func(*args, **kwargs)
            return self._token_leaf(args, result) if name == "embedding" else result
        return self._run(Call(func, args, kwargs, name, in_place or bool(kwargs.get("inplace")), activations))

    def _newest(self, tensor: Tensor) -> Tensor:
        while id(tensor) in self._replaced:
            tensor = self._replaced[id(tensor)][1]
        return tensor

    def _is_activation(self, tensor: Tensor) -> bool:
        return tensor.requires_grad and (tensor.grad_fn is not None or any(tensor is leaf for leaf in self.leaves))

    def _token_leaf(self, args: Any, embedded: Tensor) -> Tensor:
        """Let the embedding of the explained tokens be the input that relevance is handed to."""
        if self.tokens is None or args[0].data_ptr() != self.tokens.data_ptr():
            return embedded
        leaf = embedded.detach().requires_grad_()
        self.leaves.append(leaf)
        return leaf

    def _run(self, call: Call) -> Any:
        kind = kind_of(call.name, self._times(call), call.args, call.kwargs)
        if (kind == "layer" or call.name == "div") and call.target is not call.activations[0]:
            kind = "unknown"  # the weights, or the divisor, depend on the input
        origins = [self.origin(t) for t in call.activations]
        after = any(o.after_layer for o in origins if o is not None)
        operation = Operation(len(self.operations), call.name, kind, self.paths.current, first=not after)
        self._check_seen(call, operation, origins)
        if kind == "unknown":
            result = call.run(call.activations)
            if not any(self._is_activation(t) for t in tensors_in(result)):
                return result
            self._note_unknown(operation)
        else:
            self._check_evaluation_mode(call, operation)
            result = self._with_rule(call, operation, origins[0])
        self._keep(call, operation, result, after)
        return result

    def _times(self, call: Call) -> int:
        """How often activations occur among the arguments: twice in x·x."""
        found: list[Tensor] = []
        map_tensors(lambda t: found.append(t) or t, (call.args, call.kwargs))  # type: ignore[func-returns-value]
        return sum(self._is_activation(t) for t in found)

    def _refuse(self, message: str) -> NoReturn:
        """Raise, and keep the error: Python's operators turn a TypeError into one of their own."""
        self.refusal = UnsupportedModel(message)
        raise self.refusal

    def _note_unknown(self, operation: Operation) -> None:
        if self.method.carries != "gradient" and not self.tolerant:
            self._refuse(
                f"There is no rule for {operation.where} (operation {operation.index}), which is not linear. Write the "
                f"model with operations that have one (`coverage(model, x)` lists those met), or name its kind: "
                f"`tellwhy.explainers.propagation.KINDS[{operation.name!r}] = 'elementwise'` for a function of single "
                "elements; docs/networks.md says how. Gradient and SmoothGrad need no rules."
            )

    def _check_seen(self, call: Call, operation: Operation, origins: list[Origin | None]) -> None:
        for tensor, origin in zip(call.activations, origins, strict=True):
            if origin is None and tensor.grad_fn is not None and self.method.carries != "gradient":
                self._refuse(
                    f"An input of {operation.where} (operation {operation.index}) was computed where it cannot be "
                    "seen: in a scripted or compiled module, or in an autograd.Function. Use the plain module there."
                )

    def _check_evaluation_mode(self, call: Call, operation: Operation) -> None:
        if call.in_training_mode:
            self._refuse(
                f"{operation.where} runs in training mode although the model is in evaluation mode: its output depends "
                "on chance or on the other rows. Pass training=self.training there."
            )

    def _with_rule(self, call: Call, operation: Operation, origin: Origin | None) -> Any:
        """Run the operation with taps for the ledger around it."""
        activations = list(call.activations)
        merged = self._merged_layer(call, operation, origin)
        if merged is not None and origin is not None:
            activations = list(origin.inputs)
        if self.ledger:
            activations = [passes.Tap.apply(t, self._book(operation, "handed_on")) for t in activations]
        if merged is not None:
            result = self._layer(activations[0], merged, operation, lambda _: call.run_detached())
        elif operation.kind == "layer":
            layer = read_layer(call.name, call.args, call.kwargs)[1]
            result = self._layer(activations[0], layer, operation, lambda x: call.run([x]))
        else:
            result = self._without_weights(call, operation, activations)
        if self.ledger:
            result = map_tensors(self._booked(operation), result)
        return result

    def _layer(self, x: Tensor, layer: LinearMap, operation: Operation, compute: Callable[[Tensor], Tensor]) -> Tensor:
        if self.method.carries == "gradient":
            return compute(x)
        step = passes.LayerStep(compute, layer, operation, self.method.carries == "relevance")
        return passes.LayerPass.apply(x, step)

    def _without_weights(self, call: Call, operation: Operation, activations: list[Tensor]) -> Any:
        carries, kind = self.method.carries, operation.kind
        if carries == "gradient":
            if call.name == "relu" and self.method.rectifier is not None:
                return passes.ElementPass.apply(activations[0], lambda z: call.run([z]), self.method.rectifier)
            return call.run(activations)
        if kind == "elementwise" or (kind == "rectifier" and carries == "relevance"):
            hand_down = passes.unchanged if carries == "relevance" else passes.ratio
            result = passes.ElementPass.apply(activations[0], lambda z: call.run([z]), hand_down)
            if result.shape != activations[0].shape:
                self._refuse(f"{operation.where} broadcasts an activation; expand it to the full shape first.")
            return result
        if kind == "product":
            activations = [passes.Tap.apply(t, passes.half) for t in activations]
        if carries == "relevance" and kind in ("mixing", "product"):
            result = call.run([passes.Tap.apply(t, passes.to_relevance) for t in activations])
            return passes.Tap.apply(result, passes.to_contribution)
        return call.run(activations)

    def _merged_layer(self, call: Call, operation: Operation, origin: Origin | None) -> LinearMap | None:
        """Take batch norm and the layer whose output it normalises as one layer."""
        if call.name != "batch_norm" or not self.method.merge or self.method.carries == "gradient":
            return None
        if origin is None or origin.layer is None or (origin.layer.name == "linear" and call.activations[0].ndim != 2):
            return None
        layer = origin.layer.scaled(*batch_norm_line(call))
        if layer is not None:
            origin.operation.merged = True
            operation.name, operation.kind = f"{origin.operation.name} + batch_norm", "layer"
            operation.first = origin.operation.first
        return layer

    def _book(self, operation: Operation, column: str) -> Callable[[Tensor, Tensor], Tensor]:
        def note(cotangent: Tensor, x: Tensor) -> Tensor:
            relevance = cotangent if self.method.carries == "relevance" else cotangent * x
            setattr(operation, column, getattr(operation, column) + float(relevance.sum(dtype=torch.float64)))
            return cotangent

        return note

    def _booked(self, operation: Operation) -> Callable[[Tensor], Tensor]:
        note = self._book(operation, "arrived")
        return lambda t: passes.Tap.apply(t, note) if t.grad_fn is not None else t

    def _keep(self, call: Call, operation: Operation, result: Any, after: bool) -> None:
        """Record the operation, the origin of its outputs, and what an in-place change replaced."""
        self.operations.append(operation)
        outputs = tensors_in(result)
        operation.shape = tuple(outputs[0].shape) if outputs else ()
        layer = None
        inputs: tuple[Tensor, ...] = ()
        if operation.kind == "layer" and not operation.name.endswith("batch_norm"):
            layer = read_layer(call.name, call.args, call.kwargs)[1]
        if layer is not None or "softmax" in operation.name:
            inputs = tuple(call.activations)
        origin = Origin(after or operation.kind == "layer", operation, inputs, layer)
        for tensor in outputs:
            self._origins[id(tensor)] = (weakref.ref(tensor), origin)
        if operation.kind == "copying":
            self._viewed.update(t.untyped_storage().data_ptr() for t in outputs if t._is_view())
        if call.in_place:
            target = call.target
            self.must_verify |= target.untyped_storage().data_ptr() in self._viewed
            if outputs and outputs[0] is not target:
                self._replaced[id(target)] = (target, outputs[0])
