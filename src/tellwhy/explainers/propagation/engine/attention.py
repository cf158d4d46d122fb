"""Attention: one call of PyTorch that is several operations, and how its inputs share relevance.

softmax(QKᵀ/√d + mask) V is two products with a softmax between them. By AttnLRP each product gives one half
of its relevance to each factor, and softmax hands down by its derivative. So in terms of c = R/a the values V
get one half of what the derivative gives them, and Q and K, below two products, one quarter each. A factor
that does not depend on the input (learned queries, say) gets nothing, and the other factor all. Attention
weights taken as constants leave everything to V. Achtibat et al., AttnLRP, ICML (2024).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
FACTORS = ("query", "key", "value", "attn_mask")
DETACHED = {"query": 0.0, "key": 0.0, "value": 1.0, "attn_mask": 0.0}


def portions(active: Collection[str]) -> dict[str, float]:
    """Share of what the derivative gives, for each of the arguments that depend on the input.

    Examples
    --------
    >>> portions(["query", "key", "value"])
    {'query': 0.25, 'key': 0.25, 'value': 0.5}
    >>> portions(["key", "value"])
    {'key': 0.5, 'value': 0.5}
    """
    looks = [name for name in active if name != "value"]
    half = 0.5 if "value" in active and looks else 1.0
    both = "query" in active and "key" in active
    return {name: half / 2 if both and name in ("query", "key") else half for name in active}


def multi_head_attention(given: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
    """`torch.nn.functional.multi_head_attention_forward` in single operations; time first, rows second.

    `given` holds its arguments by name.
    """
    if given["query"].ndim == 2:  # a sequence without rows
        return _without_rows(given)
    projected = _project(given)
    heads = [_heads(t, given["num_heads"]) for t in _with_additions(given, projected)]
    mask = _mask(given)
    n_added = heads[1].shape[2] - len(given["key"])
    if n_added and mask is not None:  # everybody may look at what was added
        mask = functional.pad(mask, (0, n_added))
    dropout = given["dropout_p"] if given["training"] else 0.0
    mixed, looks = _attend(heads, mask, dropout, wants_weights=given["need_weights"])
    joined = mixed.permute(2, 0, 1, 3).flatten(2)
    out = functional.linear(joined, given["out_proj_weight"], given["out_proj_bias"])
    if looks is not None and given["average_attn_weights"]:
        looks = looks.mean(dim=1)
    return out, looks


def _without_rows(given: dict[str, Any]) -> tuple[Tensor, Tensor | None]:
    rows = {name: given[name][:, None] for name in ("query", "key", "value")}
    if all(given[name] is given["query"] for name in rows):
        rows = dict.fromkeys(rows, rows["query"])
    padding = given["key_padding_mask"]
    rows["key_padding_mask"] = None if padding is None else padding[None]
    out, looks = multi_head_attention({**given, **rows})
    return out[:, 0], None if looks is None else looks[0]


def _with_additions(given: dict[str, Any], projected: list[Tensor]) -> list[Tensor]:
    """Queries, keys and values, with the learned or zero keys and values that a layer may add."""
    found = [projected[0]]
    for t, extra in zip(projected[1:], (given["bias_k"], given["bias_v"]), strict=True):
        parts = [t] if extra is None else [t, extra.expand(1, t.shape[1], -1)]
        if given["add_zero_attn"]:
            parts.append(torch.zeros_like(t[:1]))
        found.append(parts[0] if len(parts) == 1 else torch.cat(parts))
    return found


def _project(given: dict[str, Any]) -> list[Tensor]:
    """Queries, keys and values as the heads see them."""
    taken = [given["query"], given["key"], given["value"]]
    bias = given["in_proj_bias"]
    biases = [None] * 3 if bias is None else list(bias.chunk(3))
    if given["use_separate_proj_weight"]:
        matrices = [given["q_proj_weight"], given["k_proj_weight"], given["v_proj_weight"]]
    elif all(t is taken[0] for t in taken):  # one product for all three
        return list(functional.linear(taken[0], given["in_proj_weight"], bias).chunk(3, dim=-1))
    else:
        matrices = list(given["in_proj_weight"].chunk(3))
    return [functional.linear(t, w, b) for t, w, b in zip(taken, matrices, biases, strict=True)]


def _heads(x: Tensor, n_heads: int) -> Tensor:
    """(time, rows, heads · size) as (rows, heads, time, size)."""
    return x.unflatten(-1, (n_heads, -1)).permute(1, 2, 0, 3)


def _mask(given: dict[str, Any]) -> Tensor | None:
    """What is added to the scores: −∞ where nobody may look; None for nothing."""
    mask = given["attn_mask"]
    added = None if mask is None else _added(mask)
    if added is not None and added.ndim == 3:  # one for each row and head
        added = added.unflatten(0, (-1, given["num_heads"]))
    padding = given["key_padding_mask"]
    if padding is None:
        return added
    rows = _added(padding)[:, None, None]
    return rows if added is None else added + rows


def _added(mask: Tensor) -> Tensor:
    """A mask of numbers, from one of numbers or one that is true where nobody may look."""
    if mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -math.inf)


def _attend(
    heads: list[Tensor], mask: Tensor | None, dropout: float, *, wants_weights: bool
) -> tuple[Tensor, Tensor | None]:
    """Mixed values of each head, and the attention weights where they are asked for."""
    query = heads[0]
    mask = None if mask is None else mask.to(query)
    if not wants_weights:
        attend = functional.scaled_dot_product_attention
        return attend(query, heads[1], heads[2], attn_mask=mask, dropout_p=dropout), None
    scores = (query / math.sqrt(query.shape[-1])) @ heads[1].mT
    looks = (scores if mask is None else scores + mask).softmax(dim=-1)
    if dropout > 0:
        looks = functional.dropout(looks, dropout)
    return looks @ heads[2], looks
