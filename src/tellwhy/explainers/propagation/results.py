"""Results of batches of rows, brought together in the main memory, or on the device they are on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tellwhy.core.errors import InvalidInput
from tellwhy.scoring.network_inputs import Inputs

if TYPE_CHECKING:
    from tellwhy.core.explanation import Explanation
    from tellwhy.explainers.propagation.base import NetworkExplainer
    from tellwhy.explainers.propagation.batches import Explained


@dataclass(frozen=True)
class Result:
    """What a method gave for some rows.

    Attributes
    ----------
    values
        For each input of the model one tensor, shaped like it.
    scores
        The explained number of each row.
    outputs
        Which output of the model that number is.
    softmax
        Name of a trailing softmax that was left out; "" for none.
    conserves
        Whether every rule on the way promises to hand on all relevance.
    n_outputs
        How many outputs the model has for each row.
    base
        The explained number of what each row is compared with; None where there is no such thing.
    """

    values: list[Tensor]
    scores: Tensor
    outputs: Tensor
    softmax: str = ""
    conserves: bool = False
    n_outputs: int = 0
    base: Tensor | None = None

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors, in a fixed order."""
        listed = [*self.values, self.scores, self.outputs]
        return listed if self.base is None else [*listed, self.base]

    def holding(self, tensors: Sequence[Tensor]) -> Result:
        """The same for other rows: their tensors, in the order of `tensors`."""
        n = len(self.values)
        base = None if self.base is None else tensors[n + 2]
        return replace(self, values=list(tensors[:n]), scores=tensors[n], outputs=tensors[n + 1], base=base)

    def rows(self, part: slice) -> Result:
        """The result of some of the rows."""
        return self.holding([t[part] for t in self.tensors])

    def to(self, device: torch.device) -> Result:
        """The same on a device."""
        return self.holding([t.to(device) for t in self.tensors])

    def followed_by(self, other: Result) -> Result:
        """The result of these rows and then of others."""
        return self.holding([torch.cat(pair) for pair in zip(self.tensors, other.tensors, strict=True)])


@dataclass(frozen=True)
class _Sent:
    """A result on its way from the device: the rows it is of, their place, and the event of its arrival."""

    rows: Inputs
    part: slice
    finite: Tensor
    tensors: list[Tensor]
    arrived: Any  # a torch.cuda.Event; None where the tensors are here already


class Collector:
    """Collects the results of all batches, in double precision.

    The result of a batch on a GPU is copied while the next batch is computed, and looked at afterwards.

    Parameters
    ----------
    n_rows
        Rows of all batches.
    refuse
        Called with the rows of a batch whose result is not finite; it raises the error.
    """

    def __init__(self, n_rows: int, refuse: Callable[[Inputs], None]):
        self.n_rows = n_rows
        self.refuse = refuse
        self._like: Result | None = None  # the newest result, without its rows
        self._whole: list[Tensor] = []
        self._sent: _Sent | None = None
        self._rooms: list[list[Tensor]] = []  # pinned memory, for the batch that arrives and for the next

    def put(self, rows: Inputs, part: slice, result: Result) -> None:
        """Take in the result of a part of the rows."""
        # One flag for everything, computed where the tensors are: asking a GPU is slow.
        finite = _is_finite(result)
        self._like = result.rows(slice(0))
        copies, arrived = self._send([finite, *result.tensors])
        self._receive()  # the batch before, which had time to arrive
        self._sent = _Sent(rows, part, copies[0], copies[1:], arrived)
        if arrived is None:
            self._receive()

    def all_rows(self) -> Result:
        """The results of all rows."""
        self._receive()
        assert self._like is not None
        return self._like.holding(self._whole)

    def _send(self, tensors: list[Tensor]) -> tuple[list[Tensor], Any]:
        """Copies in the main memory, and the event of their arrival; None where they are there already."""
        if not tensors[-1].is_cuda:
            return [t.cpu() for t in tensors], None
        # Only a copy into pinned memory runs beside the computation; making it is slow, so two are kept.
        if len(self._rooms) < 2:
            self._rooms.append([torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors])
        else:
            self._rooms.reverse()
        rooms = [room[: len(t)] if t.ndim else room for room, t in zip(self._rooms[-1], tensors, strict=True)]
        for room, t in zip(rooms, tensors, strict=True):
            room.copy_(t.contiguous(), non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(tensors[-1].device))
        return rooms, arrived

    def _receive(self) -> None:
        """Write what was sent last into its place."""
        sent = self._sent
        self._sent = None
        if sent is None:
            return
        if sent.arrived is not None:
            sent.arrived.synchronize()
        if not bool(sent.finite):
            self.refuse(sent.rows)
        if not self._whole:  # the first batch tells the shapes
            # By numpy, which asks for large pages: most of the time to fill new memory goes into its pages.
            self._whole = [torch.from_numpy(np.empty((self.n_rows, *t.shape[1:]))) for t in sent.tensors]
        for whole, values in zip(self._whole, sent.tensors, strict=True):
            whole[sent.part].copy_(values)


def _is_finite(result: Result) -> Tensor:
    """One flag, on the device: whether no value is infinite or not a number."""
    # The largest size of a tensor is one pass over it; infinities and what is not a number show in it.
    numbers = [t for t in result.tensors if t.is_floating_point()]
    sizes = [torch.linalg.vector_norm(t, ord=torch.inf).double() for t in numbers]
    return torch.isfinite(torch.stack(sizes)).all()


class DeviceCollector:
    """Collects the results of all batches where they are, in the network's own type.

    Parameters are those of `Collector`. Whether all values are finite is asked once, at the end.
    """

    def __init__(self, n_rows: int, refuse: Callable[[Inputs], None]):
        self.n_rows = n_rows
        self.refuse = refuse
        self._whole: Result | None = None
        self._batches: list[tuple[Inputs, Tensor]] = []

    def put(self, rows: Inputs, part: slice, result: Result) -> None:
        """Take in the result of a part of the rows."""
        self._batches.append((rows, _is_finite(result)))
        if len(rows) == self.n_rows:  # one batch is all: nothing to put together
            self._whole = result
            return
        if self._whole is None:
            room = [t.new_empty((self.n_rows, *t.shape[1:])) for t in result.tensors]
            self._whole = result.holding(room)
        for whole, values in zip(self._whole.tensors, result.tensors, strict=True):
            whole[part].copy_(values)

    def all_rows(self) -> Result:
        """The results of all rows."""
        finite = torch.stack([flag for _, flag in self._batches]).cpu()
        for (rows, _), sound in zip(self._batches, finite, strict=True):
            if not bool(sound):
                self.refuse(rows)
        assert self._whole is not None
        return self._whole


@dataclass(frozen=True, eq=False)
class TensorExplanation:
    """Values of one input as a tensor, in the network's own type and on its device.

    `explain(x, output="torch")` gives one; `numpy()` makes the `Explanation` of it that all views read.

    Attributes
    ----------
    values
        Shaped like the input.
    scores
        The explained number of each row.
    outputs
        Which output of the network that number is.
    base_values
        What the other inputs of the network got; zeros where there is one input.
    kind, method
        As in `Explanation`.
    """

    values: Tensor
    scores: Tensor
    outputs: Tensor
    base_values: Tensor
    kind: str
    method: str
    _made_by: Any = field(repr=False, default=None)

    @property
    def residual(self) -> Tensor:
        """What was not attributed to any input."""
        if self.kind != "attribution":
            raise InvalidInput(f"{self.method} has no residual: its values are not shares of the output.")
        return self.scores - self.base_values - self.values.flatten(1).sum(dim=1)

    def numpy(self) -> Explanation:
        """Return the same in the main memory, in double precision."""
        explainer = self._made_by[0]
        here = [t.detach().double().cpu().numpy() for t in (self.values, self.scores, self.base_values)]
        given = {"others": here[2], "what": self._made_by[2]}
        made: Explanation = explainer.assemble(self._made_by[1], here[0], here[1], **given)
        return made


def on_device(
    explainer: NetworkExplainer, data: Any, k: int, result: Result, what: Explained
) -> TensorExplanation:
    """Explanation of the input of number k; scores are the sum over all inputs, and what the base is."""
    others = result.scores.new_zeros(result.scores.shape) if result.base is None else result.base
    if explainer.kind == "attribution":
        for number, part in enumerate(result.values):
            others = others if number == k else others + part.flatten(1).sum(dim=1)
    method = type(explainer).__name__
    made_by = (explainer, data, what)
    return TensorExplanation(
        result.values[k], result.scores, result.outputs, others, explainer.kind, method, made_by
    )
