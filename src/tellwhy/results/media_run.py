"""What was found in pictures, series or texts, and its folder on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.score import Floats
from tellwhy.storage.csv_cells import write_cells
from tellwhy.storage.documents import plain, read_arrays, read_versioned, write_arrays, write_json
from tellwhy.storage.folders import check_new_folder, new_folder

HEAD = "media.json"
ARRAYS = "media.npz"
SCHEMA = 1
CSV_COLUMNS = ("rank", "name", "score", "p_value", "alarm", "where", "share")
KINDS = ("pictures", "series", "texts")


@dataclass(frozen=True)
class Place:
    """Where something is odd.

    Attributes
    ----------
    text
        The place in words, in the units of the file.
    share
        Of the item's relevance, 0 to 1.
    box
        Where it is in the item's arrays: first and last cell (exclusive) of each axis in turn.
    """

    text: str
    share: float
    box: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Item:
    """A picture, a stretch of a series or a text, with what is odd about it.

    `data` and `relevance` have the same shape: pixels, or samples × channels; of a text they are empty, and
    `words` has its pieces with the relevance of each.
    """

    name: str
    score: float
    is_alarm: bool
    places: Sequence[Place]
    p_value: float | None = None
    notices: Sequence[str] = ()
    data: Floats = field(default_factory=lambda: np.empty(0))
    relevance: Floats = field(default_factory=lambda: np.empty(0))
    words: Sequence[tuple[str, float]] = ()
    labels: Sequence[str] = ()  # of the channels
    start: int = 0  # row of the table that a stretch begins with
    ends: Sequence[str] = ()  # times of its first and last sample


@dataclass(frozen=True, eq=False)
class MediaRun:
    """Everything that a view needs of pictures, series or texts.

    Attributes
    ----------
    kind
        "pictures", "series" or "texts".
    items
        The oddest ones, explained, the oddest first.
    names, scores
        Of everything that was judged, explained or not; of a series the score at each row.
    threshold
        Score above which something is an alarm; None where nothing says what is ordinary.
    """

    kind: str
    source: str
    headline: str
    summary: str
    notices: Sequence[str]
    settings: Mapping[str, Any]
    items: Sequence[Item]
    names: Sequence[str]
    scores: Floats
    threshold: float | None
    versions: Mapping[str, str]
    created: str

    @property
    def n_flagged(self) -> int:
        """How many are alarms."""
        if self.kind == "series":  # every moment has a score: stretches are counted
            return sum(item.is_alarm for item in self.items)
        return 0 if self.threshold is None else int((self.scores > self.threshold).sum())


_IN_ARRAYS = ("data", "relevance")


def check_place(folder: Path) -> None:
    """Raise now what `save_media` would raise."""
    check_new_folder(folder, marker=HEAD)


def save_media(run: MediaRun, folder: Path, *, add: Callable[[Path], Any] | None = None) -> Path:
    """Write the folder, whole or not at all; `add(folder)` may write more into it before it appears."""
    with new_folder(folder, marker=HEAD) as work:
        head = {name: value for name, value in vars(run).items() if name not in ("items", "scores")}
        write_json(work / HEAD, plain({"schema": SCHEMA, **head, "items": [_told(i) for i in run.items]}))
        arrays = {f"{name}.{k}": getattr(i, name) for k, i in enumerate(run.items) for name in _IN_ARRAYS}
        write_arrays(work / ARRAYS, {"scores": run.scores, **arrays})
        write_cells(work / "anomalies.csv", CSV_COLUMNS, _csv_rows(run))
        if add is not None:
            add(work)
    return folder


def _told(item: Item) -> dict[str, Any]:
    parts = {name: value for name, value in vars(item).items() if name not in _IN_ARRAYS}
    return {**parts, "places": [asdict(place) for place in item.places]}


def load_media(folder: Path) -> MediaRun | None:
    """Read what `save_media` wrote; None where the folder holds another run."""
    path = folder / HEAD
    if not path.is_file():
        return None
    head = read_versioned(path, SCHEMA, "a run of tellwhy")
    arrays = read_arrays(folder / ARRAYS, ("scores",))
    try:
        items = [_item(told, k, arrays) for k, told in enumerate(head.pop("items"))]
        head.pop("schema")
        if head["kind"] not in KINDS:
            raise ValueError(f"it is of the kind {head['kind']!r}")
        return MediaRun(**head, items=items, scores=arrays["scores"])
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableFile(f"{path} lacks something a run must have: {error}.") from error


def _item(told: dict[str, Any], k: int, arrays: Mapping[str, Any]) -> Item:
    places = [Place(**{**place, "box": tuple(place["box"])}) for place in told["places"]]
    words = [(str(word), float(value)) for word, value in told["words"]]
    own = {name: arrays[f"{name}.{k}"] for name in _IN_ARRAYS}
    return Item(**{**told, "places": places, "words": words, **own})


def _csv_rows(run: MediaRun) -> Iterator[list[Any]]:
    """One line per explained item: what a spreadsheet shows."""
    for rank, item in enumerate(run.items, start=1):
        p_value = "" if item.p_value is None else item.p_value
        share = item.places[0].share if item.places else 0.0
        where = "; ".join(place.text for place in item.places)
        yield [rank, item.name, item.score, p_value, item.is_alarm, where, share]
