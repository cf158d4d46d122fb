"""Passes over the graph of an explanation: each makes a graph of PyTorch's operators simpler.

A graph holds everything that is computed for a batch, up through the network and down again. It changes
nothing in place, so that an operator may be replaced by one that gives the same numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
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

    def call(function: Any, *args: Any) -> Node:
        return graph.call_function(function, args)

    # In the order of the rules' own folding, so that both are merged into one.
    with graph.inserting_before(convolution):
        factor = call(_ATEN.rsqrt.default, call(_ATEN.add.Tensor, variance, eps))
        if weight is not None:
            factor = call(_ATEN.mul.Tensor, factor, weight)
        shift = call(_ATEN.mul.Tensor, call(_ATEN.neg.default, mean), factor)
        if bias is not None:
            shift = call(_ATEN.add.Tensor, shift, bias)
        if given[2] is not None:
            shift = call(_ATEN.add.Tensor, call(_ATEN.mul.Tensor, given[2], factor), shift)
        given[1] = call(_ATEN.mul.Tensor, given[1], call(_ATEN.view.default, factor, shape))
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


PASSES: tuple[Callable[[Graph], None], ...] = (
    drop_copies,
    merge_equal,
    hoist_constants,
    fold_batch_norm,
    merge_equal,
    read_rectified,
)


def simplified(module: GraphModule) -> GraphModule:
    """The same module after all passes."""
    for change in PASSES:
        change(module.graph)
        module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()
    return module
