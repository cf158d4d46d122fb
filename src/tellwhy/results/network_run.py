"""What `tellwhy network` found, and its folder on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.score import Floats
from tellwhy.results.notice import Notice, as_notices, say_all
from tellwhy.results.result import AlarmRule, Anomaly, Headline, Part, Result
from tellwhy.results.store import HEAD, load_result, save_result
from tellwhy.storage import clock
from tellwhy.storage.documents import Format, make_plain
from tellwhy.storage.folders import check_new_folder

NETWORK = "network"  # a kind of result, and where its facts stand
FOLDER = Format(  # of earlier versions
    "an explained network",
    "network.json",
    keys={"network": (str,), "source": (str,), "kind": (str,), "items": (list,), "methods": (list,)},
)


@dataclass(frozen=True)
class ClassOutput:
    """One of the classes that a network finds likeliest: its name, its output, and its probability."""

    name: str
    output: float
    probability: float | None


@dataclass(frozen=True)
class Absorbed:
    """An operation that kept relevance to itself: where, which, and how much of the output."""

    where: str
    operation: str
    share: float


@dataclass(frozen=True)
class MethodTold:
    """What is known of a method on these inputs.

    Attributes
    ----------
    name, title, kind
        As it was asked for, as people call it, and what its values are.
    left_over
        Median share of the explained output that no input got; None for values that are no shares.
    ledger
        Where that was absorbed, the most first.
    area, random_area
        Area below the curve of the output as regions are painted over, in the order of the method and in
        random order, medians; None where it was not measured.
    n_better
        Inputs where the method's order has the smaller area.
    n_judged
        Inputs that both orders were measured on: those whose output falls when all is painted over.
    is_checked
        Whether it was tried to measure that.
    """

    name: str
    title: str
    kind: str
    left_over: float | None = None
    ledger: Sequence[Absorbed] = ()
    area: float | None = None
    random_area: float | None = None
    n_better: int = 0
    n_judged: int = 0
    is_checked: bool = False


@dataclass(frozen=True, eq=False)
class NetworkItem:
    """One explained input.

    Attributes
    ----------
    classes
        The likeliest classes, the first first.
    explained, output
        The class that is explained, and its output.
    pixels, words
        What people see: pixels from 0 to 255, or words.
    values
        Relevance by method, shaped like the network's input.
    left_over
        Output that no part of the input got, by method; None for values that are no shares.
    said
        What was done to the input, and what a method says of it; `notices` are its sentences.
    """

    name: str
    classes: Sequence[ClassOutput]
    explained: str
    output: float
    pixels: Floats
    words: Sequence[str]
    values: Mapping[str, Floats]
    left_over: Mapping[str, float | None]
    said: Sequence[Notice] = ()

    @property
    def notices(self) -> list[str]:
        """What was done to the input, and what a method says of it, one sentence each."""
        return say_all(self.said)


@dataclass(frozen=True)
class FoundGroup:
    """Explanations that are alike and look where others do not, in words, with the names of the inputs."""

    text: str
    names: Sequence[str]
    box: tuple[int, int, int, int]


@dataclass(frozen=True, eq=False)
class NetworkRun:
    """Everything that a view needs of an explained network."""

    network: str
    source: str
    kind: str  # "pictures" or "texts"
    explains: str
    opening: Notice
    n_inputs: int  # that were explained; of many, `items` are the first
    items: Sequence[NetworkItem]
    methods: Sequence[MethodTold]
    groups: Sequence[FoundGroup]
    n_grouped: int  # explanations that were looked through for odd groups
    said: Sequence[Notice]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]

    @property
    def headline(self) -> str:
        """What the network says, and what stands out."""
        return self.opening.text

    @property
    def notices(self) -> list[str]:
        """What was done, one sentence each."""
        return say_all(self.said)


def check_place(folder: Path) -> None:
    """Raise now what `save_network_run` would raise."""
    check_new_folder(folder, marker=HEAD)


def save_network_run(run: NetworkRun, folder: Path, *, add: Callable[[Path], Any] | None = None) -> Path:
    """Write the result of a network, and what `add(folder)` writes, whole or not at all."""
    return save_result(as_result(run), folder, add=add)


def as_result(run: NetworkRun, scores: Floats | None = None) -> Result:
    """Return what was found as the one result that all kinds have; `scores` of all inputs, shown or not."""
    arrays: dict[str, np.ndarray] = {}
    for k, item in enumerate(run.items):
        arrays[f"pixels.{k}"] = item.pixels.astype(np.uint8)
        for method, values in item.values.items():
            arrays[f"{method}.{k}"] = values.astype(np.float32)
    shown = np.array([item.output for item in run.items])
    alarms = AlarmRule("", 0, 0.0)
    return Result(
        kind=NETWORK,
        source=run.source,
        settings=dict(run.settings),
        anomalies=[_make_anomaly(run, k, item) for k, item in enumerate(run.items)],
        scores=shown if scores is None else scores,
        threshold=None,
        alarms=alarms,
        opening=Headline(run.n_inputs, alarms, is_written=True, more=[run.opening]),
        notices=run.said,
        arrays=arrays,
        own={NETWORK: run_record(run)},
        versions=dict(run.versions),
        created=clock.stamp(),
    )


def _make_anomaly(run: NetworkRun, k: int, item: NetworkItem) -> Anomaly:
    """An input with its explained output; the relevance of its parts stands in the arrays."""
    part = Part("picture" if run.kind == "pictures" else "text", row=k, name=item.name)
    return Anomaly(part, item.output, None, notices=tuple(item.said))


def read_network(result: Result) -> NetworkRun | None:
    """Return what was found of a network; None for a result of other data."""
    record = result.own.get(NETWORK)
    if record is None:
        return None
    try:
        return _read_record(dict(record), result.arrays)
    except (LookupError, TypeError, ValueError) as error:
        raise UnreadableFile(f"The network of {result.source} is damaged: {error!r}.") from error


def run_record(run: NetworkRun) -> dict[str, Any]:
    """All of a run but its arrays, as JSON holds it."""
    head = {name: value for name, value in vars(run).items() if name not in ("items", "methods", "groups")}
    made = {
        **head,
        "opening": asdict(run.opening),
        "said": [asdict(notice) for notice in run.said],
        "headline": run.headline,
        "notices": run.notices,
        "methods": [asdict(method) for method in run.methods],
        "groups": [asdict(group) for group in run.groups],
        "items": [record_item(item) for item in run.items],
    }
    return dict(make_plain(made))


def record_item(item: NetworkItem) -> dict[str, Any]:
    """One input as JSON holds it, without its arrays."""
    parts = {k: v for k, v in vars(item).items() if k not in ("pixels", "values", "classes")}
    said = [asdict(notice) for notice in item.said]
    classes = [asdict(one) for one in item.classes]
    return {**parts, "classes": classes, "said": said, "notices": item.notices}


def load_network_run(folder: Path) -> NetworkRun | None:
    """Read what `save_network_run` wrote, now or earlier; None where the folder holds something else."""
    if (folder / FOLDER.head).is_file():
        head, arrays = FOLDER.read(folder)
        return _read_record(head, arrays)
    return read_network(load_result(folder)) if (folder / HEAD).is_file() else None


def _read_record(record: dict[str, Any], arrays: Mapping[str, Any]) -> NetworkRun:
    head = {name: value for name, value in record.items() if name != "schema"}
    said = _take_said(head)
    headline = head.pop("headline")
    (opening,) = as_notices([head.pop("opening", headline)])
    methods = [_read_method(told) for told in head.pop("methods")]
    groups = [FoundGroup(**{**told, "box": tuple(told["box"])}) for told in head.pop("groups")]
    items = [_read_item(dict(told), k, methods, arrays) for k, told in enumerate(head.pop("items"))]
    return NetworkRun(**head, methods=methods, groups=groups, items=items, opening=opening, said=said)


def _take_said(record: dict[str, Any]) -> tuple[Notice, ...]:
    """Take what was said out of a record, which holds sentences beside it, or (of earlier versions) alone."""
    sentences = record.pop("notices", ())
    return as_notices(record.pop("said", sentences))


def _read_method(told: dict[str, Any]) -> MethodTold:
    return MethodTold(**{**told, "ledger": tuple(Absorbed(**line) for line in told["ledger"])})


def _read_item(
    told: dict[str, Any], k: int, methods: Sequence[MethodTold], arrays: Mapping[str, Any]
) -> NetworkItem:
    classes = [ClassOutput(**one) for one in told.pop("classes")]
    values = {m.name: np.asarray(arrays[f"{m.name}.{k}"], dtype=np.float64) for m in methods}
    pixels = np.asarray(arrays[f"pixels.{k}"], dtype=np.float64)
    said = _take_said(told)
    return NetworkItem(**told, classes=classes, values=values, pixels=pixels, said=said)
