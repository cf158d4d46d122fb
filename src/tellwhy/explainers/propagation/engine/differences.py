"""Differences to a reference, handed down operation by operation: the backward pass of DeepLIFT.

Rows and their references go through the network together, as the two halves of one batch. Linear operations
hand down their derivative. What is not linear hands down a multiplier, such that multiplier times difference
of the inputs is the difference of the outputs:

- a function f of each element: (f(x) − f(r))/(x − r), or f'(x) where x is next to r (the rescale rule);
- a product of two activations a and b: for a the mean of b and its reference, for b that of a;
- a maximum over a window: a gain goes to where the row has its maximum, a loss to where the reference has.

Softmax, norms and attention are written out in these, so that differences add up whatever a network is made
of. An operation that is not known hands down its derivative, and what that misses is a residual.

Shrikumar, Greenside, Kundaje, ICML (2017); for the maximum: Lundberg, Lee, NeurIPS (2017), its appendix.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from tellwhy.explainers.propagation.engine.calls import Call
from tellwhy.explainers.propagation.engine.decompositions import WRITTEN_OUT

_NEXT = 1e-6  # a difference below which the derivative serves

_OF_ELEMENTS = """
    relu relu6 leaky_relu rrelu elu selu celu gelu silu mish sigmoid logsigmoid hardsigmoid hardswish tanh
    hardtanh tanhshrink hardshrink softshrink softplus softsign threshold prelu exp expm1 exp2 log log1p log2
    sqrt rsqrt square abs absolute reciprocal pow float_power sin cos tan atan erf clamp clamp_min clamp_max
    nan_to_num asinh sinc
"""
ELEMENTWISE = frozenset(_OF_ELEMENTS.split())
PRODUCTS = frozenset(["mul", "multiply", "matmul", "bmm", "mm", "einsum"])
QUOTIENTS = frozenset(("div", "divide", "true_divide", "truediv"))
MAXIMA = frozenset(("max_pool1d", "max_pool2d", "max_pool3d"))
_LAYERS = frozenset(("matmul", "mm", "einsum"))  # decompositions that look for layers: not needed here


def swap_halves(x: Tensor) -> Tensor:
    """Return references in the place of rows, and rows in the place of references.

    Examples
    --------
    >>> swap_halves(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([3., 4., 1., 2.])
    """
    return torch.cat(x.chunk(2)[::-1])


class _Elementwise(torch.autograd.Function):
    """f of each element, with the multiplier in the place of the derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(x.clone())  # a network may change its own in place
        ctx.function = function
        return function(x)

    @staticmethod
    def backward(ctx: Any, handed: Tensor) -> tuple[Any, ...]:
        (x,) = ctx.saved_tensors
        difference = x - swap_halves(x)
        is_next = difference.abs() < _NEXT
        with torch.enable_grad():
            own = x.detach().requires_grad_()
            y = ctx.function(own)
            (slope,) = torch.autograd.grad(y.sum(), own)
        y = y.detach()
        return handed * _divide(y - swap_halves(y), difference, is_next, slope), None


def _divide(change: Tensor, difference: Tensor, is_next: Tensor, slope: Tensor) -> Tensor:
    """Return change/difference, and the slope where there is next to no difference."""
    return torch.where(is_next, slope, change / difference.masked_fill(is_next, 1.0))


class _Product(torch.autograd.Function):
    """A function that is linear in each of two activations: each gets the slope in the other's middle."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(a.clone(), b.clone())
        ctx.function = function
        return function(a, b)

    @staticmethod
    def backward(ctx: Any, handed: Tensor) -> tuple[Any, ...]:
        a, b = ctx.saved_tensors
        n_rows = len(handed)
        with torch.enable_grad():
            first = a.detach().requires_grad_()
            second = b.detach().requires_grad_()
            (of_a,) = torch.autograd.grad(ctx.function(first, _find_middle(b, n_rows)), first, handed)
            (of_b,) = torch.autograd.grad(ctx.function(_find_middle(a, n_rows), second), second, handed)
        return of_a, of_b, None


def _find_middle(x: Tensor, n_rows: int) -> Tensor:
    """Return the mean of rows and their references; what has no rows as it is."""
    # heads of attention may have been moved into the first axis: then each half still comes in one piece
    has_rows = x.ndim > 0 and len(x) > 1 and len(x) % 2 == 0 and len(x) >= n_rows
    return (x + swap_halves(x)) / 2 if has_rows else x


class _Maximum(torch.autograd.Function):
    """Maxima over windows, whose gains and losses go to the places of the maxima."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pool: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Tensor:
        y, places = pool(x)
        ctx.save_for_backward(x.clone(), y.clone(), places)
        return y

    @staticmethod
    def backward(ctx: Any, handed: Tensor) -> tuple[Any, ...]:
        x, y = ctx.saved_tensors[:2]
        places = ctx.saved_tensors[2]
        top = torch.maximum(y, swap_halves(y))
        # in both halves: what the row gains at its own maximum, and loses at that of its reference
        gains = _put(x, places, handed * (top - swap_halves(y)))
        losses = _put(x, places, handed * (swap_halves(y) - top))
        n = len(x) // 2
        change = gains[:n] + losses[n:]
        difference = x - swap_halves(x)
        whole = torch.cat([change, -change])
        slope = _put(x, places, handed)
        return _divide(whole, difference, difference.abs() < _NEXT, slope), None


def _put(x: Tensor, places: Tensor, amount: Tensor) -> Tensor:
    """Add amounts at places of maxima, which may be those of several windows; shaped like x."""
    axes = places.ndim - 2
    flat = x.new_zeros((*x.shape[:2], x[0, 0].numel()))
    return flat.scatter_add_(2, places.flatten(2), amount.flatten(2)).reshape(x.shape) if axes else amount


class DifferenceMode(TorchFunctionMode):
    """A block in which rows and references, stacked, hand differences down; see the module."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation."""
        kwargs = dict(kwargs or {})
        name, in_place = _read_name(func, kwargs)
        active = _find_active(args, kwargs)
        if not active or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        changed = args[0] if in_place else None
        if in_place:  # it is read before it is changed
            args = (mark_rows(args[0].clone()), *args[1:])
        found = self._replaced(Call(func, args, kwargs, name, in_place, active))
        if found is None:
            found = func(*(args if changed is None else (changed, *args[1:])), **kwargs)
        elif changed is not None:
            found = changed.copy_(found)
        return mark_rows(found)

    def _replaced(self, call: Call) -> Any:
        """Return what a call gives by multipliers; None where its derivative serves."""
        with self:
            if call.name in WRITTEN_OUT and call.name not in _LAYERS:
                return WRITTEN_OUT[call.name](call, lambda t: not _is_active(t))
            run = _RUN.get(call.name)
            return None if run is None else run(call.function, call.args, call.kwargs)


def mark_rows(found: Any) -> Any:
    """Mark tensors as depending on the rows; parameters do not, although they have gradients."""
    for value in found if isinstance(found, (list, tuple)) else [found]:
        if isinstance(value, Tensor) and value.is_floating_point():
            value.depends_on_rows = True  # type: ignore[attr-defined]
    return found


def _is_active(value: Any) -> bool:
    return isinstance(value, Tensor) and getattr(value, "depends_on_rows", False)


def _read_name(func: Any, kwargs: dict[str, Any]) -> tuple[str, bool]:
    """Return the plain name of a function, and whether it changes its first argument."""
    raw = getattr(func, "__name__", "")
    name = raw.strip("_")
    is_special = raw.startswith("__")
    in_place = (not is_special and raw.endswith("_")) or bool(kwargs.pop("inplace", False))
    if is_special and name[:1] == "i" and name[1:] in (PRODUCTS | QUOTIENTS | {"pow"}):
        return name[1:], True
    return {"rmul": "mul"}.get(name, name), in_place


def _find_active(args: Any, kwargs: Mapping[str, Any]) -> list[Tensor]:
    """Return the tensors among arguments that depend on the rows."""
    found: list[Tensor] = []
    for value in [*args, *kwargs.values()]:
        several = value if isinstance(value, (list, tuple)) else [value]
        found += [t for t in several if _is_active(t)]
    return found


def _run_elementwise(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run a function of each element of its first argument."""
    x = args[0] if args else kwargs.pop("input")
    if len(_find_active(args[1:], kwargs)) > 0:  # pow of two activations: left to its derivative
        return None
    rest = [_detach(a) for a in args[1:]]
    plain = _plain_function(func)
    return _Elementwise.apply(x, lambda t: plain(t, *rest, **kwargs))


def _detach(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _plain_function(func: Any) -> Any:
    """Return what does the same without changing its argument."""
    name = getattr(func, "__name__", "")
    plain = name.rstrip("_") if not name.startswith("__") else ""
    if plain and plain != name:
        return getattr(torch, plain, None) or getattr(functional, plain)
    if name == "__ipow__":
        return torch.pow
    return func


def _run_product(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run a product of two activations; None for one of an activation and a constant, which is linear."""
    name = getattr(func, "__name__", "").strip("_")
    if name == "einsum":
        equation, *operands = args
        operands = (
            list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
        )
        if len(operands) != 2 or not all(_is_active(t) for t in operands):
            return None
        return _Product.apply(*operands, partial(torch.einsum, equation))
    given = [*args, *(kwargs[key] for key in ("input", "other", "mat2") if key in kwargs)]
    if len(given) < 2 or not (_is_active(given[0]) and _is_active(given[1])):
        return None
    plain = torch.mul if name in ("mul", "imul", "multiply") else torch.matmul
    return _Product.apply(given[0], given[1], plain)


def _run_quotient(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
    """Run a division as a product with the reciprocal; None where the divisor is constant."""
    if len(args) < 2 or not _is_active(args[1]) or kwargs.get("rounding_mode"):
        return None
    return args[0] * torch.reciprocal(args[1])


def _run_reversed(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
    """Run number / activation, as Python's operator has it."""
    return torch.reciprocal(args[0]) * args[1]


def _run_maximum(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run a pool of maxima."""
    x = args[0] if args else kwargs.pop("input")
    further = {k: v for k, v in kwargs.items() if k != "return_indices"}
    name = getattr(func, "__name__", "").removesuffix("_with_indices")
    pool = getattr(functional, f"{name}_with_indices")
    return _Maximum.apply(x, lambda t: pool(t, *args[1:], **further))


def _run_softmax(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
    """Write softmax out: exponentials, their sum, and a quotient."""
    x, dim = _read_softmax(args, kwargs)
    powers = torch.exp(x - _find_peak(x, dim))
    return powers * torch.reciprocal(powers.sum(dim, keepdim=True))


def _run_log_softmax(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
    x, dim = _read_softmax(args, kwargs)
    shifted = x - _find_peak(x, dim)
    return shifted - torch.log(torch.exp(shifted).sum(dim, keepdim=True))


def _read_softmax(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Tensor, int]:
    x = args[0] if args else kwargs["input"]
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    return x, -1 if dim is None else dim


def _find_peak(x: Tensor, dim: int) -> Tensor:
    """Return the largest of rows and references: a constant that keeps exponentials small."""
    own = x.detach()
    return torch.maximum(own, swap_halves(own)).amax(dim, keepdim=True)


def _run_layer_norm(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
    """Write a layer norm out."""
    given = _bind(functional.layer_norm, args, kwargs)
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    found = _standardise(given["input"], axes, given["eps"])
    return _scale(found, given["weight"], given["bias"])


def _run_rms_norm(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
    given = _bind(functional.rms_norm, args, kwargs)
    x = given["input"]
    axes = tuple(range(-len(given["normalized_shape"]), 0))
    eps = torch.finfo(x.dtype).eps if given["eps"] is None else given["eps"]
    return _scale(x * torch.rsqrt(torch.square(x).mean(axes, keepdim=True) + eps), given["weight"], None)


def _run_group_norm(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
    given = _bind(functional.group_norm, args, kwargs)
    x = given["input"]
    groups = x.reshape(x.shape[0], given["num_groups"], -1)
    found = _standardise(groups, (-1,), given["eps"]).reshape(x.shape)
    shape = (-1, *[1] * (x.ndim - 2))
    parts = [None if given[k] is None else given[k].reshape(shape) for k in ("weight", "bias")]
    return _scale(found, parts[0], parts[1])


def _bind(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return arguments by their names; torch's own twin has a further one at the end."""
    bound = inspect.signature(function).bind(*args[: len(inspect.signature(function).parameters)], **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _standardise(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    """Return x less its mean, over its standard deviation."""
    centred = x - x.mean(axes, keepdim=True)
    return centred * torch.rsqrt(torch.square(centred).mean(axes, keepdim=True) + eps)


def _scale(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = x if weight is None else x * weight.detach()
    return scaled if bias is None else scaled + bias.detach()


def _run_attention(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:  # noqa: ARG001
    """Write scaled dot-product attention out."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = dict(zip(names, args, strict=False)) | kwargs
    query = given["query"]
    key, value = given["key"], given["value"]
    if given.get("enable_gqa"):
        n = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(n, -3), value.repeat_interleave(n, -3)
    scale = given.get("scale") or query.shape[-1] ** -0.5
    weights = torch.matmul(query * scale, key.transpose(-2, -1))
    mask = given.get("attn_mask")
    if given.get("is_causal"):
        mask = torch.ones(weights.shape[-2:], dtype=torch.bool, device=weights.device).tril()
    if mask is not None:
        weights = weights.masked_fill(~mask, -1e30) if mask.dtype == torch.bool else weights + mask
    return torch.matmul(torch.softmax(weights, -1), value)


_RUN: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(ELEMENTWISE, _run_elementwise),
    **dict.fromkeys(PRODUCTS, _run_product),
    **dict.fromkeys(QUOTIENTS, _run_quotient),
    "rtruediv": _run_reversed,
    "rdiv": _run_reversed,
    **dict.fromkeys(MAXIMA, _run_maximum),
    "softmax": _run_softmax,
    "log_softmax": _run_log_softmax,
    "layer_norm": _run_layer_norm,
    "rms_norm": _run_rms_norm,
    "group_norm": _run_group_norm,
    "scaled_dot_product_attention": _run_attention,
}
