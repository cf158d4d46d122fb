"""A mapping of one's own: how a certain operation, or a whole module, hands its relevance on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.explainers.propagation.operations.operation import Operation

Predicate = Callable[[Operation], bool]
# (inputs, output, relevance of the output) -> relevance of each input
HandsOn = Callable[[Sequence[Tensor], Tensor, Tensor], Any]


@dataclass(frozen=True)
class Handover:
    """How operations, or a module with all that is in it, hand relevance on.

    Parameters
    ----------
    when
        A function of an `Operation` that says whether this is one: it sees the operation's `name`, `path`
        and `index`, and its neighbours in `before`, the operations whose outputs it takes. Or the name of a
        module (as in `model.named_modules()`): all of it is then one step, whatever is inside.
    function
        A function (inputs, output, relevance) that returns the relevance of each input: tensors like the
        inputs, in a list, or the one tensor of one input. Inputs are those that depend on what is explained.
    name
        For tables and messages.

    Examples
    --------
    >>> import torch
    >>> from tellwhy.explainers import LRP
    >>> squares = Handover(lambda op: op.name == "square", lambda xs, out, R: R)
    >>> class Square(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.square()
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3, bias=False), Square()).eval()
    >>> bool(abs(LRP(model, own=[squares]).explain(torch.rand(1, 2)).residual).max() < 1e-3)
    True
    """

    when: str | Predicate
    function: HandsOn = field(repr=False)
    name: str = "own"

    def __post_init__(self) -> None:
        if not isinstance(self.when, str) and not callable(self.when):
            raise InvalidParameter(
                "The 'when' parameter of Handover must be a module's name or a function of an operation. "
                f"Got {self.when!r} instead."
            )
        if not callable(self.function):
            raise InvalidParameter(
                "The 'function' parameter of Handover must be a function (inputs, output, relevance). Got "
                f"{self.function!r} instead."
            )

    def takes(self, operation: Operation) -> bool:
        """Whether an operation is one of those that this is for."""
        return not isinstance(self.when, str) and bool(self.when(operation))

    def hand_on(self, inputs: Sequence[Tensor], out: Tensor, relevance: Tensor) -> list[Tensor]:
        """Relevance of each input, checked."""
        found = self.function(inputs, out, relevance)
        listed = [found] if isinstance(found, Tensor) else list(found)
        shapes = [tuple(t.shape) for t in listed if isinstance(t, Tensor)]
        wanted = [tuple(t.shape) for t in inputs]
        if shapes != wanted:
            raise InvalidInput(
                f"The function of Handover {self.name!r} must return relevance like its inputs, of shapes "
                f"{wanted}. Got {shapes or type(found).__name__} instead."
            )
        return listed
