"""Pictures of the same part in the same place: a missing piece is found where it should be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tellwhy.kinds.picture_looks import AS_THEY_ARE, Ground, learn_ground
from tellwhy.workflow import explain_pictures

PIECES = {"left": (20, 15), "right": (20, 60), "below": (55, 40)}


def part(rng: np.random.Generator, *, missing: str = "", noise: float = 4.0) -> np.ndarray:
    """A board with three bright pieces, which moves by up to a pixel and is lit a little differently each time."""
    board = np.full((80, 90), 60.0)
    board[::10] = 75.0
    for name, (top, left) in PIECES.items():
        if name != missing:
            board[top : top + 12, left : left + 15] = 190.0
    if noise:
        board = np.roll(board, rng.integers(-1, 2, size=2), axis=(0, 1)) * rng.uniform(0.96, 1.04)
    return np.clip(board + noise * rng.normal(size=board.shape), 0, 255)


def saved(folder: Path, pictures: dict[str, np.ndarray]) -> Path:
    folder.mkdir()
    for name, pixels in pictures.items():
        Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{name}.png")
    return folder


@pytest.mark.parametrize("noise", [4.0, 0.0])
def test_a_missing_piece_is_found_and_framed_and_nothing_else_is(tmp_path: Path, noise: float) -> None:
    rng = np.random.default_rng(3)
    good = saved(tmp_path / "good", {f"g{k}": part(rng, noise=noise) for k in range(12)})
    new = {f"n{k}": part(rng, noise=noise) for k in range(4)}
    new["n2"] = part(rng, missing="right", noise=noise)
    run = explain_pictures(saved(tmp_path / "new", new), reference=good, n_patches=800)
    assert [Path(item.id).stem for item in run.anomalies if item.is_alarm] == ["n2"]
    top, bottom, left, right = run.anomalies[0].reasons[0].part.box
    assert 17 <= top < bottom <= 35
    assert 57 <= left < right <= 78
    assert "same place" in run.summary


def test_without_a_reference_the_one_that_lacks_a_piece_comes_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    pictures = {f"n{k}": part(rng, missing="below" if k == 3 else "") for k in range(7)}
    run = explain_pictures(saved(tmp_path / "all", pictures), n_patches=800)
    assert Path(run.anomalies[0].id).stem == "n3"
    assert run.anomalies[0].score > 3 * run.anomalies[1].score


def test_textures_sizes_and_few_pictures_are_looked_at_as_they_are() -> None:
    rng = np.random.default_rng(5)
    textures = [rng.normal(100, 20, size=(40, 40)) for _ in range(8)]
    parts = [part(rng) for _ in range(8)]
    assert learn_ground(textures[:2], textures) is AS_THEY_ARE
    assert learn_ground([parts[0][:70]], parts) is AS_THEY_ARE
    assert learn_ground(parts[:1], parts[:4]) is AS_THEY_ARE
    assert AS_THEY_ARE.seen(parts[0]) is parts[0]
    assert learn_ground(parts[:1], parts).is_aligned


def test_odd_pictures_among_the_judged_do_not_hide_themselves() -> None:
    rng = np.random.default_rng(6)
    pictures = [part(rng) for _ in range(4)] + [part(rng, missing="left"), part(rng, missing="left")]
    robust = Ground.learn(pictures, is_clean=False)
    inside = np.abs(robust.seen(pictures[4])[23:29, 19:26])
    assert inside.min() > 5
    assert np.median(np.abs(robust.seen(pictures[0]))) < 2


def test_a_stain_on_blank_sheets_is_found(tmp_path: Path) -> None:
    blank = np.full((40, 50), 250.0)
    stained = blank.copy()
    stained[20:26, 30:36] = 180.0
    good = saved(tmp_path / "good", {f"g{k}": blank for k in range(10)})
    new = saved(tmp_path / "new", {"clean": blank, "stained": stained})
    run = explain_pictures(new, reference=good, n_patches=400)
    assert [Path(item.id).stem for item in run.anomalies if item.is_alarm] == ["stained"]
    top, bottom, left, right = run.anomalies[0].reasons[0].part.box
    assert 17 <= top < bottom <= 29
    assert 27 <= left < right <= 39
