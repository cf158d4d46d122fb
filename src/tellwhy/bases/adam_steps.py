"""Steps of Adam, recorded and played again on a graphics card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellwhy.bases.torch_features import Tensor


class Steps:
    """Steps of Adam over the batches of an epoch.

    On a graphics card one step is recorded and played again: starting its many small operations one by one
    would take longer than the operations themselves.
    """

    def __init__(
        self,
        losses: Callable[[Tensor], Tensor],
        trained: list[Tensor],
        learning_rate: float,
        *,
        record: bool = True,
        sources: tuple[Tensor, ...] = (),
    ):
        import torch

        self.losses = losses
        self.trained = trained
        self.sources = sources  # of random numbers that the losses draw
        self.is_recorded = trained[0].is_cuda and record
        rate: Any = learning_rate
        if self.is_recorded:  # a recorded step reads its rate from the device
            rate = torch.tensor(rate, device=trained[0].device)
        self.optimiser = torch.optim.Adam(trained, lr=rate, fused=True, capturable=self.is_recorded)
        self.graph: Tensor = None

    def set_rate(self, rate: float) -> None:
        """Set the learning rate of the steps to come."""
        group = self.optimiser.param_groups[0]
        if self.is_recorded:
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate

    def run(self, batches: Tensor) -> None:
        """Take one step per batch."""
        if not self.is_recorded:
            for batch in batches:
                self._step(batch)
            return
        if self.graph is None:
            self._record(batches)
        self.batches.copy_(batches)
        self.place.zero_()
        for _ in range(len(batches)):
            self.graph.replay()

    def _step(self, batch: Tensor) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        self.losses(batch).sum().backward()
        self.optimiser.step()

    def _record(self, batches: Tensor) -> None:
        """Record a step that reads its batch from a place which moves on by one each time."""
        import torch

        before = [tensor.detach().clone() for tensor in self.trained]
        self.batches = batches.clone()
        self.place = torch.zeros(1, dtype=torch.int64, device=batches.device)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            # Allocations and choices of algorithms happen in these steps, outside the recording.
            for batch in batches[:3]:
                self._step(batch)
        torch.cuda.current_stream().wait_stream(side)
        self.optimiser.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        for source in self.sources:
            self.graph.register_generator_state(source)
        with torch.cuda.graph(self.graph):
            self.losses(self.batches.index_select(0, self.place)[0]).sum().backward()
            self.optimiser.step()
            self.place.add_(1)
        self._forget(before)

    def _forget(self, before: list[Tensor]) -> None:
        """Undo the steps that were taken to prepare the recording."""
        import torch

        with torch.no_grad():
            for tensor, old in zip(self.trained, before, strict=True):
                tensor.copy_(old)
                for moment in self.optimiser.state[tensor].values():
                    moment.zero_()
