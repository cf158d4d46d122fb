"""Adam on stacked bases, with early stopping on rows held out.

What a basis starts from is a candidate like every epoch: by the loss on rows held out, training never ends
worse than it began. On a graphics card, steps are recorded and played again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.bases.objectives import Objective
from tellwhy.bases.torch_features import BasisStack, Tensor
from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import track
from tellwhy.core.running import one_thread
from tellwhy.core.score import Floats, Integers


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


@dataclass(frozen=True)
class Plan:
    """How long and in which steps to train."""

    learning_rate: float = 1e-3
    batch_size: int = 64
    n_batches: int = 1_000
    max_epochs: int = 100
    patience: int = 10
    decay: bool = False  # let the learning rate fall to 0 in a straight line over all epochs
    train_basis: bool = True
    record: bool = True  # on a graphics card, record one step and play it again
    label: str = "training the basis"

    def rate_of(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        return self.learning_rate * (1 - epoch / self.max_epochs) if self.decay else self.learning_rate


@dataclass(frozen=True)
class TrainingRows:
    """Rows divided by the bandwidth, and labels 0, 1, …, to learn from and held out; on one device."""

    Z: Tensor
    labels: Tensor
    held_Z: Tensor
    held_labels: Tensor

    @classmethod
    def of(cls, Z: Floats, labels: Integers, held: Integers, device: str) -> TrainingRows:
        """Put rows on the device; `held` are the places of those held out."""
        import torch

        rest = np.setdiff1d(np.arange(len(Z)), held)
        rows = [torch.tensor(Z[part], dtype=torch.float32, device=device) for part in (rest, held)]
        own = [torch.tensor(labels[part], dtype=torch.int64, device=device) for part in (rest, held)]
        return cls(rows[0], own[0], rows[1], own[1])

    def joined(self) -> TrainingRows:
        """All rows to learn from."""
        import torch

        rows, labels = torch.cat([self.Z, self.held_Z]), torch.cat([self.labels, self.held_labels])
        return TrainingRows(rows, labels, self.held_Z, self.held_labels)


@dataclass(frozen=True)
class Trained:
    """What became of E bases: losses on the rows held out, and when each basis stopped.

    Attributes
    ----------
    start
        Losses before the first step, shape (E,).
    losses
        After each epoch, shape (epochs, E).
    ends
        Epochs until each basis stopped.
    """

    start: Floats
    losses: Floats
    ends: Integers

    @property
    def best(self) -> Floats:
        """Loss of the weights that each basis ended with."""
        return np.asarray(np.minimum(self.start, np.nanmin(self.losses, axis=0)))

    def best_epochs(self, index: int = 0) -> int:
        """Epochs after which a basis had the weights that it ended with; 0 for what it started from."""
        values = np.concatenate([self.start[None, index], self.losses[: self.ends[index], index]])
        return int(np.nanargmin(values))


def train(
    stack: BasisStack, objective: Objective, rows: TrainingRows, plan: Plan, rng: np.random.Generator
) -> Trained:
    """Train a stack in place; it ends with the weights of each basis that did best on the rows held out."""
    import torch

    trained = [*(stack.trained if plan.train_basis else []), *objective.parameters]
    size = min(plan.batch_size, len(rows.Z))
    device = rows.Z.device
    parts = [torch.tensor(p, device=device) for p in objective.held_parts(rng, len(rows.held_Z), size)]
    epochs = Epochs(stack, objective, rows, plan, rng)
    watch, history = Watch(trained, len(stack), plan.patience), []
    start = _compute_held_losses(stack, objective, rows, parts)
    watch.record(start, -1)
    for epoch in track(range(plan.max_epochs), plan.max_epochs, plan.label):
        epochs.run(epoch)
        history.append(_compute_held_losses(stack, objective, rows, parts))
        watch.record(history[-1], epoch)
        if watch.is_over(epoch):
            break
    if not watch.found_any():
        raise InvalidInput(
            f"{plan.label}: the loss on the rows held out is not finite. Lower the learning rate, or look "
            "for extreme values in X."
        )
    watch.restore()
    losses = torch.stack([start, *history]).double().cpu().numpy()
    return Trained(losses[0], losses[1:], watch.ends.cpu().numpy())


def train_for(
    stack: BasisStack,
    objective: Objective,
    rows: TrainingRows,
    plan: Plan,
    rng: np.random.Generator,
    *,
    n_epochs: int,
) -> None:
    """Train a stack in place for a given number of epochs, whatever happens on the rows held out."""
    epochs = Epochs(stack, objective, rows, plan, rng)
    for epoch in track(range(n_epochs), n_epochs, f"{plan.label}, on all rows"):
        epochs.run(epoch)


class Epochs:
    """Steps over freshly drawn batches, epoch by epoch."""

    def __init__(
        self,
        stack: BasisStack,
        objective: Objective,
        rows: TrainingRows,
        plan: Plan,
        rng: np.random.Generator,
    ):
        self.objective = objective
        self.rows = rows
        self.plan = plan
        self.rng = rng
        self.size = min(plan.batch_size, len(rows.Z))
        trained = [*(stack.trained if plan.train_basis else []), *objective.parameters]
        for tensor in stack.trained:
            tensor.requires_grad_(plan.train_basis)  # slopes of what stays as it is would cost time
        self.steps = Steps(
            lambda index: objective.losses(stack, rows.Z, rows.labels, index),
            trained,
            plan.learning_rate,
            # Landmarks are factorised in every step, which a recording may not hold.
            record=plan.record and not stack.maps[0].has_landmarks,
            sources=objective.sources,
        )

    def run(self, epoch: int) -> None:
        """Take the steps of an epoch, counted from 0."""
        import torch

        self.steps.set_rate(self.plan.rate_of(epoch))
        drawn = self.objective.draw(self.rng, len(self.rows.Z), self.plan.n_batches, self.size)
        with _choose_threads(self.rows):
            self.steps.run(torch.tensor(drawn, device=self.rows.Z.device))


def _choose_threads(rows: TrainingRows) -> Any:
    """One thread: small products only lose time to more, and their sums depend on how many there are."""
    return nullcontext() if rows.Z.is_cuda else one_thread()


def _compute_held_losses(
    stack: BasisStack, objective: Objective, rows: TrainingRows, parts: list[Tensor]
) -> Tensor:
    import torch

    with _choose_threads(rows), torch.no_grad():
        found = [objective.held_losses(stack, rows.held_Z, rows.held_labels, part) for part in parts]
        return torch.stack(found).mean(0)


class Watch:
    """The best weights so far of each basis in a stack, kept on the device."""

    def __init__(self, trained: list[Tensor], n_bases: int, patience: int):
        import torch

        device = trained[0].device
        self.trained = trained
        self.patience = patience
        self.kept = [tensor.detach().clone() for tensor in trained]
        self.best = torch.full((n_bases,), torch.inf, device=device)
        self.since = torch.zeros(n_bases, dtype=torch.int64, device=device)
        self.running = torch.ones(n_bases, dtype=torch.bool, device=device)
        self.ends = torch.zeros(n_bases, dtype=torch.int64, device=device)

    def record(self, losses: Tensor, epoch: int) -> None:
        """Keep the weights of the bases that improved and have not stopped."""
        import torch

        better = self.running & (losses < self.best)
        self.best = torch.where(better, losses, self.best)
        self.since = torch.where(better, epoch, self.since)
        with torch.no_grad():  # otherwise what is kept would drag a history of gradients along
            for kept, tensor in zip(self.kept, self.trained, strict=True):
                chosen = better.reshape(-1, *[1] * (tensor.ndim - 1))
                kept.copy_(torch.where(chosen, tensor, kept))
        self.ends = torch.where(self.running, epoch + 1, self.ends)
        self.running &= epoch - self.since < self.patience
        if epoch >= 0:
            self.running &= losses.isfinite()  # weights that are not finite stay so

    def is_over(self, epoch: int) -> bool:
        """Whether every basis has stopped; the one question an epoch that waits for the device."""
        return not bool(self.running.any()) or (epoch == 0 and not self.found_any())

    def found_any(self) -> bool:
        """Whether every basis had a finite loss once."""
        return bool(self.best.isfinite().all())

    def restore(self) -> None:
        """Put the best weights back."""
        import torch

        with torch.no_grad():
            for kept, tensor in zip(self.kept, self.trained, strict=True):
                tensor.copy_(kept)
