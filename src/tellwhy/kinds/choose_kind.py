"""What was named to be explained: pictures, windows of a series, texts, nodes, or a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tellwhy.core.errors import InvalidParameter

OF_NODES = ("edges", "neighbours", "n_classes", "theta")
EXPORTED = ".pt2"  # networks
GRIDS = (".npz", ".npy")
POSTS = (".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz")


def is_texts(names: Sequence[str], text: Sequence[str] | None, columns: Sequence[str] | None) -> bool:
    """Whether texts alone are asked for: one column of texts of a file of posts, or the only column used.

    Examples
    --------
    >>> is_texts(["posts.jsonl"], ["body"], None), is_texts(["t.csv"], ["body"], ["body"])
    (True, True)
    >>> is_texts(["t.csv"], ["body"], None), is_texts(["posts.jsonl"], ["body"], ["body", "likes"])
    (False, False)
    """
    if not text or len(text) != 1:
        return False
    if columns:
        return list(columns) == list(text)
    return bool(names) and all(name.lower().endswith(POSTS) for name in names)


def find_kind(names: Sequence[str], *, time: str | None, window: int | None) -> str | None:
    """Return "pictures", "events" or "series" of readings in time, or None for a table.

    Examples
    --------
    >>> find_kind(["a.png"], time=None, window=None), find_kind(["a.csv"], time="t", window=40)
    ('pictures', 'series')
    >>> find_kind(["a.csv"], time="t", window=None)
    'events'
    """
    from tellwhy.data.images import shows_pictures

    if window is not None and time is None:
        raise InvalidParameter("--window needs the column of the time: --time COL --window 40.")
    if window is not None:
        return "series"
    if time is not None:
        return "events"
    is_seen = [name != "-" and shows_pictures(name) for name in names]
    if any(is_seen) and not all(is_seen):
        table = names[is_seen.index(False)]
        raise InvalidParameter(f"Pictures and tables cannot be explained together; {table} is no picture.")
    return "pictures" if any(is_seen) else None


def choose_kind(source: Any, settings: Mapping[str, Any]) -> str:
    """Return the kind that a source and the settings say.

    Examples
    --------
    >>> choose_kind("a.csv", {}), choose_kind("a.csv", {"time": "t", "window": 20}), choose_kind("a.png", {})
    ('table', 'series', 'pictures')
    >>> choose_kind("posts.jsonl", {"text": "body"}), choose_kind("a.csv", {"time": "t"})
    ('texts', 'events')
    >>> choose_kind("cube.npz", {}), choose_kind("a.csv", {"time": "t", "n_classes": 2})
    ('graph', 'graph')
    >>> choose_kind("model.pt2", {}), choose_kind("mails.csv", {"text": "body", "label": "topic"})
    ('network', 'labels')
    """
    several = isinstance(source, (list, tuple)) and all(isinstance(each, (str, Path)) for each in source)
    named = list(source) if several else [source] if isinstance(source, (str, Path)) else []
    names = [str(name) for name in named]
    text = settings.get("text")
    if isinstance(text, str) and settings.get("label") is not None:
        return "labels"
    if isinstance(text, str) or is_texts(names, text, settings.get("columns")):
        return "texts"
    if len(names) == 1 and names[0].lower().endswith(EXPORTED):
        return "network"
    is_grid = len(names) == 1 and names[0].lower().endswith(GRIDS)
    if is_grid or any(settings.get(name) is not None for name in OF_NODES):
        return "graph"
    return find_kind(names, time=settings.get("time"), window=settings.get("window")) or "table"
