"""Operations: the record of what a model did between its input and its output, and PyTorch's names for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.operations.layers import LinearMap
    from tellwhy.explainers.propagation.rules import Rule

# Names of functions that do the same as another one, which has an entry in the table of kinds.
SAME = {
    "truediv": "div",
    "divide": "div",
    "true_divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "rsub": "sub",
    "radd": "add",
    "rmul": "mul",
    "rmatmul": "matmul",
    "rtruediv": "rdiv",
    "concat": "cat",
    "concatenate": "cat",
    "absolute": "abs",
    "negative": "neg",
    "special_expit": "sigmoid",
}
_IN_PLACE = {"iadd": "add", "isub": "sub", "imul": "mul", "idiv": "div", "itruediv": "div", "ipow": "pow"}


@dataclass(slots=True, eq=False)
class Operation:
    """One operation that the model did on the way from the input to the output.

    Attributes
    ----------
    index
        Its place in the order of execution.
    name
        PyTorch's name of the function.
    kind
        What it does to relevance, see `operations.kinds`; "unknown" where there is no rule.
    path
        Name of the module that called it, as in `model.named_modules()`; "" for the model itself.
    first
        Whether no layer comes before it.
    last
        Whether it is the layer that was executed last.
    shape
        Shape of its output.
    rule
        The rule that was chosen for a layer, or for another linear operation that has a choice.
    layer
        Weights and geometry of a fully connected or convolutional layer.
    own_rule
        A rule that this operation has whatever the composite says.
    merged
        Whether it is one with the batch norm or the bias after it, which has the rule of both.
    rectifies
        Whether it is a rectifier, in whatever spelling; only looked at for methods that replace those.
    constants
        Which of its activations get no relevance: the standard deviation of a norm, say.
    owns_cotangent
        Whether what comes down to its output was made for it alone, by the ReLU after it.
    before
        The operations whose outputs it takes: its neighbours on the way to the input.
    arrived, handed_on
        Relevance that came to its outputs and that it gave to its inputs, summed over the rows (the ledger).
    """

    index: int
    name: str
    kind: str
    path: str
    first: bool = False
    last: bool = False
    shape: tuple[int, ...] = ()
    rule: Rule | None = None
    layer: LinearMap | None = field(default=None, repr=False)
    own_rule: Rule | None = None
    merged: bool = False
    rectifies: bool = False
    constants: tuple[bool, ...] = ()
    owns_cotangent: bool = False
    before: tuple[Operation, ...] = field(default=(), repr=False)
    arrived: float = 0.0
    handed_on: float = 0.0

    @property
    def where(self) -> str:
        """Name and module path, for messages."""
        place = f"module '{self.path}'" if self.path else "the model's own forward"
        return f"'{self.name}' in {place}"


def operation_name(function: Callable[..., Any]) -> tuple[str, bool]:
    """Plain name of a function that PyTorch reports, and whether it changes its first argument.

    Examples
    --------
    >>> import torch
    >>> operation_name(torch.Tensor.add_), operation_name(torch.nn.functional.relu)
    (('add', True), ('relu', False))
    """
    raw = getattr(function, "__name__", None) or str(function)
    if raw == "__get__":  # an attribute such as x.T
        return str(function.__self__.__name__), False  # type: ignore[attr-defined]
    return _plain_name(raw)


@cache
def _plain_name(raw: str) -> tuple[str, bool]:
    name = raw.strip("_")
    if raw.startswith("__"):  # an operator such as x += 1: its underscores do not tell
        changes = name in _IN_PLACE or name == "setitem"
        name = _IN_PLACE.get(name, name)
    else:
        changes = raw.endswith("_")
    return SAME.get(name, name), changes
