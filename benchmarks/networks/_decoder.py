"""A decoder as language models have it, with random weights: what is explained is the largest next token."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional


class Sizes(NamedTuple):
    """Sizes of a decoder."""

    layers: int
    width: int
    heads: int
    inner: int
    words: int
    tokens: int


BILLION = Sizes(layers=16, width=2048, heads=16, inner=8192, words=32000, tokens=512)
TINY = Sizes(layers=1, width=16, heads=2, inner=32, words=10, tokens=8)


class Block(nn.Module):
    """Attention with rotated queries and keys, and gated units, each behind a root-mean-square norm."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.heads = sizes.heads
        self.norms = nn.ModuleList([nn.RMSNorm(sizes.width, eps=1e-6) for _ in range(2)])
        self.looks = nn.Linear(sizes.width, 3 * sizes.width, bias=False)
        self.out = nn.Linear(sizes.width, sizes.width, bias=False)
        self.gate = nn.Linear(sizes.width, sizes.inner, bias=False)
        self.up = nn.Linear(sizes.width, sizes.inner, bias=False)
        self.down = nn.Linear(sizes.inner, sizes.width, bias=False)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        parts = self.looks(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).transpose(1, 3)
        query, key = (rotated(parts[:, :, k], cosine, sine) for k in (0, 1))
        mixed = functional.scaled_dot_product_attention(query, key, parts[:, :, 2], is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        seen = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(seen)) * self.up(seen))


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Pairs of numbers turned by an angle that tells the place."""
    left, right = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-right, left], dim=-1) * sine


class Decoder(nn.Module):
    """Logits of the next token, from the vectors of the tokens so far (n, tokens, width)."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.blocks = nn.ModuleList([Block(sizes) for _ in range(sizes.layers)])
        self.norm = nn.RMSNorm(sizes.width, eps=1e-6)
        self.head = nn.Linear(sizes.width, sizes.words, bias=False)
        half = sizes.width // sizes.heads // 2
        angles = torch.arange(sizes.tokens)[:, None] * 10_000.0 ** (-torch.arange(half) / half)
        self.register_buffer("cosine", torch.cat([angles, angles], dim=-1).cos())
        self.register_buffer("sine", torch.cat([angles, angles], dim=-1).sin())

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return self.head(self.norm(x[:, -1]))
