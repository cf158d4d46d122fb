"""Kinds of operation: what each of PyTorch's functions does to relevance.

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
    Several operations in one call, which are followed one by one (`spellings`).
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
    softmax(QKᵀ) V in one call: see `attention`.
unknown
    Not in the table, or applied to more activations than its rule allows for: explaining stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers.propagation.operations.open_table import OpenTable

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
