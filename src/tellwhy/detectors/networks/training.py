"""Small networks trained side by side: early stopping on rows held out, successive halving of candidates.

One tensor holds the same layer of several networks, padded to the largest; masks keep the padding silent, so
that each network learns exactly what it would have learned alone. PyTorch is imported when a function runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import track
from tellwhy.core.running import one_thread
from tellwhy.core.score import Floats, Integers

Tensor = Any
Layout = Mapping[str, tuple[str, str]]  # layer -> names of its input and output axes
Sizes = Mapping[str, int]  # axis -> number of units


@dataclass
class Stack:
    """E networks of the same layout, perhaps of different sizes, in the same tensors."""

    layout: Layout
    sizes: list[Sizes]  # of each network
    weights: dict[str, Tensor]  # "<layer>.weight": (E, inputs, outputs); "<layer>.bias": (E, 1, outputs)
    masks: dict[str, Tensor]  # by axis, (E, 1, units): 1 for units in use, 0 for padding

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def device(self) -> str:
        """'cpu' or 'cuda'."""
        return str(next(iter(self.weights.values())).device.type)

    @property
    def n_weights(self) -> int:
        """Weights of all networks, padding included: the multiply-adds of one row."""
        return sum(tensor.numel() for tensor in self.weights.values())

    @property
    def widths(self) -> dict[str, int]:
        """Units on each axis, padding included."""
        return {axis: mask.shape[2] for axis, mask in self.masks.items()}

    def linear(self, layer: str, x: Tensor) -> Tensor:
        """X W + b, for x of shape (E, rows, inputs)."""
        return self.weights[f"{layer}.bias"].baddbmm(x, self.weights[f"{layer}.weight"])

    def hidden(self, layer: str, x: Tensor) -> Tensor:
        """softplus(x W + b), silent in the padding."""
        from torch.nn.functional import softplus

        return softplus(self.linear(layer, x)) * self.masks[self.layout[layer][1]]

    def bypass(self, layer: str, x: Tensor) -> Tensor:
        """X W + b of a layer that not every layout has; nothing without it."""
        return self.linear(layer, x) if layer in self.layout else 0.0

    def member(self, index: int) -> dict[str, Floats]:
        """Weights and biases of one network, without padding."""
        arrays = {}
        for layer, (inputs, outputs) in self.layout.items():
            n_in = self.sizes[index][inputs]
            n_out = self.sizes[index][outputs]
            weight = self.weights[f"{layer}.weight"][index]
            bias = self.weights[f"{layer}.bias"][index]
            arrays[f"{layer}.weight"] = weight[:n_in, :n_out].detach().cpu().double().numpy().copy()
            arrays[f"{layer}.bias"] = bias[0, :n_out].detach().cpu().double().numpy().copy()
        return arrays

    def kept(self, index: Sequence[int]) -> Stack:
        """Return some of the networks, with no more padding than they need."""
        sizes = [self.sizes[i] for i in index]
        widths = _choose_widths(sizes)
        weights = {name: self.cut(name, tensor, index, widths) for name, tensor in self.weights.items()}
        masks = {axis: mask[list(index), :, : widths[axis]].contiguous() for axis, mask in self.masks.items()}
        return Stack(self.layout, sizes, weights, masks)

    def cut(self, name: str, tensor: Tensor, index: Sequence[int], widths: Sizes) -> Tensor:
        """Return the part of a tensor shaped like the weights `name` that belongs to some networks."""
        inputs, outputs = self.layout[name.partition(".")[0]]
        rows = widths[inputs] if name.endswith("weight") else 1
        return tensor.detach()[list(index), :rows, : widths[outputs]].clone()


def _choose_widths(sizes: Sequence[Sizes]) -> dict[str, int]:
    return {axis: max(size[axis] for size in sizes) for axis in sizes[0]}


def make_stack(
    layout: Layout, sizes: Sequence[Sizes], rng: np.random.Generator, device: str, dtype: Any
) -> Stack:
    """Networks with weights and biases uniform in ±1/√inputs, each drawn from a stream of its own."""
    import torch

    # A stream of its own for each network: what it starts from does not depend on the other candidates.
    drawn = [
        {layer: _drawn(size[a], size[b], own) for layer, (a, b) in layout.items()}
        for size, own in zip(sizes, rng.spawn(len(sizes)), strict=True)
    ]
    widths = _choose_widths(sizes)
    weights = {}
    for layer, (a, b) in layout.items():
        weight = np.zeros((len(sizes), widths[a], widths[b]))
        bias = np.zeros((len(sizes), 1, widths[b]))
        for e, arrays in enumerate(drawn):
            w, own_bias = arrays[layer]
            weight[e, : w.shape[0], : w.shape[1]] = w
            bias[e, 0, : w.shape[1]] = own_bias
        weights[f"{layer}.weight"] = torch.tensor(weight, dtype=dtype, device=device)
        weights[f"{layer}.bias"] = torch.tensor(bias, dtype=dtype, device=device)
    return Stack(layout, list(sizes), weights, _make_masks(sizes, widths, device, dtype))


def _drawn(inputs: int, outputs: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    reach = 1.0 / math.sqrt(inputs)  # as PyTorch's own linear layers start
    return rng.uniform(-reach, reach, (inputs, outputs)), rng.uniform(-reach, reach, outputs)


def _make_masks(sizes: Sequence[Sizes], widths: Sizes, device: str, dtype: Any) -> dict[str, Tensor]:
    import torch

    used = {
        axis: [[[i < size[axis] for i in range(width)]] for size in sizes] for axis, width in widths.items()
    }
    return {axis: torch.tensor(rows, dtype=dtype, device=device) for axis, rows in used.items()}


def take_one_network(layout: Layout, arrays: Mapping[str, Floats], device: str, dtype: Any) -> Stack:
    """Return a stack that holds the single network of these weights and biases."""
    import torch

    weights = {}
    size = {}
    for layer, (inputs, outputs) in layout.items():
        weight = arrays[f"{layer}.weight"]
        bias = arrays[f"{layer}.bias"]
        size[inputs], size[outputs] = weight.shape
        weights[f"{layer}.weight"] = torch.tensor(weight[None], dtype=dtype, device=device)
        weights[f"{layer}.bias"] = torch.tensor(bias[None, None], dtype=dtype, device=device)
    return Stack(layout, [size], weights, _make_masks([size], size, device, dtype))


def reorder_columns(layout: Layout, arrays: Mapping[str, Floats], order: Integers) -> dict[str, Floats]:
    """Return a network that was trained on X[:, order] as one for X: its columns are put back in place."""
    back = np.argsort(order)  # the inverse of a permutation
    changed = dict(arrays)
    for layer, (inputs, outputs) in layout.items():
        if inputs == "column":
            changed[f"{layer}.weight"] = changed[f"{layer}.weight"][back]
        if outputs == "column":
            changed[f"{layer}.weight"] = changed[f"{layer}.weight"][:, back]
            changed[f"{layer}.bias"] = arrays[f"{layer}.bias"][back]
    return changed


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


class SuccessiveHalving:
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
    race = SuccessiveHalving(stack, plan.patience)
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
    for part in order.tensor_split(count_steps_in_pass(len(rows), size)):
        yield rows[part]


def count_steps_in_pass(n_rows: int, batch_size: int) -> int:
    """How many batches a pass over the rows has."""
    return max(1, n_rows // batch_size)
