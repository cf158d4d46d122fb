"""What a model has learned, as a kind: patterns that stand in for its outputs on rows."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tellwhy.core.errors import CannotWrite, InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.core.optional import versions
from tellwhy.core.params import Fit, are_texts
from tellwhy.core.score import Floats
from tellwhy.data import Table, read_table
from tellwhy.explainers import DMMMEN, Insight
from tellwhy.explainers.surrogate.chains import R_HAT, Convergence
from tellwhy.kinds.model import change_settings, kind
from tellwhy.results.notice import Notice, say_all
from tellwhy.results.result import AlarmRule, Anomaly, Headline, Part, Reason, Result
from tellwhy.storage import clock
from tellwhy.storage.documents import make_plain, read_arrays, write_json
from tellwhy.storage.folders import check_new_folder, new_folder
from tellwhy.storage.model_file import SavedAsFile, load

SCHEMA = 1
FILE = "insights.json"
KNOWN = set(inspect.signature(DMMMEN).parameters) - {"model"}
ARRAYS = ("coefficients", "interval", "effects", "top", "centre", "rows", "examples", "others")
FACTS = (
    "target", "component", "share", "share_interval", "names", "applies", "credibility", "r_hat",
    "n_effective",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class InsightRun:
    """What was learned: the insights, how far the chains agree, and where the rows came from."""

    insights: list[Insight]
    convergence: dict[str, Any]
    model: str
    source: str
    n_rows: int
    said: tuple[Notice, ...] = ()

    @property
    def notices(self) -> list[str]:
        """How the rows were read, one sentence each."""
        return say_all(self.said)

    @property
    def headline(self) -> Notice:
        """How many patterns there are, of how many classes, and how many cannot be trusted yet."""
        unsure = sum(not insight.r_hat <= R_HAT for insight in self.insights)
        n_targets = len({insight.target for insight in self.insights})
        facts = {"n": len(self.insights), "n_targets": n_targets, "n_unsure": unsure}
        return Notice("patterns_learned", facts)


@dataclass(frozen=True)
class InsightRequest:
    """What is asked: main features of each pattern, a folder to keep chains in, settings of `DMMMEN`."""

    top: int = 10
    checkpoint: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def _require(self) -> Iterator[Fit]:
        yield "top", type(self.top) is int and self.top >= 1, True
        yield "settings", set(self.settings) <= KNOWN, True


@dataclass(frozen=True, eq=False)
class InsightModel(SavedAsFile):
    """A model that is to be understood, and what is asked of it.

    Attributes
    ----------
    source
        What was named: "module:name", the file of a saved model, or the class of an object.
    request
        What was asked.
    model
        The model itself: one of tellwhy or scikit-learn can be saved, code cannot.
    """

    kind: ClassVar[str] = "insight"

    source: str
    request: InsightRequest
    model: Any

    def save(self, path: str | Path) -> Path:
        """Write a model of tellwhy or scikit-learn, and what is asked of it, to one file."""
        if not hasattr(self.model, "fit"):
            raise CannotWrite(
                f"{self.source} is code, which is not written to files. Fit the insight to a fitted model of "
                "tellwhy or scikit-learn to keep it."
            )
        return super().save(path)

    def _require(self) -> Iterator[Fit]:
        yield "source", are_texts(self.source), True
        yield "request", isinstance(self.request, InsightRequest), True
        yield "model", hasattr(self.model, "fit"), True


@dataclass(frozen=True, eq=False)
class LearnedPatterns:
    """Rows that a model was asked about, and the patterns that stand in for its outputs there."""

    run: InsightRun
    top: int


@kind("insight")
class InsightKind:
    """Patterns that a model has learned: of which rows they hold, which features matter, and how surely."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> InsightModel:  # noqa: ARG002
        """Take a model; it has learned already."""
        own = {name: value for name, value in settings.items() if name in ("top", "checkpoint")}
        rest = {name: value for name, value in settings.items() if name not in own}
        unknown = sorted(set(rest) - KNOWN)
        if unknown:
            raise InvalidParameter(
                f"Insights have no setting {unknown[0]!r}. See DMMMEN for those there are."
            )
        if own.get("checkpoint") is not None:
            own["checkpoint"] = str(own["checkpoint"])
        is_named = isinstance(source, (str, Path))
        name = str(source) if is_named else type(source).__name__
        found = _load_named_model(name) if is_named else source
        return InsightModel(name, InsightRequest(**own, settings=rest), found)

    def read(self, model: InsightModel, source: Any, settings: Mapping[str, Any]) -> LearnedPatterns:
        """Read rows, and fit a mixture to what the model says of them."""
        told = {name: str(v) if name == "checkpoint" else v for name, v in settings.items() if v is not None}
        request = replace(model.request, **change_settings(model.request, told, ("top", "checkpoint")))
        rows = _read_rows(source)
        place = None if request.checkpoint is None else Path(request.checkpoint)
        explainer = DMMMEN(model.model, **request.settings).fit(rows.X, checkpoint=place)
        found = explainer.insights(request.top)
        return LearnedPatterns(
            InsightRun(found, explainer.convergence_, model.source, rows.name, len(rows.X), rows.said),
            request.top,
        )

    def check(self, model: InsightModel, batch: LearnedPatterns) -> LearnedPatterns:  # noqa: ARG002
        """Rows were checked as they were read."""
        return batch

    def score(self, model: InsightModel, batch: LearnedPatterns) -> Floats:  # noqa: ARG002
        """The share of its rows that each pattern describes."""
        return np.array([insight.share for insight in batch.run.insights])

    def explain(self, model: InsightModel, batch: LearnedPatterns, scores: Floats) -> Result:
        """Tell the features of each pattern; nothing is an alarm."""
        settings = {"model": model.source, "top": batch.top, **model.request.settings}
        return as_result(batch.run, scores, dict(make_plain(settings)))


def as_result(run: InsightRun, scores: Floats, settings: Mapping[str, Any]) -> Result:
    """Return what was learned as the one result that all kinds have."""
    arrays = {
        f"{name}.{k}": np.asarray(getattr(insight, name))
        for k, insight in enumerate(run.insights)
        for name in ARRAYS
    }
    heads = [{name: getattr(insight, name) for name in FACTS} for insight in run.insights]
    alarms = AlarmRule("", 0, 0.0)
    told = {name: asdict(found) for name, found in run.convergence.items()}
    own = {"model": run.model, "n_rows": run.n_rows, "convergence": told, "insights": heads}
    return Result(
        kind="insight",
        source=run.source,
        settings=settings,
        anomalies=[_make_anomaly(k, insight) for k, insight in enumerate(run.insights)],
        scores=scores,
        threshold=None,
        alarms=alarms,
        opening=Headline(run.n_rows, alarms, is_written=True, more=[run.headline]),
        notices=run.said,
        arrays=arrays,
        own={"insight": make_plain(own)},
        versions=versions(),
        created=clock.stamp(),
    )


def _make_anomaly(k: int, insight: Insight) -> Anomaly:
    """A pattern, and the coefficients of its features."""
    total = float(np.abs(insight.effects).sum()) or 1.0
    told = []
    for line in insight.to_frame().to_dict("records"):
        facts = {name: float(line[name]) for name in ("coefficient", "effect")}
        limits = [float(line["low"]), float(line["high"])]
        share = abs(facts["effect"]) / total
        told.append(Reason(str(line["feature"]), None, limits, share, kind="coefficient", facts=facts))
    return Anomaly(Part("pattern", row=k, name=insight.target), insight.share, None, reasons=told)


def read_insights(result: Result) -> InsightRun:
    """Return what a result of this kind holds."""
    try:
        record = result.own["insight"]
        insights = [_read_insight(dict(head), k, result.arrays) for k, head in enumerate(record["insights"])]
        convergence = {
            name: Convergence(**{each: _read_numbers(value) for each, value in found.items()})
            for name, found in record["convergence"].items()
        }
        return InsightRun(
            insights,
            convergence,
            str(record["model"]),
            result.source,
            int(record["n_rows"]),
            tuple(result.notices),
        )
    except (LookupError, TypeError, ValueError) as error:
        raise UnreadableFile(f"The patterns of {result.source} are damaged: {error!r}.") from error


def _read_insight(head: dict[str, Any], k: int, arrays: Mapping[str, Any]) -> Insight:
    low, high = head["share_interval"]
    numbers = {name: float(head[name]) for name in ("share", "credibility", "r_hat", "n_effective")}
    applies = tuple((str(name), float(least), float(most)) for name, least, most in head["applies"])
    found = {name: np.asarray(arrays[f"{name}.{k}"]) for name in ARRAYS}
    told = {"names": tuple(head["names"]), "applies": applies, "share_interval": (float(low), float(high))}
    return Insight(**{**head, **numbers, **told, **found})


def _read_numbers(value: Any) -> Any:
    """Numbers by name, some of which JSON had no notation for; other values as they are."""
    return {name: float(each) for name, each in value.items()} if isinstance(value, dict) else value


class GivenRows(NamedTuple):
    """Rows, what they are called, and what to know of how they were read."""

    name: str
    X: Any
    said: tuple[Notice, ...] = ()


def _read_rows(source: Any) -> GivenRows:
    """Read rows from a file, or take those in memory."""
    if isinstance(source, (str, Path)):
        return GivenRows(str(source), *read_rows(Path(source)))
    if isinstance(source, Table):
        return GivenRows(source.source, source.frame, source.said)
    return GivenRows(type(source).__name__, source)


def _load_named_model(name: str) -> Any:
    """The model of a file, or what "module:name" names."""
    return load(name) if name.endswith(".tellwhy") else load_model(name)


def load_model(name: str) -> Any:
    """Import what "module:name" names.

    Examples
    --------
    >>> load_model("math:floor")(2.5)
    2
    >>> load_model("math")
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: The model must be given as module:name, ... Got 'math'.
    """
    parts = name.split(":", maxsplit=1)
    module_name = parts[0]
    attribute = parts[-1] if len(parts) == 2 else ""
    if not module_name or not attribute:
        raise InvalidParameter(
            f"The model must be given as module:name, e.g. my_models:predict. Got {name!r}."
        )
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the user's module may raise anything
        what = f"{type(error).__name__}: {error}"
        raise InvalidInput(f"The module {module_name!r} of {name!r} cannot be imported: {what}.") from error
    finally:
        sys.path.remove(here)
    if not hasattr(module, attribute):
        raise InvalidInput(f"The module {module_name!r} has no {attribute!r}.")
    return getattr(module, attribute)


def read_rows(path: Path) -> tuple[Any, tuple[Notice, ...]]:
    """Read inputs from an .npz file, or a table of numbers."""
    if path.suffix.lower() != ".npz":
        table = read_table(path)
        words = [str(c) for c in table.frame.columns if table.frame[c].dtype.kind not in "biuf"]
        if words:
            raise InvalidInput(
                f"{path}: the columns {words[:5]} do not hold numbers. Encode them, or leave them out."
            )
        return table.frame, table.said
    arrays = read_arrays(path)
    name = "X" if "X" in arrays else next(iter(arrays), "")
    if name != "X" and len(arrays) != 1:
        raise InvalidInput(f"{path} holds the arrays {list(arrays)}; name the inputs X.")
    if arrays[name].dtype.kind not in "biuf":
        raise InvalidInput(f"The array {name} of {path} does not hold numbers but {arrays[name].dtype}.")
    return arrays[name].astype(np.float64), ()


def record_insight(insight: Insight) -> dict[str, Any]:
    """One insight as JSON holds it."""
    return {
        "target": insight.target,
        "component": insight.component,
        "share": insight.share,
        "share_interval": insight.share_interval,
        "credibility": insight.credibility,
        "r_hat": _make_finite(insight.r_hat),
        "effective_draws": _make_finite(insight.n_effective),
        "features": insight.to_frame().to_dict("records"),
        "applies": [{"feature": name, "from": low, "to": high} for name, low, high in insight.applies],
    }


def _make_finite(number: float) -> float | None:
    """A number that JSON can hold; None for one that is not known, or without end."""
    return float(number) if np.isfinite(number) else None


def run_record(run: InsightRun) -> dict[str, Any]:
    """All of a run as JSON holds it."""
    return {
        "schema": SCHEMA,
        "model": run.model,
        "source": run.source,
        "rows": run.n_rows,
        "convergence": {
            name: {"r_hat": c.r_hat, "ess": c.ess, "tail_ess": c.tail, "ended": c.ended}
            for name, c in run.convergence.items()
        },
        "insights": [record_insight(insight) for insight in run.insights],
    }


def check_place(folder: Path) -> None:
    """Raise now what `save_insights` would raise."""
    check_new_folder(folder, marker=FILE)


def save_insights(run: InsightRun, folder: Path, *, add: Callable[[Path], object] | None = None) -> Path:
    """Write `insights.json`, and what `add(folder)` writes, whole or not at all."""
    with new_folder(folder, marker=FILE) as work:
        write_json(work / FILE, run_record(run))
        if add is not None:
            add(work)
    return folder
