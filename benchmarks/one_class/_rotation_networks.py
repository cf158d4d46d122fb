"""Small convolutional networks that learn without labels: by how many quarters was this picture turned?

Golan and El-Yaniv, NeurIPS (2018); Gidaris, Singh, Komodakis, ICLR (2018). Every picture is shown in its four turns.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F


def block(before: int, after: int, *, pooled: bool) -> nn.Sequential:
    """Two convolutions with batch norm and ReLU, and perhaps a pool."""
    layers: list[nn.Module] = []
    for first in (True, False):
        layers += [
            nn.Conv2d(before if first else after, after, 3, padding=1),
            nn.BatchNorm2d(after),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, *([nn.MaxPool2d(2)] if pooled else []))


class TurnNetwork(nn.Module):
    """Three blocks, a mean over places, four turns; `places` and `pooled` are what detectors look at."""

    def __init__(self, n_channels: int, width: int = 64, *, poolings: int = 2):
        super().__init__()
        self.first = block(n_channels, width, pooled=poolings > 0)
        self.second = block(width, 2 * width, pooled=poolings > 1)
        self.places = block(2 * width, 4 * width, pooled=False)
        self.pooled = nn.AdaptiveAvgPool2d(1)
        self.turns = nn.Linear(4 * width, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Return one number for each turn."""
        found = self.pooled(self.places(self.second(self.first(x))))
        return self.turns(found.flatten(1))


def trained(
    images: np.ndarray, *, steps: int, device: str, seed: int = 0, crop: int = 0, **sizes: int
) -> TurnNetwork:
    """Train on pictures (n, h, w[, c]) from 0 to 1; with `crop`, on squares of that side cut out at random."""
    torch.manual_seed(seed)
    x = torch.as_tensor(np.asarray(images, dtype=np.float32), device=device)
    x = x[:, None] if x.ndim == 3 else x.permute(0, 3, 1, 2)
    x = x.contiguous(memory_format=torch.channels_last)
    network = TurnNetwork(x.shape[1], **sizes).to(device, memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
    course = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=0.1, total_steps=steps)
    labels = torch.arange(4, device=device).repeat_interleave(64)
    for _ in range(steps):
        some = _drawn(x, 64, crop)
        turned = torch.cat([torch.rot90(some, k, (2, 3)) for k in range(4)])
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = F.cross_entropy(network(turned), labels)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        course.step()
    return network.to(memory_format=torch.contiguous_format).eval().cpu()


def _drawn(x: Tensor, n: int, crop: int) -> Tensor:
    """Some pictures, mirrored at random, moved by up to four pixels or cut out at random."""
    rows = torch.randint(len(x), (n,), device=x.device)
    if crop:
        down, right = (torch.randint(x.shape[axis] - crop + 1, (n,)).tolist() for axis in (2, 3))
        parts = [
            x[i, :, a : a + crop, b : b + crop] for i, a, b in zip(rows.tolist(), down, right, strict=True)
        ]
        return torch.stack(parts)
    some = x[rows]
    mirrored = torch.rand(n, device=x.device) < 0.5
    some = torch.where(mirrored[:, None, None, None], some.flip(3), some)
    down, right = (int(k) for k in torch.randint(9, (2,)))
    padded = F.pad(some, (4, 4, 4, 4), mode="reflect")
    return padded[:, :, down : down + x.shape[2], right : right + x.shape[3]]
