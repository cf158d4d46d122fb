"""Networks that several tests use: functions, residuals, shared modules, in-place changes, skip connections."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Function(nn.Module):
    """A network that is a function of its inputs, without weights."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Joined(nn.Module):
    """Two inputs with layers of their own, whose sum goes through a function and a head."""

    def __init__(self, left, right, head, function=torch.relu):
        super().__init__()
        self.left, self.right, self.head = left, right, head
        self.function = function

    def forward(self, left, right):
        return self.head(self.function(self.left(left) + self.right(right)))


class Residual(nn.Module):
    """Functional additions, batch norm, in-place ReLU in three spellings."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.body = nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)), inplace=True)
        y = self.body(x).relu_()
        y += x
        y = y + self.body(y)
        torch.relu_(y)
        return self.head(y.mean((2, 3)))


class Shared(nn.Module):
    """One module applied three times, with weights that are computed."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)
        self.head = nn.Linear(6, 2)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        for _ in range(3):
            x = self.act(self.inner(x))
        return F.linear(x, self.head.weight * 2, self.head.bias)


class InPlace(nn.Module):
    """Results of in-place operations that are not assigned, slices that are filled in."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.second = nn.Linear(8, 2)

    def forward(self, x):
        x = self.first(x)
        x.mul_(2).sub_(0.1)
        F.relu(x, inplace=True)
        room = torch.zeros(len(x), 8, dtype=x.dtype)
        room[:, :3] = x[:, 5:]
        room[:, 3:] += x[:, :5]
        return self.second(room)


class UNet(nn.Module):
    """Pooling, upsampling, concatenation, transposed convolution, padding and splitting."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(2, 4, 3, padding=1, padding_mode="reflect")
        self.deep = nn.Conv2d(4, 4, 3, padding=1, groups=2)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.last = nn.Conv2d(12, 3, 1)

    def forward(self, x):
        a = F.leaky_relu(self.down(x), 0.1)
        b = torch.relu(self.deep(F.max_pool2d(a, 2)))
        wide = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        left, right = torch.cat([a, self.up(b), wide], dim=1).split([5, 7], dim=1)
        y = self.last(F.pad(torch.cat([right, left], dim=1), (1, 1, 0, 0)))
        return F.adaptive_avg_pool2d(F.avg_pool2d(y, 2), 1).flatten(1)


MODELS = {
    "residual": (Residual, (2, 6, 6)),
    "shared": (Shared, (6,)),
    "in_place": (InPlace, (6,)),
    "unet": (UNet, (2, 8, 8)),
}


def build(name, seed=0):
    """A model of the table in evaluation mode, with batch-norm statistics of all signs, and rows for it."""
    make, shape = MODELS[name]
    torch.manual_seed(seed)
    model = make().double()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    return model.eval(), torch.randn(5, *shape, dtype=torch.float64)


def matrix_of(layer, shape):
    """Weights (k, d) and biases (k,) of a layer as one matrix."""
    with torch.no_grad():
        d = int(np.prod(shape))
        b = layer(torch.zeros(1, *shape, dtype=torch.float64)).flatten()
        W = layer(torch.eye(d, dtype=torch.float64).reshape(d, *shape)).reshape(d, -1).T - b[:, None]
    W = np.where(np.abs(W.numpy()) < 1e-12, 0.0, W.numpy())
    return W, b.numpy()
