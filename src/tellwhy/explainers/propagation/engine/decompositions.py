"""Calls that are several operations, written out in operations that have rules.

The model reports them as one function. While they are written out every operation is followed as if the
model itself had done it: a rule depends on the function that is computed, not on its name. So x @ W, `addmm`
(as GPT-2 has it) and `einsum` with constant weights become calls of `linear`, which gets the rule of a layer.

Attention, softmax(QKᵀ/√d + mask) V, is two products with a softmax between them. By AttnLRP each product
gives one half of its relevance to each factor, and softmax hands down by its derivative. So in terms of
c = R/a the values V get one half of what the derivative gives them, and Q and K, below two products, one
quarter each. A factor that does not depend on the input (learned queries, say) gets nothing, and the other
factor all. Attention weights taken as constants leave everything to V. Achtibat et al., AttnLRP, ICML (2024).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from string import ascii_letters, ascii_lowercase
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tellwhy.explainers.propagation.engine import recurrent
from tellwhy.explainers.propagation.engine.calls import Call
from tellwhy.explainers.propagation.engine.layers import bias_of, read_normalisation


def einsum_layer(equation: Any, operands: tuple[Any, ...], is_constant: Constant) -> Tensor | None:
    """`einsum` of one activation and constant weights that sums over all axes they share; else None."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not isinstance(equation, str) or len(operands) != 2 or "->" not in equation:
        return None
    inputs, output = equation.replace(" ", "").split("->")
    x_axes, w_axes = inputs.split(",")
    x = operands[0]
    weight = operands[1]
    if is_constant(x) and not is_constant(weight):
        return einsum_layer(f"{w_axes},{x_axes}->{output}", (weight, x), is_constant)
    if is_constant(x) or not is_constant(weight) or "." in w_axes:
        return None
    # The axes that "..." stands for get letters that nothing else has.
    n_more = x.ndim - len(x_axes.replace("...", ""))
    more = "".join(letter for letter in ascii_letters if letter not in equation)[:n_more]
    x_axes = x_axes.replace("...", more)
    output = output.replace("...", more)
    if len(set(x_axes)) < len(x_axes) or len(x_axes) != x.ndim:
        return None
    return _einsum_as_linear(x, weight, x_axes=x_axes, w_axes=w_axes, output=output)


def _einsum_as_linear(x: Tensor, weight: Tensor, *, x_axes: str, w_axes: str, output: str) -> Tensor | None:
    summed = [axis for axis in w_axes if axis in x_axes]
    free = [axis for axis in w_axes if axis not in x_axes]
    kept = [axis for axis in x_axes if axis not in summed]
    # An axis of both that stays makes one layer per entry; one that is summed over alone is no layer either.
    if not summed or not free or set(output) != set(kept + free):
        return None
    sizes = dict(zip(w_axes, weight.shape, strict=True))
    matrix = weight.permute([w_axes.index(axis) for axis in free + summed])
    order = kept + summed
    if order != list(x_axes):
        x = x.permute([x_axes.index(axis) for axis in order])
    # Axes are moved and joined only where they have to be: a bias is looked for right behind the layer.
    if len(summed) > 1:
        x = x.flatten(len(kept))
    found = functional.linear(x, matrix.reshape(-1, x.shape[-1]))
    if len(free) > 1:
        found = found.unflatten(-1, [sizes[axis] for axis in free])
    if kept + free == list(output):
        return found
    return found.permute([(kept + free).index(axis) for axis in output])


Constant = Callable[[Tensor], bool]
Written = Callable[[Call, Constant], Any]  # None: the call stays as it is


def _arguments(function: Callable[..., Any], call: Call) -> dict[str, Any]:
    bound = inspect.signature(function).bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    return bound.arguments


def _multi_head(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    return multi_head_attention(_arguments(functional.multi_head_attention_forward, call))


def _matmul(call: Call, is_constant: Constant) -> Tensor | None:
    """x @ W with a constant matrix W; None where it is something else."""
    given = call.arguments(("input", "other"))
    x: Any = given["input"]
    weight: Any = given.get("other", given.get("mat2", given.get("tensor2")))
    # `x @ y` from the right, `__rmatmul__`, has its arguments the other way round.
    if "rmatmul" in getattr(call.function, "__name__", ""):
        x, weight = weight, x
    if x.ndim < 2 or weight.ndim != 2 or is_constant(x) or not is_constant(weight):
        return None
    return functional.linear(x, weight.t())


def _shifted(call: Call, is_constant: Constant) -> Tensor:
    """β·shift + α·x @ W, as `addmm` and `baddbmm` compute it."""
    given = call.arguments(("input", "first", "second"))
    shift: Any = given["input"]
    x: Any = given.get("mat1", given.get("batch1", given.get("first")))
    weight: Any = given.get("mat2", given.get("batch2", given.get("second")))
    beta = given.get("beta", 1)
    alpha = given.get("alpha", 1)
    is_layer = weight.ndim == 2 and is_constant(weight) and is_constant(shift) and not is_constant(x)
    if is_layer and shift.numel() == weight.shape[1] and shift.shape[-1] == weight.shape[1]:
        scaled = weight if alpha == 1 else alpha * weight
        bias = shift.reshape(-1)
        return functional.linear(x, scaled.t(), bias if beta == 1 else beta * bias)
    product = torch.matmul(x, weight)
    product = product if alpha == 1 else alpha * product
    if beta == 0:  # PyTorch then ignores the first argument, whatever is in it
        return product
    return (shift if beta == 1 else beta * shift) + product


def _linear(call: Call, is_constant: Constant) -> Tensor | None:
    """`linear` whose weights depend on the input: a product of two activations; None where they do not."""
    given = call.arguments(("input", "weight", "bias"))
    bias = given.get("bias")
    if is_constant(given["weight"]) and (bias is None or is_constant(bias)):
        return None
    product = torch.matmul(given["input"], given["weight"].mT)
    return product if bias is None else product + bias


def _einsum(call: Call, is_constant: Constant) -> Any:
    return einsum_layer(call.args[0], call.args[1:], is_constant)


def _addcmul(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    given = call.arguments(("input", "tensor1", "tensor2"))
    product = given["tensor1"] * given["tensor2"]
    value = given.get("value", 1)
    return given["input"] + (product if value == 1 else value * product)


def _lerp(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    given = call.arguments(("input", "end", "weight"))
    weight = given["weight"]
    return (1 - weight) * given["input"] + weight * given["end"]


def _glu(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    given = call.arguments(("input", "dim"))
    halves = given["input"].chunk(2, dim=given.get("dim", -1))
    return halves[0] * torch.sigmoid(halves[1])


def _softmin(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    given = _arguments(functional.softmin, call)
    return torch.softmax(-given["input"], given["dim"], dtype=given["dtype"])


def _deviation(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    """Variance or standard deviation, alone or with the mean."""
    given = call.arguments(("input", "dim"))
    x = given["input"]
    dim = given.get("dim")
    if isinstance(dim, bool):  # x.var(unbiased)
        given = {**given, "unbiased": dim}
        dim = None
    axes = tuple(range(x.ndim)) if dim is None else dim
    correction = given.get("correction", 1)
    if "unbiased" in given or (len(call.args) > 2 and isinstance(call.args[2], bool)):
        correction = int(given.get("unbiased", call.args[2] if len(call.args) > 2 else True))
    mean = x.mean(axes, keepdim=True)
    squares = (x - mean).square()
    keeps = bool(given.get("keepdim", False))
    n = squares.numel() / mean.numel()
    found = squares.sum(axes, keepdim=keeps) / (n - (1 if correction is None else correction))
    found = found.sqrt() if call.name.startswith("std") else found
    if not call.name.endswith("mean"):
        return found
    return found, mean if keeps else mean.squeeze(axes)


def _norm(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    """Euclidean length; None for other norms, which stay unknown."""
    named = "norm" if call.name == "norm" else "linalg"
    names = ("input", "p", "dim", "keepdim") if named == "norm" else ("input", "ord", "dim", "keepdim")
    given = call.arguments(names)
    x: Any = given.get("input", given.get("A", given.get("x")))
    order = given.get("p", "fro") if named == "norm" else given.get("ord", 2)
    if order not in (2, "fro", None) or (call.name == "linalg_norm" and given.get("dim") is None):
        return None
    dim = given.get("dim")
    axes = tuple(range(x.ndim)) if dim is None else dim
    return x.square().sum(axes, keepdim=bool(given.get("keepdim", False))).sqrt()


def _normalize(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    given = _arguments(functional.normalize, call)
    if given["p"] != 2 or given["out"] is not None:
        return None
    x = given["input"]
    length = x.square().sum(given["dim"], keepdim=True).sqrt()
    return x / length.clamp_min(given["eps"])


def _local_response(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    given = _arguments(functional.local_response_norm, call)
    x = given["input"]
    size = given["size"]
    # A mean over neighbouring channels; the axes after them are one.
    squares = x.square().reshape(x.shape[0], 1, x.shape[1], -1)
    around = (0, 0, size // 2, (size - 1) // 2)
    mean = functional.avg_pool2d(functional.pad(squares, around), (size, 1), stride=1).reshape(x.shape)
    return x / (mean * given["alpha"] + given["k"]) ** given["beta"]


def _tensordot(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    """The same as `einsum`, which may be a layer."""
    given = call.arguments(("a", "b", "dims"))
    dims = given.get("dims", 2)
    n_first = given["a"].ndim
    n_second = given["b"].ndim
    if isinstance(dims, int):
        dims = (range(n_first - dims, n_first), range(dims))
    if isinstance(dims, Tensor) or n_first + n_second > len(ascii_lowercase):
        return None
    first = list(ascii_lowercase[:n_first])
    second = list(ascii_lowercase[n_first : n_first + n_second])
    for one, other in zip(dims[0], dims[1], strict=True):
        second[other] = first[one]
    kept = [axis for axis in first + second if (first + second).count(axis) == 1]
    equation = f"{''.join(first)},{''.join(second)}->{''.join(kept)}"
    return torch.einsum(equation, given["a"], given["b"])


def _cosine(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    given = call.arguments(("x1", "x2", "dim", "eps"))
    dim = given.get("dim", 1)
    eps = given.get("eps", 1e-8)
    unit = [functional.normalize(given[name], dim=dim, eps=eps) for name in ("x1", "x2")]
    return (unit[0] * unit[1]).sum(dim)


def _embedding_bag(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    """Bags that are rows of a matrix of tokens; others stay unknown."""
    given = _arguments(functional.embedding_bag, call)
    if given["input"].ndim != 2 or given["offsets"] is not None or given["max_norm"] is not None:
        return None
    words = functional.embedding(given["input"], given["weight"])
    if given["per_sample_weights"] is not None:
        words = words * given["per_sample_weights"][..., None]
    if given["padding_idx"] is not None:
        return None
    return words.amax(dim=1) if given["mode"] == "max" else getattr(words, given["mode"])(dim=1)


def _recurrent(
    run: Callable[..., Any],
    name: str,
    call: Call,
    is_constant: Constant,  # noqa: ARG001
) -> Any:
    return run(name, *call.args)


_RECURRENT: dict[str, Written] = {
    f"{name}{ending}": partial(_recurrent, run, name)
    for name in recurrent.STEPS
    for ending, run in (("", recurrent.layers), ("_cell", recurrent.cell))
}
WRITTEN_OUT: Mapping[str, Written] = MappingProxyType(
    {
        "multi_head_attention_forward": _multi_head,
        **dict.fromkeys(("matmul", "mm"), _matmul),
        **dict.fromkeys(("addmm", "baddbmm"), _shifted),
        "linear": _linear,
        "einsum": _einsum,
        "addcmul": _addcmul,
        "lerp": _lerp,
        "glu": _glu,
        "softmin": _softmin,
        **dict.fromkeys(("var", "std", "var_mean", "std_mean"), _deviation),
        **dict.fromkeys(("norm", "linalg_norm", "linalg_vector_norm"), _norm),
        "normalize": _normalize,
        "local_response_norm": _local_response,
        "tensordot": _tensordot,
        "cosine_similarity": _cosine,
        "embedding_bag": _embedding_bag,
        **_RECURRENT,
    }
)


ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
FACTORS = ("query", "key", "value", "attn_mask")


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
    looks = _looks(query, heads[1], mask, 1 / math.sqrt(query.shape[-1]))
    if dropout > 0:
        looks = functional.dropout(looks, dropout)
    return looks @ heads[2], looks


def _looks(query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Attention weights."""
    scores = (query * scale) @ key.mT
    return (scores if mask is None else scores + mask).softmax(dim=-1)


def _attention(call: Call, is_constant: Constant) -> Tensor:  # noqa: ARG001
    """`scaled_dot_product_attention` in products and a softmax."""
    given = call.arguments(ARGUMENTS)
    query = given["query"]
    key = given["key"]
    value = given["value"]
    if given.get("enable_gqa"):
        n = query.shape[-3] // key.shape[-3]
        key = key.repeat_interleave(n, -3)
        value = value.repeat_interleave(n, -3)
    mask = given.get("attn_mask")
    if given.get("is_causal"):
        mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=query.dtype, device=mask.device).masked_fill(~mask, -1e30)
    return _looks(query, key, mask, given.get("scale") or query.shape[-1] ** -0.5) @ value


def _normalised(call: Call, is_constant: Constant) -> Tensor:  # noqa: ARG001
    """A layer, group or root-mean-square norm in sums, squares and a root."""
    norm = read_normalisation(call)
    x = call.target
    parts = norm.together(x)
    if norm.centred:
        parts = parts - parts.mean(-1, keepdim=True)
    eps = torch.finfo(x.dtype).eps if norm.eps is None else norm.eps
    found = (parts * (parts.square().mean(-1, keepdim=True) + eps).rsqrt()).reshape(x.shape)
    found = found if norm.weight is None else found * norm.weight
    bias = bias_of(call)
    return found if bias is None else found + bias


# For differences to a reference, which have no rules for these as a whole.
IN_ELEMENTS: Mapping[str, Written] = MappingProxyType(
    {
        **WRITTEN_OUT,
        **dict.fromkeys(("layer_norm", "rms_norm", "group_norm"), _normalised),
        "scaled_dot_product_attention": _attention,
    }
)
