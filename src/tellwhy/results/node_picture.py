"""What the pictures of nodes show: in a result, and beside the run of an earlier version (`nodes.npz`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.score import Floats, Integers
from tellwhy.results.result import Result
from tellwhy.storage.documents import read_arrays

FILE = "nodes.npz"
SCHEMA = 1
_HEAD = ("schema", "kind", "shape", "at", "names", "places", "threshold")
NODES = "nodes"
_FACTS = ("kind", "shape", "at", "names", "places")
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


class Drawn(NamedTuple):
    """What a result keeps of a picture."""

    arrays: dict[str, Any]
    facts: dict[str, Any]


def as_arrays(picture: NodePicture) -> Drawn:
    """Return a picture as a result keeps it."""
    arrays = {name: getattr(picture, name) for name in _ARRAYS}
    arrays |= {f"other.{name}": scores for name, scores in picture.others.items()}
    facts = {name: getattr(picture, name) for name in _FACTS}
    return Drawn(arrays, {NODES: facts})


def read_picture(result: Result) -> NodePicture | None:
    """Return what a result draws of nodes; None for one of other data."""
    facts = result.own.get(NODES)
    if facts is None:
        return None
    lacking = [name for name in _ARRAYS if name not in result.arrays]
    if lacking:
        raise UnreadableFile(f"The arrays of {result.source} lack {', '.join(lacking)}. Explain it again.")
    try:
        return NodePicture(
            kind=str(facts["kind"]),
            shape=tuple(int(n) for n in facts["shape"]),
            at=None if facts["at"] is None else int(facts["at"]),
            names=tuple(map(str, facts["names"])),
            places=tuple(map(str, facts["places"])),
            threshold=result.line,
            others=_read_others(result.arrays),
            **{name: result.arrays[name] for name in _ARRAYS},
        )
    except (LookupError, TypeError, ValueError) as error:
        raise UnreadableFile(f"The nodes of {result.source} are damaged: {error}.") from error


def _read_others(arrays: Mapping[str, Any]) -> dict[str, Floats]:
    return {name.removeprefix("other."): a for name, a in arrays.items() if name.startswith("other.")}


def load_picture(folder: Path) -> NodePicture | None:
    """Read what earlier versions wrote beside a run of nodes; None where there is no such file."""
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
            others=_read_others(held),
            **{name: held[name] for name in _ARRAYS},
        )
    except (TypeError, ValueError) as error:
        raise UnreadableFile(f"{path} is damaged: {error}.") from error
