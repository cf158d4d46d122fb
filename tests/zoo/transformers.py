"""One small transformer, spelled in many ways: the same weights, the same function, other operations."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

SIZE, HEADS, TIME, HIDDEN = 8, 2, 5, 12


def weights(seed=0):
    """Weights by name, as numpy arrays; those of batch norm and biases have both signs."""
    rng = np.random.default_rng(seed)
    w = {}
    for n in "qkvo":
        w[f"W{n}"] = rng.normal(size=(SIZE, SIZE)) / 2
        w[f"b{n}"] = rng.normal(size=SIZE) / 5
    shapes = {"1": (HIDDEN, SIZE), "2": (SIZE, HIDDEN), "h": (3, SIZE)}
    for n, shape in shapes.items():
        w[f"W{n}"] = rng.normal(size=shape) / 2
        w[f"b{n}"] = rng.normal(size=shape[0]) / 5
    for n in (1, 2):
        w[f"gamma{n}"] = 1 + rng.normal(size=SIZE) / 4
        w[f"beta{n}"] = rng.normal(size=SIZE) / 5
    return w


def causal_mask():
    return np.triu(np.full((TIME, TIME), -np.inf), 1)


# Layer norm in many spellings: functions of (x, gamma, beta).
def _variance(x):
    return (x - x.mean(-1, keepdim=True)).pow(2).mean(-1, keepdim=True)


def _by_var_mean(x, g, b):
    variance, mean = torch.var_mean(x, dim=-1, keepdim=True, unbiased=False)
    return g * (x - mean) * torch.rsqrt(variance + 1e-5) + b


LAYER_NORMS = {
    "F.layer_norm": lambda x, g, b: F.layer_norm(x, (SIZE,), g, b),
    "divided": lambda x, g, b: g * ((x - x.mean(-1, keepdim=True)) / torch.sqrt(_variance(x) + 1e-5)) + b,
    "rsqrt": lambda x, g, b: (x - x.mean(-1, keepdim=True)) * torch.rsqrt(_variance(x) + 1e-5) * g + b,
    "var": lambda x, g, b: (
        (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5) ** 0.5 * g + b
    ),
    "var_mean": _by_var_mean,
    "power": lambda x, g, b: torch.addcmul(
        b, g.expand_as(x), (x - x.mean(-1, keepdim=True)) * (_variance(x) + 1e-5).pow(-0.5)
    ),
}
RMS_NORMS = {
    "F.rms_norm": lambda x, g, b: F.rms_norm(x, (SIZE,), g, 1e-5) + b,
    "rsqrt": lambda x, g, b: g * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) + b,
    "square": lambda x, g, b: x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() * g + b,
    "x times x": lambda x, g, b: x / ((x * x).sum(-1, keepdim=True) / SIZE + 1e-5).sqrt() * g + b,
    "reciprocal": lambda x, g, b: x * (1 / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()) * g + b,
}
GELUS = {
    "F.gelu": F.gelu,
    "erf": lambda z: 0.5 * z * (1 + torch.erf(z / math.sqrt(2))),
    "the other way": lambda z: (1 + torch.erf(z / math.sqrt(2))) * (z * 0.5),
}
SILUS = {
    "F.silu": F.silu,
    "x sigmoid(x)": lambda z: z * torch.sigmoid(z),
    "quotient": lambda z: z / (1 + torch.exp(-z)),
}


def _sdpa(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _causal_sdpa(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None)


def _boolean_sdpa(q, k, v, mask):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask == 0)


def _matmul(q, k, v, mask):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    scores = scores if mask is None else scores + mask
    return F.dropout(scores.softmax(dim=-1), 0.1, training=False) @ v


def _filled(q, k, v, mask):
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.mT)
    if mask is not None:
        scores = scores.masked_fill(mask != 0, -math.inf)
    return torch.matmul(F.softmax(scores, dim=-1, dtype=q.dtype).to(q.dtype), v).contiguous()


def _einsum(q, k, v, mask):
    scores = torch.einsum("nhid,nhjd->nhij", q, k) / math.sqrt(q.shape[-1])
    scores = scores if mask is None else scores + mask
    return torch.einsum("nhij,nhjd->nhid", torch.softmax(scores, -1), v)


def _by_hand(q, k, v, mask):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = scores if mask is None else scores + mask
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return (powers / powers.sum(-1, keepdim=True)) @ v


def _baddbmm(q, k, v, mask):
    shape, size = q.shape, math.sqrt(q.shape[-1])
    q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    mask = torch.zeros(q.shape[1], k.shape[1], dtype=q.dtype) if mask is None else mask
    scores = torch.baddbmm(mask, q, k.mT, alpha=1 / size)
    return torch.bmm(scores.softmax(-1), v).reshape(shape)


ATTENTIONS = {
    "sdpa": _sdpa,
    "sdpa, causal": _causal_sdpa,
    "sdpa, boolean": _boolean_sdpa,
    "matmul": _matmul,
    "masked_fill": _filled,
    "einsum": _einsum,
    "exp over sum": _by_hand,
    "baddbmm": _baddbmm,
}
LINEARS = {
    "F.linear": F.linear,
    "matmul": lambda x, W, b: x @ W.t() + b,
    "addmm": lambda x, W, b: torch.addmm(b, x.flatten(0, -2), W.t()).reshape(*x.shape[:-1], len(b)),
    "einsum": lambda x, W, b: torch.einsum("...i,oi->...o" if x.ndim != 3 else "nti,oi->nto", x, W) + b,
}


class Block(nn.Module):
    """A pre-norm transformer block, the mean over time, and a head, in the given spellings."""

    def __init__(self, w, *, attention="sdpa", norm=None, gelu=F.gelu, linear=F.linear, mask=None):
        super().__init__()
        for name, value in w.items():
            setattr(self, name, nn.Parameter(torch.as_tensor(value)))
        self.attend = ATTENTIONS.get(attention, attention)
        self.norm = norm or LAYER_NORMS["F.layer_norm"]
        self.gelu = gelu
        self.linear = linear
        self.register_buffer("mask", None if mask is None else torch.as_tensor(mask))
        if attention in ("nn.MultiheadAttention", "with weights"):
            self.attend = None
            self.needs = attention == "with weights"
            self.mha = nn.MultiheadAttention(SIZE, HEADS, batch_first=True).double()
            with torch.no_grad():
                self.mha.in_proj_weight.copy_(torch.cat([self.Wq, self.Wk, self.Wv]))
                self.mha.in_proj_bias.copy_(torch.cat([self.bq, self.bk, self.bv]))
                self.mha.out_proj.weight.copy_(self.Wo)
                self.mha.out_proj.bias.copy_(self.bo)

    def attention(self, h):
        if self.attend is None:
            return self.mha(h, h, h, need_weights=self.needs, attn_mask=self.mask)[0]
        named = [(self.Wq, self.bq), (self.Wk, self.bk), (self.Wv, self.bv)]
        q, k, v = (self.linear(h, W, b).view(*h.shape[:2], HEADS, -1).transpose(1, 2) for W, b in named)
        mixed = self.attend(q, k, v, self.mask).transpose(1, 2).reshape(h.shape)
        return self.linear(mixed, self.Wo, self.bo)

    def forward(self, x):
        x = x + self.attention(self.norm(x, self.gamma1, self.beta1))
        h = self.linear(self.norm(x, self.gamma2, self.beta2), self.W1, self.b1)
        x = x + self.linear(self.gelu(h), self.W2, self.b2)
        return self.linear(x.mean(dim=1), self.Wh, self.bh)


def rows(n=3, seed=1):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=(n, TIME, SIZE)))
