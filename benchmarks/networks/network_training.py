"""Train the small networks that the pages on explanations of networks are about, and keep their weights.

A CNN on MNIST, four architectures on Fashion-MNIST, a transformer on CLINC150, and two networks that can do well for
the wrong reason: digits of which half of the threes carry a mark, and clothes of which all bags lie on one ground.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.networks._data import SIDE, Split, marked, pictures, queries, scenes
from benchmarks.networks._models import NETWORKS, WEIGHTS, Cnn, TextTransformer, load_weights, save_weights
from benchmarks.shared.arguments import arguments, option

Change = Callable[[Tensor], Tensor]
ALL = [
    "mnist-cnn",
    "marked-cnn",
    *(f"fashion-{name}" for name in NETWORKS),
    "scenes-cnn",
    "clinc-transformer",
]


def shifted(X: Tensor) -> Tensor:
    """Pictures moved by up to two pixels, all of a batch alike."""
    down, right = torch.randint(-2, 3, (2,)).tolist()
    return torch.roll(X, (down, right), (2, 3))


def unchanged(X: Tensor) -> Tensor:
    """Rows as they are."""
    return X


def without_words(tokens: Tensor) -> Tensor:
    """Queries one word in ten of which is unknown: the network learns to do without any of them."""
    gone = (torch.rand(tokens.shape, device=tokens.device) < 0.1) & (tokens != 0)
    return torch.where(gone, torch.ones_like(tokens), tokens)


def train(
    model: nn.Module, data: Split, *, epochs: int, rate: float, batch: int = 128, change: Change
) -> None:
    """Train by AdamW with one rise and fall of the rate."""
    model.train()
    steps = epochs * (len(data.X) // batch)
    made = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    plan = torch.optim.lr_scheduler.OneCycleLR(made, rate, total_steps=steps)
    for _ in range(epochs):
        order = torch.randperm(len(data.X), device=data.X.device)
        for k in range(len(data.X) // batch):
            rows = order[k * batch : (k + 1) * batch]
            loss = nn.functional.cross_entropy(
                model(change(data.X[rows])), data.y[rows], label_smoothing=0.05
            )
            made.zero_grad()
            loss.backward()
            made.step()
            plan.step()
    model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, X: Tensor, y: Tensor) -> float:
    """Share of rows whose largest output is the right one."""
    right = [(model(X[i : i + 1000]).argmax(1) == y[i : i + 1000]).sum() for i in range(0, len(X), 1000)]
    return float(sum(int(r) for r in right) / len(X))


def keep(
    name: str, made: Callable[[], nn.Module], data: Split, folder: Path, **how: object
) -> dict[str, object]:
    """Train a network, keep its weights, and judge it as it is read back from the file."""
    torch.manual_seed(0)
    started = time.perf_counter()
    model = made().to(data.X.device)
    train(model, data, **how)  # type: ignore[arg-type]
    path = folder / f"{name}.safetensors"
    save_weights(model, path, network=name)
    read = load_weights(made(), path).to(data.X.device)
    found = {
        "network": name,
        "parameters": sum(p.numel() for p in read.parameters()),
        "training rows": len(data.X),
        "test rows": len(data.X_test),
        "accuracy": accuracy(read, data.X_test, data.y_test),
        "seconds": round(time.perf_counter() - started, 1),
        "bytes": path.stat().st_size,
    }
    print(found, flush=True)
    return found


def cases(
    given: argparse.Namespace,
) -> Iterator[tuple[str, Callable[[], nn.Module], Split, dict[str, object]]]:
    """Each network by name: how to make it, what it learns from, and how."""
    if {"mnist-cnn", "marked-cnn"} & set(given.only):
        digits = pictures("mnist", given.archive).to(given.device)
        yield "mnist-cnn", Cnn, digits, {"epochs": 12, "rate": 3e-3, "change": shifted}
        X, X_test = marked(digits.X, digits.y)[0], marked(digits.X_test, digits.y_test, 1)[0]
        how: dict[str, object] = {"epochs": 6, "rate": 3e-3, "change": unchanged}
        yield "marked-cnn", Cnn, Split(X, digits.y, X_test, digits.y_test), how
    if any(name.startswith(("fashion", "scenes")) for name in given.only):
        clothes = pictures("fashion", given.archive).to(given.device)
        for name, made in NETWORKS.items():
            yield f"fashion-{name}", made, clothes, {"epochs": 14, "rate": 4e-3, "change": shifted}
        X, X_test = scenes(clothes.X, clothes.y)[0], scenes(clothes.X_test, clothes.y_test, 1)[0]
        split = Split(X, clothes.y, X_test, clothes.y_test)
        yield "scenes-cnn", partial(Cnn, side=SIDE), split, {"epochs": 8, "rate": 3e-3, "change": unchanged}
    if "clinc-transformer" in given.only:
        asked = queries(given.texts)
        network = partial(TextTransformer, len(asked.vocabulary), len(asked.classes))
        how = {"epochs": 20, "rate": 3e-3, "change": without_words}
        yield "clinc-transformer", network, asked.split.to(given.device), how


def main() -> None:
    """Train networks; write their weights, and how good each is into a record of all."""
    given = arguments(
        __doc__,
        "device",
        "archive",
        "texts",
        out=WEIGHTS,
        epochs=option(1.0, "times the usual number of epochs"),
        only=option(ALL, choices=ALL),
    )
    given.out.mkdir(parents=True, exist_ok=True)
    record = given.out / "networks.json"
    where = torch.cuda.get_device_name() if given.device.startswith("cuda") else "one core"
    for name, made, data, how in cases(given):
        if name in given.only:
            how["epochs"] = max(1, round(given.epochs * int(str(how["epochs"]))))
            line = keep(name, made, data, given.out, **how) | {"trained on": where}
            before = json.loads(record.read_text()) if record.exists() else []
            lines = [one for one in before if one["network"] != name] + [line]
            record.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
