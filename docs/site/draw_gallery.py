"""Draw the pictures of the gallery: `make gallery`, or for some of them `python docs/site/draw_gallery.py forest …`.

Each example is run. A figure or a page that it leaves in `figure` is photographed in a headless Chromium; of one without,
what it printed is the picture.
"""

import contextlib
import html
import io
import os
import runpy
import sys
from pathlib import Path
from typing import Any

from gallery import FOLDER, PICTURES
from PIL import Image

ROOT = Path(__file__).parents[2]
WIDTH = 960
HEIGHT = 540
TERMINAL = """<body style="margin:0;background:#1d2430;color:#e8e6df;display:flex;align-items:center;
height:{height}px"><pre style="font:23px/1.8 'DejaVu Sans Mono',monospace;padding:48px;white-space:pre-wrap">
<span style="color:#8fb6e8">$ python {path}</span>
{printed}</pre></body>"""


def run_example(path: Path) -> tuple[Any, str]:
    """Run an example; return what it calls `figure`, and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        left = runpy.run_path(str(path), run_name="__main__")
    return left.get("figure"), printed.getvalue()


def write_page(path: Path) -> str:
    """The page that is photographed."""
    figure, printed = run_example(path)
    if isinstance(figure, str):
        return figure
    if figure is None:
        return TERMINAL.format(
            height=HEIGHT, path=html.escape(f"{FOLDER}/{path.name}"), printed=html.escape(printed)
        )
    figure.update_layout(width=WIDTH, height=HEIGHT)
    return str(figure.to_html(include_plotlyjs=True, config={"displayModeBar": False}))


def draw(names: list[str]) -> None:
    """Photograph the examples of these names."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in names:
            path = ROOT / FOLDER / f"{name}.py"
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            page.set_content(write_page(path), wait_until="load")
            page.wait_for_timeout(400)
            target = ROOT / PICTURES / f"{name}.png"
            target.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=str(target))
            page.close()
            Image.open(target).convert("RGB").quantize(128).save(target, optimize=True)
            print(target.relative_to(ROOT), target.stat().st_size // 1024, "KB", flush=True)
        browser.close()


if __name__ == "__main__":
    draw(sys.argv[1:] or sorted(path.stem for path in (ROOT / FOLDER).glob("[a-z]*.py")))
