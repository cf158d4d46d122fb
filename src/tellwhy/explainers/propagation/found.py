"""What was found for batches of rows, brought together on the processor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from tellwhy.explainers.propagation.inputs import Inputs


@dataclass(frozen=True)
class Found:
    """What was found for some rows: values per input, scores, numbers of the explained outputs.

    `softmax` is the name of a softmax that was left out.
    """

    values: list[Tensor]
    scores: Tensor
    outputs: Tensor
    softmax: str = ""

    @property
    def parts(self) -> list[Tensor]:
        """All tensors."""
        return [*self.values, self.scores, self.outputs]


class Room:
    """Room for what an explainer finds, in double precision on the processor.

    A batch on another device is on its way while the next one is computed. `refuse(rows)` raises the error
    for rows whose values are not finite.
    """

    def __init__(self, n_rows: int, refuse: Callable[[Inputs], None]):
        self.n_rows = n_rows
        self.refuse = refuse
        self._whole: list[Tensor] = []
        self._softmax = ""
        self._sent: tuple[Inputs, slice, list[Tensor], Any] | None = None

    def put(self, rows: Inputs, part: slice, found: Found) -> None:
        """Take in what was found for a part of the rows."""
        finite = torch.stack([torch.isfinite(t).all() for t in found.parts]).all()
        self._softmax = found.softmax
        parts, arrived = _send([finite, *found.parts])
        self._receive()
        self._sent = rows, part, parts, arrived
        if arrived is None:
            self._receive()

    def all_rows(self) -> Found:
        """Everything that was found."""
        self._receive()
        *values, scores, outputs = self._whole
        return Found(values, scores, outputs, self._softmax)

    def _receive(self) -> None:
        if self._sent is None:
            return
        rows, part, (finite, *parts), arrived = self._sent
        self._sent = None
        if arrived is not None:
            arrived.synchronize()
        if not bool(finite):
            self.refuse(rows)
        if not self._whole:
            self._whole = [torch.empty((self.n_rows, *t.shape[1:]), dtype=torch.float64) for t in parts]
        for whole, values in zip(self._whole, parts, strict=True):
            whole[part].copy_(values)


def _send(tensors: list[Tensor]) -> tuple[list[Tensor], Any]:
    """Copies on the processor, and the event of their arrival; None where they are there already."""
    if not tensors[-1].is_cuda:
        return [t.cpu() for t in tensors], None
    pinned = [torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors]
    for room, t in zip(pinned, tensors, strict=True):
        room.copy_(t.contiguous(), non_blocking=True)
    arrived = torch.cuda.Event()
    arrived.record(torch.cuda.current_stream(tensors[-1].device))
    return pinned, arrived
