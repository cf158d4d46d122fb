"""Each pass makes a graph simpler, and leaves its numbers as they are."""

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from tellwhy.explainers.propagation.engine import graph_passes, program
from tellwhy.explainers.propagation.engine.graph_passes import (
    drop_copies,
    fold_batch_norm,
    hoist_constants,
    join_convolutions,
    merge_equal,
    read_rectified,
    simplified,
    widen_images,
)
from tellwhy.explainers.propagation.engine.program import NotTraceable, Program, traced

aten = torch.ops.aten


def graph_of(function, *tensors):
    with torch.no_grad():
        return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*tensors)


def count(module, *targets):
    return sum(node.target in targets for node in module.graph.nodes)


def changed(module, *passes):
    for each in passes:
        each(module.graph)
        module.graph.eliminate_dead_code()
    module.graph.lint()
    module.recompile()
    return module


@pytest.fixture
def x():
    return torch.randn(3, 4, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_copies_are_dropped_and_changes_of_order_kept(x):
    def function(x):
        y = aten.alias(x.detach().clone()) + 1
        return y.contiguous(memory_format=torch.channels_last).clone()

    module = changed(graph_of(function, x), drop_copies)
    assert count(module, aten.detach.default, aten.alias.default) == 0
    assert count(module, aten.clone.default) == 1
    assert module(x).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(module(x), x + 1)


def test_equal_operators_are_merged_and_others_kept(x):
    module = changed(graph_of(lambda x: (x * 2) + (x * 2) + (x * 2.5) + (x + 1) + (x + True), x), merge_equal)
    assert count(module, aten.mul.Tensor) == 2
    torch.testing.assert_close(module(x), 6.5 * x + 2 * x + 2)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm_is_folded(x, transposed, bias, affine):
    torch.manual_seed(0)
    layer = (nn.ConvTranspose2d if transposed else nn.Conv2d)(4, 6, 3, bias=bias)
    norm = nn.BatchNorm2d(6, affine=affine)
    nn.init.uniform_(norm.running_var, 0.5, 2)
    nn.init.normal_(norm.running_mean)
    model = nn.Sequential(layer, norm).double().eval()
    module = changed(graph_of(model, x), drop_copies, merge_equal, hoist_constants, fold_batch_norm)
    names = {str(node.target) for node in module.graph.nodes}
    assert not any("batch_norm" in name for name in names)
    torch.testing.assert_close(module(x), model(x), rtol=1e-10, atol=1e-12)


def test_batch_norm_stays_where_something_else_sees_its_input(x):
    layer = nn.Conv2d(4, 6, 3).double()
    norm = nn.BatchNorm2d(6).double().eval()

    def function(x):
        z = layer(x)
        return norm(z) + z

    module = changed(graph_of(function, x), hoist_constants, fold_batch_norm)
    assert any("batch_norm" in str(node.target) for node in module.graph.nodes)
    torch.testing.assert_close(module(x), function(x))


def epsilon_behind_relu(x, c):
    z = x * 3
    y = torch.relu(z)
    down = aten.threshold_backward(c, z, 0)
    return y, torch.addcdiv(down, down, z.abs() + 1e-6, value=-1e-6), down * z


def test_a_rectified_output_is_read_on_the_way_down(x):
    c = torch.randn_like(x)
    module = changed(graph_of(epsilon_behind_relu, x, c), read_rectified)
    relu = next(node for node in module.graph.nodes if node.target is aten.relu.default)
    assert list(relu.args[0].users) == [relu]
    for found, wanted in zip(module(x, c), epsilon_behind_relu(x, c), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_an_output_that_is_read_below_zero_is_kept(x):
    def function(x, c):
        z = x * 3
        y = torch.relu(z)
        return y, c / (z.abs() + 1e-6)  # c did not come through the ReLU

    c = torch.randn_like(x)
    module = changed(graph_of(function, x, c), read_rectified)
    relu = next(node for node in module.graph.nodes if node.target is aten.relu.default)
    assert len(relu.args[0].users) == 2
    torch.testing.assert_close(module(x, c)[1], function(x, c)[1])


def test_parameters_are_computed_with_once_and_zeros_anew(x):
    weight = nn.Parameter(torch.randn(4, dtype=torch.float64))

    def function(x):
        return [x * weight.clamp(min=0)[:, None, None] + torch.zeros(5, dtype=x.dtype) + 1]

    made = traced(function, [x])
    assert count(made.graph, aten.clamp.default, aten.clamp_min.default) == 0
    assert count(made.graph, aten.zeros.default, aten.full.default) == 1
    torch.testing.assert_close(made(x), function(x))
    with torch.no_grad():
        weight.mul_(-1)
    made.refresh()
    torch.testing.assert_close(made(x), function(x))


def test_all_passes_leave_the_numbers(x):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(54, 2))
    model = model.double().eval()
    made = Program(simplified(graph_of(lambda x: [model(x)], x)))
    torch.testing.assert_close(made(x)[0], model(x).detach(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("read", [lambda t: t.tolist(), lambda t: float(t.sum()), lambda t: bool(t.any())])
def test_functions_that_look_at_values_are_refused(read, x):
    with pytest.raises(NotTraceable):
        traced(lambda x: [x * float(len(str(read(x))))], [x])


def first_layer(x, above, below, bias):
    """What a rule that parts signs does at the first layer, up and down."""
    geometry = ([2, 2], [1, 1], [1, 1], False, [0, 0], 1)
    up = aten.convolution(x.clamp(min=0), above, bias, *geometry)
    total = up + aten.convolution(x.clamp(max=0), below, None, *geometry)
    only = [True, False, False]
    parts = [aten.convolution_backward(total, x, w, None, *geometry, only)[0] for w in (above, below)]
    return torch.where(x < 0, parts[1], parts[0])


@pytest.fixture
def picture():
    torch.manual_seed(0)
    weights = torch.randn(5, 3, 3, 3, dtype=torch.float64)
    x = torch.randn(2, 3, 7, 7, dtype=torch.float64)
    return x, weights.clamp(min=0), weights.clamp(max=0), torch.randn(5, dtype=torch.float64)


def test_two_convolutions_of_few_channels_are_one(picture):
    module = changed(graph_of(first_layer, *picture), merge_equal, join_convolutions)
    assert count(module, aten.convolution.default) == 1
    torch.testing.assert_close(module(*picture), first_layer(*picture), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("channels", [1, 4])
def test_the_way_back_to_a_picture_is_taken_once_in_whole_fours(picture, channels, monkeypatch):
    monkeypatch.setitem(graph_passes._CHANNELS, "cpu", channels)
    module = changed(graph_of(first_layer, *picture), merge_equal, widen_images)
    assert count(module, aten.convolution_backward.default) == 1
    assert count(module, aten.constant_pad_nd.default) == (channels == 4)
    torch.testing.assert_close(module(*picture), first_layer(*picture), rtol=1e-12, atol=1e-13)


def test_convolutions_of_other_geometry_are_not_joined(picture):
    x, above, below, _ = picture

    def function(x):
        plain = aten.convolution(x, above, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
        apart = aten.convolution(x, below, None, [1, 1], [2, 2], [2, 2], False, [0, 0], 1)
        return plain + apart

    module = changed(graph_of(function, x), hoist_constants, join_convolutions)
    assert count(module, aten.convolution.default) == 2


@pytest.mark.parametrize("n_keys", [8, 13])
def test_attention_as_products_is_the_kernel(n_keys):
    torch.manual_seed(0)
    query = torch.randn(2, 3, 5, 4, dtype=torch.float64, requires_grad=True)
    key, value = (torch.randn(2, 3, n_keys, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    c = torch.randn(2, 3, 5, 4, dtype=torch.float64)
    wanted = nn.functional.scaled_dot_product_attention(query, key, value)
    slopes = torch.autograd.grad(wanted, (query, key, value), c)
    up, down = graph_passes._attended, graph_passes._handed_down
    out, totals, *_ = up(query, key, value, None, True)
    found = down(c, query, key, value, None, out, totals)
    torch.testing.assert_close(out, wanted, rtol=1e-12, atol=1e-13)
    for a, b in zip(found[:3], slopes, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def attends(x, weight):
    """Attention with the time first, whose result is looked at as a matrix, up and down."""
    heads = x.unflatten(-1, (2, 2)).permute(1, 2, 0, 3)
    up = aten._scaled_dot_product_flash_attention_for_cpu(heads, heads, heads * 2)
    mixed = up[0].permute(2, 0, 1, 3).flatten(2)
    down = aten._scaled_dot_product_flash_attention_for_cpu_backward(
        up[0], heads, heads, heads * 2, *up, 0.0, False
    )
    return mixed.view(-1, 4) @ weight, down[0].permute(2, 0, 1, 3).reshape(-1, 4) @ weight


def test_operators_are_exchanged_for_functions():
    torch.manual_seed(0)
    x, weight = torch.randn(5, 3, 4, dtype=torch.float64), torch.randn(4, 4, dtype=torch.float64)
    up = aten._scaled_dot_product_flash_attention_for_cpu.default
    down = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    handed = graph_passes._handed_down
    products = {
        up: lambda q, k, v: graph_passes._attended(q, k, v)[:2],
        down: lambda c, q, k, v, out, totals, *_: handed(c, q, k, v, None, out, totals)[:3],
    }
    made = graph_passes.written_out(graph_of(attends, x, weight), [x, weight], products)
    assert count(made, up, down) == 0
    for found, wanted in zip(made(x, weight), attends(x, weight), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-13)


def test_zeros_are_filled_in_without_another_order(x):
    images = x.contiguous(memory_format=torch.channels_last)
    made = traced(lambda x: [(x / 2).masked_fill(x > 0, 0)], [images])
    assert count(made.graph, aten.masked_fill.Scalar) == 0
    assert made(images)[0].is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(made(images)[0], x.clamp(max=0) / 2)


@pytest.mark.parametrize("pad", [(1, 2), (0, 1, 2, 0), (-1, 2, 0, -2), (1, 1, 1, 1, 0, 2)])
def test_padding_is_that_of_pytorch(x, pad):
    wanted = nn.functional.pad(x, pad, value=3.0)
    torch.testing.assert_close(program._padded(x, pad, 3.0), wanted, rtol=0, atol=0)
