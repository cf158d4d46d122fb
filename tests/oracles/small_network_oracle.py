"""EfficientNet-Lite0 layer by layer, as it was trained: normalisation apart, padding worked out from the sides."""

import torch
import torch.nn.functional as F


def _padded(x, side, stride):
    size = x.shape[-1]
    missing = max((-(-size // stride) - 1) * stride + side - size, 0)
    before = missing // 2
    return F.pad(x, (before, missing - before, before, missing - before))


def _layer(x, weights, convolution, norm, *, stride=1, groups=1, limits=True):
    weight = weights[f"{convolution}.weight"]
    x = F.conv2d(_padded(x, weight.shape[-1], stride), weight, None, stride, 0, 1, groups)
    names = ("running_mean", "running_var", "weight", "bias")
    mean, var, scale, bias = [weights[f"{norm}.{name}"] for name in names]
    x = F.batch_norm(x, mean, var, scale, bias, training=False, eps=1e-3)
    return F.relu6(x) if limits else x


def block_outputs(weights, pictures, stages):
    """The output of every block, of pictures (n, 3, height, width) from 0 to 1."""
    x = _layer((pictures - 127 / 255) / (128 / 255), weights, "_conv_stem", "_bn0", stride=2)
    found = []
    for repeats, _, stride, wider, n_out in stages:
        for repeat in range(repeats):
            name = f"_blocks.{len(found)}."
            step = stride if repeat == 0 else 1
            y = x
            if wider > 1:
                y = _layer(y, weights, f"{name}_expand_conv", f"{name}_bn0")
            y = _layer(y, weights, f"{name}_depthwise_conv", f"{name}_bn1", stride=step, groups=y.shape[1])
            y = _layer(y, weights, f"{name}_project_conv", f"{name}_bn2", limits=False)
            x = x + y if step == 1 and x.shape[1] == n_out else y
            found.append(x)
    return found


def random_weights(stages, stem=8, seed=0):
    """Weights of such a network with the channels of `stages`."""
    rng = torch.Generator().manual_seed(seed)
    weights = {}

    def layer(convolution, norm, shape):
        weights[f"{convolution}.weight"] = torch.randn(shape, generator=rng) / (shape[1] * shape[2]) ** 0.5
        weights[f"{norm}.running_mean"] = 0.1 * torch.randn(shape[0], generator=rng)
        weights[f"{norm}.running_var"] = 0.5 + torch.rand(shape[0], generator=rng)
        weights[f"{norm}.weight"] = 0.5 + torch.rand(shape[0], generator=rng)
        weights[f"{norm}.bias"] = 0.5 * torch.randn(shape[0], generator=rng)

    layer("_conv_stem", "_bn0", (stem, 3, 3, 3))
    n_in, k = stem, 0
    for repeats, side, _, wider, n_out in stages:
        for _ in range(repeats):
            inner = n_in * wider
            name = f"_blocks.{k}."
            if wider > 1:
                layer(f"{name}_expand_conv", f"{name}_bn0", (inner, n_in, 1, 1))
            layer(f"{name}_depthwise_conv", f"{name}_bn1", (inner, 1, side, side))
            layer(f"{name}_project_conv", f"{name}_bn2", (n_out, inner, 1, 1))
            n_in, k = n_out, k + 1
    return weights
