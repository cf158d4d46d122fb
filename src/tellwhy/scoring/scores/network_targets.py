"""Which number of a network's output is explained: its score.

A target is "max" (the largest output of each row), the number of an output, one such number per row, or a
function from the outputs to one number per row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tellwhy.core.errors import InvalidInput, InvalidParameter

Target = str | int | Sequence[int] | np.ndarray | Tensor | Callable[[Tensor], Tensor]
CheckedTarget = str | int | np.ndarray | Callable[[Tensor], Tensor]


def check_target(target: Any, n_rows: int) -> CheckedTarget:
    """Return 'max', an int, a function, or one int per row; refuse everything else."""
    if target == "max" if isinstance(target, str) else callable(target):
        checked: CheckedTarget = target
        return checked
    wanted = np.asarray(target.detach().cpu() if isinstance(target, Tensor) else target)
    if wanted.dtype.kind not in "iu" or wanted.ndim > 1:
        raise InvalidParameter(
            "The 'target' parameter must be 'max', an output's number, one number per row, or a function of "
            f"the outputs that gives one number per row. Got {target!r} instead."
        )
    if wanted.ndim == 1 and len(wanted) != n_rows:
        raise InvalidInput(f"target has {len(wanted)} entries for {n_rows} rows of x.")
    return int(wanted) if wanted.ndim == 0 else wanted


def of_rows(target: CheckedTarget, rows: slice) -> CheckedTarget:
    """The target of some of the rows."""
    return target[rows] if isinstance(target, np.ndarray) else target


def pick_scores(outputs: Tensor, target: CheckedTarget) -> Tensor:
    """Explained number of each row of outputs (n, k), (n, 1) or (n,)."""
    if callable(target):
        scores = target(outputs)
        if not isinstance(scores, Tensor) or scores.shape != outputs.shape[:1]:
            got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
            raise InvalidInput(
                f"target(outputs) must give a tensor of shape ({len(outputs)},). Got {got} instead."
            )
        return scores
    if outputs.ndim > 2:
        raise InvalidInput(
            f"The model's outputs have shape {tuple(outputs.shape)}: say which number is explained with "
            "target=<function of the outputs that gives one number per row>."
        )
    return outputs.reshape(len(outputs), -1).gather(1, chosen_outputs(outputs, target)[:, None])[:, 0]


def chosen_outputs(outputs: Tensor, target: CheckedTarget) -> Tensor:
    """Return the number of each row's explained output, on the device of the outputs.

    Zeros where the target is a function.
    """
    if isinstance(target, str):
        return outputs.detach().reshape(len(outputs), -1).argmax(dim=1)
    if callable(target):
        return torch.zeros(len(outputs), dtype=torch.int64, device=outputs.device)
    if isinstance(target, int):  # made on the device, which a copy would have to wait for
        _in_range(np.array([target]), outputs[:1].numel())
        return torch.full((len(outputs),), target, dtype=torch.int64, device=outputs.device)
    wanted = np.broadcast_to(np.asarray(target, dtype=np.int64), len(outputs))
    return torch.as_tensor(_in_range(wanted, outputs[:1].numel()).copy(), device=outputs.device)


def _in_range(chosen: np.ndarray, n_outputs: int) -> np.ndarray:
    # Negative numbers are refused too: counting from the end is more often a mistake than meant.
    bad = chosen[(chosen < 0) | (chosen >= n_outputs)]
    if len(bad):
        raise InvalidInput(f"target {bad[0]} is out of range: the model has outputs 0 to {n_outputs - 1}.")
    return chosen


def describe(target: CheckedTarget, softmax: str) -> str:
    """One sentence: which number is explained; `softmax` is the name of one that was left out."""
    if callable(target):
        named = f"{getattr(target, '__name__', 'a function')} of the outputs"
        what = getattr(target, "describes", named)
    elif isinstance(target, str):
        what = "the largest output of each row"
    else:
        what = f"output {target}" if isinstance(target, int) else "one given output per row"
    return f"{what}, before the trailing {softmax} (left out)" if softmax else what
