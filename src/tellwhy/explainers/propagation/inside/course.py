"""The course that a model took with one batch, taken again with the next ones without deciding anew.

What becomes of an operation depends on its function, its settings, and where its inputs came from. Batches of
the same shape nearly always take the same course, so the ways that were chosen for the first batch (see
`engine.follow`) serve the others. Each call is compared with that of the first batch: a model that looks at
values and takes another turn is followed from its beginning, and so is every batch from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.operations.nested import tensors_in
from tellwhy.explainers.propagation.operations.operation import Operation

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture
    from tellwhy.explainers.propagation.engine.inputs import Inputs
    from tellwhy.explainers.propagation.engine.methods import Current

_PLACE = "_place_in_course"  # attribute of an activation: which operation made it, and which output it is
_BEFORE = "_inputs_of_layer"  # attribute of a layer's output, where the next operation is one with the layer


class OtherCourse(Exception):
    """The model did something else than with the first batch."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One call: its function, its arguments as `described`, and the way it is run.

    `operation` is None where no activation comes out, as of x.argmax().
    """

    function: Callable[..., Any]
    arguments: Any
    operation: Operation | None
    way: Callable[[Capture, Call], Any]


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
        self.turns.append(Turn(call.function, arguments, operation, way))
        if operation is not None:
            _mark(call, operation, tensors_in(result))

    def repeat(self, capture: Capture, call: Call, number: int) -> Any:
        """Run a call as in the first batch."""
        turn = self.turns[number] if number < len(self.turns) else None
        if turn is None or turn.function != call.function or not _same(turn.arguments, described(call)):
            raise OtherCourse
        result = turn.way(capture, call)
        if turn.operation is not None:
            outputs = tensors_in(result)
            _mark(call, turn.operation, outputs)
            if call.in_place and outputs and outputs[0] is not call.target:
                capture.origins.replace(call.target, outputs[0])
        return result


def _key(inputs: Inputs) -> Any:
    shapes = [(t.shape, t.dtype, t.device) for t in inputs.tensors]
    return (shapes, inputs.names, inputs.nonnegative)


def place_of(tensor: Tensor) -> Any:
    """Which operation of the course made a tensor, or which leaf it is; None for a constant."""
    return tensor.__dict__.get(_PLACE)


def mark_leaf(tensor: Tensor, number: int) -> None:
    """Give a leaf a place of its own."""
    tensor.__dict__[_PLACE] = ("leaf", number)


def _mark(call: Call, operation: Operation, outputs: Sequence[Tensor]) -> None:
    """Note in the outputs which operation made them."""
    for number, tensor in enumerate(outputs):
        tensor.__dict__[_PLACE] = (operation.index, number)
    if operation.merged:  # the next operation hands relevance to the inputs of this one
        outputs[0].__dict__[_BEFORE] = call.activations


def inputs_of_layer(output: Tensor) -> Sequence[Tensor]:
    """Inputs of the layer whose output this is, where the next operation is one with the layer."""
    found: Sequence[Tensor] = output.__dict__[_BEFORE]
    return found


def described(call: Call) -> Any:
    """What calls of the same turn have in common."""
    return (_without_numbers(call.args), _without_numbers(call.kwargs) if call.kwargs else None)


def _without_numbers(tree: Any) -> Any:
    """Places of activations, shapes of constants, settings as they are."""
    if isinstance(tree, dict):
        return {name: _without_numbers(part) for name, part in tree.items()}
    if not isinstance(tree, (tuple, list)):
        return tree.__dict__.get(_PLACE) or tree.shape if isinstance(tree, Tensor) else tree
    parts = []
    for part in tree:  # most parts are tensors or numbers: asking here saves a call for each of them
        if isinstance(part, Tensor):
            parts.append(part.__dict__.get(_PLACE) or part.shape)
        else:
            parts.append(_without_numbers(part) if isinstance(part, (tuple, list, dict)) else part)
    return parts


def _same(first: Any, second: Any) -> bool:
    try:
        return bool(first == second)
    except (RuntimeError, ValueError):  # arrays among the settings do not say
        return False
