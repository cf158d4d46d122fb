"""Capture of operations: the model runs once, and each operation on activations is replaced by one with a rule.

An activation is a tensor that depends on the explained input. Parameters, and whatever is computed from them
alone, are constants. Operations that change a tensor in place are carried out on a copy that takes its place.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tellwhy.core.errors import UnsupportedModel
from tellwhy.explainers.propagation.engine.calls import Call, all_tensors, map_tensors, tensors_in
from tellwhy.explainers.propagation.engine.follow import follow
from tellwhy.explainers.propagation.engine.methods import Current, Method
from tellwhy.explainers.propagation.engine.module_paths import ModulePaths
from tellwhy.explainers.propagation.engine.operations import (
    Operation,
    is_nonnegative,
    kind_of,
    operation_name,
)
from tellwhy.explainers.propagation.engine.steps import Tap

_TRANSPOSED_VIEWS = {"T", "mT", "H", "mH"}
_INPUT = Operation(-1, "input", "copying", "")


@dataclass(frozen=True)
class Origin:
    """Where an activation came from.

    `depth` counts the layers on the longest way to it; `inputs` are kept where it is a layer's output.
    """

    operation: Operation
    depth: int = 0
    nonnegative: bool = False
    inputs: tuple[Tensor, ...] = ()


def depth_of(origins: Sequence[Origin | None]) -> int:
    """Layers on the longest way to some activations."""
    return max((origin.depth for origin in origins if origin is not None), default=0)


class Capture(TorchFunctionMode):
    """Runs operations so that each of the methods can be carried out backwards, and keeps a record of each."""

    def __init__(
        self, methods: Sequence[Method], paths: ModulePaths, *, ledger: bool = False, tolerant: bool = False
    ):
        super().__init__()
        self.methods = methods
        self.current = Current(methods[0])
        self.paths = paths
        self.ledger = ledger
        self.tolerant = tolerant
        self.operations: list[Operation] = []
        self.leaves: list[tuple[Tensor, int]] = []  # and the number of the input it belongs to
        self.tokens: dict[int, Tensor] = {}
        self.refusal: UnsupportedModel | None = None
        self.must_verify = False
        self._origins: dict[int, tuple[weakref.ref[Tensor], Origin]] = {}
        self._replaced: dict[int, tuple[weakref.ref[Tensor], Tensor]] = {}
        self._viewed: set[int] = set()

    @property
    def follows_rules(self) -> bool:
        """Whether some method is more than a gradient."""
        return any(method.carries != "gradient" for method in self.methods)

    def origin(self, tensor: Tensor) -> Origin | None:
        """Return where an activation came from."""
        kept = self._origins.get(id(tensor))
        return kept[1] if kept is not None and kept[0]() is tensor else None

    def newest(self, tensor: Tensor) -> Tensor:
        """Return what in-place operations made of a tensor."""
        while (kept := self._replaced.get(id(tensor))) is not None and kept[0]() is tensor:
            tensor = kept[1]
        return tensor

    def add_leaf(self, leaf: Tensor, number: int, *, nonnegative: bool = False) -> None:
        """Let a tensor be one that relevance is handed to, for an input of that number."""
        self.leaves.append((leaf, number))
        self._origins[id(leaf)] = (weakref.ref(leaf), Origin(_INPUT, nonnegative=nonnegative))

    def is_activation(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on the explained input."""
        return tensor.requires_grad and (
            tensor.grad_fn is not None or any(tensor is leaf for leaf, _ in self.leaves)
        )

    def forget(self) -> None:
        """Let go of the activations, once the model has run: the backward pass frees them one by one."""
        self._origins.clear()
        self._replaced.clear()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation."""
        kwargs = kwargs or {}
        given = all_tensors((args, kwargs))
        if any(id(t) in self._replaced for t in given):
            args, kwargs = map_tensors(self.newest, args), map_tensors(self.newest, kwargs)
            given = all_tensors((args, kwargs))
        name, in_place = operation_name(func)
        is_query = getattr(func, "__name__", "") == "__get__" and name not in _TRANSPOSED_VIEWS
        if is_query or (not torch.is_grad_enabled() and name != "embedding"):
            return func(*args, **kwargs)
        if name == "iter":
            return iter(self.__torch_function__(torch.Tensor.unbind, types, args))
        occurring = [t for t in given if self.is_activation(t)]
        activations = list({id(t): t for t in occurring}.values())
        if not activations:
            with torch.no_grad():
                result = func(*args, **kwargs)
            return self._token_leaf(args, kwargs, result) if name == "embedding" else result
        in_place = in_place or bool(kwargs.get("inplace"))
        times = len(occurring)
        return self._run(Call(func, args, kwargs, name, in_place, activations, times, times == len(given)))

    def _token_leaf(self, args: Any, kwargs: Any, embedded: Tensor) -> Tensor:
        """Let the embedding of explained tokens be the input that relevance is handed to."""
        looked_up = args[0] if args else kwargs["input"]
        for number, tokens in self.tokens.items():
            if looked_up.data_ptr() == tokens.data_ptr() and looked_up.shape == tokens.shape:
                leaf = embedded.detach().requires_grad_()
                self.add_leaf(leaf, number)
                return leaf
            if looked_up.untyped_storage().data_ptr() == tokens.untyped_storage().data_ptr():
                self.refuse(
                    f"The embedding in module '{self.paths.current}' looks up a part or another order of the tokens, "
                    f"of shape {tuple(looked_up.shape)}: their relevance cannot be told apart. Change the embedding "
                    "instead of the tokens."
                )
        return embedded

    def _run(self, call: Call) -> Any:
        kind = kind_of(call.name, call.times, call.args, call.kwargs)
        if (kind in ("layer", "normalisation") or call.name == "div") and call.target is not call.activations[
            0
        ]:
            kind = "unknown"  # the weights, or the divisor, depend on the input
        if kind == "addition" and len(call.activations) != call.times:
            kind = "mixing"  # x + x
        origins = [self.origin(t) for t in call.activations]
        operation = Operation(
            len(self.operations), call.name, kind, self.paths.current, depth_of(origins) == 0
        )
        self._check_seen(call, operation, origins)
        if kind == "unknown":
            result = call.run(call.activations)
            if not any(self.is_activation(t) for t in tensors_in(result)):
                return result
            self._note_unknown(operation)
        else:
            self._check_evaluation_mode(call, operation)
            result = follow(self, call, operation, origins)
        result = self.record(operation, result)
        self._keep(call, operation, result, origins)
        return result

    def refuse(self, message: str) -> NoReturn:
        """Raise, and keep the error: Python's operators turn a TypeError into one of their own."""
        self.refusal = UnsupportedModel(message)
        raise self.refusal

    def _note_unknown(self, operation: Operation) -> None:
        if self.follows_rules and not self.tolerant:
            self.refuse(
                f"There is no rule for {operation.where} (operation {operation.index}), which is not linear. Write the "
                f"model with operations that have one (`coverage(model, x)` lists those met), or name its kind: "
                f"`tellwhy.explainers.propagation.KINDS[{operation.name!r}] = 'elementwise'` for a function of single "
                "elements; docs/write-your-own-rule.md says how. Gradient and SmoothGrad need no rules."
            )

    def _check_seen(self, call: Call, operation: Operation, origins: Sequence[Origin | None]) -> None:
        for tensor, origin in zip(call.activations, origins, strict=True):
            if origin is None and tensor.grad_fn is not None and self.follows_rules:
                self.refuse(
                    f"An input of {operation.where} (operation {operation.index}) was computed where it cannot be "
                    "seen: in a scripted or compiled module, or in an autograd.Function. Use the plain module there."
                )

    def _check_evaluation_mode(self, call: Call, operation: Operation) -> None:
        if call.in_training_mode:
            self.refuse(
                f"{operation.where} runs in training mode although the model is in evaluation mode: its output depends "
                "on chance or on the other rows. Pass training=self.training there."
            )

    def watch(self, operation: Operation, activations: Sequence[Tensor]) -> list[Tensor]:
        """Inputs of an operation, for the ledger with a look at what it hands on to them."""
        if not self.ledger:
            return list(activations)
        return [Tap.apply(t, self._book(operation, "handed_on")) for t in activations]

    def record(self, operation: Operation, result: Any) -> Any:
        """Enter an operation into the record; its output, for the ledger with a look at what arrives there."""
        outputs = tensors_in(result)
        operation.shape = tuple(outputs[0].shape) if outputs else ()
        operation.index = len(self.operations)
        self.operations.append(operation)
        if not self.ledger or operation.kind == "unknown":
            return result
        note = self._book(operation, "arrived")
        return map_tensors(lambda t: Tap.apply(t, note) if t.grad_fn is not None else t, result)

    def _book(self, operation: Operation, column: str) -> Callable[[Tensor, Tensor], None]:
        def note(cotangent: Tensor, x: Tensor) -> None:
            relevance = cotangent if self.current.method.carries == "relevance" else cotangent * x
            setattr(operation, column, getattr(operation, column) + float(relevance.sum(dtype=torch.float64)))

        return note

    def _keep(self, call: Call, operation: Operation, result: Any, origins: Sequence[Origin | None]) -> None:
        """Keep the origin of the outputs, and what an in-place change replaced."""
        outputs = tensors_in(result)
        made = self._origin(call, operation, origins)
        for tensor in outputs:
            self._origins[id(tensor)] = (weakref.ref(tensor), made)
        if operation.kind == "copying":
            views = (t for t in outputs if t._is_view() or call.name == "view")
            self._viewed.update(t.untyped_storage().data_ptr() for t in views)
        if call.in_place:
            target = call.target
            self.must_verify |= target.untyped_storage().data_ptr() in self._viewed
            if outputs and outputs[0] is not target:
                self._replaced[id(target)] = (weakref.ref(target), outputs[0])

    def _origin(self, call: Call, operation: Operation, origins: Sequence[Origin | None]) -> Origin:
        depth = depth_of(origins) + (operation.kind == "layer")
        inputs_are = (
            call.only_activations
            and "alpha" not in call.kwargs
            and all(o is not None and o.nonnegative for o in origins)
        )
        nonnegative = is_nonnegative(call.name, operation.kind, inputs_are=inputs_are)
        keeps_inputs = operation.layer is not None or "softmax" in call.name
        return Origin(operation, depth, nonnegative, tuple(call.activations) if keeps_inputs else ())
