"""Passes over the graph of an explanation: each makes a graph of PyTorch's operators simpler.

A graph holds everything that is computed for a batch, up through the network and down again. It changes
nothing in place, so that an operator may be replaced by one that gives the same numbers.

One more pass measures: attention in single precision on a GPU. PyTorch's kernel for it takes its time on the
way back; products of matrices run on the fast units that all layers use. The weights are computed anew on the
way back, so that they keep no memory. Which of the two is faster depends on the shapes.
"""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule
from torch.fx.node import Node as FxNode

Node = Any  # an FxNode, whose arguments may be anything

_ATEN = torch.ops.aten
_SAME = frozenset((_ATEN.detach.default, _ATEN.alias.default, _ATEN.lift_fresh_copy.default))
_BATCH_NORMS = frozenset(
    (
        _ATEN.native_batch_norm.default,
        _ATEN._native_batch_norm_legit_no_training.default,
        _ATEN.cudnn_batch_norm.default,
        _ATEN.miopen_batch_norm.default,
    )
)
_RELUS = frozenset((_ATEN.relu.default,))


def drop_copies(graph: Graph) -> None:
    """Take out what hands a tensor on as it is: where nothing is changed in place, no copy is needed."""
    for node in list(graph.nodes):
        plain_copy = node.target is _ATEN.clone.default and _keeps_order(node)
        if node.target in _SAME or plain_copy:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def _keeps_order(node: Node) -> bool:
    return node.kwargs.get("memory_format", torch.preserve_format) is torch.preserve_format


def allow_any_order(graph: Graph) -> None:
    """Let tensors have another order in memory than they had when the graph was written down."""
    for node in graph.nodes:
        if node.target in (_ATEN.view.default, _ATEN._unsafe_view.default):
            node.target = _ATEN.reshape.default


def merge_equal(graph: Graph) -> None:
    """Compute once what is computed several times from the same tensors."""
    known: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.op not in ("call_function", "get_attr") or node.target in _DRAWN:
            continue
        key = (node.op, node.target, _frozen(node.args), _frozen(node.kwargs))
        first = known.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            graph.erase_node(node)


_DRAWN = frozenset((_ATEN.rand.default, _ATEN.randn.default, _ATEN.bernoulli.default))


def _frozen(tree: Any) -> Any:
    """The same as something that can be looked up."""
    if isinstance(tree, (list, tuple)):
        return tuple(_frozen(part) for part in tree)
    if isinstance(tree, dict):
        return tuple((name, _frozen(part)) for name, part in sorted(tree.items()))
    # 1, 1.0 and True are equal, and not the same argument.
    return tree if isinstance(tree, FxNode) else (type(tree), str(tree))


def fold_batch_norm(graph: Graph) -> None:
    """Write batch norm behind a convolution into the weights of the convolution."""
    for node in list(graph.nodes):
        before = node.args[0] if node.target in _BATCH_NORMS else None
        if not isinstance(before, FxNode) or before.target is not _ATEN.convolution.default:
            continue
        transposed, groups = before.args[6], before.args[8]
        used_once = all(user is node for user in before.users)
        is_training = len(node.args) == 8 and node.args[5]
        may_fold = used_once and not is_training and not (transposed and groups != 1)
        if may_fold and _reads_only_first(node):
            _fold(graph, node, before)


def _call(graph: Graph, function: Any, *args: Any) -> Node:
    """A new node, which knows shape and order of its tensor as all others do."""
    made = graph.call_function(function, args)
    made.meta["val"] = function(*torch.fx.map_arg(list(args), lambda node: node.meta["val"]))
    return made


def _reads_only_first(node: Node) -> bool:
    """Whether only the first output of an operator is used."""
    return all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)


def _fold(graph: Graph, norm: Node, convolution: Node) -> None:
    weight, bias = norm.args[1:3]
    mean, variance = norm.args[3:5]
    eps = norm.args[-1]
    given = list(convolution.args)
    shape = [1] * given[1].meta["val"].ndim
    shape[1 if given[6] else 0] = -1

    # In the order of the rules' own folding, so that both are merged into one.
    with graph.inserting_before(convolution):
        factor = _call(graph, _ATEN.rsqrt.default, _call(graph, _ATEN.add.Tensor, variance, eps))
        if weight is not None:
            factor = _call(graph, _ATEN.mul.Tensor, factor, weight)
        shift = _call(graph, _ATEN.mul.Tensor, _call(graph, _ATEN.neg.default, mean), factor)
        if bias is not None:
            shift = _call(graph, _ATEN.add.Tensor, shift, bias)
        if given[2] is not None:
            shift = _call(graph, _ATEN.add.Tensor, _call(graph, _ATEN.mul.Tensor, given[2], factor), shift)
        given[1] = _call(graph, _ATEN.mul.Tensor, given[1], _call(graph, _ATEN.view.default, factor, shape))
        given[2] = shift
    convolution.args = tuple(given)
    for user in list(norm.users):
        user.replace_all_uses_with(convolution)
        graph.erase_node(user)
    graph.erase_node(norm)


def hoist_constants(graph: Graph) -> None:
    """Bring parameters to the beginning, so that passes may use each of them anywhere."""
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node in list(graph.nodes):
        if node.op == "get_attr" and node is not first:
            first.prepend(node)


def read_rectified(graph: Graph) -> None:
    """Let the way down look at what a ReLU gave, and not at what went in, where both tell the same.

    What comes down through a ReLU is 0 where z ≤ 0, and elsewhere z is what the ReLU gave. Then z need not be
    kept beside it: half the memory for each layer with a ReLU.
    """
    for relu in [node for node in graph.nodes if node.target in _RELUS]:
        z = relu.args[0]
        masks = [n for n in (*z.users, *relu.users) if n.target is _ATEN.threshold_backward.default]
        masks = [n for n in masks if n.args[1] in (z, relu) and n.args[2] == 0]
        for mask in masks:
            mask.args = (mask.args[0], relu, 0)
        for user in list(z.users):
            if user.target is _ATEN.abs.default and _is_divisor(user, masks):
                user.args = (relu,)
            elif user.target is _ATEN.mul.Tensor and any(mask in user.args for mask in masks):
                user.args = tuple(relu if part is z else part for part in user.args)


def _is_divisor(size: Node, masks: list[Node]) -> bool:
    """Whether |z| is used as in c − ε c/(|z| + ε), with a c that came through the ReLU."""
    sums = list(size.users)
    if not all(s.target is _ATEN.add.Tensor and not isinstance(s.args[1], FxNode) for s in sums):
        return False
    uses = [use for s in sums for use in s.users]
    return all(
        use.target is _ATEN.addcdiv.default and use.args[0] is use.args[1] and use.args[0] in masks
        for use in uses
    )


_NARROW = 16  # channels of a convolution's input, up to which two convolutions are carried out as one


def join_convolutions(graph: Graph) -> None:
    """Carry out a sum of two convolutions of few channels as one, of both inputs side by side.

    Rules that part signs have W⁺ x⁺ + W⁻ x⁻ at the first layer. Its outputs are by far larger than its
    inputs: now they are written once.
    """
    for total in [node for node in graph.nodes if node.target is _ATEN.add.Tensor and not node.kwargs]:
        parts = total.args
        if not all(isinstance(part, FxNode) and _is_narrow(part) for part in parts):
            continue
        first, second = (list(part.args) for part in parts)
        if first[3:] != second[3:] or second[2] is not None or parts[0] is parts[1]:
            continue
        with graph.inserting_before(total):
            for place in (0, 1):  # inputs, weights: both have the channels along axis 1
                first[place] = _call(graph, _ATEN.cat.default, [first[place], second[place]], 1)
            made = _call(graph, _ATEN.convolution.default, *first)
        total.replace_all_uses_with(made)
        for node in (total, *parts):
            graph.erase_node(node)


def _is_narrow(node: Node) -> bool:
    """Whether a node is a plain convolution of few channels, whose output is used once."""
    if node.target is not _ATEN.convolution.default or len(node.users) != 1:
        return False
    return not node.args[6] and node.args[8] == 1 and node.args[0].meta["val"].shape[1] <= _NARROW


# A GPU's fast kernels take channels by the four: the way back to the three of a picture would go without.
_CHANNELS = {"cuda": 4}


def widen_images(graph: Graph) -> None:
    """Go back to inputs of few channels once for all weights, filled up to as many as fast kernels take."""
    alike: dict[Any, list[Node]] = {}
    places = {node: place for place, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        if node.target is _ATEN.convolution_backward.default and _goes_to_image(node):
            shape = tuple(node.args[1].meta["val"].shape)
            key = (node.args[0], shape, node.args[2].meta["val"].shape[2:], _frozen(node.args[3:]))
            alike.setdefault(key, []).append(node)
    for found in alike.values():
        nodes = [node for node in found if places[node.args[2]] < places[found[0]]]
        image = nodes[0].args[1].meta["val"]
        filled = -image.shape[1] * len(nodes) % _CHANNELS.get(image.device.type, 1)
        if filled or len(nodes) > 1:
            _go_back_together(graph, nodes, filled)


def _goes_to_image(node: Node) -> bool:
    image = node.args[1].meta["val"]
    is_plain = not node.args[7] and node.args[9] == 1 and list(node.args[10]) == [True, False, False]
    is_known = all(isinstance(size, int) for size in image.shape)
    return is_plain and is_known and image.ndim == 4 and image.shape[1] < 4 and _reads_only_first(node)


def _go_back_together(graph: Graph, nodes: list[Node], filled: int) -> None:
    """One way back for several weights: each gets the channels of its own."""
    image = nodes[0].args[1].meta["val"]
    n_channels = image.shape[1]
    shape = [len(image), n_channels * len(nodes) + filled, *image.shape[2:]]
    given = list(nodes[0].args)
    order = {"dtype": image.dtype, "device": image.device, "memory_format": torch.channels_last}
    with graph.inserting_before(nodes[0]):
        given[1] = graph.call_function(_ATEN.empty.memory_format, (shape,), order)
        if len(nodes) > 1:
            given[2] = _call(graph, _ATEN.cat.default, [node.args[2] for node in nodes], 1)
        if filled:
            given[2] = _call(graph, _ATEN.constant_pad_nd.default, given[2], [0, 0, 0, 0, 0, filled], 0.0)
        both = graph.call_function(_ATEN.convolution_backward.default, tuple(given))
        wide = graph.call_function(operator.getitem, (both, 0))
        for k, node in enumerate(nodes):
            start = k * n_channels
            own = graph.call_function(_ATEN.slice.Tensor, (wide, 1, start, start + n_channels))
            own.meta["val"] = image
            for user in list(node.users):
                user.replace_all_uses_with(own)
                graph.erase_node(user)
    for node in nodes:
        graph.erase_node(node)


PASSES: tuple[Callable[[Graph], None], ...] = (
    drop_copies,
    merge_equal,
    hoist_constants,
    fold_batch_norm,
    merge_equal,
    read_rectified,
    join_convolutions,
    widen_images,
)


def simplified(module: GraphModule, look: Callable[[str, Graph], None] | None = None) -> GraphModule:
    """The same module after all passes; `look` is given the graph after each, with the name of the pass."""
    for change in PASSES:
        change(module.graph)
        module.graph.eliminate_dead_code()
        if look is not None:
            look(change.__name__, module.graph)
    module.graph.lint()
    module.recompile()
    return module


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
