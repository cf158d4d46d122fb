"""Small networks for the benchmarks of explanations, and their weights in files of the format safetensors."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

WEIGHTS = Path(__file__).parent / "weights"
LENGTH = 24  # words of a query, padded
PADDING = 0
UNKNOWN = 1


class Cnn(nn.Sequential):
    """A VGG-like network: convolutions, ReLU, max pooling, two dense layers; no batch norm."""

    def __init__(self, n_classes: int = 10, side: int = 28):
        layers: list[nn.Module] = []
        before = 1
        for width in (16, 32):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.ReLU()]
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
            before = width
        flat = 32 * (side // 4) ** 2
        super().__init__(
            *layers, nn.Flatten(), nn.Linear(flat, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, n_classes)
        )


def _normed(before: int, width: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())


class NormedCnn(nn.Sequential):
    """Convolutions with batch norm, and the mean over the picture before the last layer."""

    def __init__(self, n_classes: int = 10):
        super().__init__(
            _normed(1, 16), _normed(16, 16), nn.MaxPool2d(2), _normed(16, 32), _normed(32, 32), nn.MaxPool2d(2),
            _normed(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, n_classes),
        )  # fmt: skip


class Block(nn.Module):
    """Two convolutions with batch norm beside a shortcut."""

    def __init__(self, before: int, width: int, stride: int):
        super().__init__()
        self.first = _normed(before, width, stride)
        self.second = nn.Sequential(nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width))
        same = stride == 1 and before == width
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch to the shortcut."""
        return torch.relu(self.second(self.first(x)) + self.shortcut(x))


class ResNet(nn.Sequential):
    """Residual blocks of 16, 32 and 64 channels."""

    def __init__(self, n_classes: int = 10):
        super().__init__(
            _normed(1, 16), Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, n_classes),
        )  # fmt: skip


class Joined(nn.Module):
    """Layers that each see what all before them made (as in DenseNet)."""

    def __init__(self, before: int, growth: int = 12, n: int = 3):
        super().__init__()
        self.layers = nn.ModuleList(_normed(before + k * growth, growth) for k in range(n))

    def forward(self, x: Tensor) -> Tensor:
        """Join the channels of all layers."""
        for layer in self.layers:
            x = torch.cat([x, layer(x)], dim=1)
        return x


class DenseNet(nn.Sequential):
    """Two joined blocks with pools between them."""

    def __init__(self, n_classes: int = 10):
        super().__init__(
            _normed(1, 16), nn.AvgPool2d(2), Joined(16), _normed(52, 32), nn.AvgPool2d(2), Joined(32),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(68, n_classes),
        )  # fmt: skip


class Attending(nn.Module):
    """A block of a transformer: attention and a dense part, each after a layer norm."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.dense = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Dropout(0.2), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor, is_padding: Tensor) -> Tensor:
        """Words look at words; padding is not looked at."""
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, key_padding_mask=is_padding, need_weights=False)[0]
        return x + self.dense(self.norms[1](x))


class TextTransformer(nn.Module):
    """Words to classes: embeddings with places, two blocks, the mean over words."""

    def __init__(self, n_words: int, n_classes: int, width: int = 64, heads: int = 4):
        super().__init__()
        self.words = nn.Embedding(n_words, width, padding_idx=PADDING)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.dropout = nn.Dropout(0.3)
        self.blocks = nn.ModuleList(Attending(width, heads) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return one output per class."""
        is_padding = tokens == PADDING
        x = self.dropout(self.words(tokens) + self.places[: tokens.shape[1]])
        for block in self.blocks:
            x = block(x, is_padding)
        kept = (~is_padding).to(x.dtype).unsqueeze(-1)
        return self.head((self.norm(x) * kept).sum(dim=1) / kept.sum(dim=1))


NETWORKS = {"cnn": Cnn, "normed": NormedCnn, "resnet": ResNet, "densenet": DenseNet}


def save_weights(model: nn.Module, path: Path, **said: str) -> None:
    """Write a network's weights in half precision, in the format safetensors: a JSON head, then raw numbers."""
    head: dict[str, object] = {"__metadata__": said}
    parts = []
    at = 0
    for name, tensor in model.state_dict().items():
        if not tensor.is_floating_point():  # counts of batches, which evaluation does not use
            continue
        raw = tensor.detach().cpu().half().contiguous().numpy().tobytes()
        head[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def load_weights(model: nn.Module, path: Path) -> nn.Module:
    """Fill a network with the weights of such a file, and put it into evaluation mode."""
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    head = json.loads(raw[8 : 8 + length])
    found = {}
    for name, entry in head.items():
        if name != "__metadata__":
            start, stop = entry["data_offsets"]
            numbers = np.frombuffer(raw[8 + length + start : 8 + length + stop], dtype=np.float16)
            found[name] = torch.from_numpy(numbers.astype(np.float32).reshape(entry["shape"]))
    missing = model.load_state_dict(found, strict=False)
    if missing.unexpected_keys or any(
        not name.endswith("num_batches_tracked") for name in missing.missing_keys
    ):
        raise ValueError(f"{path} holds the weights of another network: {missing}")
    return model.eval()
