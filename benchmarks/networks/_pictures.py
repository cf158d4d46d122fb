"""Plotly figures as small PNG files, drawn by a headless Chromium."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import plotly.graph_objects as go
from PIL import Image

from benchmarks.shared.places import IMAGES


def draw(figure: go.Figure, name: str, *, width: int | None = None) -> Path:
    """Write docs/images/<name>.png."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        raise RuntimeError("Drawing figures needs Chromium.")
    size = (int(width or figure.layout.width or 1000), int(figure.layout.height or 500))
    figure.update_layout(width=size[0])
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "figure.html"
        config = {"staticPlot": True, "displayModeBar": False}
        page.write_text(
            f"<style>body{{margin:0}}</style>{figure.to_html(include_plotlyjs=True, config=config)}", "utf-8"
        )
        shot = Path(folder) / "figure.png"
        how = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--virtual-time-budget=8000",
        ]
        where = [f"--screenshot={shot}", f"--window-size={size[0]},{size[1]}", page.as_uri()]
        subprocess.run([found, *how, *where], check=True, capture_output=True, timeout=120)
        IMAGES.mkdir(parents=True, exist_ok=True)
        with Image.open(shot) as opened:
            opened.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(
                IMAGES / f"{name}.png", optimize=True
            )
    return IMAGES / f"{name}.png"
