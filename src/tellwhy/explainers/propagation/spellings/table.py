"""Calls that are several operations, written out in operations that have rules.

The model reports them as one function. While they are written out every operation is followed as if the
model itself had done it, so that the answer does not depend on the spelling.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tellwhy.explainers.propagation.operations.calls import Call
from tellwhy.explainers.propagation.spellings import attention, layers, recurrent

Constant = Callable[[Tensor], bool]
Written = Callable[[Call, Constant], Any]  # None: the call stays as it is


def _arguments(function: Callable[..., Any], call: Call) -> dict[str, Any]:
    bound = inspect.signature(function).bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    return bound.arguments


def _multi_head(call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    return attention.multi_head_attention(_arguments(functional.multi_head_attention_forward, call))


def _matmul(call: Call, is_constant: Constant) -> Any:
    given = call.arguments(("input", "other"))
    other: Any = given.get("other", given.get("mat2", given.get("tensor2")))
    # `x @ y` from the right, `__rmatmul__`, has its arguments the other way round.
    if "rmatmul" in getattr(call.function, "__name__", ""):
        return layers.product_of_matrices(other, given["input"], is_constant)
    return layers.product_of_matrices(given["input"], other, is_constant)


def _shifted(call: Call, is_constant: Constant) -> Any:
    given = call.arguments(("input", "first", "second"))
    first: Any = given.get("mat1", given.get("batch1", given.get("first")))
    second: Any = given.get("mat2", given.get("batch2", given.get("second")))
    scales = {name: given.get(name, 1) for name in ("beta", "alpha")}
    return layers.shifted_product(given["input"], first, second, is_constant, **scales)


def _linear(call: Call, is_constant: Constant) -> Any:
    given = call.arguments(("input", "weight", "bias"))
    return layers.linear_with_computed_weights(
        given["input"], given["weight"], given.get("bias"), is_constant
    )


def _einsum(call: Call, is_constant: Constant) -> Any:
    return layers.einsum_layer(call.args[0], call.args[1:], is_constant)


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
    squares = x.square().reshape(len(x), 1, x.shape[1], -1)
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


def _layers(name: str, call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    return recurrent.layers(name, *call.args)


def _cell(name: str, call: Call, is_constant: Constant) -> Any:  # noqa: ARG001
    return recurrent.cell(name, *call.args)


_RECURRENT: dict[str, Written] = {
    **{name: partial(_layers, name) for name in recurrent.STEPS},
    **{f"{name}_cell": partial(_cell, name) for name in recurrent.STEPS},
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
