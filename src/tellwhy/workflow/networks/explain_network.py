"""From the name of a network and pictures or a text to explanations, and how far they can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.explanation import Explanation
from tellwhy.core.progress import stage
from tellwhy.workflow.networks.inputs import Entries, Preparation, read_entries, read_labels
from tellwhy.workflow.networks.loading import LoadedNetwork, load_network
from tellwhy.workflow.networks.methods import named_methods
from tellwhy.workflow.networks.network_run import FoundGroup, MethodTold, NetworkItem, NetworkRun
from tellwhy.workflow.networks.outputs import Outputs, outputs_of_all
from tellwhy.workflow.networks.trust import Judged, groups_of, told
from tellwhy.workflow.tables.table_run import versions

KEPT = 200  # inputs that are kept in the run, with their values; the checks see all


@dataclass(frozen=True)
class NetworkRequest:
    """How a network is explained.

    Attributes
    ----------
    method
        Names of methods, separated by commas.
    target
        Number or name of the class to explain; None: the likeliest of each input.
    labels
        File of the names of classes.
    preparation
        How inputs are prepared.
    check
        Whether regions are painted over to test the explanations.
    batch_size
        Inputs that go through the network at once.
    random_state
        Seed of every draw.
    """

    method: str = "lrp"
    target: str | None = None
    labels: Path | None = None
    preparation: Preparation = field(default_factory=Preparation)
    check: bool = True
    batch_size: int = 32
    random_state: int = 0


@dataclass(frozen=True, eq=False)
class _Case:
    """A network with its inputs and outputs, and what is asked of it."""

    network: str
    source: str
    request: NetworkRequest
    loaded: LoadedNetwork
    read: Entries
    X: np.ndarray
    outputs: Outputs

    @property
    def batch_size(self) -> int:
        return 1 if self.loaded.one_by_one else self.request.batch_size

    @property
    def is_pictures(self) -> bool:
        return bool(self.X.dtype.kind == "f" and self.X.ndim == 4)


def explain_network(network: str, source: str, request: NetworkRequest) -> NetworkRun:
    """Explain a network's outputs for pictures or a text.

    Parameters
    ----------
    network
        "module:function", or an archive of `torch.export.save` (see `load_network`).
    source
        A picture, a folder of them, a text file, or the text itself.
    request
        What is asked for.
    """
    methods = named_methods(request.method)
    case = _case(network, source, request)
    target = case.outputs.target(request.target)
    explanations = {}
    judged = []
    for name, method in methods.items():
        stage(f"explaining by {method.title}")
        explainer = method.make(case.outputs.model, target, _box(case), batch_size=case.batch_size)
        explanations[name] = explainer.explain(case.X)
        asked = Judged(name, method.title, explainer, explanations[name])
        judged.append(told(asked, case.outputs.model, _fill(case), seed=request.random_state))
    return _run(case, explanations, judged)


def _case(network: str, source: str, request: NetworkRequest) -> _Case:
    labels = [] if request.labels is None else read_labels(request.labels)
    stage("loading the network")
    loaded = load_network(network)
    read = read_entries(source, loaded, request.preparation)
    X = np.stack([entry.row for entry in read.entries])
    outputs = outputs_of_all(loaded.model, X, 1 if loaded.one_by_one else request.batch_size, labels)
    return _Case(network, source, request, loaded, read, X, outputs)


def _box(case: _Case) -> tuple[Any, Any]:
    """Least and largest values of a picture's channels, for methods that use the range of their input."""
    if case.loaded.prepare is not None or not case.is_pictures:
        return None, None
    how = case.request.preparation
    mean, std = (np.asarray(v, dtype=np.float32).reshape(-1, 1, 1) for v in (how.mean, how.std))
    low, high = (0.0 - mean) / std, (1.0 - mean) / std
    return (float(low.min()), float(high.max())) if low.size == 1 else (low, high)


def _fill(case: _Case) -> Any:
    """What regions are painted over with in the check; None where there is no check."""
    if not case.request.check:
        return None
    if case.is_pictures:
        return "mean"
    return (
        None
        if case.read.unknown is None or case.X.ndim != 2
        else np.full(case.X.shape[1:], case.read.unknown)
    )


def _run(case: _Case, explanations: dict[str, Explanation], judged: Sequence[MethodTold]) -> NetworkRun:
    first = next(iter(explanations.values()))
    items = [_item(case, k, explanations) for k in range(min(KEPT, len(case.read.entries)))]
    groups: list[FoundGroup] = []
    n_grouped = 0
    if case.is_pictures:
        groups, n_grouped = groups_of(first, case.outputs.names, [entry.name for entry in case.read.entries])
    target = case.request.target or "the likeliest class of each input"
    prepared = {name: str(value) for name, value in vars(case.request.preparation).items()}
    settings = {"method": case.request.method, "target": target, **prepared}
    return NetworkRun(
        network=case.network,
        source=case.source,
        kind="pictures" if case.is_pictures else "texts",
        explains=f"{first.params['explains']}{case.outputs.words}",
        headline=_headline(items, len(case.read.entries), groups),
        n_inputs=len(case.read.entries),
        items=items,
        methods=judged,
        groups=groups,
        n_grouped=n_grouped,
        notices=_notices(case),
        settings={**settings, "seed": case.request.random_state},
        versions={**versions(), "torch": version("torch")},
    )


def _notices(case: _Case) -> list[str]:
    said = list(case.read.notices)
    if case.loaded.runs_code:
        said.append(f"Loading {case.network} ran the code of its module.")
    n = len(case.read.entries)
    if n > KEPT:
        said.append(f"All {n:,} inputs were explained and checked; the first {KEPT} are shown.")
    return said


def _item(case: _Case, row: int, explanations: dict[str, Explanation]) -> NetworkItem:
    entry = case.read.entries[row]
    first = next(iter(explanations.values()))
    chosen = int(np.asarray(first.extras["output"])[row])
    notices = list(entry.notices)
    for name, explanation in explanations.items():
        undefined = explanation.extras.get("undefined")
        if undefined is not None and bool(np.asarray(undefined)[row]):
            notices.append(f"{name} is not defined for negative outputs: its values are zero")
    left = {name: None if e.residual is None else float(e.residual[row]) for name, e in explanations.items()}
    return NetworkItem(
        name=entry.name,
        classes=case.outputs.top(row),
        explained=case.outputs.names[chosen],
        output=float(first.scores[row]),
        pixels=entry.pixels,
        words=list(entry.words),
        values={name: e.values[row] for name, e in explanations.items()},
        left_over=left,
        notices=notices,
    )


def _headline(items: Sequence[NetworkItem], n: int, groups: Sequence[FoundGroup]) -> str:
    """What the network says, and what stands out."""
    first = items[0]
    best = first.classes[0]
    sure = "" if best.probability is None else f" ({best.probability:.0%})"
    if n == 1:
        about = "" if first.explained == best.name else f"; explained here is {first.explained}"
        return f"The network says {best.name}{sure}{about}."
    odd = f"; {len(groups)} group{'s' if len(groups) > 1 else ''} of them for an odd reason" if groups else ""
    return f"{n:,} inputs explained{odd}."
