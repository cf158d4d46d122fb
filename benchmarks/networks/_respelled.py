"""Networks in other words: the same weights and the same function, by other operations of PyTorch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Linear(nn.Module):
    """x @ Wᵀ + b."""

    def __init__(self, old: nn.Linear):
        super().__init__()
        self.weight, self.bias = old.weight, old.bias

    def forward(self, x: Tensor) -> Tensor:
        product = x @ self.weight.t()
        return product if self.bias is None else product + self.bias


class LayerNorm(nn.Module):
    """(x − mean) · rsqrt(variance + ε) · γ + β."""

    def __init__(self, old: nn.LayerNorm):
        super().__init__()
        self.weight, self.bias, self.eps = old.weight, old.bias, old.eps
        self.axes = tuple(range(-len(old.normalized_shape), 0))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(self.axes, keepdim=True)
        return (
            centred * torch.rsqrt(centred.pow(2).mean(self.axes, keepdim=True) + self.eps) * self.weight
            + self.bias
        )


class LayerNorm2d(LayerNorm):
    """The same over the channels of pictures, as ConvNeXt has it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RMSNorm(nn.Module):
    """x / √(mean square + ε) · γ."""

    def __init__(self, old: nn.RMSNorm):
        super().__init__()
        self.weight, self.eps = old.weight, old.eps

    def forward(self, x: Tensor) -> Tensor:
        return x / ((x * x).mean(-1, keepdim=True) + self.eps).sqrt() * self.weight


class Attention(nn.Module):
    """`nn.MultiheadAttention` by `softmax` and `@`."""

    def __init__(self, old: nn.MultiheadAttention):
        super().__init__()
        self.heads, self.first = old.num_heads, old.batch_first
        # `nn.TransformerEncoder` asks for these.
        self.batch_first, self._qkv_same_embed_dim, self.in_proj_bias = old.batch_first, False, None
        self.into, self.bias, self.out = old.in_proj_weight, old.in_proj_bias, old.out_proj

    def forward(self, query: Tensor, key: Tensor, value: Tensor, **masks: Any) -> tuple[Tensor, None]:
        given = [t if self.first else t.transpose(0, 1) for t in (query, key, value)]
        biases = [0.0] * 3 if self.bias is None else self.bias.chunk(3)
        parts = [t @ w.t() + b for t, w, b in zip(given, self.into.chunk(3), biases, strict=True)]
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in parts)
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if masks.get("attn_mask") is not None:
            scores = scores + masks["attn_mask"]
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        out = mixed @ self.out.weight.t() + self.out.bias
        return (out if self.first else out.transpose(0, 1)), None


class Cells(nn.Module):
    """A recurrent layer of one direction by its cell, step after step."""

    def __init__(self, old: nn.RNNBase):
        super().__init__()
        cell = {"LSTM": nn.LSTMCell, "GRU": nn.GRUCell}.get(type(old).__name__, nn.RNNCell)
        self.cell = cell(old.input_size, old.hidden_size)
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        for name, value in zip(names, old.all_weights[0], strict=True):
            setattr(self.cell, name, nn.Parameter(value.detach().clone()))

    def forward(self, x: Tensor) -> tuple[Tensor, Any]:
        state, outputs = None, []
        for step in x.unbind(1):
            state = self.cell(step, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs, dim=1), state


class Function(nn.Module):
    """A function of single elements."""

    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, z: Tensor) -> Tensor:
        return self.function(z)


def _gelu(z: Tensor) -> Tensor:
    return 0.5 * z * (1 + torch.erf(z / math.sqrt(2)))


OTHER_WORDS: dict[str, Callable[[Any], nn.Module]] = {
    "Linear": Linear,
    "LayerNorm": LayerNorm,
    "LayerNorm2d": LayerNorm2d,
    "RMSNorm": RMSNorm,
    "MultiheadAttention": Attention,
    "LSTM": Cells,
    "GRU": Cells,
    "RNN": Cells,
    "GELU": lambda _: Function(_gelu),
    "SiLU": lambda _: Function(lambda z: z / (1 + torch.exp(-z))),
    "Hardswish": lambda _: Function(lambda z: z * torch.clamp(z + 3, 0, 6) / 6),
    "ReLU": lambda _: Function(lambda z: torch.clamp(z, min=0)),
    "ReLU6": lambda _: Function(lambda z: z.clamp(0, 6)),
}


def respelled(model: nn.Module) -> nn.Module:
    """A copy whose modules compute the same in other words; which ones is counted in `model.other_words`."""
    own = copy.deepcopy(model)
    counts: dict[str, int] = {}
    for parent in list(own.modules()):
        for name, child in list(parent.named_children()):
            kind = type(child).__name__
            if kind in OTHER_WORDS and not isinstance(parent, nn.MultiheadAttention):
                setattr(parent, name, OTHER_WORDS[kind](child))
                counts[kind] = counts.get(kind, 0) + 1
    own.other_words = counts
    return own.eval()


def without_constants(model: nn.Module) -> nn.Module:
    """A copy in which nothing absorbs: no biases, no means of batch norm, no embeddings of positions."""
    own = copy.deepcopy(model)
    with torch.no_grad():
        for name, value in own.named_parameters():
            if (
                name.endswith(("bias", "bias_ih_l0", "bias_hh_l0"))
                or "class_token" in name
                or "pos_emb" in name
            ):
                value.zero_()
            if "bias_table" in name or "position_emb" in name or "token_type_emb" in name or ".wpe." in name:
                value.zero_()
        for name, value in own.named_buffers():
            if name.endswith("running_mean"):
                value.zero_()
    return own
