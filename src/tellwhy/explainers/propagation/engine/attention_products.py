"""Attention in single precision on a GPU: products of matrices, where these are faster than the kernel.

PyTorch's kernel for attention keeps no weights, and in single precision it takes its time on the way back.
Products of matrices run on the fast units that all layers use. The weights are computed anew on the way
back, so that these keep no more memory either. Which of the two is faster depends on the shapes: it is
measured once for each.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

_ATEN = torch.ops.aten
_UP = _ATEN._scaled_dot_product_efficient_attention.default
_DOWN = _ATEN._scaled_dot_product_efficient_attention_backward.default
_ALIGNED = 8  # fast kernels want rows of a matrix that begin at multiples of so many numbers
_LARGEST = 1024  # longer sequences have weights that fill the memory


class Shapes(NamedTuple):
    """Sizes and strides of queries, keys and values, and what else a kernel depends on."""

    sizes: tuple[tuple[int, ...], ...]
    strides: tuple[tuple[int, ...], ...]
    dtype: torch.dtype
    device: torch.device
    scale: float
    in_tf32: bool  # whether matrices may be multiplied with fewer digits, which is much faster


def attention_as_products(graph: GraphModule, tensors: Sequence[Tensor]) -> GraphModule:
    """The same graph with products of matrices for attention, where these are faster."""
    calls = [node for node in graph.graph.nodes if node.target in (_UP, _DOWN)]
    if not calls or not all(_is_plain(node) and _pays(_shapes(node)) for node in calls):
        return graph
    return written_out(graph, tensors, {_UP: _attended, _DOWN: _handed_down})


def written_out(
    graph: GraphModule, tensors: Sequence[Tensor], functions: dict[Any, Callable[..., Any]]
) -> GraphModule:
    """The same graph with functions in place of some operators."""
    from torch.fx.experimental.proxy_tensor import make_fx

    class Exchanging(torch.fx.Interpreter):
        def run_node(self, n: Node) -> Any:
            if n.target not in functions:
                return super().run_node(n)
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            found = functions[n.target](*args, **kwargs)
            return tuple(_in_order(*pair) for pair in zip(found, n.meta["val"], strict=False))

    with torch.no_grad():
        run = Exchanging(graph).run
        return make_fx(run, tracing_mode="fake", _allow_non_fake_inputs=True)(*tensors)


def _in_order(made: Tensor | None, like: Tensor | None) -> Tensor | None:
    """The same, in the order in memory that an operator's own result has: later views count on it."""
    if made is None or like is None or made.shape != like.shape:
        return made
    strides = like.stride()
    order = sorted(range(made.ndim), key=lambda axis: -strides[axis])
    back = sorted(range(made.ndim), key=order.__getitem__)
    return made.permute(order).contiguous().permute(back)


def _is_plain(node: Any) -> bool:
    """Whether a call has no mask, no dropout, and short sequences of as many heads in all arguments."""
    given = node.args
    up = node.target is _UP
    mask, dropout = (given[3], given[5:6]) if up else (given[4], given[9:10])
    causal = given[6:7] if up else given[11:12]
    query, key = (part.meta["val"] for part in (given[:2] if up else given[1:3]))
    is_short = max(query.shape[-2], key.shape[-2]) <= _LARGEST and query.shape[:2] == key.shape[:2]
    return mask is None and not any((*dropout, *causal)) and is_short and query.dtype is torch.float32


def _shapes(node: Any) -> Shapes:
    given = node.args[:3] if node.target is _UP else node.args[1:4]
    parts = [part.meta["val"] for part in given]
    scale = node.kwargs.get("scale") or parts[0].shape[-1] ** -0.5
    sizes = tuple(tuple(part.shape) for part in parts)
    strides = tuple(tuple(part.stride()) for part in parts)
    in_tf32 = torch.backends.cuda.matmul.allow_tf32
    return Shapes(sizes, strides, parts[0].dtype, parts[0].device, scale, in_tf32)


def _scores(query: Tensor, key: Tensor, scale: float) -> Tensor:
    """Scaled products of queries and keys; −∞ for keys that were added to fill up a row of the matrix."""
    n_keys = key.shape[-2]
    missing = -n_keys % _ALIGNED
    if not missing:
        return (query * scale) @ key.mT
    filled = torch.nn.functional.pad(key, (0, 0, 0, missing))
    scores = (query * scale) @ filled.mT
    is_added = torch.arange(n_keys + missing, device=key.device) >= n_keys
    return torch.where(is_added, -math.inf, scores)


def _filled(x: Tensor) -> Tensor:
    return torch.nn.functional.pad(x, (0, 0, 0, -x.shape[-2] % _ALIGNED))


def _attended(
    query: Tensor, key: Tensor, value: Tensor, *_: Any, scale: float | None = None
) -> tuple[Tensor, ...]:
    """Output, and the logarithm of each row's sum of exponentials."""
    scores = _scores(query, key, scale or query.shape[-1] ** -0.5)
    totals = scores.logsumexp(dim=-1)
    out = (scores - totals[..., None]).exp() @ _filled(value)
    nothing = totals.new_zeros((), dtype=torch.int64)
    return out, totals, nothing, nothing


def _handed_down(c: Tensor, *given: Any, scale: float | None = None) -> tuple[Tensor | None, ...]:
    """What comes down to queries, keys and values; the arguments are those of PyTorch's kernel."""
    query, key = given[:2]
    value = given[2]
    out, totals = given[4:6]
    scale = scale or query.shape[-1] ** -0.5
    n_keys = key.shape[-2]
    # Not the expression of the way up: else its weights would be kept for the way back.
    weights = (_scores(query, key * scale, 1.0) - totals[..., : query.shape[-2], None]).exp()
    to_value = (weights.mT @ c)[..., :n_keys, :]
    share = (c * out).sum(dim=-1, keepdim=True)
    to_scores = weights * (c @ _filled(value).mT - share) * scale
    to_query = to_scores @ _filled(key)
    to_key = (to_scores.mT @ query)[..., :n_keys, :]
    return to_query, to_key, to_value, None


@cache
def _pays(shapes: Shapes) -> bool:
    """Whether products, compiled, take less time than the kernel."""
    from torch._inductor import compile as compiled
    from torch.fx.experimental.proxy_tensor import make_fx

    if shapes.device.type != "cuda":
        return False
    given: list[Any] = [
        torch.randn(size, device=shapes.device, dtype=shapes.dtype).as_strided(size, _dense(size, stride))
        for size, stride in zip(shapes.sizes, shapes.strides, strict=True)
    ]
    given.append(torch.randn_like(given[0]))

    def by_kernel(query: Tensor, key: Tensor, value: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        up = _UP(query, key, value, None, True, scale=shapes.scale)
        wanted = [True, True, True, False]
        return up[0], *_DOWN(c, query, key, value, None, *up, 0.0, wanted, scale=shapes.scale)[:3]

    def by_products(query: Tensor, key: Tensor, value: Tensor, c: Tensor) -> tuple[Any, ...]:
        out, totals = _attended(query, key, value, scale=shapes.scale)[:2]
        return out, *_handed_down(c, query, key, value, None, out, totals, scale=shapes.scale)[:3]

    try:
        graph = make_fx(by_products, tracing_mode="fake")(*given)
        return _seconds(compiled(graph, given), given) < 0.9 * _seconds(by_kernel, given)
    except RuntimeError:  # no memory for the weights, or a kernel that this GPU does not have
        return False


def _dense(size: Sequence[int], stride: Sequence[int]) -> tuple[int, ...]:
    """Strides without gaps, of axes in the same order."""
    order = sorted(range(len(size)), key=lambda axis: (stride[axis], -axis))
    dense = [0] * len(size)
    step = 1
    for axis in order:
        dense[axis] = step
        step *= size[axis]
    return tuple(dense)


def _seconds(function: Callable[..., Any], given: Sequence[Tensor]) -> float:
    """The least time of some calls on a GPU."""
    taken = []
    for _ in range(5):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(4):
            function(*given)
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - started)
    return min(taken)
