"""A package of somebody else: a kind of data (lines of a text file, by their length), and a form of output."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tellwhy.core.params import Fit
from tellwhy.core.score import Floats
from tellwhy.kinds.model import change_settings, kind
from tellwhy.results.result import Anomaly, Part, Reason, Result
from tellwhy.storage.model_file import SavedAsFile
from tellwhy.storage.saved_classes import saved
from tellwhy.verdicts.ordinary import judge
from tellwhy.views.tell import form


@saved
@dataclass(frozen=True, eq=False)
class LinesModel(SavedAsFile):
    """How long lines are, usually."""

    kind: ClassVar[str] = "lines"

    source: str
    top: int
    lengths: Floats
    is_clean: bool

    def _require(self) -> Iterator[Fit]:
        yield "lengths", self.lengths.ndim == 1 and len(self.lengths) > 0, True


@dataclass(frozen=True, eq=False)
class Lines:
    """Lines to be judged."""

    source: str
    lines: list[str]
    top: int


@kind("lines")
class LinesKind:
    """Lines of a text file: those are odd whose length is far from the middle one."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> LinesModel:
        lengths = np.array([len(line) for line in _lines(source)], dtype=float)
        return LinesModel(str(source), int(settings.get("top", 3)), lengths, clean)

    def read(self, model: LinesModel, source: Any, settings: Mapping[str, Any]) -> Lines:
        top = change_settings(model, settings, ("top",)).get("top", model.top)
        return Lines(str(source), _lines(source), top)

    def check(self, model: LinesModel, batch: Lines) -> Lines:
        return batch

    def score(self, model: LinesModel, batch: Lines) -> Floats:
        return np.abs([len(line) for line in batch.lines] - np.median(model.lengths))

    def explain(self, model: LinesModel, batch: Lines, scores: Floats) -> Result:
        usual = np.abs(model.lengths - np.median(model.lengths))
        judged = judge(scores, usual, is_clean=model.is_clean)
        is_alarm = judged.are_alarms(scores)
        low, high = np.quantile(model.lengths, [0.05, 0.95]).tolist()
        anomalies = [
            Anomaly(
                Part("line", row=int(k), line=int(k) + 1),
                score=float(scores[k]),
                p_value=judged.p_value(int(k)),
                is_alarm=bool(is_alarm[k]),
                reasons=[
                    Reason("length", float(len(batch.lines[k])), [low, high], 1.0, facts={"column": "number"})
                ],
            )
            for k in np.argsort(-scores, kind="stable")[: batch.top]
        ]
        return Result(
            kind="lines",
            source=batch.source,
            settings={"top": batch.top},
            anomalies=anomalies,
            scores=scores,
            threshold=judged.threshold,
        )


def _lines(source: Any) -> list[str]:
    return Path(source).read_text(encoding="utf-8").splitlines()


@form("markdown")
def write_markdown(result: Result) -> str:
    """A list of the anomalies."""
    named = [f"{each.part.kind} {each.row}" for each in result.anomalies]
    reasons = ["; ".join(reason.text for reason in each.reasons) for each in result.anomalies]
    return "\n".join(f"- **{name}**: {why}" for name, why in zip(named, reasons, strict=True))
