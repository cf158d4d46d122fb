"""A decoder as large language models have it, with random weights; and the peers that explain transformers."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Plain:
    """The operations of a decoder as they are; `LxtRules` replaces some."""

    def norm(self, x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    def gated(self, gate: Tensor, up: Tensor) -> Tensor:
        return functional.silu(gate) * up


class LxtRules(Plain):
    """The same with LXT's functions where its patches of Llama put them."""

    def __init__(self) -> None:
        self.rules = lxt_module("rules")

    def norm(self, x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
        return x * self.rules.stop_gradient(torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)) * weight

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        divide = self.rules.divide_gradient
        return super().attend(divide(q, 4), divide(k, 4), divide(v, 2))

    def gated(self, gate: Tensor, up: Tensor) -> Tensor:
        weighted = self.rules.identity_rule_implicit(functional.silu, gate) * up
        return self.rules.divide_gradient(weighted, 2)


class Layer(nn.Module):
    """Attention with grouped heads and a gated network, each after a root-mean-square norm."""

    def __init__(self, size: int, heads: int, groups: int, hidden: int):
        super().__init__()
        self.heads, self.groups = heads, groups
        self.norms = nn.ParameterList([torch.ones(size), torch.ones(size)])
        self.query = nn.Linear(size, size, bias=False)
        self.keys = nn.Linear(size, 2 * groups * (size // heads), bias=False)
        self.out = nn.Linear(size, size, bias=False)
        self.gate, self.up = nn.Linear(size, hidden, bias=False), nn.Linear(size, hidden, bias=False)
        self.down = nn.Linear(hidden, size, bias=False)

    def forward(self, x: Tensor, by: Plain, turn: tuple[Tensor, Tensor]) -> Tensor:
        h = by.norm(x, self.norms[0])
        q = _turned(self.query(h).unflatten(-1, (self.heads, -1)).transpose(1, 2), turn)
        k, v = self.keys(h).unflatten(-1, (2 * self.groups, -1)).transpose(1, 2).chunk(2, dim=1)
        mixed = by.attend(q, _turned(k, turn), v).transpose(1, 2).flatten(2)
        x = x + self.out(mixed)
        h = by.norm(x, self.norms[1])
        return x + self.down(by.gated(self.gate(h), self.up(h)))


def _turned(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Rotary positions."""
    left, right = x.chunk(2, dim=-1)
    return x * turn[0] + torch.cat([-right, left], dim=-1) * turn[1]


class Decoder(nn.Module):
    """Logits of the next token."""

    def __init__(
        self,
        *,
        size: int,
        heads: int,
        groups: int,
        hidden: int,
        layers: int,
        words: int,
        by: Plain | None = None,
    ):
        super().__init__()
        self.by = by or Plain()
        self.embed = nn.Embedding(words, size)
        self.layers = nn.ModuleList([Layer(size, heads, groups, hidden) for _ in range(layers)])
        self.norm = nn.Parameter(torch.ones(size))
        self.head = nn.Linear(size, words, bias=False)
        self.per_head = size // heads

    def forward(self, tokens: Tensor) -> Tensor:
        return self.from_embeddings(self.embed(tokens))

    def from_embeddings(self, x: Tensor) -> Tensor:
        n = self.per_head // 2
        rates = 10_000 ** (-torch.arange(n, device=x.device) / n)
        angles = (torch.arange(x.shape[1], device=x.device)[:, None] * rates).repeat(1, 2)
        turn = (angles.cos().to(x.dtype), angles.sin().to(x.dtype))
        for layer in self.layers:
            x = layer(x, self.by, turn)
        return self.head(self.by.norm(x[:, -1], self.norm))


def lxt_module(name: str) -> Any:
    """A module of `lxt.efficient` without its package's own imports, which need certain versions of `transformers`."""
    import lxt

    if "lxt.efficient" not in sys.modules:
        package = ModuleType("lxt.efficient")
        package.__path__ = [str(Path(next(iter(lxt.__path__))) / "efficient")]
        sys.modules["lxt.efficient"] = package
    return importlib.import_module(f"lxt.efficient.{name}")


def patched_vit(model: nn.Module) -> nn.Module:
    """A copy of a torchvision transformer whose modules do what LXT's patches for it do (its CP-LRP)."""
    import copy
    from types import MethodType

    patches = lxt_module("patches")
    own = copy.deepcopy(model)
    for module in own.modules():
        if isinstance(module, nn.GELU):
            module.original_forward = module.forward
            module.forward = MethodType(patches.non_linear_forward, module)
        elif isinstance(module, nn.LayerNorm):
            module.forward = MethodType(patches.layer_norm_forward, module)
        elif isinstance(module, nn.MultiheadAttention):
            module.original_forward = module.forward
            module.forward = MethodType(patches.cp_multi_head_attention_forward, module)
    return own
