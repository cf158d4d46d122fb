"""What the pictures of a graph run show, and its file beside the run: `nodes.npz`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.score import Floats, Integers
from tellwhy.storage.documents import read_arrays, write_arrays

FILE = "nodes.npz"
SCHEMA = 1
_HEAD = ("schema", "kind", "shape", "at", "names", "places", "threshold")
_ARRAYS = ("data", "classes", "scores", "context", "values", "all_classes")


@dataclass(frozen=True, eq=False)
class NodePicture:
    """A plane of a grid, a sequence, or the nodes of a graph, with all that is drawn of them.

    `classes` is −1, and the rest NaN, where a node is missing; `all_classes` is of every node, drawn or not.
    """

    kind: str  # "grid" | "time" | "edges"
    shape: tuple[int, ...]
    at: int | None  # the slice of a volume
    names: tuple[str, ...]
    data: Floats
    classes: Integers
    scores: Floats
    context: Floats
    values: Floats
    others: Mapping[str, Floats]
    places: tuple[str, ...]  # times, for a sequence
    all_classes: Any
    threshold: float


def save_picture(picture: NodePicture, folder: Path) -> Path:
    """Write nodes.npz into the folder of a run."""
    arrays = {name: getattr(picture, name) for name in _ARRAYS}
    arrays |= {f"other.{name}": scores for name, scores in picture.others.items()}
    head: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": picture.kind,
        "shape": picture.shape,
        "at": -1 if picture.at is None else picture.at,
        "names": np.array(picture.names, dtype=np.str_),
        "places": np.array(picture.places, dtype=np.str_),
        "threshold": picture.threshold,
    }
    write_arrays(folder / FILE, {**head, **arrays})
    return folder / FILE


def load_picture(folder: Path) -> NodePicture | None:
    """Read what `save_picture` wrote, or None for the run of a table."""
    path = folder / FILE
    if not path.is_file():
        return None
    held = read_arrays(path, (*_HEAD, *_ARRAYS))
    if held["schema"] != SCHEMA:
        raise UnreadableFile(
            f"{path} has schema {held['schema']}; this version of tellwhy reads schema {SCHEMA}."
        )
    try:
        return NodePicture(
            kind=str(held["kind"]),
            shape=tuple(int(n) for n in held["shape"]),
            at=None if held["at"] < 0 else int(held["at"]),
            names=tuple(str(name) for name in held["names"]),
            places=tuple(str(place) for place in held["places"]),
            threshold=float(held["threshold"]),
            others={n.removeprefix("other."): a for n, a in held.items() if n.startswith("other.")},
            **{name: held[name] for name in _ARRAYS},
        )
    except (TypeError, ValueError) as error:
        raise UnreadableFile(f"{path} is damaged: {error}.") from error
