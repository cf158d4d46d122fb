"""The course that a model took with one batch, taken again with the next ones without deciding anew.

What becomes of an operation depends on its function, its settings, and where its inputs came from. Batches of
the same shape nearly always take the same course, so the ways that were chosen for the first batch (see
`engine.follow`) serve the others. Each call is compared with that of the first batch: a model that looks at
values and takes another turn is followed from its beginning, and so is every batch from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.operations.nested import all_tensors, tensors_in
from tellwhy.explainers.propagation.operations.operation import Operation

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture
    from tellwhy.explainers.propagation.engine.inputs import Inputs
    from tellwhy.explainers.propagation.engine.methods import Current

_PLACE = "_place_in_course"  # attribute of an activation: which operation made it, and which output it is
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
        Constants that the way knows by heart, such as the weights of a layer: they must be the same tensors.
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
    given_up
        Whether every batch is to be followed.
    """

    key: Any = None
    turns: list[Turn] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    current: Current | None = None
    output: Any = None
    given_up: bool = False

    def fits(self, inputs: Inputs) -> bool:
        """Whether a batch looks like the first one."""
        return self.current is not None and not self.given_up and self.key == _key(inputs)

    def begin(self, inputs: Inputs, capture: Capture) -> None:
        """Be the course of a batch that is followed, where no other one was kept."""
        if not self.given_up and self.current is None and capture.is_repeatable:
            self.key = _key(inputs)
            self.turns = []
            capture.course = self

    def end(self, capture: Capture, output: Tensor) -> None:
        """Keep the course, if the ways of all its operations can be taken again."""
        if capture.course is not self:
            return
        n_kept = sum(turn.operation is not None for turn in self.turns)
        self.output = place_of(output)
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
        empty = replace(call, args=(), kwargs={}, activations=[])
        weights = () if operation is None or operation.kind not in _KNOW_WEIGHTS else _constants(call)
        self.turns.append(Turn(empty, arguments, operation, way, is_direct, weights))
        if operation is not None:
            _mark(call.activations, operation, tensors_in(result))

    def turn_of(self, number: int, function: Any, args: Any, kwargs: Any) -> tuple[Turn | None, list[Tensor]]:
        """The turn of that number and its activations, if these are its function and arguments."""
        found: list[Tensor] = []
        turn = self.turns[number] if number < len(self.turns) else None
        if turn is None or turn.call.function != function:
            return None, found
        given = (_without_numbers(args, found), _without_numbers(kwargs, found) if kwargs else None)
        if not _same(turn.arguments, given):
            return None, found
        if turn.weights:  # a model may compute them, and from other rows other ones
            now = [t for t in all_tensors((args, kwargs)) if _PLACE not in t.__dict__]
            return (turn if all(map(is_, turn.weights, now)) else None), found
        return turn, found

    def take(self, capture: Capture, turn: Turn, args: Any, kwargs: Any, found: list[Tensor]) -> Any:
        """Run a call as in the first batch; `found` are its activations, as often as they occur."""
        if turn.is_direct:
            result = turn.call.function(*args, **kwargs)
            _mark(found, turn.operation, tensors_in(result))
            return result
        if len(found) > 1:
            found = list({id(t): t for t in found}.values())
        first = turn.call
        alone = first.only_activations
        call = Call(first.function, args, kwargs, first.name, first.in_place, found, first.times, alone)
        result = turn.way(capture, call)
        if turn.operation is not None:
            outputs = tensors_in(result)
            _mark(found, turn.operation, outputs)
            if call.in_place and outputs and outputs[0] is not call.target:
                capture.origins.replace(call.target, outputs[0])
        return result


def _constants(call: Call) -> tuple[Tensor, ...]:
    return tuple(t for t in all_tensors((call.args, call.kwargs)) if place_of(t) is None)


def _key(inputs: Inputs) -> Any:
    shapes = [(t.shape, t.dtype, t.device) for t in inputs.tensors]
    return (shapes, inputs.names, inputs.nonnegative)


def place_of(tensor: Tensor) -> Any:
    """Which operation of the course made a tensor, or which leaf it is; None for a constant."""
    return tensor.__dict__.get(_PLACE)


def mark_leaf(tensor: Tensor, number: int) -> None:
    """Give a leaf a place of its own."""
    tensor.__dict__[_PLACE] = ("leaf", number)


def _mark(activations: list[Tensor], operation: Operation | None, outputs: Sequence[Tensor]) -> None:
    """Note in the outputs which operation made them."""
    if operation is None:
        return
    index = operation.index
    for number, tensor in enumerate(outputs):
        tensor.__dict__[_PLACE] = (index, number)
    if operation.merged:  # the next operation hands relevance to the inputs of this one
        outputs[0].__dict__[_BEFORE] = activations


def inputs_of_layer(output: Tensor) -> Sequence[Tensor]:
    """Inputs of the layer whose output this is, where the next operation is one with the layer."""
    found: Sequence[Tensor] = output.__dict__[_BEFORE]
    return found


def described(call: Call) -> Any:
    """What calls of the same turn have in common."""
    found: list[Tensor] = []
    return (_without_numbers(call.args, found), _without_numbers(call.kwargs, found) if call.kwargs else None)


def _without_numbers(tree: Any, found: list[Tensor]) -> Any:
    """Places of activations, which are put into `found`; shapes of constants; settings as they are."""
    if isinstance(tree, dict):
        return {name: _without_numbers((part,), found) for name, part in tree.items()}
    parts: list[Any] = []
    for part in tree:
        if isinstance(part, Tensor):
            place = part.__dict__.get(_PLACE)
            if place is not None:
                found.append(part)
            parts.append(part.shape if place is None else place)
        else:
            parts.append(_without_numbers(part, found) if isinstance(part, (tuple, list, dict)) else part)
    return parts


def _same(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except (RuntimeError, ValueError):  # arrays among the settings do not say
        return False
