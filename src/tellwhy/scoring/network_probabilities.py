"""Probabilities at the end of a network, kept as what is explained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.overrides import TorchFunctionMode

from tellwhy.core.errors import InvalidParameter
from tellwhy.scoring.network_inputs import read_inputs
from tellwhy.scoring.network_outputs import Picked
from tellwhy.scoring.network_passes import placed, untouched

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


def ending_of(model: Module, X: Any) -> str:
    """Return what a network ends with, by its first row: 'softmax', 'log_softmax', 'sigmoid', or ''."""
    there = placed(model, None)
    rows = read_inputs(X, there.dtype, converts=True).rows(slice(1)).to(there.device)
    watch = _Ending()
    with untouched(there.device), torch.no_grad(), watch:
        outputs = rows.apply(there.model)
    name, result = watch.newest
    return name if result is outputs else ""


def with_probabilities(model: Module, X: Any) -> Picked:
    """Return a network whose outputs are the probabilities that it ends with, or say that it has none.

    Examples
    --------
    >>> network = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Softmax(dim=1)).eval()
    >>> bool(with_probabilities(network, torch.ones(1, 2))(torch.ones(1, 2)).sum().round() == 1)
    True
    """
    ending = ending_of(model, X)
    if not ending:
        raise InvalidParameter(
            f"output='probability' asks for the probability that a network ends with, and "
            f"{type(model).__name__} ends with no softmax or sigmoid. Leave it out, or say which number is "
            "explained: target=lambda outputs: outputs.softmax(dim=1)[:, 0]."
        )
    return Picked(model, _Probability(ending))
