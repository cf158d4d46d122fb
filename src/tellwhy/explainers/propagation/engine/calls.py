"""What a model called: a call, with the arguments that the model gave it, and the record of an operation.

The engine sees every call before it is carried out. It may carry it out itself, on other tensors than those
that were given; tensors may stand in nested tuples, lists and dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from operator import is_
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.layers import LinearMap
    from tellwhy.explainers.propagation.rules import Rule


# Whether what is done is written down as a program, which has to serve other rows too (`program`).
is_traced: ContextVar[bool] = ContextVar("is_traced", default=False)
# Whether what is written down will be differentiated: every operator then has to have a derivative.
has_derivatives: ContextVar[bool] = ContextVar("has_derivatives", default=False)

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
        What it does to relevance, see `kinds`; "unknown" where there is no rule.
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


def all_tensors(tree: Any) -> list[Tensor]:
    """All tensors, in order, as often as they occur."""
    if isinstance(tree, Tensor):
        return [tree]
    found: list[Tensor] = []
    for part in _parts(tree):
        # Most parts are tensors or plain numbers: asking here saves a call for each of them.
        if isinstance(part, Tensor):
            found.append(part)
        elif isinstance(part, (tuple, list, dict)):
            found += all_tensors(part)
    return found


def tensors_in(tree: Any) -> list[Tensor]:
    """All tensors, each once, in order."""
    if isinstance(tree, Tensor):  # nearly always
        return [tree]
    return list({id(t): t for t in all_tensors(tree)}.values())


def map_tensors(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    """Apply a function to all tensors; everything else stays as it is."""
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {key: map_tensors(function, value) for key, value in tree.items()} if tree else tree
    if not isinstance(tree, (tuple, list)):
        return tree
    parts = [map_tensors(function, part) for part in tree]
    # PyTorch's own tuples (x.max(dim=1), say) have `n_fields` and take a sequence, as plain ones do.
    if type(tree) in (tuple, list, torch.Size) or hasattr(tree, "n_fields"):
        return type(tree)(parts)
    return type(tree)(*parts)  # a named tuple takes its fields one by one


def _parts(tree: Any) -> Iterable[Any]:
    if isinstance(tree, dict):
        return tree.values()
    return tree if isinstance(tree, (tuple, list)) else ()


@dataclass(slots=True, eq=False)  # not frozen, which takes three times as long to make: there are many
class Call:
    """One call of a PyTorch function on activations: tensors that depend on the explained input.

    Nobody changes one: `dataclasses.replace` makes another.

    Attributes
    ----------
    function, args, kwargs
        What is called, and with what.
    name
        PyTorch's plain name of the function, as in `Operation.name`.
    in_place
        Whether it changes its first argument.
    activations
        The activations among the arguments, each once.
    times
        How often activations occur among the arguments: twice in x·x.
    only_activations
        Whether no other tensor is among the arguments.
    """

    function: Callable[..., Any]
    args: Any
    kwargs: dict[str, Any]
    name: str
    in_place: bool
    activations: list[Tensor]
    times: int = 1
    only_activations: bool = False

    @property
    def target(self) -> Tensor:
        """The first argument: the tensor that an in-place operation changes."""
        first: Tensor = self.args[0] if self.args else self.kwargs["input"]
        return first

    def arguments(self, names: Sequence[str]) -> dict[str, Any]:
        """Arguments by name; `names` are those of the function, in order."""
        return {**dict(zip(names, self.args, strict=False)), **self.kwargs}

    @property
    def in_training_mode(self) -> bool:
        """Whether dropout, batch norm, attention or a randomised ReLU behaves as in training."""
        if self.name == "batch_norm":
            return bool(batch_norm_arguments(self).get("training", False))
        if self.name == "scaled_dot_product_attention":
            return self.kwargs.get("dropout_p", self.args[4] if len(self.args) > 4 else 0.0) > 0
        if "dropout" not in self.name and self.name != "rrelu":
            return False
        if "training" in self.kwargs or "train" in self.kwargs:  # torch.dropout says `train`
            return bool(self.kwargs.get("training", self.kwargs.get("train")))
        # torch.nn.functional passes settings on by name; torch.dropout(x, p, train) has this one last.
        return bool(self.args[-1]) if len(self.args) > 2 else False

    def run(self, activations: list[Tensor]) -> Any:
        """Run with other tensors in place of the activations. Nothing that was given is changed.

        Other tensors are constants: what was computed from the parameters alone has no gradient.
        """
        if self.is_plain and (
            activations is self.activations or all(map(is_, activations, self.activations))
        ):
            return self.function(*self.args, **self.kwargs)
        args, kwargs = self._with(activations)
        if self.name == "view" and not _has_dtype(args, kwargs):
            # The other tensor may have its elements in another order in memory, which `view` does not accept.
            return torch.Tensor.reshape(*args, **kwargs)
        if kwargs.get("inplace"):
            return self.function(*args, **{**kwargs, "inplace": False})
        if not self.in_place:
            return self.function(*args, **kwargs)
        changed = args[0].clone()
        self.function(changed, *args[1:], **kwargs)
        return changed

    def _with(self, activations: list[Tensor]) -> tuple[Any, dict[str, Any]]:
        """Arguments with other tensors in place of the activations, and constants in place of the rest."""
        exchanged = {id(old): new for old, new in zip(self.activations, activations, strict=True)}

        def exchange(tensor: Tensor) -> Tensor:
            return exchanged[id(tensor)] if id(tensor) in exchanged else tensor.detach()

        return map_tensors(exchange, self.args), map_tensors(exchange, self.kwargs) if self.kwargs else {}

    @property
    def is_plain(self) -> bool:
        """Whether the call can be carried out as it was given: no parameter in it, and nothing in place."""
        return self.only_activations and not (
            self.in_place or self.name == "view" or "inplace" in self.kwargs
        )

    def run_detached(self) -> Any:
        """Run on constants: the result has no gradient that relevance could take."""
        return self.run([t.detach() for t in self.activations])


def _has_dtype(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether x.view(dtype) was called, which reads the memory as numbers of another type."""
    return any(isinstance(argument, torch.dtype) for argument in (*args, *kwargs.values()))


def batch_norm_arguments(call: Call) -> dict[str, Any]:
    """Arguments of a call of `batch_norm` by name."""
    # torch.batch_norm and torch.nn.functional.batch_norm have the same arguments in another order.
    if call.function is torch.batch_norm:
        names = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
    else:
        names = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
    return call.arguments(names)
