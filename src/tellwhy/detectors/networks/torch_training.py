"""Training of stacked networks: Adam, early stopping on rows held out, and a race between candidates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats
from tellwhy.core.torch_devices import one_thread
from tellwhy.detectors.networks.torch_networks import Sizes, Stack, Tensor

FIRST_RUNG = 100  # steps after which the worse half of the candidates leaves the race; then 200, 400, …
LEAST_GAIN = 1e-4  # a smaller relative gain on the rows held out does not count as one


class Objective(Protocol):
    """What networks are trained for: mean losses, shape (E,), of a batch and of the rows held out."""

    def batch_loss(self, stack: Stack, batch: Tensor, rng: np.random.Generator) -> Tensor:
        """Loss to descend on."""
        ...

    def held_loss(self, stack: Stack, kept: Tensor, held: Tensor) -> Tensor:
        """Loss that decides when to stop and which candidate wins; deterministic."""
        ...


@dataclass(frozen=True)
class Plan:
    """How long and in which steps to train."""

    learning_rate: float
    batch_size: int
    max_epochs: int
    patience: int
    label: str


@dataclass(frozen=True)
class Winner:
    """The network with the lowest loss on the rows held out, and the lowest loss of each candidate."""

    sizes: Sizes
    arrays: dict[str, Floats]
    losses: tuple[tuple[Sizes, float], ...]
    n_epochs: int


class Adam:
    """PyTorch's Adam on a stack whose members may leave."""

    def __init__(self, stack: Stack, learning_rate: float):
        self.learning_rate = learning_rate
        self.n_steps = 0
        self._attach(stack)

    def _attach(self, stack: Stack) -> None:
        from torch.optim import Adam as Optimiser

        self.weights = {name: tensor.requires_grad_() for name, tensor in stack.weights.items()}
        self.optimiser = Optimiser(self.weights.values(), lr=self.learning_rate, fused=True)

    def step(self, losses: Tensor) -> None:
        """Move every weight against the gradient of its own network's loss."""
        self.optimiser.zero_grad(set_to_none=True)
        losses.sum().backward()  # networks share no weight: the sum's gradient is each one's own
        self.optimiser.step()
        self.n_steps += 1

    def keep(self, before: Stack, index: list[int], after: Stack) -> None:
        """Forget the members that left the stack."""
        old = self.weights
        state = self.optimiser.state
        self._attach(after)
        for name, tensor in self.weights.items():
            moments = {key: before.cut(name, state[old[name]][key], index, after.widths) for key in _MOMENTS}
            self.optimiser.state[tensor] = {"step": state[old[name]]["step"].clone(), **moments}


_MOMENTS = ("exp_avg", "exp_avg_sq")


class Race:
    """Which candidate leads, and which are still worth training."""

    def __init__(self, stack: Stack, patience: int):
        self.sizes = list(stack.sizes)
        self.patience = patience
        self.running = list(range(len(stack)))
        self.best = np.full(len(stack), np.inf)
        self.since = np.zeros(len(stack), dtype=int)  # epoch of each candidate's last gain
        self.lead = np.inf
        self.arrays: dict[str, Floats] = {}
        self.rung = FIRST_RUNG

    def record(self, stack: Stack, losses: Floats, epoch: int) -> None:
        """Take down the losses of the running candidates; keep the weights of a new leader."""
        losses = np.where(np.isfinite(losses), losses, np.inf)  # a network that ran away must not win
        for place, candidate in enumerate(self.running):
            loss = float(losses[place])
            if loss < np.inf and loss + LEAST_GAIN * abs(loss) < self.best[candidate]:
                self.best[candidate] = loss
                self.since[candidate] = epoch
        place = int(np.argmin(losses))
        if self.best[self.running[place]] < self.lead:
            self.lead = float(self.best[self.running[place]])
            self.arrays = stack.member(place)
            self.leader = self.running[place]

    def places_to_keep(self, epoch: int, n_steps: int) -> list[int]:
        """Places in the stack of the candidates that go on."""
        going = [
            c for c in self.running if epoch - self.since[c] < self.patience and np.isfinite(self.best[c])
        ]
        if n_steps >= self.rung:  # successive halving: the time of the worse half goes to the better one
            self.rung *= 2
            going = sorted(sorted(going, key=lambda c: self.best[c])[: math.ceil(len(going) / 2)])
        places = [self.running.index(c) for c in going]
        self.running = going
        return places

    def winner(self, label: str, n_epochs: int) -> Winner:
        """Return the candidate that leads in the end."""
        if not self.arrays:
            raise InvalidInput(
                f"{label}: the loss is not finite for any candidate. Lower the learning rate, or look for "
                "extreme values in X."
            )
        losses = tuple(zip(self.sizes, self.best.tolist(), strict=True))
        return Winner(self.sizes[self.leader], self.arrays, losses, n_epochs)


def train(
    stack: Stack, objective: Objective, rows: tuple[Tensor, Tensor], plan: Plan, rng: np.random.Generator
) -> Winner:
    """Train the networks on the first rows and return the one that does best on the second, held out."""
    from torch import no_grad

    kept, held = rows
    adam = Adam(stack, plan.learning_rate)
    race = Race(stack, plan.patience)
    epoch = 0
    for epoch in track(range(plan.max_epochs), plan.max_epochs, plan.label):
        with one_thread():
            for batch in _batches(kept, plan.batch_size, rng):
                adam.step(objective.batch_loss(stack, batch, rng))
            with no_grad():
                losses = objective.held_loss(stack, kept, held).double().cpu().numpy()
        race.record(stack, losses, epoch)
        places = race.places_to_keep(epoch, adam.n_steps)
        if not places:
            break
        if len(places) < len(stack):
            fewer = stack.kept(places)
            adam.keep(stack, places, fewer)
            stack = fewer
    return race.winner(plan.label, epoch + 1)


def _batches(rows: Tensor, size: int, rng: np.random.Generator) -> Iterator[Tensor]:
    """All rows in random order, in parts of nearly equal size."""
    import torch

    order = torch.tensor(rng.permutation(len(rows)), device=rows.device)
    for part in order.tensor_split(steps_in_pass(len(rows), size)):
        yield rows[part]


def steps_in_pass(n_rows: int, batch_size: int) -> int:
    """How many batches a pass over the rows has."""
    return max(1, n_rows // batch_size)
