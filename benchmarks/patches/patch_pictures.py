"""Folders of pictures beside good ones: how often a clean folder has an alarm, and whether planted defects are found.

Pictures of 64 × 64 pixels are generated: textures, textures whose contrast varies, textures with specks of heavy-tailed
brightness, and a part that is photographed in the same place. A defect is a turned disc of the texture, a bright scratch,
or a piece of the part that is missing.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image
from scipy import ndimage

from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.workflow import explain_pictures

SIDE = 64
N_NEW = 12
KINDS = ("texture", "contrast varies", "specks", "aligned part")


def texture(rng: np.random.Generator) -> np.ndarray:
    """Short horizontal strokes."""
    grain = ndimage.gaussian_filter(rng.normal(size=(SIDE, SIDE)), (1, 2))
    return 128 + 25 * grain / grain.std()


def picture(kind: str, rng: np.random.Generator, *, defect: str = "") -> np.ndarray:
    """A picture of a kind, ordinary or with a defect."""
    if kind == "aligned part":
        return _part(rng, defect=defect)
    pixels = texture(rng)
    if kind == "contrast varies":
        pixels = 128 + (pixels - 128) * rng.lognormal(0.0, 0.3)
    if kind == "specks":
        for _ in range(rng.poisson(1.5)):
            y, x = rng.integers(0, SIDE - 8, size=2)
            pixels[y : y + 3, x : x + 3] += 20 * rng.pareto(3)
    y, x = rng.integers(8, SIDE - 28, size=2)
    if defect == "scratch":
        for k in range(20):
            pixels[y + k, x + k // 2 : x + k // 2 + 2] += 110
    if defect == "turned":
        pixels[y : y + 18, x : x + 18] = pixels[y : y + 18, x : x + 18].T.copy()
    return pixels


def _part(rng: np.random.Generator, *, defect: str) -> np.ndarray:
    board = np.full((SIDE, SIDE), 60.0)
    board[10:25, 10:30] = 180
    if defect != "missing":
        board[40:52, 30:55] = 120
    if defect == "scratch":
        board[30:33, 8:30] += 90
    moved = np.roll(board, rng.integers(-1, 2, size=2), (0, 1)) * rng.uniform(0.95, 1.05)
    return moved + 4 * rng.normal(size=board.shape)


def saved(folder: Path, pictures: list[np.ndarray]) -> Path:
    """Write pictures as files."""
    folder.mkdir()
    for k, pixels in enumerate(pictures):
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{k:02}.png")
    return folder


def judged(kind: str, n_good: int, seed: int) -> dict:
    """Alarms of a clean folder, and of the same folder in which the first two pictures have a defect each."""
    rng = np.random.default_rng([seed, n_good, KINDS.index(kind)])
    defects = ("missing", "scratch") if kind == "aligned part" else ("turned", "scratch")
    with tempfile.TemporaryDirectory() as name:
        good = saved(Path(name) / "good", [picture(kind, rng) for _ in range(n_good)])
        clean = [picture(kind, rng) for _ in range(N_NEW)]
        planted = [picture(kind, rng, defect=defect) for defect in defects] + clean[2:]
        asked = {"reference": good, "n_patches": 400, "top": N_NEW}
        without = explain_pictures(saved(Path(name) / "clean", clean), **asked)
        having = explain_pictures(saved(Path(name) / "planted", planted), **asked)
    names = [Path(item.id).stem for item in having.anomalies]
    alarms = {stem for stem, item in zip(names, having.anomalies, strict=True) if item.is_alarm}
    found = {"clean": without.n_flagged, "other": len(alarms - {"00", "01"})}
    for k, defect in enumerate(defects):
        found |= {f"{defect}: first two": f"{k:02}" in names[:2], f"{defect}: alarm": f"{k:02}" in alarms}
    return found


def line(kind: str, n_good: int, repeats: int) -> dict:
    """Counts over folders."""
    found = pd.DataFrame([judged(kind, n_good, seed) for seed in range(repeats)])
    told = {"pictures": kind, "good ones": n_good, "folders": repeats}
    told |= {"clean folders with an alarm": int((found["clean"] > 0).sum())}
    told |= {"false alarms beside planted ones": int(found["other"].sum())}
    columns = [name for name in found if ":" in name]
    return told | {"found": ", ".join(f"{name} {int(found[name].sum())}" for name in columns)}


def page(lines: list[dict]) -> None:
    """Write the table."""
    table = pd.DataFrame(lines)
    share = table["clean folders with an alarm"].sum() / table["folders"].sum()
    words = (
        f"Folders of {N_NEW} generated pictures of {SIDE} × {SIDE} pixels beside good ones; expected share of false alarms "
        f"10 %. {share:.1%} of the folders without a defect raise an alarm. Planted: two of twelve pictures have a defect "
        "each (a turned square of the texture, a scratch, a missing piece); counted is how often they are among the first "
        "two, and how often an alarm. The tails that draw the line were chosen on other draws of the first two kinds."
    )
    publish(
        "patch_pictures",
        "Folders of pictures: alarms where there is none, and planted defects",
        [(words, table)],
    )


def main() -> None:
    """Measure, or write the table from what was measured."""
    asked = arguments(
        __doc__, "save", repeats=20, kept=option(Path, "figures that were kept: write the page from them")
    )
    if asked.kept:
        page(json.loads(asked.kept.read_text(encoding="utf-8")))
        return
    lines = []
    for kind in KINDS:
        for n_good in (15, 40):
            lines.append(line(kind, n_good, asked.repeats))
            print(lines[-1], flush=True)
            if asked.save:
                asked.save.write_text(json.dumps(lines), encoding="utf-8")
    if not asked.save:
        page(lines)


if __name__ == "__main__":
    main()
