"""Recurrent layers and cells, written out step by step.

PyTorch reports an LSTM, a GRU or a plain recurrent layer as one call. Here each step is a fully connected
layer of (x, h), sigmoid and tanh, sums and products, which have rules: products with a gate by LRP's setting
`gates`. Arras, Montavon, Müller, Samek, WASSA (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

State = tuple[Tensor, ...]  # (h, c) of an LSTM, (h,) of the others
Cell = Callable[[Tensor, State, "Weights"], State]


@dataclass(frozen=True)
class Weights:
    """Parameters of one direction of one layer; `output` projects the state of an LSTM."""

    inputs: Tensor
    hidden: Tensor
    input_bias: Tensor | None = None
    hidden_bias: Tensor | None = None
    output: Tensor | None = None

    @property
    def bias(self) -> Tensor | None:
        """Both biases, which are added wherever they are used together."""
        if self.input_bias is None or self.hidden_bias is None:
            return self.input_bias
        return self.input_bias + self.hidden_bias


def _joint(x: Tensor, h: Tensor, weights: Weights) -> Tensor:
    """W x + U h + b as one layer: a rule then sees the whole sum."""
    matrix = torch.cat([weights.inputs, weights.hidden], dim=1)
    return functional.linear(torch.cat([x, h], dim=-1), matrix, weights.bias)


def lstm_step(x: Tensor, state: State, weights: Weights) -> State:
    """One step of an LSTM."""
    gates = _joint(x, state[0], weights).chunk(4, dim=-1)
    kept = torch.sigmoid(gates[1]) * state[1]
    c = kept + torch.sigmoid(gates[0]) * torch.tanh(gates[2])
    h = torch.sigmoid(gates[3]) * torch.tanh(c)
    return (h if weights.output is None else functional.linear(h, weights.output)), c


def gru_step(x: Tensor, state: State, weights: Weights) -> State:
    """One step of a GRU."""
    h = state[0]
    size = h.shape[-1]
    two = 2 * size  # the reset and the update gate come first
    bias = weights.input_bias
    other = weights.hidden_bias
    both = Weights(
        weights.inputs[:two],
        weights.hidden[:two],
        None if bias is None else bias[:two],
        None if other is None else other[:two],
    )
    gates = torch.sigmoid(_joint(x, h, both)).chunk(2, dim=-1)
    reset = gates[0]
    update = gates[1]
    fresh = functional.linear(x, weights.inputs[two:], None if bias is None else bias[two:])
    recalled = functional.linear(h, weights.hidden[two:], None if other is None else other[two:])
    candidate = torch.tanh(fresh + reset * recalled)
    return ((1 - update) * candidate + update * h,)


def tanh_step(x: Tensor, state: State, weights: Weights) -> State:
    """One step of a plain recurrent layer."""
    return (torch.tanh(_joint(x, state[0], weights)),)


def relu_step(x: Tensor, state: State, weights: Weights) -> State:
    """One step of a plain recurrent layer with ReLU."""
    return (torch.relu(_joint(x, state[0], weights)),)


STEPS: dict[str, Cell] = {"lstm": lstm_step, "gru": gru_step, "rnn_tanh": tanh_step, "rnn_relu": relu_step}


def _followed(x: Tensor, state: State) -> State:
    """The same state, as an activation: one that is a constant absorbs what comes down to it.

    A gate that meets a constant signal would otherwise be all that depends on the input, and take its place.
    """
    return tuple(part if part.requires_grad else part + 0 * x[:, :1] for part in state)


def cell(name: str, *args: Any) -> Any:
    """One call of `lstm_cell`, `gru_cell`, `rnn_tanh_cell` or `rnn_relu_cell`."""
    x = args[0]
    state = tuple(args[1]) if name == "lstm" else (args[1],)
    found = STEPS[name](x, _followed(x, state), Weights(*args[2:6]))
    return found if name == "lstm" else found[0]


def layers(name: str, *args: Any) -> Any:
    """One call of `lstm`, `gru`, `rnn_tanh` or `rnn_relu`, of rows or of a packed sequence.

    PyTorch passes (x, state, weights, biases?, n_layers, dropout, training, both ways?, rows first?), or
    (x, batch sizes, state, …) without the last for packed sequences.
    """
    packed = isinstance(args[2], Tensor) or isinstance(args[3], (list, tuple))
    if packed:
        x = args[0]
        sizes = [int(size) for size in args[1]]
        rest = args[2:]
        steps = list(x.split(sizes))
    else:
        x = args[0]
        rest = args[1:]
        rows_first = bool(rest[7])
        steps = list(x.unbind(1 if rows_first else 0))
    state = tuple(rest[0]) if name == "lstm" else (rest[0],)
    stack = Stack(name, rest[1], bool(rest[2]), n_layers=int(rest[3]), ways=2 if rest[6] else 1)
    dropout = float(rest[4]) if rest[5] else 0.0
    outputs, last = stack.run(steps, state, dropout)
    joined = torch.cat(outputs) if packed else torch.stack(outputs, dim=1 if rows_first else 0)
    return joined, *last


@dataclass(frozen=True)
class Stack:
    """Layers of one kind, each in one direction or both (`ways`)."""

    name: str
    parameters: Sequence[Tensor]
    has_biases: bool
    n_layers: int
    ways: int

    def run(self, steps: list[Tensor], state: State, dropout: float) -> tuple[list[Tensor], State]:
        """Outputs of every step of the last layer, and the last states of every layer and direction."""
        ends: list[State] = []
        for layer in range(self.n_layers):
            found = []
            for way in range(self.ways):
                number = layer * self.ways + way
                start = tuple(part[number] for part in state)
                outputs, end = self._one_way(steps, start, self.weights(number), backwards=way == 1)
                found.append(outputs)
                ends.append(end)
            steps = found[0]
            if self.ways == 2:
                steps = [torch.cat(both, dim=-1) for both in zip(*found, strict=True)]
            if dropout > 0 and layer < self.n_layers - 1:
                steps = [functional.dropout(step, dropout) for step in steps]
        return steps, tuple(torch.stack(parts) for parts in zip(*ends, strict=True))

    def weights(self, number: int) -> Weights:
        """Parameters of one direction of one layer."""
        n_each = len(self.parameters) // (self.n_layers * self.ways)
        own = list(self.parameters[number * n_each : (number + 1) * n_each])
        if not self.has_biases:
            return Weights(own[0], own[1], output=own[2] if n_each == 3 else None)
        output = own[4] if n_each == 5 else None
        return Weights(own[0], own[1], own[2], own[3], output)

    def _one_way(
        self, steps: list[Tensor], start: State, weights: Weights, *, backwards: bool
    ) -> tuple[list[Tensor], State]:
        """One direction of a layer. Rows of a packed sequence end one after the other, the last first."""
        order = range(len(steps) - 1, -1, -1) if backwards else range(len(steps))
        start = _followed(steps[0], start)
        state = tuple(part[: steps[order[0]].shape[0]] for part in start)
        outputs: list[Tensor] = [steps[0]] * len(steps)
        ended: list[State] = []
        for t in order:
            n = steps[t].shape[0]
            if n < state[0].shape[0]:  # forwards: these rows are over
                ended.insert(0, tuple(part[n:] for part in state))
                state = tuple(part[:n] for part in state)
            elif n > state[0].shape[0]:  # backwards: further rows begin
                state = tuple(
                    torch.cat([part, first[part.shape[0] : n]])
                    for part, first in zip(state, start, strict=True)
                )
            state = STEPS[self.name](steps[t], state, weights)
            outputs[t] = state[0]
        if ended:
            state = tuple(torch.cat(parts) for parts in zip(state, *ended, strict=True))
        return outputs, state
