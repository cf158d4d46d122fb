"""Which operation does what to relevance: a table from the names of PyTorch's functions to kinds of operation.

Kinds
-----
layer
    A linear map with weights and a bias: the composite chooses its rule.
mixing
    Linear in its activations, or balanced like softmax: the plain derivative hands R = c·a down.
copying
    Every output is a copy of one input, or a constant.
addition
    A sum of two activations, as in residual networks: linear, with a rule to choose.
pooling
    An average: linear, with a rule to choose.
normalisation
    Over parts of a row: linear once the standard deviation is taken as a constant.
rectifier
    f(s·z) = s·f(z) for s > 0, element by element.
elementwise
    Any other function of single elements: c·f(z)/z.
product
    Of two activations: one half of the relevance to each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.layers import LinearMap
    from tellwhy.explainers.propagation.rules import Rule

_NAMES = {
    "layer": "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "mixing": """add sub neg mul div sum cumsum matmul mm bmm einsum batch_norm softmax log_softmax interpolate
        upsample""",
    "pooling": """mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
        adaptive_avg_pool3d""",
    "normalisation": "layer_norm group_norm instance_norm rms_norm",
    "copying": """view reshape view_as reshape_as flatten unflatten ravel squeeze unsqueeze permute transpose swapaxes
        swapdims movedim t T mT contiguous clone chunk split split_with_sizes tensor_split unbind cat stack
        hstack vstack dstack getitem setitem narrow select index_select gather take_along_dim expand expand_as
        broadcast_to repeat repeat_interleave tile roll flip rot90 pad where masked_fill tril triu diagonal
        unfold pixel_shuffle pixel_unshuffle channel_shuffle dropout dropout1d dropout2d dropout3d
        feature_dropout alpha_dropout feature_alpha_dropout to float double half bfloat16 type type_as copy
        max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices
        max_pool3d_with_indices adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max min amax amin
        maximum minimum topk sort""",
    "rectifier": "relu leaky_relu prelu rrelu",
    "elementwise": """hardtanh relu6 elu selu celu silu gelu mish softplus sigmoid tanh hardswish hardsigmoid logsigmoid
        softsign tanhshrink softshrink hardshrink threshold clamp clip clamp_min clamp_max abs exp expm1 log
        log1p sqrt rsqrt square pow rpow reciprocal rdiv erf sin cos atan""",
}
KINDS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
_SAME = {
    "truediv": "div",
    "divide": "div",
    "true_divide": "div",
    "multiply": "mul",
    "subtract": "sub",
    "rsub": "sub",
    "radd": "add",
    "rmul": "mul",
    "rmatmul": "matmul",
    "rtruediv": "rdiv",
    "concat": "cat",
    "concatenate": "cat",
    "absolute": "abs",
    "negative": "neg",
    "special_expit": "sigmoid",
}
_IN_PLACE = {"iadd": "add", "isub": "sub", "imul": "mul", "idiv": "div", "itruediv": "div", "ipow": "pow"}
_PRODUCTS = {"mul", "matmul", "mm", "bmm", "einsum"}


@dataclass
class Operation:
    """One operation that the model did on the way from the input to the output.

    Attributes
    ----------
    index
        Its place in the order of execution.
    name
        PyTorch's name of the function.
    kind
        See the module's table; "unknown" where there is no rule.
    path
        Name of the module that called it, as in `model.named_modules()`; "" for the model itself.
    first
        Whether no layer comes before it.
    last
        Whether it is the layer that was executed last.
    shape
        Shape of its output.
    rule
        The rule that was chosen for a layer, or for another linear operation that has a choice.
    layer
        Weights and geometry of a fully connected or convolutional layer.
    """

    index: int
    name: str
    kind: str
    path: str
    first: bool = False
    last: bool = False
    shape: tuple[int, ...] = ()
    rule: Rule | None = None
    layer: LinearMap | None = field(default=None, repr=False)
    own_rule: Rule | None = None  # whatever the composite says
    merged: bool = False
    arrived: float = 0.0
    handed_on: float = 0.0

    @property
    def where(self) -> str:
        """Name and module path, for messages."""
        return (
            f"'{self.name}' in module '{self.path}'"
            if self.path
            else f"'{self.name}' in the model's own forward"
        )


def operation_name(function: Callable[..., Any]) -> tuple[str, bool]:
    """Plain name of a function that PyTorch reports, and whether it changes its first argument.

    Examples
    --------
    >>> import torch
    >>> operation_name(torch.Tensor.add_), operation_name(torch.nn.functional.relu)
    (('add', True), ('relu', False))
    """
    raw = getattr(function, "__name__", str(function))
    if raw == "__get__":
        return str(function.__self__.__name__), False  # type: ignore[attr-defined]
    name = raw.strip("_")
    if raw.startswith("__"):
        changes = name in _IN_PLACE or name == "setitem"
        name = _IN_PLACE.get(name, name)
    else:
        changes = raw.endswith("_")
    return _SAME.get(name, name), changes


def kind_of(name: str, n_activations: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Kind of an operation with so many activations among its arguments."""
    kind = KINDS.get(name, "unknown")
    if name in ("interpolate", "upsample"):
        mode = kwargs.get("mode", args[3] if len(args) > 3 else "nearest")
        return "copying" if str(mode).startswith("nearest") else "mixing"
    if name == "instance_norm" and not kwargs.get("use_input_stats", args[5] if len(args) > 5 else True):
        return "mixing"
    if n_activations > 1:
        if name in _PRODUCTS:
            return "product"
        if name in ("add", "sub"):
            return "addition"
        if name == "div" or kind in ("layer", "rectifier", "elementwise", "normalisation"):
            return "unknown"
    return kind


_NOT_NEGATIVE = {
    "relu",
    "relu6",
    "sigmoid",
    "hardsigmoid",
    "softmax",
    "softplus",
    "abs",
    "square",
    "exp",
    "sqrt",
}
_FILLS_IN = {"pad", "setitem"}  # with numbers of any sign


def is_nonnegative(name: str, kind: str, *, inputs_are: bool) -> bool:
    """Whether no output of an operation can be negative, as far as its name and its activations' signs tell."""
    keeps_sign = kind in ("copying", "pooling") or (name == "add" and kind == "addition")
    return name in _NOT_NEGATIVE or (inputs_are and keeps_sign and name not in _FILLS_IN)
