"""The page of the benchmark of 224 × 224 images, from stored results."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.shared.results import publish
from benchmarks.surrogate._figures import draw_local, greyed
from benchmarks.surrogate._large import enlarged
from benchmarks.surrogate._tables import Parts, limits, measured_on
from benchmarks.surrogate._work import Results
from tellwhy.data.pieces import segment

COUNTS = ("5", "10", "20")


def report(results: Results) -> None:
    """Write the page."""
    publish(
        "dmm_men_large", "DMM-MEN: images of 224 × 224", [*_times(results), *_kept(results)], peers=("torch",)
    )


def _times(results: Results) -> Parts:
    found = list(results.starting("time:"))
    if not found:
        return []
    lines = [
        {
            "where": line["device"],
            "numbers": line["kind"],
            "questions at most": line["questions"],
            "asked": round(float(np.mean(line["asked"]))),
            "segments": line["segments"],
            "seconds": f"{np.mean(line['seconds']):.1f} ({min(line['seconds']):.1f}–{max(line['seconds']):.1f})",
            "processor s": f"{np.mean(line['busy']):.1f}",
            "two free cores would take": f"{np.mean(line['busy']) / 2:.0f}" if "cpu" in line["key"] else "–",
            "images": len(line["seconds"]),
        }
        for line in found
    ]
    about = (
        "Seconds of one explanation by `LocalInsight` of a network of VGG16's size (134 million weights, drawn at random: "
        "for the time they do not matter), one image of 224 × 224 after the other, least and most in brackets; what is "
        "compiled was read before. TF32 is what PyTorch takes for convolutions on such a card unless told otherwise. On a "
        "processor two cores were used, in some lines by others, too: half of the processor seconds is what two free cores "
        "take. Published for ImageNet: 139.2 s."
    )
    return [(about, pd.DataFrame(lines))]


def _kept(results: Results) -> Parts:
    chunks: dict[str, list[dict]] = {}
    lines_of = list(results.starting("local:"))
    for line in lines_of:
        chunks.setdefault(line["key"].rpartition(":")[0], []).append(line)
    if not chunks:
        return []
    by_way = {key: {i["image"]: i for line in lines for i in line["images"]} for key, lines in chunks.items()}
    network = results.found["network"]
    common = sorted(set.intersection(*(set(images) for images in by_way.values())))
    whole = [next(iter(by_way.values()))[i]["whole"] for i in common]
    right = [next(iter(by_way.values()))[i]["own"] == next(iter(by_way.values()))[i]["true"] for i in common]
    seconds = {k: np.concatenate([line["seconds"] for line in lines]) for k, lines in chunks.items()}
    table = [_line(key, [images[i] for i in common], seconds[key]) for key, images in _sorted(by_way)]
    about = (
        f"What suffices: only the first 5, 10 or 20 segments of an image are kept, the rest is black; mean probability "
        f"of the network's own class in percent (95 % limits by bootstrap), and how many images stay in the class. "
        f"The network is {network['words']} (accuracy {100 * network['right']:.1f} % on test images); the images are "
        f"enlarged to 224 × 224, every pixel becoming a square of 7 × 7, and the network sees the means of the squares. "
        f"The same {len(common)} test images for every method: the network gives the whole images "
        f"{100 * np.mean(whole):.1f} %, and is right in {100 * np.mean(right):.0f} % of them. Seconds per image are "
        f"those of one of several processes that shared a GPU. Measured on {measured_on(lines_of)}."
    )
    return [(about, pd.DataFrame(table)), *_differences(by_way, common)]


def draw(results: Results, images: np.ndarray, n: int = 10) -> None:
    """Ten images, and the first ten segments by each method, with the probability that they keep."""
    methods = ("LocalInsight", "LIME", "SHAP")
    found: dict[int, dict[str, tuple[np.ndarray, float]]] = {}
    for method in methods:
        for line in results.starting(f"local:{method}:4096:50:"):
            for image, place in zip(line["images"], line["place"], strict=True):
                x = images[image["image"]]
                label = segment(enlarged(x).astype(np.float64), 50)
                column = found.setdefault(image["image"], {})
                column.setdefault("image", (greyed(x, np.ones(x.shape, dtype=bool)), image["whole"]))
                is_kept = (np.array(place) < n)[label]
                column[method] = (greyed(enlarged(x), is_kept)[::2, ::2], image["kept"][str(n)])
    whole = [column for _, column in sorted(found.items()) if len(column) == 1 + len(methods)]
    draw_local(whole[:10], "dmm-men-local-cifar.png")


def _sorted(by_way: dict[str, dict]) -> list[tuple[str, dict]]:
    def order(item: tuple[str, dict]) -> tuple[int, int, str]:
        _, method, questions, segments = item[0].split(":")
        return -int(questions), -int(segments), {"LocalInsight": "0"}.get(method, method)

    return sorted(by_way.items(), key=order)


def _line(key: str, images: list[dict], seconds: np.ndarray) -> dict[str, object]:
    _, method, questions, _ = key.split(":")
    line: dict[str, object] = {
        "method": method,
        "questions at most": int(questions),
        "asked": round(float(np.mean([i["asked"] for i in images]))),
        "segments": round(float(np.mean([i["segments"] for i in images]))),
    }
    for k in COUNTS:
        p = np.array([i["kept"][k] for i in images])
        low, high = limits(p)
        stays = sum(i["stays"][k] for i in images)
        line[f"{k} kept"] = f"{100 * p.mean():.1f} ({100 * low:.1f}–{100 * high:.1f}); {stays} of {len(p)}"
    line["seconds"] = f"{seconds.mean():.2f}"
    return line


def _differences(by_way: dict[str, dict], common: list[int]) -> Parts:
    lines = []
    for questions in ("4096", "256"):
        mine = by_way.get(f"local:LocalInsight:{questions}:50")
        for peer in ("LIME", "SHAP"):
            other = by_way.get(f"local:{peer}:{questions}:50")
            if mine is None or other is None:
                continue
            line: dict[str, object] = {"questions": int(questions), "LocalInsight less": peer}
            for k in COUNTS:
                apart = np.array([mine[i]["kept"][k] - other[i]["kept"][k] for i in common])
                low, high = limits(apart)
                line[f"{k} kept"] = f"{100 * apart.mean():+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"
            lines.append(line)
    about = (
        "The difference on the same images, in points, with 95 % limits.\n\n![Images, and the first ten segments of each "
        "method with the probability that they keep](../images/dmm-men-local-cifar.png)"
    )
    return [(about, pd.DataFrame(lines))] if lines else []
