"""The shortest compiler of relevance: export a network, fold batch norm, let each layer's rule be its way back.

Feed-forward networks without in-place surprises, two rules, no checks: what a program of ours is measured against.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Graph, GraphModule, Node

ATEN = torch.ops.aten
EPSILON = 1e-6
DEFAULTS: list[Any] = [None, [1, 1], [0, 0], [1, 1], 1]  # bias, stride, padding, dilation, groups


class Stabilised(torch.autograd.Function):
    """The identity; on the way back c·|z|/(|z| + ε)."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        """Return the same."""
        ctx.save_for_backward(z)
        return z.view_as(z)

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> Tensor:  # type: ignore[override]
        """Epsilon rule of the layer before."""
        size = ctx.saved_tensors[0].abs()
        return c * (size / (size + EPSILON))


class StabilisedRelu(torch.autograd.Function):
    """ReLU; on the way back one factor for its mask and for the epsilon rule."""

    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        """Cut off what is below zero."""
        y = z.clamp_min(0)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> Tensor:  # type: ignore[override]
        """y/(y + ε) is zero where the unit is off."""
        (y,) = ctx.saved_tensors
        return c * (y / (y + EPSILON))


class PositiveParts(torch.autograd.Function):
    """A convolution of inputs ≥ 0; on the way back W₊ᵀ(c z / P) with P = W₊ x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, positive: Tensor, bias: Any, *geometry: Any) -> Tensor:
        """Convolve."""
        z = nn.functional.conv2d(x, weight, bias, *geometry)
        ctx.save_for_backward(x, positive, z)
        ctx.geometry = geometry
        return z

    @staticmethod
    def backward(ctx: Any, c: Tensor) -> tuple[Any, ...]:  # type: ignore[override]
        """z+ rule."""
        x, positive, z = ctx.saved_tensors
        stride, padding, dilation, groups = ctx.geometry
        P = nn.functional.conv2d(x, positive, None, *ctx.geometry)
        s = torch.where(P > 0, c * z / P, torch.zeros_like(P))
        only = [True, False, False]
        handed = ATEN.convolution_backward(
            s, x, positive, None, stride, padding, dilation, False, [0, 0], groups, only
        )[0]
        return handed, None, None, None, None, None, None, None


def stabilised(z: Tensor) -> Tensor:
    return Stabilised.apply(z)


def stabilised_relu(z: Tensor) -> Tensor:
    return StabilisedRelu.apply(z)


def positive_parts(*given: Any) -> Tensor:
    return PositiveParts.apply(*given)


def exported(model: nn.Module, x: Tensor, rule: str) -> GraphModule:
    """The network as a graph whose way back follows a rule: "epsilon", or "z_plus" for its convolutions."""
    sizes = ({0: torch.export.Dim("rows", min=2, max=4096)},)
    module = torch.export.export(model, (x,), strict=False, dynamic_shapes=sizes).module()
    graph = module.graph
    fold_batch_norm(module, graph)
    for node in list(graph.nodes):
        if node.op == "call_module" and "guard" in str(node.target):
            graph.erase_node(node)
        elif node.target is ATEN.relu_.default:
            node.target = ATEN.relu.default
        elif node.target is ATEN.add_.Tensor:
            node.target = ATEN.add.Tensor
        elif node.target in (ATEN.dropout.default, ATEN.dropout_.default):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
    for node in list(graph.nodes):
        if node.target is ATEN.conv2d.default and rule == "z_plus" and node.args[0].op != "placeholder":
            take_positive_parts(module, graph, node)
        elif node.target in (ATEN.conv2d.default, ATEN.linear.default):
            stabilise(graph, node)
    graph.eliminate_dead_code()
    module.recompile()
    return module


def held(module: GraphModule, node: Node) -> Tensor:
    return operator.attrgetter(node.target)(module)


def keep(module: GraphModule, graph: Graph, before: Node, value: Tensor) -> Node:
    """A tensor of the module's, as a node."""
    name = f"kept_{len(module._buffers)}"
    module.register_buffer(name, value.detach())
    with graph.inserting_before(before):
        return graph.get_attr(name)


def fold_batch_norm(module: GraphModule, graph: Graph) -> None:
    for node in list(graph.nodes):
        if node.target is not ATEN.batch_norm.default:
            continue
        before = node.args[0]
        if before.target is not ATEN.conv2d.default or len(before.users) != 1:
            continue
        weight, bias, mean, variance = (held(module, part) for part in node.args[1:5])
        scale = weight / torch.sqrt(variance + node.args[7])
        shift = bias - mean * scale
        given = [*before.args, *DEFAULTS[len(before.args) - 2 :]]
        if given[2] is not None:
            shift = shift + held(module, given[2]) * scale
        given[1] = keep(module, graph, before, held(module, given[1]) * scale[:, None, None, None])
        given[2] = keep(module, graph, before, shift)
        before.args = tuple(given)
        node.replace_all_uses_with(before)
        graph.erase_node(node)


def take_positive_parts(module: GraphModule, graph: Graph, node: Node) -> None:
    given = [*node.args, *DEFAULTS[len(node.args) - 2 :]]
    positive = keep(module, graph, node, held(module, given[1]).clamp_min(0))
    with graph.inserting_after(node):
        made = graph.call_function(positive_parts, (*given[:2], positive, *given[2:]))
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def stabilise(graph: Graph, node: Node) -> None:
    users = list(node.users)
    if len(users) == 1 and users[0].target is ATEN.relu.default:
        users[0].target = stabilised_relu
        return
    with graph.inserting_after(node):
        made = graph.call_function(stabilised, (node,))
    node.replace_all_uses_with(made)
    made.args = (node,)
