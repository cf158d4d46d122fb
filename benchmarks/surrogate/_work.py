"""What the benchmarks of DMM-MEN share: networks and their training, LIME and SHAP over segments, a file of results."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.shared.arguments import option
from tellwhy.core.explanation import Explanation
from tellwhy.data import fetch
from tellwhy.data.pieces import neighbours, segment

KEPT = {
    "cache": option(Path("dmm-men-cache"), "networks and results"),
    "results": option(Path, "file of results; by default one in the cache"),
}
N_SEGMENTS = 50
SAMPLES = 1024  # questions to the network per explanation, for every method
LOCAL = {"n_components": 1, "n_sweeps": 200, "n_burn": 100}  # of the mixture over the segments of an image


@lru_cache(1)
def images(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test images (n, channels, height, width) in [0, 1], and labels.

    Where `$DMM_MEN_IMAGES` names a folder of subsets (mnist.npz, …), these: for machines without the whole sets.
    """
    if folder := os.environ.get("DMM_MEN_IMAGES"):
        with np.load(Path(folder) / f"{name}.npz", allow_pickle=False) as stored:
            data = dict(stored)
    else:
        data = fetch("cifar10_12k" if name == "cifar" else name)
    parts = []
    for part in ("train", "test"):
        X = data[f"X_{part}"].astype(np.float32) / 255.0
        X = np.moveaxis(X, -1, 1) if X.ndim == 4 else X[:, None]
        parts += [np.ascontiguousarray(X), data[f"y_{part}"].astype(np.int64).ravel()]
    return parts[0], parts[1], parts[2], parts[3]


def network(name: str) -> nn.Module:
    """The published networks: an MLP for MNIST, a CNN for Fashion-MNIST; a deeper CNN for CIFAR-10."""
    if name == "mnist":
        layers = [
            nn.Flatten(),
            nn.Linear(784, 512),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(512, 512),
            nn.ReLU(),
        ]
        return nn.Sequential(*layers, nn.Dropout(0.2), nn.Linear(512, 10))
    if name == "fashion":
        first = [nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(
            *first,
            nn.Conv2d(32, 64, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(3136, 10),
        )
    blocks: list[nn.Module] = []
    for before, after in ((3, 32), (32, 64), (64, 128)):
        blocks += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Dropout(0.4), nn.Linear(2048, 10))


TRAINING = {"mnist": (128, 50), "fashion": (500, 30), "cifar": (128, 30)}  # batch, epochs


def trained(
    name: str, folder: Path, *, epochs: int | None = None, device: str = "cpu"
) -> tuple[nn.Module, float]:
    """The network with weights from the folder, trained first where there are none; and its accuracy on test images."""
    path = folder / f"{name}.npz"
    model = network(name)
    if not path.exists():
        _train(name, model, epochs or TRAINING[name][1], device)
        arrays = {key: value.cpu().numpy() for key, value in model.state_dict().items()}
        _, _, X, y = images(name)
        right = accuracy(model.to(device), X, y, device)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(path, test_accuracy=right, epochs=epochs or TRAINING[name][1], **arrays)
    with np.load(path, allow_pickle=False) as stored:
        model.load_state_dict({key: torch.as_tensor(stored[key]) for key in model.state_dict()})
        return model.to(device).eval(), float(stored["test_accuracy"])


def _train(name: str, model: nn.Module, epochs: int, device: str) -> None:
    X, y, *_ = images(name)
    inputs, labels = torch.as_tensor(X, device=device), torch.as_tensor(y, device=device)
    torch.manual_seed(0)
    model.to(device)
    rate = 1e-3
    optimiser = torch.optim.RMSprop(model.parameters(), rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs)
    for epoch in range(epochs):
        model.train()
        for batch in torch.randperm(len(labels), device=device).split(TRAINING[name][0]):
            x = inputs[batch]
            if name == "cifar" and torch.rand(()) < 0.5:
                x = x.flip(-1)
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(x), labels[batch]).backward()
            optimiser.step()
        schedule.step()
        print(f"{name}: epoch {epoch + 1} of {epochs}", flush=True)


def accuracy(model: nn.Module, X: np.ndarray, y: np.ndarray, device: str) -> float:
    model.eval()
    with torch.no_grad():
        parts = [
            model(torch.as_tensor(x, device=device)).argmax(1).cpu().numpy() for x in np.array_split(X, 40)
        ]
    return float((np.concatenate(parts) == y).mean())


def probabilities(model: nn.Module) -> Callable[[np.ndarray], np.ndarray]:
    def of(X: np.ndarray) -> np.ndarray:
        like = next(model.parameters())
        with torch.no_grad():
            parts = [
                model(torch.as_tensor(x, dtype=like.dtype, device=like.device)) for x in np.array_split(X, 4)
            ]
            return torch.softmax(torch.cat(parts).double(), dim=1).cpu().numpy()

    return of


def _by_segments(
    method: str, X: np.ndarray, weigh: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Explanation:
    labels = np.array([segment(x.astype(float), N_SEGMENTS) for x in X])
    values = np.zeros(X.shape)
    for i, (x, label) in enumerate(zip(X, labels, strict=True)):
        weights = weigh(x.astype(float), label)
        values[i] = (weights / np.bincount(label.ravel()))[label]
    return Explanation(
        values=values,
        scores=np.zeros(len(X)),
        method=method,
        data=X,
        kind="ranking",
        extras={"segments": labels},
    )


def lime(model: nn.Module, X: np.ndarray, *, seed: int = 0, samples: int = SAMPLES) -> Explanation:
    """LIME's own regression, masks and weights as its image explainer has them, over our segments."""
    from lime.lime_base import LimeBase
    from sklearn.metrics import pairwise_distances

    ask = probabilities(model)
    base = LimeBase(lambda d: np.sqrt(np.exp(-(d**2) / 0.25**2)), random_state=seed)

    def weigh(x: np.ndarray, label: np.ndarray) -> np.ndarray:
        n = int(label.max()) + 1
        masks = np.random.RandomState(seed).randint(0, 2, size=(samples, n)).astype(float)
        masks[0] = 1.0
        p = ask(neighbours(x, np.zeros_like(x), label, masks))
        distances = pairwise_distances(masks, masks[:1], metric="cosine").ravel()
        _, weights, _, _ = base.explain_instance_with_data(
            masks, p, distances, int(p[0].argmax()), num_features=n
        )
        found = np.zeros(n)
        for number, weight in weights:
            found[number] = weight
        return found

    return _by_segments("LIME", X, weigh)


def shap(model: nn.Module, X: np.ndarray, *, seed: int = 0, samples: int = SAMPLES) -> Explanation:
    """shap's KernelExplainer over our segments."""
    import warnings

    import shap as peer

    ask = probabilities(model)

    def weigh(x: np.ndarray, label: np.ndarray) -> np.ndarray:
        n = int(label.max()) + 1
        chosen = int(ask(x[None])[0].argmax())

        def of_masks(masks: np.ndarray) -> np.ndarray:
            return ask(neighbours(x, np.zeros_like(x), label, masks))[:, chosen]

        np.random.seed(seed)  # noqa: NPY002 (shap draws from it)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            explainer = peer.KernelExplainer(of_masks, np.zeros((1, n)))
            values = explainer.shap_values(np.ones((1, n)), nsamples=samples, silent=True)
        return np.asarray(values).ravel()[:n]

    return _by_segments("SHAP", X, weigh)


class Results:
    """Lines of JSON, one per finished piece of work: a run that is cut off goes on where it was."""

    def __init__(self, path: Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.found: dict[str, Any] = {line["key"]: line for line in map(json.loads, text.splitlines())}

    def __contains__(self, key: str) -> bool:
        return key in self.found

    def add(self, key: str, **values: Any) -> None:
        self.found[key] = {"key": key, **values}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.found[key]) + "\n")

    def starting(self, prefix: str) -> Iterator[dict[str, Any]]:
        return (line for key, line in sorted(self.found.items()) if key.startswith(prefix))


class Clock:
    """Tells when the time for new work is over."""

    def __init__(self, minutes: float):
        self.end = time.monotonic() + 60.0 * minutes

    def is_over(self) -> bool:
        return time.monotonic() > self.end


Work = tuple[str, Callable[..., dict[str, Any]], tuple[Any, ...]]
"""Key of the result, the function that finds it, and its arguments."""


def work_off(
    waiting: list[Work],
    results: Results,
    clock: Clock,
    *,
    workers: int,
    place: str,
    after: Callable[[str], list[Work]] = lambda _: [],
) -> int:
    """Do work in processes until it is done or time is over; what a result leads to (`after`) comes next.

    Returns how many pieces are left for want of time.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        running: dict[Any, str] = {}
        while (waiting and not clock.is_over()) or running:
            while waiting and len(running) < workers and not clock.is_over():
                key, function, arguments = waiting.pop(0)
                running[pool.submit(function, *arguments)] = key
            done = next(as_completed(running))
            key = running.pop(done)
            if failure := done.exception():
                print(f"{key} failed: {failure!r}", flush=True)
                continue
            results.add(key, machine=place, **done.result())
            waiting = after(key) + waiting
    return len(waiting)
