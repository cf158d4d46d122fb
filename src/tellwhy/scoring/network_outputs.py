"""Which tensor of a network's output is explained, where it gives several, or its own input again.

Last, the probabilities that a network ends with, kept as what is explained.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.overrides import TorchFunctionMode

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyError, UnsupportedModel
from tellwhy.core.params import nearest
from tellwhy.scoring.network_inputs import read_inputs
from tellwhy.scoring.network_passes import (
    USUAL,
    TrailingSoftmax,
    check_model,
    parts_of,
    placed,
    untouched,
)

RECONSTRUCTION = "reconstruction"


@dataclass(frozen=True, eq=False)
class ReadNetwork:
    """A network that gives one tensor, the target among its outputs, and words for what that is."""

    model: Module
    target: Any
    words: str
    is_error: bool = False  # whether it is the error of a reconstruction, which is high for anomalies


class Picked(Module):
    """A network and the choice of one tensor among what it returns; the weights are the network's own.

    `pick` takes what the network returned and its first input.
    """

    def __init__(self, model: Module, pick: Callable[[Any, Any], Tensor]):
        super().__init__()
        self.model = model
        self.pick = pick
        self.train(model.training)

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Apply the network, and pick."""
        first = inputs[0] if inputs else next(iter(named.values()))
        return self.pick(self.model(*inputs, **named), first)


def read_network(model: Module, X: Any, target: Any) -> ReadNetwork:
    """Return a network with one tensor of outputs, chosen by `target`, or by what it gives for a row.

    Parameters
    ----------
    model
        In evaluation mode.
    X
        Rows: an array, several in a tuple, or a dict by the names of forward's arguments.
    target
        None: the tensor that the network returns, or the one called "logits" of several, or, where the output
        has the shape of the input, the squared error of that reconstruction. A name: that part of a dict or
        of an object with fields. A pair of a name and an output's number. Everything else is left to
        `NetworkOutput`, of the tensor that the network returns, or of the one called "logits".
    """
    check_model(model)
    outputs, softmax = _tried(model, X)
    if _is_choice(target) and not callable(target):
        return read_one_tensor(model, outputs, target)
    if callable(target):
        return _read_by_function(model, outputs, target)
    if target == RECONSTRUCTION:
        _check_reconstruction(model, X, outputs)
        return _read_reconstruction(model)
    name, number = target if isinstance(target, tuple) and len(target) == 2 else (target, "max")
    if name is None and _is_reconstruction(X, outputs, softmax):
        return _read_reconstruction(model)
    if isinstance(outputs, Tensor) and name is None:
        return ReadNetwork(model, number, "")
    key = _choose_key(model, outputs, name)
    return ReadNetwork(Picked(model, _Part(key)), number, f" in {key!r}")


def read_one_tensor(model: Module, outputs: Any, target: Any) -> ReadNetwork:
    """Return a network that gives one tensor, by what it returned: the one called "logits" of several."""
    if isinstance(outputs, Tensor):
        return ReadNetwork(model, target, "")
    key = _choose_key(model, outputs, None)
    return ReadNetwork(Picked(model, _Part(key)), target, f" in {key!r}")


def _is_choice(target: Any) -> bool:
    """Whether a target is one that `NetworkOutput` knows: 'max', a number, numbers, a function."""
    if isinstance(target, str):
        return target == "max"
    return target is not None and not (isinstance(target, tuple) and target and isinstance(target[0], str))


def _tried(model: Module, X: Any) -> tuple[Any, str]:
    """What the network returns for the first row, and the name of a softmax at its end."""
    there = placed(model, None)
    rows = read_inputs(X, there.dtype, converts=True).rows(slice(1)).to(there.device)
    watch = TrailingSoftmax()
    try:
        with untouched(there.device), torch.no_grad(), watch:
            outputs = rows.apply(there.model)
    except TellwhyError:  # a sentence already
        raise
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{type(model).__name__} cannot be applied to {rows.words} (rows first; a single input gets its "
            f"rows' axis by X[None]): {error}"
        ) from error
    return outputs, watch.left_out(outputs)[1] if isinstance(outputs, Tensor) else ""


def _read_by_function(model: Module, outputs: Any, target: Callable[[Any], Any]) -> ReadNetwork:
    """A function of the outputs: for `NetworkOutput` where they are a tensor, else put behind the network."""
    if isinstance(outputs, Tensor):
        return ReadNetwork(model, target, "")
    name = getattr(target, "__name__", "a function")
    return ReadNetwork(Picked(model, _Of(target)), Itself(f"{name} of the outputs"), "")


@dataclass(frozen=True)
class Itself:
    """A target for a network that gives one number per row already, with the words for it."""

    describes: str

    def __call__(self, outputs: Tensor) -> Tensor:
        """Return the outputs."""
        return outputs


@dataclass(frozen=True)
class _Of:
    """What a user's function makes of all that a network returns."""

    function: Callable[[Any], Any]

    def __call__(self, outputs: Any, _given: Any) -> Tensor:
        found = self.function(outputs)
        if not isinstance(found, Tensor) or found.ndim != 1:
            got = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InvalidInput(
                f"target(outputs) must give one number per row, a tensor (n,). Got {got} instead."
            )
        return found


@dataclass(frozen=True)
class _Part:
    """One part of a dict, of an object with fields, or of a tuple."""

    key: Any

    def __call__(self, outputs: Any, _given: Any) -> Tensor:
        found = parts_of(outputs)[self.key]
        if not isinstance(found, Tensor):
            raise InvalidParameter(f"target={self.key!r} names a {type(found).__name__}; expected a tensor.")
        return found


def _choose_key(model: Module, outputs: Any, name: Any) -> str:
    """The part that is explained: the one asked for, "logits", or the only tensor there is."""
    parts = {} if isinstance(outputs, Tensor) else parts_of(outputs)
    tensors = [key for key, value in parts.items() if isinstance(value, Tensor)]
    listed = ", ".join(repr(key) for key in tensors) or "no tensor by name"
    if name is not None:
        if str(name) in parts:
            return str(name)
        raise InvalidParameter(
            f"target={name!r} is no part of what {type(model).__name__} returns{nearest(str(name), parts)} "
            f"It has {listed}; 'max' or an output's number chooses among the outputs of one tensor."
        )
    if USUAL in tensors or len(tensors) == 1:
        return USUAL if USUAL in tensors else tensors[0]
    raise UnsupportedModel(
        f"{type(model).__name__} returns a {type(outputs).__name__} with {listed}: say which is explained "
        "with target='<name>', target=('<name>', <number>), or target=<function of all it returns>."
    )


def _is_reconstruction(X: Any, outputs: Any, softmax: str) -> bool:
    """Whether a network gives its one input again: an output of its shape, with no softmax at the end."""
    if not isinstance(outputs, Tensor) or softmax or isinstance(X, (tuple, Mapping)):
        return False
    shape = tuple(X.shape) if hasattr(X, "shape") else torch.as_tensor(X).shape
    is_float = X.is_floating_point() if isinstance(X, Tensor) else torch.as_tensor(X).is_floating_point()
    return is_float and tuple(outputs.shape[1:]) == tuple(shape[1:]) and outputs[0].numel() > 1


def _check_reconstruction(model: Module, X: Any, outputs: Any) -> None:
    if not _is_reconstruction(X, outputs, ""):
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise InvalidParameter(
            f"target='reconstruction' needs outputs in the shape of the input; {type(model).__name__} gives "
            f"{got}."
        )


def _read_reconstruction(model: Module) -> ReadNetwork:
    name = type(model).__name__
    words = f"squared reconstruction error ‖x − f(x)‖² of {name}, whose output has the shape of its input"
    return ReadNetwork(Picked(model, _compute_squared_error), Itself(words), "", is_error=True)


def _compute_squared_error(outputs: Tensor, given: Tensor) -> Tensor:
    return (outputs - given).square().flatten(1).sum(dim=1)


_ENDINGS = ("softmax", "log_softmax", "sigmoid")


class _Ending(TorchFunctionMode):
    """Remembers the newest softmax or sigmoid of a forward pass: its name, and what came out."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: tuple[str, Any] = ("", None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation."""
        result = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if name in _ENDINGS:
            self.newest = (name, result)
        return result


@dataclass(frozen=True)
class _Probability:
    """The outputs as probabilities, which no trailing softmax is taken off any more."""

    ending: str

    def __call__(self, outputs: Tensor, _given: Any) -> Tensor:
        return outputs.exp() if self.ending == "log_softmax" else outputs.reshape(outputs.shape)


def find_ending(model: Module, X: Any) -> str:
    """Return what a network ends with, by its first row: 'softmax', 'log_softmax', 'sigmoid', or ''."""
    there = placed(model, None)
    rows = read_inputs(X, there.dtype, converts=True).rows(slice(1)).to(there.device)
    watch = _Ending()
    with untouched(there.device), torch.no_grad(), watch:
        outputs = rows.apply(there.model)
    name, result = watch.newest
    return name if result is outputs else ""


def add_probabilities(model: Module, X: Any) -> Picked:
    """Return a network whose outputs are the probabilities that it ends with, or say that it has none.

    Examples
    --------
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softmax(dim=1)).eval()
    >>> bool(add_probabilities(network, torch.ones(1, 2))(torch.ones(1, 2)).sum().round() == 1)
    True
    """
    ending = find_ending(model, X)
    if not ending:
        raise InvalidParameter(
            f"output='probability' asks for the probability that a network ends with, and "
            f"{type(model).__name__} ends with no softmax or sigmoid. Leave it out, or say which number is "
            "explained: target=lambda outputs: outputs.softmax(dim=1)[:, 0]."
        )
    return Picked(model, _Probability(ending))
