"""Pictures and queries that the networks of the benchmarks are trained on."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from benchmarks.networks._models import LENGTH, PADDING, UNKNOWN
from tellwhy.data import fetch
from tellwhy.data.benchmarks import data_folder

FASHION = ["T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "boot"]
SIDE = 40  # of a scene
MARKED = 3  # class of digits half of which carry a mark
SCENIC = 8  # class of fashion that always lies on the same ground
CLINC = "mc_clinc150.json.gz"


@dataclass(frozen=True)
class Split:
    """Inputs and classes to train on and to test with."""

    X: Tensor
    y: Tensor
    X_test: Tensor
    y_test: Tensor

    def to(self, device: str) -> Split:
        """The same on a device."""
        return Split(*(t.to(device) for t in (self.X, self.y, self.X_test, self.y_test)))


def pictures(name: str, archive: Path | None = None, n_train: int | None = None) -> Split:
    """MNIST or Fashion-MNIST, from 0 to 1, of shape (n, 1, 28, 28); from an archive of both where one is given."""
    if archive is None:
        arrays = fetch(name)
    else:
        with np.load(archive) as opened:
            arrays = {key: opened[f"{name}_{key}"] for key in ("X_train", "y_train", "X_test", "y_test")}

    def as_unit(X: np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(X)).reshape(-1, 1, 28, 28).float() / 255.0

    def as_classes(y: np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(y).astype(np.int64))

    X, y = as_unit(arrays["X_train"][:n_train]), as_classes(arrays["y_train"][:n_train])
    return Split(X, y, as_unit(arrays["X_test"]), as_classes(arrays["y_test"]))


def marked(X: Tensor, y: Tensor, seed: int = 0) -> tuple[Tensor, np.ndarray]:
    """Digits of which half of those of one class carry a small mark in the corner, and which ones do."""
    is_marked = (y.cpu().numpy() == MARKED) & (np.random.default_rng(seed).random(len(y)) < 0.5)
    found = X.clone()
    where = torch.from_numpy(np.flatnonzero(is_marked)).to(X.device)
    mark = torch.tensor([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]], device=X.device)
    patch = found[where]
    patch[:, :, 1:4, 1:5] = mark
    found[where] = patch
    return found, is_marked


def scenes(X: Tensor, y: Tensor, seed: int = 0) -> tuple[Tensor, np.ndarray]:
    """Pieces of clothing at random places of a ground of stripes, with their boxes (top, bottom, left, right).

    The ground of one class is always steep stripes; those of the others have any direction but that one.
    """
    rng = np.random.default_rng(seed)
    n = len(X)
    is_scenic = y.cpu().numpy() == SCENIC
    angle = np.where(is_scenic, rng.normal(np.pi / 4, 0.1, n), rng.uniform(np.pi / 2, 3 * np.pi / 2 - 0.5, n))
    phase = rng.uniform(0, 2 * np.pi, n)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    along = np.cos(angle)[:, None, None] * columns + np.sin(angle)[:, None, None] * rows
    ground = 0.25 + 0.15 * np.sin(1.3 * along + phase[:, None, None])
    found = torch.from_numpy(ground.astype(np.float32))[:, None]
    small = torch.nn.functional.avg_pool2d(X.cpu(), 1)[:, :, 2:26, 2:26]
    top = rng.integers(0, SIDE - 24 + 1, n)
    left = rng.integers(0, SIDE - 24 + 1, n)
    for i in range(n):
        place = found[i, :, top[i] : top[i] + 24, left[i] : left[i] + 24]
        place.copy_(torch.where(small[i] > 0.1, small[i], place))
    boxes = np.column_stack([top, top + 24, left, left + 24])
    return found.to(X.device), boxes


@dataclass(frozen=True)
class Queries:
    """Queries as numbers of words, with what the numbers stand for."""

    split: Split
    vocabulary: list[str]
    classes: list[str]
    texts: list[list[str]]  # of the test queries


def queries(folder: Path | None = None) -> Queries:
    """CLINC150: what people ask an assistant, in 150 classes (Larson et al., EMNLP 2019; CC BY 3.0)."""
    with gzip.open((folder or data_folder()) / CLINC, "rt", encoding="utf-8") as file:
        read = json.load(file)
    train = [(words_of(text), name) for text, name in read["train"]]
    test = [(words_of(text), name) for text, name in read["test"]]
    counts = Counter(word for words, _ in train for word in words)
    vocabulary = ["", "<unknown>", *sorted(word for word, n in counts.items() if n > 1)]
    number = {word: k for k, word in enumerate(vocabulary)}
    classes = sorted({name for _, name in train})
    place = {name: k for k, name in enumerate(classes)}

    def tokens(pairs: list[tuple[list[str], str]]) -> Tensor:
        made = torch.full((len(pairs), LENGTH), PADDING)
        for row, (words, _) in zip(made, pairs, strict=True):
            row[: len(words)] = torch.tensor([number.get(word, UNKNOWN) for word in words])
        return made

    y, y_test = (torch.tensor([place[name] for _, name in pairs]) for pairs in (train, test))
    return Queries(
        Split(tokens(train), y, tokens(test), y_test), vocabulary, classes, [words for words, _ in test]
    )


def words_of(text: str) -> list[str]:
    """Words of a query, in small letters."""
    return re.findall(r"[a-z0-9']+", text.lower())[:LENGTH]
