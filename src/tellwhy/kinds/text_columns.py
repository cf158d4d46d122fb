"""Texts as columns of a table beside numbers: how odd each text is, and the words that make it so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Integers
from tellwhy.data import Table
from tellwhy.data.text import checked_texts
from tellwhy.kinds.request import Request, check_column, rows_equal_to, split_marker
from tellwhy.kinds.text_model import TextModel
from tellwhy.results.result import Anomaly, Finding, Headline, Notice, Reason, Result, written

NAMED = 4  # words named of a text
SHOWN = 80  # characters of a text in a reason
SENTENCE = 3  # words of a cell from which it is a text, and not a label
LEAST_SHARE = 0.05  # of a text's oddness, for a word to be named


@dataclass(frozen=True, eq=False)
class TextColumns:
    """The texts of a table, and the model of each column of them.

    Attributes
    ----------
    texts
        By column, one per row of the table.
    models
        By column.
    own
        Which of the texts that were learned from each row has, −1 for none.
    """

    texts: Mapping[str, list[str]]
    models: Mapping[str, TextModel]
    own: Integers

    def told_in(self, run: Result) -> Result:
        """Return a run whose reasons name words where a column of texts makes a row odd."""
        if not self.texts:
            return run
        told = [self._told(anomaly) for anomaly in run.anomalies]
        rows = run.table_rows
        if rows is not None:
            at = [anomaly.row for anomaly in run.anomalies]
            rows = rows.assign(**{name: [texts[row] for row in at] for name, texts in self.texts.items()})
        return replace(
            run,
            anomalies=told,
            opening=_opening(run, told),
            findings=[self._of_alarms(finding, told) for finding in run.findings],
            notices=[*run.notices, *(self._notice(name) for name in self.texts)],
            settings={**run.settings, "text": [*self.texts, *run.settings["text"]]},
            roles={**run.roles, **dict.fromkeys(self.texts, "texts, by how odd each one is")},
            table_rows=rows,
        )

    def _notice(self, name: str) -> Notice:
        return written(f"Texts of {name!r} count by how odd each is: {self.models[name].describes}.")

    def _told(self, anomaly: Anomaly) -> Anomaly:
        reasons = [
            self._with_words(reason, anomaly.row)
            if reason.feature in self.texts
            else self._without_numbers(reason)
            for reason in anomaly.reasons
        ]
        # a number in the place of a text would be no advice
        normal = {k: v for k, v in (anomaly.nearest_normal or {}).items() if k not in self.texts}
        return replace(anomaly, reasons=reasons, nearest_normal=normal or None)

    def _without_numbers(self, reason: Reason) -> Reason:
        """A reason that compares with how odd a text is, said without that number, which means nothing."""
        if reason.finding is not None:
            cells = {name: cell for name, cell in reason.finding.cells.items() if name not in self.texts}
            return replace(reason, finding=replace(reason.finding, cells=cells))
        if reason.facts.get("other") in self.texts:
            return replace(reason, facts={**reason.facts, "is_text": True})
        return reason

    def _with_words(self, reason: Reason, row: int) -> Reason:
        text = self.texts[reason.feature][row]
        pair = {name: reason.facts[name] for name in ("pair_share",) if name in reason.facts}
        facts = {**pair, **self.words(reason.feature, row)}
        told = replace(reason, kind="words", finding=None, facts=facts)
        return replace(told, value=text[:SHOWN], typical=())

    def _of_alarms(self, finding: Finding, told: Sequence[Anomaly]) -> Finding:
        """A finding that is made of alarms, with the words of its first row."""
        first = next((each for each in told if finding.rows and each.row == finding.rows[0]), None)
        if "example" not in finding.facts or first is None:
            return finding
        reason = next(each for each in first.reasons if each.holds)
        facts = {**finding.facts, "example": asdict(reason)}
        if reason.kind == "words":  # from which number to which its texts are odd means nothing
            facts["is_one_value"] = True
        return replace(finding, facts=facts)

    def words(self, name: str, row: int) -> dict[str, Any]:
        """Return the words that make a text odd, and those that it lacks."""
        model = self.models[name]
        text = self.texts[name][row]
        found: dict[str, Any] = {"is_empty": not text.strip(), "words": []}
        if found["is_empty"]:
            return found
        told = model.relevance(text, int(self.own[row])).words(NAMED, LEAST_SHARE)
        found["words"] = [[word.text, word.is_present] for word in told]
        return found


def _opening(run: Result, told: Sequence[Anomaly]) -> Headline | None:
    """The headline, with the words of the foremost alarm."""
    first = next((each for each in told if each.above_threshold and each.reasons), None)
    if run.opening is None or first is None or run.opening.reason is None:
        return run.opening
    return replace(run.opening, reason=first.reasons[0])


@dataclass(frozen=True, eq=False)
class TextsTold:
    """A table whose texts are numbers, what is asked of it, and the texts."""

    table: Table
    request: Request
    columns: TextColumns


def texts_as_numbers(table: Table, request: Request) -> TextsTold:
    """Put how odd each text is in the place of the columns that `text` names; nothing else is changed.

    A column of single words, or without words that recur (names, numbers of orders), stays what it is, and is
    left out later.
    """
    used = request.columns if request.columns is not None else request.text
    named = [name for name in request.text if name in used and name not in request.exclude]
    chosen = _ordinary_rows(table, request) if named else None
    own = np.full(len(table.frame), -1, dtype=np.int64)
    if chosen is not None:
        own[chosen] = np.arange(len(chosen))
    found = {name: _learned(table, name, chosen, request.random_state) for name in named}
    models = {name: model for name, model in found.items() if model is not None}
    texts = {name: _texts(table, name) for name in models}
    scores = {name: model.surprises(texts[name], own) for name, model in models.items()}
    asked = replace(request, text=tuple(name for name in request.text if name not in models))
    told = replace(table, frame=_with(table.frame, scores))
    return TextsTold(told, asked, TextColumns(texts, models, own))


def scored_texts(table: Table, models: Mapping[str, TextModel]) -> tuple[Table, TextColumns]:
    """Put how odd each text is in the place of columns of new texts, by models that were learned before."""
    texts = {name: _texts(table, name) for name in models if name in table.frame}
    own = np.full(len(table.frame), -1, dtype=np.int64)
    scores = {name: models[name].surprises(each, own) for name, each in texts.items()}
    return replace(table, frame=_with(table.frame, scores)), TextColumns(texts, models, own)


def _learned(table: Table, name: str, chosen: Integers | None, seed: int) -> TextModel | None:
    """Return a model of ordinary texts; None where no word recurs, or cells are single words."""
    texts = _texts(table, name)
    good = texts if chosen is None else [texts[k] for k in chosen]
    n_words = [len(text.split()) for text in good if text.strip()]
    if not n_words or np.mean(n_words) < SENTENCE:
        return None
    try:
        return TextModel.learn(good, random_state=seed)
    except InvalidInput:
        return None


def _with(frame: Any, scores: Mapping[str, Any]) -> Any:
    """The frame with other columns; what is known of its lines stays."""
    if not scores:
        return frame
    changed = frame.assign(**scores)
    changed.attrs = dict(frame.attrs)
    return changed


def _ordinary_rows(table: Table, request: Request) -> Integers:
    """Rows to learn from."""
    if request.normal is None:
        return np.arange(len(table.frame))
    column, value = split_marker(table, request.normal)
    return np.arange(len(table.frame)) if value is None else rows_equal_to(table, column, value)


def _texts(table: Table, name: str) -> list[str]:
    check_column(table, name)
    cells = table.frame[name]
    return checked_texts(cells.astype(object).where(cells.notna(), "").map(str))
