"""Networks of 224 × 224 images for the benchmark of local explanations: VGG16, and a CNN for CIFAR-10."""

from __future__ import annotations

import json
import math
import struct
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

SIDE = 224
TIMES = 7  # a CIFAR-10 image has 32 × 32 pixels
VGG16 = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)  # 0: a pool
MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's colours
CIFAR_MEAN, CIFAR_SPREAD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
WIDTHS = (64, 128, 192, 320)
TYPES = {"F32": np.float32, "F16": np.float16, "F64": np.float64}


class Normed(nn.Module):
    """Colours from 0 to 1 in the unit that a network was trained with."""

    def __init__(self, mean: tuple[float, ...], spread: tuple[float, ...]):
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean)[:, None, None])
        self.register_buffer("spread", torch.tensor(spread)[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.spread


class Vgg16(nn.Module):
    """VGG16 (Simonyan and Zisserman, 2015); its weights are named as in torchvision."""

    def __init__(self, n_classes: int = 1000):
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for width in VGG16:
            if width:
                layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU(inplace=True)]
                before = width
            else:
                layers.append(nn.MaxPool2d(2))
        dense = [nn.Linear(512 * 49, 4096), nn.ReLU(inplace=True), nn.Dropout()]
        dense += [nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, n_classes)]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(*dense)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).flatten(1))


def random_vgg16(n_classes: int = 10) -> nn.Module:
    """VGG16 without training; weights keep the scale of what passes through, so that outputs differ."""
    torch.manual_seed(0)
    model = Vgg16(n_classes)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)
    return nn.Sequential(Normed(MEAN, SPREAD), model).eval()


def vgg16_of(path: Path) -> nn.Module:
    """VGG16 with the weights of a file: safetensors or npz, with torchvision's names. Never a pickle."""
    arrays = read_weights(path)
    model = Vgg16(len(arrays["classifier.6.bias"]))
    model.load_state_dict({name: torch.as_tensor(value) for name, value in arrays.items()})
    return nn.Sequential(Normed(MEAN, SPREAD), model).eval()


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a file, in single precision."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name].astype(np.float32) for name in stored}
    if path.suffix != ".safetensors":
        raise SystemExit(f"$TELLWHY_WEIGHTS is {path}: expected a file .safetensors or .npz.")
    raw = path.read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    found = {}
    for name, entry in json.loads(raw[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            part = raw[start + first : start + last]
            found[name] = _numbers(part, entry["dtype"]).reshape(entry["shape"])
    return found


def _numbers(raw: bytes, kind: str) -> np.ndarray:
    if kind == "BF16":  # the upper half of single precision
        return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(raw, TYPES[kind]).astype(np.float32)


def _layer(before: int, width: int, *, pool: bool) -> nn.Sequential:
    layers: list[nn.Module] = [nn.Conv2d(before, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
    return nn.Sequential(*layers, nn.ReLU(), *([nn.MaxPool2d(2)] if pool else []))


class Residual(nn.Module):
    """Two layers beside a shortcut."""

    def __init__(self, width: int):
        super().__init__()
        self.inside = nn.Sequential(_layer(width, width, pool=False), _layer(width, width, pool=False))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inside(x)


class CifarNet(nn.Sequential):
    """Eight convolutions with batch norm, two of the pairs beside shortcuts; takes images of 32 × 32."""

    def __init__(self) -> None:
        a, b, c, d = WIDTHS
        layers = [Normed(CIFAR_MEAN, CIFAR_SPREAD), _layer(3, a, pool=False), _layer(a, b, pool=True)]
        layers += [Residual(b), _layer(b, c, pool=True), _layer(c, d, pool=True), Residual(d)]
        super().__init__(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), Times(0.125), nn.Linear(d, 10))


class Times(nn.Module):
    """What comes in, times a number: small outputs at the start of training let it begin with large steps."""

    def __init__(self, factor: float):
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


class Shrunk(nn.Module):
    """A network of small images as one of 224 × 224: it sees the means of squares of pixels."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(functional.avg_pool2d(x, TIMES))


def enlarged(X: np.ndarray) -> np.ndarray:
    """Images of 32 × 32 as 224 × 224: every pixel becomes a square."""
    return X.repeat(TIMES, axis=-2).repeat(TIMES, axis=-1)


def _varied(x: Tensor) -> Tensor:
    """Images shifted by up to four pixels, half of them mirrored, with a square of 8 × 8 hidden."""
    n, device = len(x), x.device
    padded = functional.pad(x, (4, 4, 4, 4), mode="reflect")
    at = torch.randint(0, 9, (2, n, 1), device=device)
    line = torch.arange(32, device=device)
    rows, columns = at[0] + line, at[1] + line
    columns = torch.where(torch.rand(n, 1, device=device) < 0.5, columns, columns.flip(1))
    number = torch.arange(n, device=device)[:, None, None, None]
    channel = torch.arange(3, device=device)[None, :, None, None]
    found = padded[number, channel, rows[:, None, :, None], columns[:, None, None, :]]
    corner = torch.randint(-4, 29, (2, n, 1), device=device)
    hidden = [(line >= c) & (line < c + 8) for c in corner]
    cell = (hidden[0][:, :, None] & hidden[1][:, None, :])[:, None]
    grey = torch.tensor(CIFAR_MEAN, device=device, dtype=x.dtype)[:, None, None]
    return torch.where(cell, grey, found)


def train(X: np.ndarray, y: np.ndarray, *, device: str, seconds: float, batch: int = 256) -> nn.Module:
    """Train for some seconds; the rate rises and falls with the time that is over."""
    torch.manual_seed(0)
    like = {"device": device, "memory_format": torch.channels_last}
    model = CifarNet().to(**like)
    inputs, labels = torch.as_tensor(X).to(**like), torch.as_tensor(y, device=device)
    optimiser = torch.optim.SGD(model.parameters(), 0.0, 0.9, weight_decay=5e-4, nesterov=True)
    begin, epochs, spent = time.monotonic(), 0, 0.0
    while spent < 1.0:
        for rows in torch.randperm(len(labels), device=device).split(batch):
            spent = (time.monotonic() - begin) / seconds
            rate = 0.2 * min(spent / 0.15, 1.0) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, max(0.0, spent))))
            optimiser.param_groups[0]["lr"] = rate
            with torch.autocast(torch.device(device).type, torch.bfloat16, enabled=device != "cpu"):
                out = model(_varied(inputs[rows]).contiguous(memory_format=torch.channels_last))
                loss = functional.cross_entropy(out, labels[rows], label_smoothing=0.05)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            if spent >= 1.0:
                break
        epochs += 1
    print(f"{epochs} epochs in {time.monotonic() - begin:.0f} s, last loss {loss.item():.3f}", flush=True)
    return model.eval()


def save_half(model: nn.Module, path: Path, **said: float) -> None:
    """Write weights in half precision."""
    arrays = {name: value.detach().cpu().numpy() for name, value in model.state_dict().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    halves = {n: a.astype(np.float16) if a.dtype.kind == "f" else a for n, a in arrays.items()}
    np.savez_compressed(path, **halves, **{name: np.array(value) for name, value in said.items()})


def load_half(path: Path, device: str) -> tuple[nn.Module, float]:
    """The network of such a file, and its accuracy on test images."""
    model = CifarNet()
    with np.load(path, allow_pickle=False) as stored:
        state = {name: torch.as_tensor(stored[name]) for name in model.state_dict()}
        like = model.state_dict()
        model.load_state_dict({name: value.to(like[name].dtype) for name, value in state.items()})
        return model.to(device).eval(), float(stored["test_accuracy"])
