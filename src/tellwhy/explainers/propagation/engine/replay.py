"""The course that a model took with one batch, taken again with the next ones without deciding anew.

What becomes of an operation depends on its function, its settings, and where its inputs came from. Batches of
the same shape nearly always take the same course, so the ways that were chosen for the first batch (see
`engine.follow`) serve the others. Each call is compared with that of the first batch: a model that looks at
values and takes another turn is followed from its beginning, and so is every batch from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tellwhy.explainers.propagation.engine.calls import Call, Operation, all_tensors, tensors_in

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture
    from tellwhy.explainers.propagation.engine.methods import Current
    from tellwhy.scoring.network_inputs import Inputs

_RUNS = count()
_KNOW_WEIGHTS = frozenset(("layer", "normalisation"))
_BEFORE = "_inputs_of_layer"  # attribute of a layer's output, where the next operation is one with the layer


class OtherCourse(Exception):
    """The model did something else than with the first batch."""


def plain_way(operation: Operation, capture: Capture, call: Call) -> Any:
    """Run a call as it is given: its derivative serves all methods."""
    return call.run(capture.watch(operation, call.activations))


@dataclass(slots=True)
class Turn:
    """One call of the first batch, and the way it was run.

    Attributes
    ----------
    call
        The call, without its tensors.
    arguments
        What calls of the same turn have in common: see `described`.
    operation
        None where no activation comes out, as of x.argmax().
    way
        How it is run.
    is_direct
        Whether that is as it is given: all its tensors are activations, and their derivative serves.
    weights
        Constants that the way knows by heart, such as the weights of a layer: they must be the same.
    """

    call: Call
    arguments: Any
    operation: Operation | None
    way: Callable[[Capture, Call], Any]
    is_direct: bool
    weights: tuple[Tensor, ...] = ()


@dataclass
class Course:
    """The calls of the first of several batches, which one explainer (or several at once) explains.

    Attributes
    ----------
    key
        What a batch must have in common with the first one.
    turns
        The calls on activations, in order.
    operations, current
        Those of the first batch, which serve the others too.
    output
        Place of the model's output.
    mark
        Attribute of activations that holds their place: which operation made them, and which output they
        are. Each batch has a name of its own for it, so that a tensor that the model kept from an earlier
        batch has no place.
    given_up
        Whether every batch is to be followed.
    """

    key: Any = None
    turns: list[Turn] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    current: Current | None = None
    output: Any = None
    given_up: bool = False
    mark: str = ""

    def fits(self, inputs: Inputs) -> bool:
        """Whether a batch looks like the first one."""
        return self.current is not None and not self.given_up and self.key == _key(inputs)

    def begin(self, inputs: Inputs, capture: Capture) -> None:
        """Be the course of a batch that is followed, where no other one was kept."""
        if not self.given_up and self.current is None and capture.is_repeatable:
            self.key = _key(inputs)
            self.turns = []
            self.start()
            capture.course = self

    def start(self) -> None:
        """Forget the places of the batch before."""
        self.mark = f"_place_{next(_RUNS)}"

    def end(self, capture: Capture, output: Tensor) -> None:
        """Keep the course, if the ways of all its operations can be taken again."""
        if capture.course is not self:
            return
        n_kept = sum(turn.operation is not None for turn in self.turns)
        self.output = self.place_of(output)
        if not capture.is_repeatable or capture.must_verify or n_kept != len(capture.operations):
            self.give_up()
            return
        self.operations = capture.operations
        self.current = capture.current

    def give_up(self) -> None:
        """Follow every batch from now on."""
        self.given_up = True
        self.turns = []
        self.operations = []
        self.current = None

    def note(self, call: Call, arguments: Any, operation: Operation | None, turn: Any) -> None:
        """Note the next call of the first batch: `turn` is the way it was run, and what came out."""
        way, result = turn
        is_direct = operation is not None and call.is_plain and getattr(way, "func", None) is plain_way
        name = call.name
        empty = Call(call.function, (), {}, name, call.in_place, [], call.times, call.only_activations)
        knows = operation is not None and operation.kind in _KNOW_WEIGHTS
        weights = tuple(self._constants(call.args, call.kwargs)) if knows else ()
        self.turns.append(Turn(empty, arguments, operation, way, is_direct, weights))
        self._place(call.activations, operation, tensors_in(result))

    def turn_of(self, number: int, function: Any, args: Any, kwargs: Any) -> tuple[Turn | None, list[Tensor]]:
        """The turn of that number and its activations, if these are its function and arguments."""
        found: list[Tensor] = []
        turn = self.turns[number] if number < len(self.turns) else None
        if turn is None or turn.call.function != function:
            return None, found
        if not _same(turn.arguments, self.described(args, kwargs, found)):
            return None, found
        # A model may compute weights, and other ones from other rows.
        if turn.weights and not all(map(_is_same, turn.weights, self._constants(args, kwargs))):
            return None, found
        return turn, found

    def take(self, capture: Capture, turn: Turn, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        """Run a call as in the first batch; `found` are its activations, as often as they occur."""
        if turn.is_direct:
            result = turn.call.function(*args, **kwargs)
            self._place(found, turn.operation, tensors_in(result))
            return result
        if len(found) > 1:
            found = list({id(t): t for t in found}.values())
        first = turn.call
        alone = first.only_activations
        call = Call(first.function, args, kwargs, first.name, first.in_place, found, first.times, alone)
        result = turn.way(capture, call)
        if turn.operation is not None:
            outputs = tensors_in(result)
            self._place(found, turn.operation, outputs)
            if call.in_place and outputs and outputs[0] is not call.target:
                capture.origins.replace(call.target, outputs[0])
        return result

    def place_of(self, tensor: Tensor) -> Any:
        """Which operation made a tensor, or which leaf it is; None for a constant."""
        return tensor.__dict__.get(self.mark)

    def place_leaf(self, leaf: Tensor, number: int) -> None:
        """Give a leaf a place of its own."""
        leaf.__dict__[self.mark] = ("leaf", number)

    def _place(
        self, activations: list[Tensor], operation: Operation | None, outputs: Sequence[Tensor]
    ) -> None:
        """Note in the outputs which operation made them."""
        if operation is None:
            return
        for number, tensor in enumerate(outputs):
            if tensor.requires_grad:  # not the whole numbers that x.max(dim=1) gives as well
                tensor.__dict__[self.mark] = (operation.index, number)
        if operation.merged:  # the next operation hands relevance to the inputs of this one
            outputs[0].__dict__[_BEFORE] = activations

    def _constants(self, args: Any, kwargs: Any) -> list[Tensor]:
        return [t for t in all_tensors((args, kwargs)) if self.mark not in t.__dict__]

    def described(self, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        """What calls of the same turn have in common; their activations are put into `found`."""
        return (self._without_numbers(args, found), self._without_numbers(kwargs, found) if kwargs else None)

    def _without_numbers(self, tree: Any, found: list[Tensor]) -> Any:
        """Places of activations, shapes of constants, settings as they are."""
        if isinstance(tree, dict):
            return {name: self._without_numbers((part,), found) for name, part in tree.items()}
        parts: list[Any] = []
        for part in tree:
            if isinstance(part, Tensor):
                place = part.__dict__.get(self.mark)
                if place is not None:
                    found.append(part)
                parts.append(part.shape if place is None else place)
            elif isinstance(part, (tuple, list, dict)):
                parts.append(self._without_numbers(part, found))
            else:
                parts.append(part)
        return parts


def _key(inputs: Inputs) -> Any:
    shapes = [(t.shape, t.dtype, t.device) for t in inputs.tensors]
    return (shapes, inputs.names, inputs.nonnegative)


def inputs_of_layer(output: Tensor) -> Sequence[Tensor]:
    """Inputs of the layer whose output this is, where the next operation is one with the layer."""
    found: Sequence[Tensor] = output.__dict__[_BEFORE]
    return found


def _is_same(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors are one, or views of the same memory, as W.t() is each time it is asked for."""
    if first is second:
        return True
    # The first one is kept, so that its memory is not that of a tensor which was computed later.
    views = [(t.data_ptr(), t.shape, t.stride(), t.dtype) for t in (first, second)]
    return views[0] == views[1]


def _same(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except (RuntimeError, ValueError):  # arrays among the settings do not say
        return False
