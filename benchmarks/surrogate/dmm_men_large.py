"""Local explanations of images of 224 × 224 pixels: their time on a GPU and on two cores, and what suffices.

`$TELLWHY_WEIGHTS` may name weights of VGG16 (safetensors or npz, torchvision's names) and `--pictures` an npz file
with images X (n, 3, 224, 224) from 0 to 1. Without them a CNN is trained on CIFAR-10, whose images are enlarged.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import machine
from benchmarks.surrogate._large import (
    SIDE,
    Shrunk,
    enlarged,
    load_half,
    random_vgg16,
    save_half,
    train,
    vgg16_of,
)
from benchmarks.surrogate._large_tables import draw, report
from benchmarks.surrogate._work import KEPT, Clock, Results, Work, accuracy, images, work_off
from tellwhy.data.pieces import segment
from tellwhy.explainers import LocalInsight
from tellwhy.explainers.surrogate.inputs import PlacedRow

COUNTS = (5, 10, 20)
CHUNK = 2  # images
BATCH = 256  # questions that go through the network at once, of the peers
WAYS = (
    ("LocalInsight", 4096, 50),
    ("LIME", 4096, 50),
    ("SHAP", 4096, 50),
    ("LocalInsight", 256, 50),
    ("LocalInsight", 256, 25),
    ("LIME", 256, 50),
    ("SHAP", 256, 50),
    ("LocalInsight", 1024, 50),
)
"""Method, the most questions, and about how many segments an image has."""


def network_and_images(settings: argparse.Namespace) -> tuple[nn.Module, np.ndarray, np.ndarray, str, float]:
    """The network of 224 × 224 images, images with their classes (−1: not known), words, and accuracy."""
    given = os.environ.get("TELLWHY_WEIGHTS", "")
    if given:
        model = vgg16_of(Path(given)).to(settings.device)
        if settings.pictures is None:
            raise SystemExit("$TELLWHY_WEIGHTS is set: name images to explain with --pictures FILE.npz.")
        with np.load(settings.pictures, allow_pickle=False) as stored:
            X = stored["X"].astype(np.float64)
        return model, X, np.full(len(X), -1), f"VGG16 with the weights of {Path(given).name}", float("nan")
    path = settings.cache / "cifar_large.npz"
    _, _, X, y = images("cifar")
    if not path.exists():
        inputs, labels, *_ = images("cifar")
        model = train(inputs, labels, device=settings.device, seconds=settings.train)
        right = accuracy(model, X, y, settings.device)
        save_half(model, path, test_accuracy=right, n_training=len(inputs), seconds=settings.train)
    model, right = load_half(path, settings.device)
    with np.load(path, allow_pickle=False) as stored:
        n, seconds = int(stored["n_training"]), float(stored["seconds"])
    words = f"a CNN of CIFAR-10, trained for {seconds:.0f} s on {n:,} images"
    return Shrunk(model).eval(), X, y, words, right


def large(x: np.ndarray) -> np.ndarray:
    """An image of 224 × 224, from itself or a smaller one."""
    return (x if x.shape[-1] == SIDE else enlarged(x)).astype(np.float64)


class Asked:
    """Probabilities of one image's class when only some of its segments are kept, asked on the device."""

    def __init__(self, model: nn.Module, x: np.ndarray, label: np.ndarray):
        self.model = model
        device = next(model.parameters()).device
        there = torch.as_tensor(x.ravel(), dtype=torch.float32, device=device)
        self.row = PlacedRow(there, torch.zeros_like(there), torch.as_tensor(label.ravel(), device=device))
        self.shape = x.shape

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            parts = [
                self.model(self.row.neighbours(masks[i : i + BATCH]).reshape(-1, *self.shape))
                for i in range(0, len(masks), BATCH)
            ]
            return torch.softmax(torch.cat(parts).double(), dim=1).cpu().numpy()


def lime_weights(ask: Asked, n: int, questions: int) -> np.ndarray:
    """LIME's own regression, masks and weights as its image explainer has them."""
    from lime.lime_base import LimeBase
    from sklearn.metrics import pairwise_distances

    base = LimeBase(lambda d: np.sqrt(np.exp(-(d**2) / 0.25**2)), random_state=0)
    masks = np.random.RandomState(0).randint(0, 2, size=(questions, n)).astype(float)
    masks[0] = 1.0
    p = ask(masks)
    distances = pairwise_distances(masks, masks[:1], metric="cosine").ravel()
    _, found, _, _ = base.explain_instance_with_data(masks, p, distances, int(p[0].argmax()), num_features=n)
    weights = np.zeros(n)
    for number, weight in found:
        weights[number] = weight
    return weights


def shap_weights(ask: Asked, n: int, questions: int) -> np.ndarray:
    """shap's KernelExplainer."""
    import shap

    number = int(ask(np.ones((1, n)))[0].argmax())
    np.random.seed(0)  # noqa: NPY002 (shap draws from it)
    explainer = shap.KernelExplainer(lambda masks: ask(masks)[:, number], np.zeros((1, n)))
    found = explainer.shap_values(np.ones((1, n)), nsamples=questions, silent=True)
    return np.asarray(found).ravel()[:n]


PEERS: dict[str, Callable[[Asked, int, int], np.ndarray]] = {"LIME": lime_weights, "SHAP": shap_weights}


def ranked(
    method: str, model: nn.Module, x: np.ndarray, label: np.ndarray, questions: int, n_segments: int
) -> tuple[np.ndarray, int]:
    """Place of each segment in the order of a method, and how many questions it asked."""
    n = int(label.max()) + 1
    if method != "LocalInsight":
        weights = PEERS[method](Asked(model, x, label), n, questions)
        order = np.argsort(-weights, kind="stable")
        return np.argsort(order), questions
    explainer = LocalInsight(model, baseline=0.0, n_questions=questions, n_segments=n_segments, n_jobs=1).fit(
        x[None]
    )
    extras = explainer.explain(x[None]).extras
    place = np.zeros(n, dtype=np.int64)
    place[label.ravel()] = extras["place"][0].ravel()
    return place, int(extras["n_questions"][0])


_READY: dict[str, tuple[nn.Module, np.ndarray, np.ndarray]] = {}
"""What a worker has loaded before."""


def ready(settings: argparse.Namespace) -> tuple[nn.Module, np.ndarray, np.ndarray]:
    """Set up a worker, and return its network, images and their classes."""
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False  # answers must not depend on what else is in a batch
    warnings.simplefilter("ignore")
    if "network" not in _READY:
        model, X, y, *_ = network_and_images(settings)
        _READY["network"] = (model, X, y)
    return _READY["network"]


def chunk(settings: argparse.Namespace, start: int, way: tuple[str, int, int]) -> dict[str, Any]:
    """A few images by one method: probability of the network's own class when its top segments are kept."""
    model, X, y = ready(settings)
    method, questions, n_segments = way
    found: dict[str, Any] = {"images": [], "place": [], "seconds": []}
    for i in range(start, min(start + CHUNK, len(X))):
        x = large(X[i])
        label = segment(x, n_segments)
        begin = time.perf_counter()
        place, asked = ranked(method, model, x, label, questions, n_segments)
        found["seconds"].append(round(time.perf_counter() - begin, 3))
        ask = Asked(model, x, label)
        n = int(label.max()) + 1
        whole = ask(np.ones((1, n)))[0]
        own = int(whole.argmax())
        kept = {str(k): ask((place < k).astype(float)[None])[0] for k in COUNTS}
        line = {"image": i, "own": own, "true": int(y[i]), "whole": float(whole[own]), "asked": asked}
        line["segments"] = n
        line["kept"] = {k: round(float(p[own]), 6) for k, p in kept.items()}
        line["stays"] = {k: int(p.argmax() == own) for k, p in kept.items()}
        line["is_true"] = {k: int(p.argmax() == y[i]) for k, p in kept.items()}
        found["images"].append(line)
        found["place"].append(place.tolist())
    return found


def timed(
    settings: argparse.Namespace, device: str, questions: int, n_segments: int, kind: str
) -> dict[str, Any]:
    """Seconds of one explanation after the other of a network of VGG16's size, its weights drawn at random."""
    warnings.simplefilter("ignore")
    torch.backends.cudnn.allow_tf32 = kind == "TF32"
    if device == "cpu":
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:2]))
        torch.set_num_threads(2)
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    model = random_vgg16().to(device=device, dtype=dtype)
    if device == "cpu":
        model = model.to(memory_format=torch.channels_last)  # a fifth faster there
    X = np.array([large(x) for x in images("cifar")[2][: 1 + settings.timed]])
    explainer = LocalInsight(model, baseline=0.0, n_questions=questions, n_segments=n_segments, n_jobs=2)
    explainer.fit(X)
    warm = LocalInsight(model, baseline=0.0, n_questions=16, n_segments=9, n_jobs=2).fit(X[:1])
    (explainer if device != "cpu" else warm).explain(
        X[:1]
    )  # what is compiled is read before the clock starts
    found: dict[str, Any] = {"seconds": [], "busy": [], "asked": [], "questions": questions}
    for x in X[1:]:
        begin, busy = time.perf_counter(), time.process_time()
        extras = explainer.explain(x[None]).extras
        found["seconds"].append(round(time.perf_counter() - begin, 3))
        found["busy"].append(round(time.process_time() - busy, 3))
        found["asked"].append(int(extras["n_questions"][0]))
        found["segments"] = int(extras["segments"].max()) + 1
    name = torch.cuda.get_device_name() if device != "cpu" else machine()
    return {**found, "device": name, "kind": kind, "side": SIDE}


def planned(settings: argparse.Namespace) -> list[Work]:
    """Chunk by chunk, every method: a run that is cut off has some of each."""
    work: list[Work] = []
    for start in range(settings.first, settings.first + settings.images, CHUNK):
        for way in WAYS:
            key = f"local:{way[0]}:{way[1]}:{way[2]}:{start:05d}"
            work.append((key, chunk, (settings, start, way)))
    return work


def run(settings: argparse.Namespace, results: Results) -> None:
    place = machine()
    for questions, n_segments, kind in settings.times:
        key = f"time:{settings.device}:{questions}:{n_segments}:{kind}"
        if key not in results:
            found = timed(settings, settings.device, int(questions), int(n_segments), kind)
            results.add(key, machine=place, **found)
            print(key, found, flush=True)
    if settings.images:
        _, _, _, words, right = network_and_images(settings)
        print(words, right, flush=True)
        if "network" not in results:
            results.add("network", words=words, right=right, machine=place)
        chunk(settings, settings.first, ("LocalInsight", 64, 9))  # compiled once; the workers read it
        clock = Clock(settings.minutes)
        waiting = [work for work in planned(settings) if work[0] not in results]
        left = work_off(waiting, results, clock, workers=settings.workers, place=place)
        print(f"{left} pieces of work left for want of time", flush=True)


def _time(text: str) -> tuple[str, str, str]:
    questions, n_segments, kind = text.split(":")
    return questions, n_segments, kind


def main() -> None:
    chosen = arguments(
        __doc__,
        "only_page",
        "device",
        "minutes",
        pictures=option(Path, "images for $TELLWHY_WEIGHTS"),
        images=60,
        first=option(0, "number of the first test image"),
        timed=option(3, "images explained with a clock"),
        times=option([_time("256:25:float32")], metavar="Q:S:KIND", nargs="*", type=_time),
        train=option(60.0, "seconds of training"),
        workers=2,
        only_measure=option(False, "write no page"),
        **KEPT | {"results": option(Path, "files of results; new ones go to the first", nargs="+")},
    )
    files = chosen.results or [chosen.cache / "large.jsonl"]
    stored = Results(files[0])
    if not chosen.only_page:
        run(chosen, stored)
    if chosen.only_measure:
        return
    for path in files[1:]:
        stored.found.update(Results(path).found)
    report(stored)
    if list(stored.starting("local:")) and not os.environ.get("TELLWHY_WEIGHTS"):
        draw(stored, images("cifar")[2])


if __name__ == "__main__":
    main()
