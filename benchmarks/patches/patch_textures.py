"""Textures with a disc of themselves (figure 5 of the paper): does relevance show where the disc is?

A disc is filled from the same picture, shifted and turned by a quarter: no grey level is new. The model is trained on
patches of that very picture; patches that it was trained on are judged without themselves. Sobel's edges beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import ndimage

from benchmarks.shared.arguments import arguments
from benchmarks.shared.results import publish
from tellwhy.data.benchmarks import data_folder
from tellwhy.data.images import read_picture
from tellwhy.detectors import PatchModel
from tellwhy.evaluation import au_pro, pixel_auroc
from tellwhy.explainers import PatchRelevance, Sobel

NAMES = ("brick", "grass", "gravel")
PATCH = 7


def picture_of(name: str, folder: str | None = None) -> np.ndarray:
    """A texture with a side of 256 pixels, from 0 to 255."""
    if folder is not None:
        return np.load(Path(folder) / "textures.npz")[name].astype(np.float64)
    return read_picture(data_folder() / f"texture_{name}.png", side=256).pixels


def planted(picture: np.ndarray, rng: np.random.Generator, radius: int) -> tuple[np.ndarray, np.ndarray]:
    """A picture with a disc of its own turned and shifted version, and where the disc is."""
    height, width = picture.shape
    row, column = (int(rng.integers(radius + 4, size - radius - 4)) for size in (height, width))
    other = np.roll(np.rot90(picture), rng.integers(40, 200, size=2), axis=(0, 1))[:height, :width]
    rows, columns = np.mgrid[:height, :width]
    mask = (rows - row) ** 2 + (columns - column) ** 2 <= radius**2
    return np.where(mask, other, picture), mask


def mean_of(measure: Callable[..., float], maps: list[np.ndarray], masks: list[np.ndarray]) -> float:
    """Mean of a measure over pictures."""
    return round(float(np.mean([measure([m], [mask]) for m, mask in zip(maps, masks, strict=True)])), 3)


def main() -> None:
    """Write the table."""
    sizes = arguments(__doc__, positions=20, patches=800, radius=16)
    lines = []
    for name in NAMES:
        picture = picture_of(name)
        rng = np.random.default_rng(0)
        maps: dict[str, list[np.ndarray]] = {"One-Class DTD": [], "Sobel": []}
        masks = []
        for _ in range(sizes.positions):
            odd, mask = planted(picture, rng, sizes.radius)
            model = PatchModel(None, (PATCH, PATCH), 1, n_train_patches=sizes.patches).fit(odd[None])
            maps["One-Class DTD"].append(PatchRelevance(model).explain(odd[None]).values[0])
            maps["Sobel"].append(Sobel(model).explain(odd[None]).values[0])
            masks.append(mask)
        for method, found in maps.items():
            smooth = [ndimage.uniform_filter(m, 2 * PATCH + 1) for m in found]
            each = [pixel_auroc([m], [mask]) for m, mask in zip(smooth, masks, strict=True)]
            half = 1.96 * np.std(each) / np.sqrt(len(each))
            lines.append(
                {
                    "texture": name,
                    "method": method,
                    "AUROC of pixels": mean_of(pixel_auroc, found, masks),
                    "AUROC, smoothed": f"{np.mean(each):.3f} ± {half:.3f}",
                    "AU-PRO, smoothed": mean_of(au_pro, smooth, masks),
                }
            )
            print(lines[-1], flush=True)
    publish(
        "patch_textures",
        "Textures with a disc of themselves: where is it?",
        [
            (
                f"{sizes.positions} positions of a disc of radius {sizes.radius} in each texture, 256 pixels wide, "
                f"{sizes.patches:,} training patches of the same picture. Smoothed: means over {2 * PATCH + 1} × "
                f"{2 * PATCH + 1} pixels, for every method alike.",
                pd.DataFrame(lines),
            )
        ],
    )


if __name__ == "__main__":
    main()
