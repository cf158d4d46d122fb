"""Capture: the model runs once, and each operation on activations is carried out so that methods can go back.

While a `Capture` is active, PyTorch hands it every function that the model calls (a `TorchFunctionMode`).
Functions on activations are run and recorded (`recording`); all others run as they are. Parameters, and
whatever is computed from them alone, are constants.

Which module is running: its path in the model, without a trace on the model.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode

from tellwhy.core.errors import UnsupportedModel
from tellwhy.explainers.propagation.engine.calls import (
    Call,
    Operation,
    all_tensors,
    map_tensors,
    operation_name,
    tensors_in,
)
from tellwhy.explainers.propagation.engine.decompositions import IN_ELEMENTS, WRITTEN_OUT
from tellwhy.explainers.propagation.engine.derivative_steps import HandoverStep
from tellwhy.explainers.propagation.engine.differences import Compared
from tellwhy.explainers.propagation.engine.kinds import KINDS, OTHERS
from tellwhy.explainers.propagation.engine.origins import Origin, Origins, depth_of, reaches
from tellwhy.explainers.propagation.engine.recording import run_and_record
from tellwhy.explainers.propagation.engine.steps import Current, Followed, Method, collected, tapped
from tellwhy.explainers.propagation.engine.tokens import Lookup, TokenPlaces, run_constant
from tellwhy.explainers.propagation.rules import Handover


class Places:
    """Relevance that came to each place, by its name: "path" of a module, or "path:operation"."""

    def __init__(self, names: Sequence[str]):
        self.found: dict[str, list[Tensor]] = {name: [] for name in names}

    def __bool__(self) -> bool:
        return bool(self.found)

    def after_operation(self, capture: Capture, operation: Operation, result: Any) -> Any:
        """Output of an operation, which is watched where that is asked for."""
        here = f"{operation.path}:{operation.name}"
        return map_tensors(partial(self._collect, capture, here), result) if here in self.found else result

    def after_module(self, capture: Capture, path: str, output: Any) -> Any:
        """Output of a module, which is watched where that is asked for; None where nothing changes."""
        if path not in self.found:
            return None
        with torch._C.DisableTorchFunction():
            return map_tensors(partial(self._collect, capture, path), output)

    def _collect(self, capture: Capture, place: str, tensor: Tensor) -> Tensor:
        newest = capture.origins.newest(tensor)
        if not capture.is_activation(newest):
            return tensor
        origin = capture.origins.of(newest)
        watched = collected(newest, self.found[place], capture.current)
        if origin is not None:
            capture.origins.keep(watched, origin)
        return watched


class OwnModules:
    """The user's functions: `functions` of single operations, `modules` by the path of each module.

    `inside` is the path of the module that is running, where it is one of these.
    """

    def __init__(self, capture: Capture, own: Sequence[Handover]):
        # A weak reference: a circle would keep all records of a batch until Python's next search for garbage.
        self._capture: Capture = weakref.proxy(capture)
        self.functions = [each for each in own if not isinstance(each.when, str)]
        self.modules = {each.when: each for each in own if isinstance(each.when, str)}
        self.inside = ""
        self._inputs: list[Tensor] = []

    def enter(self, path: str, args: Any) -> None:
        """Note the inputs of a module that begins to run."""
        if self.inside or path not in self.modules:
            return
        given = [self._capture.origins.newest(t) for t in all_tensors(args)]
        self._inputs = list({id(t): t for t in given if self._capture.is_activation(t)}.values())
        if self._inputs:
            self.inside = path

    def run(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Run an operation inside, which nobody looks at."""
        with torch.no_grad():
            return function(*args, **kwargs)

    def leave(self, path: str, output: Any) -> Tensor | None:
        """Make one step of the module that has run; None for all other modules."""
        if not self.inside or path != self.inside:
            return None
        self.inside = ""
        capture = self._capture
        if not isinstance(output, Tensor):
            capture.refuse(
                f"Module '{path}' returns a {type(output).__name__}: a Handover takes modules that return "
                "one tensor."
            )
        with torch._C.DisableTorchFunction():
            return self._step(path, output)

    def _step(self, path: str, output: Tensor) -> Tensor:
        capture = self._capture
        operation = Operation(0, "module", "own", path)
        origins = [capture.origins.of(t) for t in self._inputs]
        operation.before = tuple(origin.operation for origin in origins if origin is not None)
        inputs = capture.watch(operation, self._inputs)
        step = HandoverStep(operation, capture.current, self.modules[path])
        made = capture.record(operation, Followed.apply(step, lambda _: output.detach().clone(), *inputs))
        capture.origins.keep(made, Origin(operation, depth=depth_of(origins) + 1))
        self._inputs = []
        return made


class ModulePaths:
    """Path of the module whose forward is running in this thread.

    The hooks are PyTorch's process-wide ones: nothing is attached to the model, and they do nothing in other
    threads.
    """

    def __init__(self, model: Module):
        self._model = model
        self._running: list[Module] = []
        self._thread = threading.get_ident()
        self.on_enter: Callable[[str, Any], None] | None = None  # given the path and arguments of a module
        self.on_output: Callable[[str, Any], Any] | None = None  # given the path and output of a module

    @cached_property
    def _names(self) -> dict[int, str]:
        """Paths by module."""
        return {id(module): name for name, module in self._model.named_modules()}

    @property
    def current(self) -> str:
        """Path of the innermost running module that has a name in the model."""
        for module in reversed(self._running):
            if id(module) in self._names:
                return self._names[id(module)]
        return ""

    @contextmanager
    def followed(self) -> Iterator[ModulePaths]:
        """Follow the modules that run inside this block."""
        handles = [register_module_forward_pre_hook(self._enter), register_module_forward_hook(self._leave)]
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: Module, args: Any) -> None:
        if threading.get_ident() != self._thread:
            return
        self._running.append(module)
        if self.on_enter is not None and id(module) in self._names:
            self.on_enter(self._names[id(module)], args)

    def _leave(self, module: Module, args: Any, output: Any) -> Any:  # noqa: ARG002
        if threading.get_ident() != self._thread:
            return None
        # A module that raised, and was caught by the model, never left: it is dropped here.
        while self._running and self._running.pop() is not module:
            pass
        if self.on_output is None or id(module) not in self._names:
            return None
        return self.on_output(self._names[id(module)], output)


_COMPUTED = {
    "T",
    "mT",
    "H",
    "mH",
    "real",
    "imag",
}  # attributes of a tensor that are operations, unlike x.shape
# Attributes and methods that tell about a tensor and compute nothing, also after a change in place.
_QUERIES = frozenset(getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim"))
_QUERIES |= {Tensor.dim, Tensor.size, Tensor.is_floating_point, Tensor.__len__}
_INPUT = Operation(-1, "input", "copying", "")


class Capture(TorchFunctionMode):
    """Runs operations so that each of the methods can be carried out backwards, and records them.

    Parameters
    ----------
    methods
        The methods that will go back through the operations.
    paths
        Tells which module is running.
    ledger
        Whether each operation counts the relevance that arrives at it and that it hands on.
    tolerant
        Whether an operation without a rule is recorded instead of refused.

    Attributes
    ----------
    operations
        The recorded operations, in the order of execution.
    leaves
        Tensors that relevance is handed to, and the number of the input each one belongs to.
    tokens
        Inputs of whole numbers, by their number: their embeddings become leaves.
    token_places
        Where whole numbers that were made of tokens came from.
    lookups
        What was looked up for tokens, by the place of its leaf among the leaves.
    refusal
        The error that stopped the model.
    places
        Modules ("path") and operations ("path:operation") at whose outputs relevance is collected.
    must_verify
        Whether the model changed a tensor in place of which there was a view.
    not_rectifiers
        Activation functions that a method which replaces rectifiers has no word for.
    follows_rules
        Whether the methods have rules.
    compared
        States of a network on references, where differences to these are handed down.
    must_see
        Whether some method needs to know every operation.
    carries_relevance
        Whether relevance itself travels for some method, and not contributions.
    needs_layer_inputs
        Whether some method looks at the values that go into layers.
    """

    def __init__(
        self,
        methods: Sequence[Method],
        paths: ModulePaths,
        *,
        ledger: bool = False,
        tolerant: bool = False,
        places: Sequence[str] = (),
        compared: Compared | None = None,
    ):
        super().__init__()
        self.methods = methods
        self.current = Current(methods[0])
        self.paths = paths
        self.ledger = ledger
        self.tolerant = tolerant
        self.operations: list[Operation] = []
        self.leaves: list[tuple[Tensor, int]] = []
        self.tokens: dict[int, Tensor] = {}
        self.token_places: TokenPlaces | None = None
        self.lookups: dict[int, Lookup] = {}
        self.refusal: UnsupportedModel | None = None
        self.must_verify = False
        self.not_rectifiers: list[Operation] = []
        self.places = Places(places)
        self.own = OwnModules(self, [each for method in methods for each in method.own])
        if places or self.own.modules:
            paths.on_output = self._leave_module
        if self.own.modules:
            paths.on_enter = self.own.enter
        self.origins = Origins()
        self.kinds = KINDS.copy()
        for method in methods:
            self.kinds.update(method.operations)
        self.viewed: set[int] = set()  # where in memory those tensors are that have a view
        # Asked at every operation.
        self.follows_rules = any(method.follows_rules for method in methods)
        compares = methods[0].carries == "difference"
        self.compared = (compared or Compared()) if compares else None
        self._written = IN_ELEMENTS if compares else WRITTEN_OUT
        self.carries_relevance = any(method.carries == "relevance" for method in methods)
        self.needs_layer_inputs = any(method.needs_layer_inputs for method in methods)
        # Taps of the ledger and of places look at activations afterwards.
        self.may_overwrite = not ledger and not places and all(method.ignores_idle for method in methods)
        self.rectifies = any(method.rectifier is not None for method in methods)
        self.must_see = self.follows_rules or self.rectifies  # every operation
        self.constant_roles = frozenset().union(*(method.constant_roles for method in methods))

    def add_leaf(self, leaf: Tensor, number: int, *, nonnegative: bool = False) -> None:
        """Let a tensor be one that relevance is handed to, for the input of that number."""
        self.leaves.append((leaf, number))
        self.origins.keep(leaf, Origin(_INPUT, nonnegative=nonnegative))

    def is_activation(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on the explained input."""
        if not tensor.requires_grad:
            return False
        # Parameters require a gradient too, but have no grad_fn: only computed tensors have one.
        if tensor.is_leaf:
            return any(tensor is leaf for leaf, _ in self.leaves)
        # A model may keep what it computed of its parameters alone in an earlier call.
        return self.origins.of(tensor) is not None or reaches(tensor, [leaf for leaf, _ in self.leaves])

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one function that the model calls."""
        kwargs = kwargs or {}
        # In a module that is one step all runs as it is; queries, such as x.shape, are by far most frequent.
        if self.own.inside or func in _QUERIES:
            return self.own.run(func, args, kwargs) if self.own.inside else func(*args, **kwargs)
        if self.origins.has_replaced and self.origins.may_be_replaced(all_tensors((args, kwargs))):
            args = map_tensors(self.origins.newest, args)
            kwargs = map_tensors(self.origins.newest, kwargs)
        name, in_place = operation_name(func)
        is_query = getattr(func, "__name__", "") == "__get__" and name not in _COMPUTED
        # Under no_grad nothing depends on the input; an embedding of tokens is the exception.
        if is_query or (not torch.is_grad_enabled() and name != "embedding"):
            return func(*args, **kwargs)
        if name == "iter":  # `for row in x`: tensors that Python's iterator makes would not be seen
            return iter(self.__torch_function__(torch.Tensor.unbind, types, args))
        given = all_tensors((args, kwargs)) if kwargs else all_tensors(args)
        occurring = [t for t in given if self.is_activation(t)]
        activations = occurring if len(occurring) < 2 else list({id(t): t for t in occurring}.values())
        if not activations:
            return run_constant(self, Call(func, args, kwargs, name, False, []))
        in_place = in_place or bool(kwargs.get("inplace"))
        times = len(occurring)
        alone = times == len(given)
        call = Call(func, args, kwargs, name, in_place, activations, times, alone)
        written = self._written_out(call)
        return run_and_record(self, call) if written is None else written

    def run_constant(self, call: Call) -> Any:
        """Run a call that does not depend on the input."""
        with torch.no_grad():  # what depends on parameters alone is a constant
            return call.function(*call.args, **call.kwargs)

    def is_constant(self, tensor: Tensor) -> bool:
        """Whether a tensor does not depend on the explained input."""
        return not self.is_activation(tensor)

    def _written_out(self, call: Call) -> Any:
        """Result of a call that is several operations, each of them followed; None for all other calls."""
        if call.name not in self._written or not (self.must_see or self.compared):
            return None
        if call.name == "linear" and len(call.activations) == 1 and call.target is call.activations[0]:
            return None  # the most frequent one, as it should be
        if self.rectifies and call.name in OTHERS:
            return None
        with self:
            result = self._written[call.name](call, self.is_constant)
        if result is not None and call.in_place:
            self.origins.replace(call.target, result)
        return result

    def inputs_of_layer(self, output: Tensor) -> Sequence[Tensor]:
        """Inputs of the layer whose output this is."""
        origin = self.origins.of(output)
        return () if origin is None else origin.inputs

    def refuse(self, message: str) -> NoReturn:
        """Raise, and keep the error: Python's operators turn a TypeError into one of their own."""
        self.refusal = UnsupportedModel(message)
        raise self.refusal

    def watch(self, operation: Operation, activations: Sequence[Tensor]) -> list[Tensor]:
        """Inputs of an operation; for the ledger they count what the operation hands on to them."""
        if not self.ledger:
            return list(activations)
        return [tapped(t, operation, "handed_on", self.current) for t in activations]

    def record(self, operation: Operation, result: Any) -> Any:
        """Record an operation. Return its output, which for the ledger counts what arrives there."""
        outputs = tensors_in(result)
        operation.shape = tuple(outputs[0].shape) if outputs else ()
        operation.index = len(self.operations)
        self.operations.append(operation)
        if self.places:
            result = self.places.after_operation(self, operation, result)
        if not self.ledger or operation.kind == "unknown":
            return result

        def tap(tensor: Tensor) -> Tensor:
            return (
                tapped(tensor, operation, "arrived", self.current) if tensor.grad_fn is not None else tensor
            )

        return map_tensors(tap, result)

    def _leave_module(self, path: str, output: Any) -> Any:
        """Make one step of a module, and collect the relevance of its output, where that is asked for."""
        made = self.own.leave(path, output)
        watched = self.places.after_module(self, path, output if made is None else made)
        return made if watched is None else watched
