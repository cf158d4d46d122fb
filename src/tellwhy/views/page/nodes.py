"""Pictures of a graph run: maps as small PNG images, time lines and cross-plots, all inside the page."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from tellwhy.core.arrays import spread_evenly
from tellwhy.core.score import Floats, Integers
from tellwhy.results.node_picture import NodePicture
from tellwhy.views.page.shell import Limits, Panel, make_panel
from tellwhy.views.page.svg import draw_plot, element
from tellwhy.views.plots.colors import CLASS_COLORS, ODD, SCORE_COLORS, choose_class_color, score_limits
from tellwhy.words import wording

MOST_PIXELS = 400  # along a side of a map
MOST_FEATURES = 6
MOST_POINTS = 3_000
MOST_RINGS = 200  # on a line
LINE_WIDTH = 1200
LINE_HEIGHT = 130
PLOT_SIDE = 420

Pixels = NDArray[np.uint8]
_MISSING = (225, 225, 225)
_MISSING_LINE = "#999999"


@dataclass(frozen=True)
class Shown:
    """One picture with its title and what to read from it."""

    title: str
    image: Markup
    note: str
    is_wide: bool = False


def show_nodes(found: NodePicture | None, _limits: Limits) -> Panel | None:
    """Return the panel of classes and context of a graph's nodes; None for a table."""
    shown = draw_pictures(found)
    return make_panel("nodes", ("context", "Context"), pictures=shown) if shown else None


def draw_pictures(found: NodePicture | None) -> list[Shown]:
    """Return the pictures of a graph run; none for a table."""
    if found is None:
        return []
    main = np.argsort(-np.nan_to_num(found.values).mean(axis=0), kind="stable")[:MOST_FEATURES]
    drawn = {"grid": _draw_maps, "time": _draw_lines}.get(found.kind)
    return ([] if drawn is None else drawn(found, main)) + _cross_plot(found)


def _draw_maps(found: NodePicture, main: Integers) -> list[Shown]:
    where = "" if found.at is None else f" Slice {found.at} of the volume, the one with the oddest node."
    classes = _draw_class_pixels(found.classes).reshape(*found.shape, 3)
    shown = [Shown("class", _draw_image(classes, "Map of the classes"), _write_class(found.classes) + where)]
    layers = {"score": found.scores, "score that the context adds": found.context}
    layers |= {f"relevance of {found.names[j]}": found.values[:, j] for j in main}
    layers |= {f"{name} (does not see neighbours)": scores for name, scores in found.others.items()}
    for name, values in layers.items():
        low, high = _scale(values)
        pixels = _score_pixels(values, low, high).reshape(*found.shape, 3)
        note = f"{wording.number(low)} (light) to {wording.number(high)} (dark, and beyond)"
        title = wording.shorten(name, 60)
        shown.append(Shown(title, _draw_image(pixels, f"Map: {title}"), note))
    return shown


def _write_class(classes: Integers) -> str:
    there = classes[classes >= 0]
    sizes = np.bincount(there) if len(there) else np.zeros(0, int)
    return "; ".join(f"class {k}: {wording.share(size / len(there))}" for k, size in enumerate(sizes)) + "."


def _read_rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _draw_class_pixels(classes: Integers) -> Pixels:
    table = np.array(
        [*(_read_rgb(color) for color in CLASS_COLORS), _MISSING], dtype=np.uint8
    )  # missing is last
    return table[np.where(classes < 0, len(CLASS_COLORS), classes % len(CLASS_COLORS))]


def _scale(values: Floats) -> tuple[float, float]:
    """Values of the lightest and the darkest colour; what is nearly 0 beside the others is 0."""
    low, high = score_limits(values)
    return (0.0 if 0 <= low < 0.01 * high else low), high


def _score_pixels(values: Floats, low: float, high: float) -> Pixels:
    """Colours between two values; grey where there is none."""
    level = np.clip((np.nan_to_num(values) - low) / ((high - low) or 1.0), 0, 1)
    stops = [stop for stop, _ in SCORE_COLORS]
    colors = np.array([_read_rgb(color) for _, color in SCORE_COLORS], dtype=float)
    pixels = np.column_stack([np.interp(level, stops, colors[:, k]) for k in range(3)]).astype(np.uint8)
    pixels[~np.isfinite(values)] = _MISSING
    return pixels


def _draw_image(pixels: Pixels, label: str) -> Markup:
    """Return a map as an image; every k-th node of a large one."""
    step = max(1, -(-max(pixels.shape[:2]) // MOST_PIXELS))
    small = pixels[::step, ::step]
    source = f"data:image/png;base64,{base64.b64encode(write_png(small)).decode()}"
    height, width = small.shape[:2]
    image = str(element("img", src=source, alt=label, width=width, height=height, class_="node-map"))
    return Markup(image.removesuffix("</img>"))  # in HTML, an image has no end tag


def write_png(pixels: Pixels) -> bytes:
    r"""Return an image of shape (h, w, 3) as a PNG file.

    Examples
    --------
    >>> write_png(np.zeros((2, 3, 3), np.uint8))[:4]
    b'\x89PNG'
    """
    height, width = pixels.shape[:2]
    # Each line of a PNG begins with the number of its filter: 0, the bytes as they are.
    lines = np.hstack([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)])
    eight_bits, true_color = 8, 2
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, eight_bits, true_color, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    )
    made = b"\x89PNG\r\n\x1a\n"
    for name, body in parts:
        made += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return made


def _draw_lines(found: NodePicture, main: Integers) -> list[Shown]:
    n = len(found.scores)
    rows = spread_evenly(n, MOST_POINTS)
    odd = np.flatnonzero(found.scores > found.threshold)
    odd = odd[np.argsort(-found.scores[odd], kind="stable")[:MOST_RINGS]]
    ends = f"{found.places[0]} to {found.places[-1]}" if found.places else f"0 to {n - 1}"
    series = [(found.names[j], found.data[:, j]) for j in main] + [("score", found.scores)]
    shown = []
    for name, values in series:
        if not np.isfinite(values).any():
            continue
        drawn = _draw_line(values, found.classes, rows, odd, wording.shorten(name, 60))
        note = f"{wording.shorten(ends, 80)}; colour: class; circles: above the threshold"
        shown.append(Shown(wording.shorten(name, 60), drawn, note, is_wide=True))
    return shown


def _draw_line(values: Floats, classes: Integers, rows: Integers, odd: Integers, label: str) -> Markup:
    low = np.nanmin(values)
    high = np.nanmax(values)
    x = np.arange(len(values)) / max(len(values) - 1, 1) * LINE_WIDTH
    # SVG counts y from the top down; 8 pixels stay free for rings at both ends.
    y = LINE_HEIGHT - 8 - (values - low) / ((high - low) or 1.0) * (LINE_HEIGHT - 16)
    marks = []
    for k in np.unique(classes[rows]):
        path = _draw_path(x[rows], y[rows], classes[rows] == k)
        color = choose_class_color(int(k), _MISSING_LINE)
        marks.append(element("path", d=path, fill="none", stroke=color, stroke_width=1.4))
    marks += [_draw_ring(x[i], y[i]) for i in odd if np.isfinite(y[i])]
    return draw_plot(LINE_WIDTH, LINE_HEIGHT, f"Line: {label}", marks)


def _draw_path(x: Floats, y: Floats, own: NDArray[np.bool_]) -> str:
    """Stretches of neighbours of one class; a node alone is a dot."""
    parts = []
    pen_down = False
    for a, b, here in zip(x, y, own & np.isfinite(y), strict=True):
        if here:
            parts.append(f"L{a:.1f} {b:.1f}" if pen_down else f"M{a:.1f} {b:.1f}h0.5")
        pen_down = bool(here)
    return "".join(parts)


def _cross_plot(found: NodePicture) -> list[Shown]:
    """The two most relevant features against each other."""
    usable = [j for j in range(len(found.names)) if np.isfinite(found.data[:, j]).any()]
    if len(usable) < 2:
        return []
    weight = np.nan_to_num(found.values).mean(axis=0)
    first, second = sorted(usable, key=lambda j: -weight[j])[:2]
    xy = found.data[:, [first, second]]
    there = np.flatnonzero(np.isfinite(xy).all(axis=1) & (found.classes >= 0))
    low = xy[there].min(axis=0)
    high = xy[there].max(axis=0)
    at = 10 + (xy - low) / np.where(high > low, high - low, 1.0) * (PLOT_SIDE - 20)
    at[:, 1] = PLOT_SIDE - at[:, 1]  # SVG counts y from the top down
    some = there[spread_evenly(len(there), MOST_POINTS)]
    marks = []
    for k in np.unique(found.classes[some]):
        dots = "".join(f"M{a:.1f} {b:.1f}h0.1" for a, b in at[some[found.classes[some] == k]])
        marks.append(element("path", d=dots, **_draw_dots(int(k))))
    odd = there[np.argsort(-found.scores[there], kind="stable")[:100]]
    marks += [_draw_ring(a, b) for a, b in at[odd[found.scores[odd] > found.threshold]]]
    names = [wording.shorten(found.names[j], 30) for j in (first, second)]
    across, up = (f"{names[k]}, {wording.number(low[k])} to {wording.number(high[k])}" for k in range(2))
    note = f"across: {across}; up: {up}; circles: the oddest above the threshold"
    title = f"{names[0]} and {names[1]} by class"
    return [Shown(title, draw_plot(PLOT_SIDE, PLOT_SIDE, f"Cross-plot: {title}", marks), note)]


def _draw_dots(k: int) -> dict[str, object]:
    return {
        "stroke": choose_class_color(k, _MISSING_LINE),
        "stroke_width": 3,
        "stroke_linecap": "round",
        "stroke_opacity": 0.55,
        "fill": "none",
    }


def _draw_ring(x: float, y: float) -> Markup:
    return element("circle", cx=f"{x:.1f}", cy=f"{y:.1f}", r=5, fill="none", stroke=ODD, stroke_width=1.8)
