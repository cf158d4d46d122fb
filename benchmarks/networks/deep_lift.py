"""DeepLift finds what Captum's does on feed-forward networks, adds up where that does not, and is faster from 32 rows on.

`--figures FILE` writes what Captum finds on small networks, for the tests. Needs PyTorch and Captum (a peer, never
imported by the package).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from benchmarks.networks._peers import captum_attr
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.explainers import DeepLift, DeepLiftShap

_DENSE = [["Linear", 5, 8], ["ReLU"], ["Linear", 8, 6], ["Tanh"], ["Linear", 6, 3]]
_APART = ["AvgPool2d", 1]  # hands on what it gets: Captum's hooks then do not meet at one tensor
_START = [["Conv2d", 1, 4, 3], ["ReLU"]]
_END = [["Conv2d", 4, 3, 2], ["Softplus"], ["Flatten"], ["Linear", 12, 3]]
CASES: dict[str, list[list[Any]]] = {
    "dense, ReLU and tanh": _DENSE,
    "dense, ELU and sigmoid": [["Linear", 5, 8], ["ELU"], ["Linear", 8, 6], ["Sigmoid"], ["Linear", 6, 3]],
    "average pool": [*_START, ["AvgPool2d", 2], *_END],
    "max pool, apart from the ReLU": [*_START, _APART, ["MaxPool2d", 2], *_END],
    "max pool right behind a ReLU": [*_START, ["MaxPool2d", 2], *_END],
    "overlapping max pool": [*_START, _APART, ["MaxPool2d", 3, 2, 1], *_END],
}
ALIKE = list(CASES)[:4]


def network(layers: list[list[Any]]) -> nn.Sequential:
    """A network of layers by name, whose weights are the same on every machine."""
    model = nn.Sequential(*[getattr(nn, name)(*given) for name, *given in layers]).double().eval()
    for k, parameter in enumerate(model.parameters()):
        parameter.data = waves(*parameter.shape, start=k)
    return model


def waves(*shape: int, start: float = 0.0) -> torch.Tensor:
    """Numbers between −.6 and .6."""
    n = int(np.prod(shape))
    return 0.6 * torch.sin(1.7 * torch.arange(n, dtype=torch.float64) + start).reshape(shape)


def rows_of(layers: list[list[Any]], n: int, start: float) -> torch.Tensor:
    return waves(n, *((5,) if layers[0][0] == "Linear" else (1, 8, 8)), start=start)


def by_captum(model: nn.Module, x: torch.Tensor, rows: torch.Tensor) -> dict[str, np.ndarray]:
    """What Captum finds for output 1, beside the first of some rows and beside all of them."""
    attr = captum_attr()
    one = attr.DeepLift(model).attribute(x, rows[:1], target=1)
    mean = attr.DeepLiftShap(model).attribute(x, rows, target=1)
    return {"DeepLift": one.detach().numpy(), "DeepLiftShap": mean.detach().numpy()}


def by_ours(model: nn.Module, x: torch.Tensor, rows: torch.Tensor) -> dict[str, np.ndarray]:
    """What our methods find."""
    one = DeepLift(model, target=1, baseline=rows[0]).explain(x)
    return {
        "DeepLift": one.values,
        "DeepLiftShap": DeepLiftShap(model, target=1).fit(rows).explain(x).values,
    }


def agreement() -> pd.DataFrame:
    """How far Captum and ours are apart, and what each does not attribute."""
    lines = []
    for name, layers in CASES.items():
        model = network(layers)
        x = rows_of(layers, 4, 5.0)
        rows = rows_of(layers, 6, 9.0)
        theirs = by_captum(model, x, rows)
        ours = by_ours(model, x, rows)
        with torch.no_grad():
            outputs = model(rows)[:, 1].numpy()
            own = model(x)[:, 1].numpy()
        for method, change in (("DeepLift", own - outputs[0]), ("DeepLiftShap", own - outputs.mean())):
            line: dict[str, Any] = {"network": name, "method": method}
            line["apart"] = np.abs(theirs[method] - ours[method]).max()
            for who, found in (("Captum misses", theirs), ("ours misses", ours)):
                line[who] = np.abs(change - found[method].reshape(len(x), -1).sum(axis=1)).max()
            lines.append(line)
    return pd.DataFrame(lines)


def small_cnn(pool: type[nn.Module]) -> nn.Sequential:
    """Two convolutions of digits."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), pool(2), nn.Conv2d(16, 32, 3), nn.ReLU(), pool(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(800, 64), nn.ReLU(), nn.Linear(64, 10)).eval()


def milliseconds(call: Callable[[], Any], n: int = 40) -> float:
    """The median processor time of a call."""
    for _ in range(3):
        call()
    taken = []
    for _ in range(n):
        started = time.process_time()
        call()
        taken.append(time.process_time() - started)
    return 1000 * float(np.median(taken))


def cost() -> pd.DataFrame:
    """Time of both, by the number of rows."""
    return pd.DataFrame([timed(kind, n) for kind in (nn.MaxPool2d, nn.AvgPool2d) for n in (1, 8, 32, 128)])


def timed(kind: type[nn.Module], n: int) -> dict[str, Any]:
    """Time of both for some rows."""
    model = small_cnn(kind)
    x = torch.randn(n, 1, 28, 28, generator=torch.Generator().manual_seed(n))
    reference = torch.zeros_like(x[:1])
    theirs = captum_attr().DeepLift(model)
    ours = DeepLift(model, target=1, batch_size=128)
    return {
        "pools": kind.__name__,
        "rows": n,
        "Captum, ms": milliseconds(lambda: theirs.attribute(x, reference, target=1)),
        "ours, ms": milliseconds(lambda: ours.explain(x, compile=False)),
    }


def figures() -> dict[str, Any]:
    """What Captum finds on the networks where it adds up, of two rows beside three."""
    made: dict[str, Any] = {"captum": version("captum"), "cases": {}}
    for name in ALIKE:
        layers = CASES[name]
        x = rows_of(layers, 2, 5.0)
        rows = rows_of(layers, 3, 9.0)
        found = by_captum(network(layers), x, rows)
        listed = {method: np.round(values, 8).tolist() for method, values in found.items()}
        made["cases"][name] = {"layers": layers, **listed}
    return made


def main(options: argparse.Namespace) -> None:
    if not find_spec("captum"):
        print("left out: needs captum")
        return
    torch.set_num_threads(1)
    if options.figures:
        text = json.dumps(figures(), separators=(",", ":"), ensure_ascii=False)
        options.figures.write_text(text + "\n", encoding="utf-8")
        return
    alike = (
        "Small networks with fixed weights, in double precision: the largest difference between Captum's values and ours, "
        "and the largest part of f(x) − f(reference) that is in no value. Both define maxima alike: a gain goes to where "
        "the row has its maximum, a loss to where the reference has. Where an activation stands right before a max pool, "
        "Captum's two hooks meet at one tensor and the activation is handed the plain gradient of the pool; of overlapping "
        "windows `max_unpool` keeps one. Its values then do not add up. With a pool of one pixel between them, which "
        "changes no number, it finds what ours does."
    )
    taken = (
        "Milliseconds of the processor that a call takes on one thread, float32: a network of two convolutions on pictures "
        "of 28 × 28, the median of 40 calls. Ours checks rows and sums, and gives scores, base values and residuals in "
        "double precision; Captum gives values."
    )
    publish(
        "deep_lift",
        "DeepLift next to Captum's",
        [(alike, agreement()), (taken, cost())],
        peers=("torch", "captum"),
    )


if __name__ == "__main__":
    main(arguments(__doc__, figures=option(Path, "write what Captum finds on small networks to this file")))
