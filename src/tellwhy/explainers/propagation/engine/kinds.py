"""Kinds of operation: what each of PyTorch's functions does to relevance, and what is refused.

Relevance R goes down with every operation; a is the operation's output and c = R/a.

layer
    A linear map with weights and a bias: the composite chooses its rule.
mixing
    Linear in its activations, or balanced like softmax: the plain derivative hands c down.
copying
    Every output is a copy of one input, or a constant: the plain derivative hands R and c down alike.
addition
    A sum of two activations, as in residual networks: linear, with a rule to choose.
pooling
    An average: linear, with a rule to choose.
composed
    Several operations in one call, which are followed one by one (`decompositions`).
softmax
    One that the model writes out as exp(z) / Σ exp(z): its derivative hands c down to z.
normalisation
    Over parts of a row: linear once the standard deviation is taken as a constant.
rectifier
    f(s·z) = s·f(z) for s > 0, element by element: the plain derivative f'(z) is f(z)/z.
elementwise
    Any other function of single elements: its input gets c·f(z)/z, so that R stays the same.
product
    Of several activations: each gets the same share of the relevance.
attention
    softmax(QKᵀ) V in one call: see `decompositions`.
unknown
    Not in the table, or applied to more activations than its rule allows for: explaining stops.

Where a user named the kind of an operation, the numbers are asked whether they agree with it: a wrong kind
would give numbers that look like relevance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch
from torch import Tensor

from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers.propagation.engine.calls import Call, Operation, tensors_in
from tellwhy.scoring.network_inputs import Inputs

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.engine.capture import Capture
    from tellwhy.explainers.propagation.engine.origins import Origin


T = TypeVar("T")

ENTRY_POINTS = "tellwhy.rules"  # group in which other packages declare the modules that add names


def _load_declared() -> None:
    """Import what other packages declare, the first time that a rule is looked up."""
    from tellwhy.core.registry import load_entry_points

    load_entry_points(ENTRY_POINTS)


class OpenTable(Mapping[str, T], Generic[T]):
    """A read-only mapping from names to entries, to which `add` adds further names.

    Reading it first loads the packages that declare an entry point in the group `tellwhy.rules`: they add
    their names when they are imported.

    Examples
    --------
    >>> colours = OpenTable("colour", {"red": 1})
    >>> with colours.temporary():
    ...     colours.add("blue", 2)
    ...     print(dict(colours))
    {'red': 1, 'blue': 2}
    >>> "blue" in colours
    False
    """

    def __init__(self, what: str, built_in: Mapping[str, T]):
        self._what = what  # what an entry is, for messages
        self._built_in = frozenset(built_in)
        self._entries = dict(built_in)

    def __getitem__(self, name: str) -> T:
        _load_declared()
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        _load_declared()
        return iter(self._entries)

    def __len__(self) -> int:
        _load_declared()
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<read-only table of {self._what}s: {', '.join(self)}>"

    def copy(self) -> dict[str, T]:
        """Return all entries; much faster than looking them up one by one."""
        _load_declared()
        return dict(self._entries)

    def add(self, name: str, entry: T, *, replace: bool = False) -> None:
        """Add a name, or raise: built-in names are never replaced, others only with `replace=True`."""
        # Entry points are not loaded here: the module that adds this name may be one of them, half imported.
        if name in self._built_in:
            raise InvalidParameter(f"The {self._what} {name!r} is built in, and stays as it is.")
        if name in self._entries and self._entries[name] != entry and not replace:
            raise InvalidParameter(
                f"The {self._what} {name!r} is registered already. Use another name, or pass replace=True."
            )
        self._entries[name] = entry

    @contextmanager
    def temporary(self) -> Iterator[None]:
        """Take out again, at the end of this block, what was added inside it."""
        # Loaded before, not inside: a package is imported once only, and its names are to stay.
        _load_declared()
        before = dict(self._entries)
        try:
            yield
        finally:
            self._entries = before


_NAMES = {
    "layer": "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "mixing": """add sub neg mul div sum cumsum matmul mm bmm mv dot inner outer einsum bilinear batch_norm
        softmax log_softmax interpolate upsample scatter_add index_add fold sparse_mm grouped_mm grid_sample
        affine_grid complex conj resolve_conj real imag stft istft fft_fft fft_ifft fft_rfft fft_irfft
        fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn fft_ifftn fft_rfftn fft_irfftn""",
    "attention": "scaled_dot_product_attention",
    "pooling": """mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
        adaptive_avg_pool3d""",
    "composed": """multi_head_attention_forward addmm baddbmm addcmul lerp glu softmin var std var_mean
        std_mean
        norm linalg_norm linalg_vector_norm normalize local_response_norm cosine_similarity tensordot
        embedding_bag lstm gru rnn_tanh
        rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell""",
    "normalisation": "layer_norm group_norm instance_norm rms_norm",
    "copying": """view reshape view_as reshape_as flatten unflatten ravel squeeze unsqueeze permute transpose
        swapaxes swapdims movedim t T mT H mH view_as_complex view_as_real contiguous clone chunk split
        split_with_sizes tensor_split unbind cat
        stack hstack vstack dstack getitem setitem narrow select index_select gather take_along_dim expand
        expand_as broadcast_to repeat repeat_interleave tile roll flip rot90 pad where masked_fill tril triu
        diagonal unfold pixel_shuffle pixel_unshuffle channel_shuffle dropout dropout1d dropout2d dropout3d
        feature_dropout alpha_dropout feature_alpha_dropout to float double half bfloat16 type type_as copy
        max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices
        max_pool3d_with_indices scatter index_copy index_put index_fill masked_scatter slice_scatter
        select_scatter pack_padded_sequence pad_packed_sequence
        adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d max min amax amin
        maximum minimum topk sort""",
    "rectifier": "relu leaky_relu prelu rrelu",
    "elementwise": """hardtanh relu6 elu selu celu silu gelu mish softplus sigmoid tanh hardswish hardsigmoid
        logsigmoid softsign tanhshrink softshrink hardshrink threshold clamp clip clamp_min clamp_max abs exp
        expm1 log log1p sqrt rsqrt square pow rpow reciprocal rdiv erf sin cos atan""",
}
BUILT_IN = {name: kind for kind, names in _NAMES.items() for name in names.split()}
KINDS: OpenTable[str] = OpenTable("operation", BUILT_IN)

# Kinds that need to know no more than the function's name: the others read its arguments.
NAMEABLE = ("elementwise", "rectifier", "copying", "mixing")
_PRODUCED = "mul matmul mm bmm mv dot inner outer einsum bilinear sparse_mm grouped_mm"
_PRODUCTS = frozenset(_PRODUCED.split())
OF_THE_FIRST = frozenset(("div", "grid_sample"))  # linear in their first argument only
_OF_COMPLEX = frozenset(("copying", "mixing", "product", "addition"))
_NOT_NEGATIVE = frozenset(
    ("relu", "relu6", "sigmoid", "hardsigmoid", "softmax", "softplus", "abs", "square", "exp", "sqrt")
)
_FILLS_IN = {"pad", "setitem"}  # with numbers of any sign


def check_kind(name: str, kind: str) -> None:
    """Refuse a kind that cannot be given to an operation by its name."""
    if kind not in NAMEABLE:
        listed = ", ".join(repr(known) for known in NAMEABLE)
        raise InvalidParameter(
            f"The kind of operation {name!r} must be one of {listed}. Got {kind!r} instead."
        )


def kind_of(
    name: str, n_activations: int, args: tuple[Any, ...], kwargs: Mapping[str, Any], table: Mapping[str, str]
) -> str:
    """Kind of an operation in which activations occur `n_activations` times among the arguments.

    `table` gives the kinds by name; some functions are of another kind with other arguments.
    """
    kind = table.get(name, "unknown")
    if name in ("interpolate", "upsample"):
        mode = kwargs.get("mode", args[3] if len(args) > 3 else "nearest")
        return "copying" if str(mode).startswith("nearest") else "mixing"
    if name == "instance_norm" and not kwargs.get("use_input_stats", args[5] if len(args) > 5 else True):
        return "mixing"  # running statistics are constants: a linear map
    if name in ("scatter", "index_put"):
        return _scattered(kind, args, kwargs)
    if n_activations > 1:
        kind = _of_several(name, kind)
    return "unknown" if kind == "composed" else kind  # called in a way that is not written out


def _scattered(kind: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """Kind of writing elements into a tensor: copying them, adding them, or something else."""
    if kwargs.get("accumulate", len(args) > 3 and args[3] is True):
        return "mixing"
    return kind if kwargs.get("reduce") is None else "unknown"


def _of_several(name: str, kind: str) -> str:
    """Kind of an operation in which several activations meet."""
    if name in _PRODUCTS:
        return "product"
    if name in ("add", "sub"):
        return "addition"
    # Weights, divisors or settings that depend on the input: f is no longer a function of one activation.
    if name in OF_THE_FIRST or kind in ("layer", "rectifier", "elementwise", "normalisation"):
        return "unknown"
    return kind


def of_complex_numbers(name: str, kind: str) -> str:
    """Kind of an operation on complex numbers: what is linear in their parts keeps its derivative."""
    if name == "abs":  # |s·z| = s·|z| for s > 0
        return "rectifier"
    if kind == "addition":
        return "mixing"
    return kind if kind in _OF_COMPLEX else "unknown"


def is_nonnegative(name: str, kind: str, *, inputs_are: bool) -> bool:
    """Whether no output of an operation can be negative, as far as its name and its inputs' signs tell."""
    if name in _NOT_NEGATIVE:
        return True
    # Of an operation that was named by a user nobody knows which constants it fills in.
    keeps_sign = name in BUILT_IN and name not in _FILLS_IN
    return (
        inputs_are and keeps_sign and (kind in ("copying", "pooling") or (name, kind) == ("add", "addition"))
    )


_WORDS = {
    "mixing": "linear in its activations",
    "rectifier": "f(s·z) = s·f(z) for s > 0",
    "copying": "such that each output is one of the inputs or a constant",
    "elementwise": "a function of single elements",
}


def contradiction(call: Call, kind: str) -> str:
    """What speaks against the kind of a call, in words; "" where nothing does."""
    holds = _is_elementwise(call) if kind == "elementwise" else _scales(call, kind)
    return "" if holds else f"{kind!r} means that it is {_WORDS[kind]}, and on these rows it is not"


def _scales(call: Call, kind: str) -> bool:
    with torch.no_grad():
        once = tensors_in(call.run([t.detach() for t in call.activations]))
        twice = tensors_in(call.run([2 * t.detach() for t in call.activations]))
        none = tensors_in(call.run([torch.zeros_like(t) for t in call.activations]))
    for y, double, zero in zip(once, twice, none, strict=True):
        if not y.is_floating_point():
            continue
        near = 1e-3 * y.abs().amax() + 1e-12
        if kind == "copying":
            fits = ((double - 2 * y).abs() <= near) | ((double - y).abs() <= near)
        elif kind == "mixing":
            fits = (double - 2 * y + zero).abs() <= near
        else:
            fits = (double - 2 * y).abs() <= near
        if not bool(fits.all()):
            return False
    return True


def _is_elementwise(call: Call) -> bool:
    """Whether turning the order of all elements round turns that of the outputs round."""
    z = call.activations[0].detach()
    with torch.no_grad():
        plain = call.run([z, *[t.detach() for t in call.activations[1:]]])
        if not isinstance(plain, Tensor) or plain.shape != z.shape:
            return True  # refused elsewhere, with its own words
        turned = call.run([_turned(z), *[t.detach() for t in call.activations[1:]]])
    near = 1e-3 * plain.abs().amax() + 1e-12
    return bool(((turned - _turned(plain)).abs() <= near).all())


def _turned(x: Tensor) -> Tensor:
    return x.flatten().flip(0).reshape(x.shape)


_ALWAYS = frozenset(("relu", "relu6"))
# Functions that may be ReLU, depending on their arguments: their output tells.
_MAYBE = frozenset(
    ("clamp", "clip", "clamp_min", "hardtanh", "threshold", "maximum", "max", "mul", "where", "masked_fill")
) | {"setitem"}
# Activation functions that are no rectifiers: guided backprop and DeconvNet do not say what becomes of them.
_SMOOTH = """leaky_relu prelu rrelu elu selu celu silu gelu mish softplus sigmoid tanh hardswish hardsigmoid
    logsigmoid softsign tanhshrink softshrink hardshrink hardtanh threshold lstm gru rnn_tanh lstm_cell
    gru_cell rnn_tanh_cell abs erf exp expm1 sin cos atan"""
OTHERS = frozenset(_SMOOTH.split())
_OF_TWO = frozenset(("where", "maximum", "max"))


def is_rectifier(call: Call) -> bool:
    """Whether a call cuts off what is below zero, perhaps also above a bound, and changes nothing else."""
    if call.name in _ALWAYS:
        return True
    if call.name not in _MAYBE or len(call.activations) != 1:
        return False
    z = call.activations[0].detach()
    if z.is_complex():
        return False
    result = call.run_detached()
    if not isinstance(result, Tensor) or result.shape != z.shape or not bool((z < 0).any()):
        return _by_bounds(call)
    largest = float(result.max())
    return largest > 0 and bool((result == z.clamp(min=0, max=largest)).all())


def is_leaky(call: Call) -> bool:
    """Whether a call chooses between z and a multiple of z: a leaky ReLU, in other words."""
    if call.name not in _OF_TWO or len(call.activations) != 2:
        return False
    first, second = (t.detach() for t in call.activations)
    if first.shape != second.shape or first.is_complex():
        return False
    if not bool((first != 0).any()):
        return False
    ratios = (second / first)[first != 0]
    return bool((ratios - ratios[0]).abs().max() <= 1e-4 * ratios[0].abs())


def _by_bounds(call: Call) -> bool:
    """The same from the arguments alone, where no element is negative that could tell."""
    if call.name == "hardtanh":
        return call.arguments(("input", "min_val")).get("min_val", -1.0) == 0
    return call.name in ("clamp", "clip", "clamp_min") and call.arguments(("input", "min")).get("min") == 0


OUT_OF_SIGHT = (
    "where it cannot be seen: in a scripted, traced or compiled module, in an autograd.Function, or behind a "
    "backward hook. Use the plain module there."
)

RECOMPUTES = (
    "The model throws activations away and computes them again on the way back (torch.utils.checkpoint), "
    "where its operations cannot be followed. Switch gradient checkpointing off: it saves memory in training "
    "only."
)


def hint(inputs: Inputs, error: Exception) -> str:
    """What to do about an error of the model's, where that is known."""
    if any(t.dtype == torch.uint8 for t in inputs.tensors):
        return " Pictures go in as floats, scaled as in training: x / 255, say."
    if "functorch" in str(error):
        return " It uses torch.vmap or torch.func, inside which operations cannot be followed."
    return ""


def note_unknown(capture: Capture, call: Call, operation: Operation) -> None:
    """Refuse an operation without a rule, where a method needs one."""
    if not capture.follows_rules or capture.tolerant:
        return
    start = f"There is no rule for {operation.where} (operation {operation.index})"
    end = "`coverage(model, x)` lists all operations. Gradient and SmoothGrad need no rules."
    if call.name in capture.kinds:
        capture.refuse(
            f"{start} as it is called here, or where its weights, its divisor, or several of its "
            f"arguments depend on the input. Write the model with operations that have one. {end}"
        )
    capture.refuse(
        f"{start}. Write the model with operations that have one, or name its kind: for a function of "
        f"single elements by LRP(model, operations={{{call.name!r}: 'elementwise'}}), or once for all by "
        f"tellwhy.explainers.propagation.register_operation({call.name!r}, 'elementwise'); "
        f"the documentation's page 'Write your own rule' tells the other kinds. {end}"
    )


def check_seen(capture: Capture, call: Call, operation: Operation, origins: Sequence[Origin | None]) -> None:
    """Refuse activations that were computed out of sight."""
    for tensor, origin in zip(call.activations, origins, strict=True):
        if origin is None and tensor.grad_fn is not None and capture.must_see:
            capture.refuse(
                f"An input of {operation.where} (operation {operation.index}) was computed {OUT_OF_SIGHT}"
            )


def check_evaluation_mode(capture: Capture, call: Call, operation: Operation) -> None:
    """Refuse an operation that behaves as in training."""
    if call.in_training_mode:
        capture.refuse(
            f"{operation.where} runs in training mode although the model is in evaluation mode: its "
            "output depends on chance or on the other rows. Pass training=self.training there."
        )


def check_complex(capture: Capture, call: Call, operation: Operation) -> None:
    """Refuse complex numbers where relevance itself travels: it would have to be shared by their parts."""
    if capture.carries_relevance and any(t.is_complex() for t in call.activations):
        capture.refuse(
            f"{operation.where} works on complex numbers, which rules that give relevance to zeros do not "
            "know. Use LRP with the rules z, epsilon, gamma or alpha_beta."
        )


def check_named(capture: Capture, call: Call, operation: Operation) -> None:
    """Refuse an operation that is not of the kind that somebody gave it by its name."""
    if call.name in BUILT_IN or not capture.follows_rules:
        return
    against = contradiction(call, operation.kind)
    if against:
        capture.refuse(f"The kind that was named for {operation.where} does not fit: {against}.")
