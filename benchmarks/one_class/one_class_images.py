"""Which pictures are not of this class? One-class CIFAR-10 and Fashion-MNIST, with and without a network's features.

A model learns from the training pictures of one class, and is asked about test pictures of all ten. The networks learn
without a single label: they tell by how many quarters a picture was turned. "Own class": the network saw the pictures
of that class only. "All classes": one network saw the training pictures of all classes, without their labels.
Published means over the ten classes of CIFAR-10, on 5,000 pictures of each: Deep SVDD .648, one-class SVM .648 (Ruff
et al., ICML 2018). Textures: a disc of the same picture, shifted and turned, is to be found (see patch_textures.py).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import ndimage
from sklearn.metrics import roc_auc_score

from benchmarks.patches.patch_textures import NAMES, PATCH, picture_of, planted
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.data import fetch
from tellwhy.detectors import OneClassSVM, PatchModel
from tellwhy.evaluation import au_pro, pixel_auroc
from tellwhy.explainers import PatchRelevance

PLACES_AT_ONCE = 5  # positions in a texture that one process tries
TITLE = "Pictures of other classes, and places in textures, by features of a network"
PUBLISHED = {"cifar10": {"Deep SVDD (published)": 0.648, "one-class SVM (published)": 0.648}}


def pictures(name: str, folder: str | None) -> dict[str, np.ndarray]:
    """Training and test pictures from 0 to 1, with their classes."""
    if folder is not None:
        data = dict(np.load(Path(folder) / f"{name}.npz"))
    else:
        data = fetch("cifar10_12k" if name == "cifar10" else "fashion")
    return {
        key: (data[key] / 255.0 if key.startswith("X") else data[key])
        for key in ("X_train", "y_train", "X_test", "y_test")
    }


def models(network: object, device: str) -> dict[str, PatchModel]:
    """Models on features: of the whole picture, and of places; every setting is the default but for sizes."""
    shared = {"features": network, "device": device, "n_train_patches": 5_000}
    return {
        "pooled": PatchModel(None, (1, 1), layer="pooled", **shared),
        "places": PatchModel(None, (1, 1), layer="places", **shared),
    }


def one_class(
    label: int, *, name: str, folder: str | None, steps: int, device: str, shared: str | None, width: int
) -> list[dict]:
    """AUROC of the models of one class."""
    import torch

    from benchmarks.one_class._rotation_networks import TurnNetwork, trained

    torch.set_num_threads(1)
    data = pictures(name, folder)
    own = data["X_train"][data["y_train"] == label]
    truth = data["y_test"] != label
    started = time.perf_counter()
    n_channels = 1 if own.ndim == 3 else own.shape[-1]
    networks = {"own class": trained(own, steps=steps, device=device, seed=label, width=width)}
    if shared is not None:
        networks["all classes"] = TurnNetwork(n_channels, width).eval()
        kept = {key: torch.as_tensor(value) for key, value in np.load(shared).items()}
        networks["all classes"].load_state_dict(kept)
    flat = [x.reshape(len(x), -1) for x in (own, data["X_test"])]
    scores = {"pixels, one-class SVM": OneClassSVM().fit(flat[0]).outlierness(flat[1])}
    raw = PatchModel(None, (7, 7), 2, n_train_patches=3_000, device=device).fit(own)
    scores["patches of 7 × 7"] = raw.outlierness(data["X_test"])
    for told, network in networks.items():
        for kind, model in models(network, device).items():
            scores[f"{kind} features, {told}"] = model.fit(own).outlierness(data["X_test"])
    return [
        {
            "set": name,
            "class": label,
            "model": model,
            "AUROC": round(float(roc_auc_score(truth, found)), 4),
            "learned from": len(own),
            "seconds": round(time.perf_counter() - started, 1),
        }
        for model, found in scores.items()
    ]


def texture(
    name: str, part: int, *, folder: str | None, steps: int, device: str, positions: int
) -> list[dict]:
    """AUROC of pixels and AU-PRO for some of the positions, of patches of pixels and of features."""
    import torch

    from benchmarks.one_class._rotation_networks import trained

    torch.set_num_threads(1)
    picture = picture_of(name, folder)
    network = trained(picture[None] / 255.0, steps=steps, device=device, crop=32, width=32, poolings=1)
    rng = np.random.default_rng(0)
    drawn = [planted(picture, rng, 16) for _ in range(positions)]
    lines = []
    for place in range(part * PLACES_AT_ONCE, min(positions, (part + 1) * PLACES_AT_ONCE)):
        odd, mask = drawn[place]
        raw = PatchModel(None, (PATCH, PATCH), 1, n_train_patches=3_000, device=device).fit(odd[None])
        deep = PatchModel(
            None, (1, 1), 1, n_train_patches=3_000, features=network, layer="places", device=device
        )
        deep.fit(odd[None] / 255.0)
        maps = {
            "patches of 7 × 7": PatchRelevance(raw).explain(odd[None]).values[0],
            "features": PatchRelevance(deep).explain(odd[None] / 255.0).values[0],
        }
        for model, values in maps.items():
            smooth = [ndimage.uniform_filter(values, 2 * PATCH + 1)]
            found = {"AUROC": pixel_auroc(smooth, [mask]), "AU-PRO": au_pro(smooth, [mask])}
            lines.append({"texture": name, "place": place, "model": model, **found})
    return lines


def measured(asked: argparse.Namespace) -> dict:
    """Run every class, then every texture, in processes that share the device."""
    lines: list[dict] = []
    for name in asked.sets:
        shared = network_of_all(name, asked) if asked.shared else None
        settings = {"steps": asked.steps, "device": asked.device, "shared": shared, "width": asked.width}
        work = partial(one_class, name=name, folder=asked.data, **settings)
        for found in in_processes(asked, work, [(label,) for label in asked.classes]):
            lines += found
            save(asked, {"lines": lines, "textures": []})
    discs: list[dict] = []
    settings = {"steps": asked.steps, "device": asked.device, "positions": asked.positions}
    parts = range(-(-asked.positions // PLACES_AT_ONCE))
    work = partial(texture, folder=asked.data, **settings)
    for found in in_processes(asked, work, [(name, part) for part in parts for name in NAMES]):
        discs += found
        save(asked, {"lines": lines, "textures": discs})
    return {"lines": lines, "textures": discs}


def network_of_all(name: str, asked: argparse.Namespace) -> str:
    """Train a network on the pictures of all classes; return the file of its weights."""
    from benchmarks.one_class._rotation_networks import trained

    data = pictures(name, asked.data)["X_train"]
    network = trained(data, steps=2 * asked.steps, device=asked.device, width=asked.width)
    shared = str(Path(asked.work) / f"{name}_network.npz")
    np.savez(shared, **{key: value.numpy() for key, value in network.state_dict().items()})
    return shared


def in_processes(asked: argparse.Namespace, work: partial, tasks: list[tuple]) -> Iterator[list[dict]]:
    """Results as soon as they are there; processes share the device."""
    with ProcessPoolExecutor(asked.workers, multiprocessing.get_context("spawn")) as pool:
        for task in as_completed([pool.submit(work, *each) for each in tasks]):
            print(task.result(), flush=True)
            yield task.result()


def save(asked: argparse.Namespace, found: dict) -> None:
    """Keep what was found so far."""
    about = {
        "steps": asked.steps,
        "device": asked.device,
        "machine": asked.machine,
        "positions": asked.positions,
    }
    if asked.save:
        asked.save.write_text(json.dumps({**found, "about": about}), encoding="utf-8")


def page(found: dict) -> None:
    """Write the page from what was measured."""
    table = pd.DataFrame(found["lines"])
    parts = [set_part(str(name), rows) for name, rows in table.groupby("set", sort=False)]
    about = found["about"]
    if found["textures"]:
        n = len({line["place"] for line in found["textures"]})
        words = (
            f"Textures: {n} positions of a disc of the same picture, shifted and turned by a quarter (no grey level is "
            "new). The network learned from the picture without the disc to tell how squares of it are turned; "
            "relevance is carried back to the pixels by LRP. Means over 15 × 15 pixels, for both."
        )
        parts.append((words, texture_table(found["textures"])))
    place = about["machine"] or about["device"]
    steps = " or ".join(f"{n:,}" for n in np.atleast_1d(about["steps"]))
    first = f"Networks of three blocks of convolutions, {steps} steps each, on {place}. "
    parts[0] = (first + parts[0][0], parts[0][1])
    publish("one_class_images", TITLE, parts)


def set_part(name: str, rows: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """What is said of a set, and its table: models as rows, classes as columns."""
    wide = rows.pivot(index="model", columns="class", values="AUROC").reindex(rows["model"].unique())
    wide.columns = [str(column) for column in wide.columns]
    wide.insert(0, "mean", wide.mean(axis=1))
    for told, mean in PUBLISHED.get(name, {}).items():
        wide.loc[told, "mean"] = mean
    wide = wide.round(3).astype(object).fillna("").reset_index()
    n = f"{rows['learned from'].min():,} to {rows['learned from'].max():,}"
    left = (
        "" if rows["class"].nunique() == 10 else " The other classes were not reached in the time there was."
    )
    published = "; published: means over all ten classes, of 5,000 pictures each" if name in PUBLISHED else ""
    words = (
        f"{name}: AUROC of test pictures of the other nine classes, for each class learned from {n} training pictures of "
        f"it{published}.{left} No label was seen by any network or model; “own class”: the network saw that class only; "
        "“all classes”: it saw the training pictures of all classes, without their labels, which Deep SVDD did not."
    )
    return words, wide


def texture_table(lines: list[dict]) -> pd.DataFrame:
    """Means over positions, with what chance leaves open of the first."""
    shown = []
    for (name, model), each in pd.DataFrame(lines).groupby(["texture", "model"], sort=False):
        half = 1.96 * each["AUROC"].std() / np.sqrt(len(each))
        auroc = f"{each['AUROC'].mean():.3f} ± {half:.3f}"
        pro = round(float(each["AU-PRO"].mean()), 3)
        shown.append({"texture": name, "model": model, "AUROC of pixels": auroc, "AU-PRO": pro})
    return pd.DataFrame(shown).sort_values("texture", kind="stable")


def main() -> None:
    """Measure, or write the page from what was measured elsewhere."""
    asked = arguments(
        __doc__,
        "device",
        "workers",
        "save",
        machine=option("", "what the page says of the device"),
        data=option(str, "a folder with cifar10.npz, fashion.npz and textures.npz"),
        sets=option(["cifar10", "fashion"], nargs="*"),
        classes=option(list(range(10)), nargs="*"),
        steps=1500,
        width=option(64, "channels of the first block"),
        positions=20,
        shared=option(False, "also a network that saw all classes"),
        work=option("/tmp", "a folder for networks"),
        kept=option(Path, "figures that were kept: write the page from them", nargs="+"),
    )
    if asked.kept:
        parts = [json.loads(name.read_text(encoding="utf-8")) for name in asked.kept]
        page(
            {
                "lines": [line for part in parts for line in part["lines"]],
                "textures": [line for part in parts for line in part["textures"]],
                "about": {
                    **parts[0]["about"],
                    "positions": max(part["about"]["positions"] for part in parts),
                    "steps": sorted({part["about"]["steps"] for part in parts}),
                },
            }
        )
        return
    found = measured(asked)
    save(asked, found)
    if not asked.save:
        page({**found, "about": vars(asked)})


if __name__ == "__main__":
    main()
