"""Capture: the model runs once, and each operation on activations is carried out so that methods can go back.

While a `Capture` is active, PyTorch hands it every function that the model calls (a `TorchFunctionMode`).
Functions on activations are run and recorded (`recording`), or repeated as an earlier batch ran them
(`inside.course`); all others run as they are. Parameters, and whatever is computed from them alone, are
constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from tellwhy.core.errors import UnsupportedModel
from tellwhy.explainers.propagation.engine.methods import Current, Method
from tellwhy.explainers.propagation.engine.origins import Origin, Origins, reaches
from tellwhy.explainers.propagation.engine.recording import run_and_record
from tellwhy.explainers.propagation.engine.taps import tapped
from tellwhy.explainers.propagation.inside.course import (
    Course,
    inputs_of_layer,
)
from tellwhy.explainers.propagation.inside.module_paths import ModulePaths
from tellwhy.explainers.propagation.inside.own_modules import OwnModules
from tellwhy.explainers.propagation.inside.places import Places
from tellwhy.explainers.propagation.inside.token_places import TokenPlaces
from tellwhy.explainers.propagation.inside.tokens import Lookup, run_constant, token_leaf
from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.operations.histories import Histories
from tellwhy.explainers.propagation.operations.kinds import KINDS
from tellwhy.explainers.propagation.operations.nested import all_tensors, map_tensors, tensors_in
from tellwhy.explainers.propagation.operations.operation import Operation, operation_name
from tellwhy.explainers.propagation.operations.rectifiers import OTHERS
from tellwhy.explainers.propagation.spellings.table import WRITTEN_OUT

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
    follows_rules, has_gradients
        Whether some method is more than a gradient; whether some method is one, which needs every derivative.
    must_see
        Whether some method needs to know every operation.
    carries_relevance
        Whether relevance itself travels for some method, and not contributions.
    needs_layer_inputs
        Whether some method looks at the values that go into layers.
    course, repeats
        The course that this batch is noted in, and that of an earlier batch which it repeats.
    is_repeatable
        Whether later batches may repeat what is done here.
    """

    histories: Histories | None = None  # kept by a capture for explanations that are differentiated

    def __init__(
        self,
        methods: Sequence[Method],
        paths: ModulePaths,
        *,
        ledger: bool = False,
        tolerant: bool = False,
        places: Sequence[str] = (),
    ):
        super().__init__()
        self.methods = methods
        self.current = Current(methods[0], histories=self.histories)
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
        self.follows_rules = any(method.carries != "gradient" for method in methods)
        self.has_gradients = any(method.carries == "gradient" for method in methods)
        self.carries_relevance = any(method.carries == "relevance" for method in methods)
        self.needs_layer_inputs = any(method.needs_layer_inputs for method in methods)
        # Taps of the ledger and of places look at activations afterwards.
        self.may_overwrite = not ledger and not places and all(method.ignores_idle for method in methods)
        self.rectifies = any(method.rectifier is not None for method in methods)
        self.must_see = self.follows_rules or self.rectifies  # every operation
        self.course: Course | None = None
        self.repeats: Course | None = None
        self.n_repeated = 0
        watches = ledger or tolerant or bool(places) or self.rectifies or self.histories is not None
        self.is_repeatable = not watches and not any(method.own for method in methods)
        self.constant_roles = frozenset().union(*(method.constant_roles for method in methods))

    def add_leaf(self, leaf: Tensor, number: int, *, nonnegative: bool = False) -> None:
        """Let a tensor be one that relevance is handed to, for the input of that number."""
        self.leaves.append((leaf, number))
        course = self.repeats or self.course
        if course is not None:
            course.place_leaf(leaf, len(self.leaves))
        self.origins.keep(leaf, Origin(_INPUT, nonnegative=nonnegative))

    def repeat(self, course: Course) -> None:
        """Take the course of an earlier batch, whose operations and steps serve again."""
        assert course.current is not None
        course.start()
        self.repeats = course
        self.operations = course.operations
        self.current = course.current

    def is_activation(self, tensor: Tensor) -> bool:
        """Whether a tensor depends on the explained input."""
        if not tensor.requires_grad:
            return False
        # Parameters require a gradient too, but have no grad_fn: only computed tensors have one.
        if tensor.is_leaf:
            return any(tensor is leaf for leaf, _ in self.leaves)
        if self.repeats is not None and self.repeats.place_of(tensor) is not None:
            return True
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
        if self.repeats is not None and torch.is_grad_enabled():
            turn, found = self.repeats.turn_of(self.n_repeated, func, args, kwargs)
            if turn is not None:
                self.n_repeated += 1
                return self.repeats.take(self, turn, args, kwargs, found)
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
            return run_constant(self, Call(func, args, kwargs, name, False, [], histories=self.histories))
        in_place = in_place or bool(kwargs.get("inplace"))
        times = len(occurring)
        alone = times == len(given)
        call = Call(func, args, kwargs, name, in_place, activations, times, alone, self.histories)
        written = self._written_out(call)
        return run_and_record(self, call) if written is None else written

    def run_constant(self, call: Call) -> Any:
        """Run a call that does not depend on the input."""
        with torch.no_grad():  # what depends on parameters alone is a constant
            return call.function(*call.args, **call.kwargs)

    def is_constant(self, tensor: Tensor) -> bool:
        """Whether a tensor does not depend on the explained input."""
        return not self.is_activation(tensor)

    def token_leaf(self, call: Call, embedded: Tensor) -> Tensor:
        """Return the embedding of tokens: a leaf, where it is of explained ones."""
        return token_leaf(self, call, embedded)

    def _written_out(self, call: Call) -> Any:
        """Result of a call that is several operations, each of them followed; None for all other calls."""
        if call.name not in WRITTEN_OUT or not self.must_see:
            return None
        if call.name == "linear" and len(call.activations) == 1 and call.target is call.activations[0]:
            return None  # the most frequent one, as it should be
        if self.rectifies and call.name in OTHERS:
            return None
        with self:
            result = WRITTEN_OUT[call.name](call, self.is_constant)
        if result is not None and call.in_place:
            self.origins.replace(call.target, result)
        return result

    def run_unknown(self, call: Call, operation: Operation) -> Any:  # noqa: ARG002
        """Run an operation without a rule."""
        return call.run(call.activations)

    def inputs_of_layer(self, output: Tensor) -> Sequence[Tensor]:
        """Inputs of the layer whose output this is."""
        if self.repeats is not None:
            return inputs_of_layer(output)
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
