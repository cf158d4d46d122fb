"""What is ordinary in a table, learned once and kept, to judge other tables by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from tellwhy.checks import check_table
from tellwhy.checks.check import are_rules, learn_rules
from tellwhy.checks.facts import Facts, facts_of
from tellwhy.core.arrays import draw_sample
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.optional import is_later_than_ours, versions
from tellwhy.core.params import Fit, are_finite, are_texts, generator, is_whole
from tellwhy.core.progress import stage
from tellwhy.core.running import one_blas_thread
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table, TableEncoder
from tellwhy.data.columns.reading import Role
from tellwhy.data.columns.roles import read_columns
from tellwhy.data.table import TableLike
from tellwhy.kinds.mark_file import marks_beside
from tellwhy.kinds.marks import Mark
from tellwhy.kinds.request import Request, find_rows_equal_to, split_marker
from tellwhy.kinds.segments import place_in_segments
from tellwhy.kinds.table_cells import Batch, fit_table
from tellwhy.kinds.table_rows import Selection, read_as_told, read_source, select
from tellwhy.kinds.text_columns import TextModel, say_oddness_of_texts, turn_texts_into_numbers
from tellwhy.storage.model_file import SavedAsFile, load
from tellwhy.storage.rows import StoredRows
from tellwhy.verdicts.alarms import Calibration
from tellwhy.verdicts.findings import RowFindings
from tellwhy.verdicts.seen_values import SeenValues, look_at_columns

MOST_ROWS = 50_000  # that a model is learned from and keeps; of more a random sample
MOST_LEVEL = 1e6  # surprise; the oddest rows that people have are below 10⁴
NOT_KEPT = ("text", "identifier")  # what names rows and people write is no part of a model


@dataclass(frozen=True, eq=False)
class TableModel(SavedAsFile):
    """What is ordinary in a table, to judge other tables by.

    Attributes
    ----------
    source, fingerprint, n_rows
        The table that it was fitted to, the SHA-256 of its content, and its rows.
    request
        What was asked when it was fitted.
    table_columns
        All columns of that table, in order.
    roles, by_roles
        How its features, and the columns that make segments, were read.
    rows
        The rows that it was learned from: all, or a random sample of many. Cells that a finding explains are
        missing. Free text and identifiers are not kept.
    by_rows
        The columns that make segments, of the same rows.
    hours
        Dates that only tell the order of rows, and whose hour of day is compared.
    bends
        Form in which numbers are compared within segments.
    seen
        What each column held, over all rows.
    encoder, detector, words
        How cells become numbers, the detector of these, and the detector in words.
    sample
        Rows that the detector learned from, among those kept.
    is_clean
        Whether the user vouched for the rows.
    calibration
        How scores become surprises.
    level, threshold, rule
        Surprise and score above which a row is an alarm, and how they were drawn.
    versions
        Of the packages that it was fitted with.
    marks
        Findings that are known to be no trouble.
    texts
        Models of the columns of texts, which count by how odd each text is. They keep the words that recur.
    rules
        What checks learned from the rows: equations, orders, dependencies.
    """

    kind: ClassVar[str] = "table"

    source: str
    fingerprint: str
    n_rows: int
    request: Request
    table_columns: tuple[str, ...]
    roles: Mapping[str, Role]
    by_roles: Mapping[str, Role]
    rows: StoredRows
    by_rows: StoredRows | None
    hours: tuple[str, ...]
    bends: Mapping[str, str]
    seen: Mapping[str, SeenValues]
    encoder: TableEncoder
    detector: Any
    words: str
    sample: Integers
    is_clean: bool
    calibration: Calibration
    level: float
    threshold: float
    rule: str
    versions: Mapping[str, str]
    marks: tuple[Mark, ...] = field(default=())
    texts: Mapping[str, TextModel] = field(default_factory=dict)
    rules: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def reference(self) -> pd.DataFrame:
        """The rows that were learned from, as they were read."""
        return self.rows.frame()

    @cached_property
    def facts(self) -> Facts:
        """The rows that were learned from, as checks of the data see them."""
        return replace(facts_of(self.reference, self.roles), rules=dict(self.rules))

    @cached_property
    def remembered(self) -> dict[str, Floats]:
        """The rows that the detector learned from, encoded, and their scores: once somebody needed them."""
        return {}

    @cached_property
    def by_reference(self) -> pd.DataFrame | None:
        """The columns that make segments, of the rows learned from."""
        return None if self.by_rows is None else self.by_rows.frame()

    def read_beside(self, place: Path) -> TableModel:
        """Return the same model with the marks that stand beside its file."""
        return self.with_marks(marks_beside(place, self.marks))

    def with_marks(self, marks: Sequence[Mark]) -> TableModel:
        """Return the same model with other marks."""
        return replace(self, marks=tuple(marks))

    def _draws_line(self) -> bool:
        """Whether the threshold is the score that has the surprise of the level, or nearly.

        A level is −log of a p-value, or what a budget of alarms was drawn by: of the order of the scores that
        were seen.
        """
        drawn = self.calibration.score_of(self.level)
        at = float(self.calibration.surprises(np.array([self.threshold]))[0])
        return (
            bool(
                np.isclose(drawn, self.threshold, rtol=1e-3, atol=1e-6)
                or np.isclose(at, self.level, rtol=1e-3, atol=1e-6)
            )
            and abs(self.level) < MOST_LEVEL
        )

    def _require(self) -> Iterator[Fit]:
        yield "roles", all(isinstance(role, Role) for role in self.roles.values()), True
        yield "seen", sorted(self.seen), sorted(self.roles)
        yield "encoder", isinstance(self.encoder, TableEncoder), True
        yield "encoder", set(self.encoder.columns_) <= set(self.roles), True
        yield "rows", isinstance(self.rows, StoredRows), True
        yield "rows", set(self.encoder.columns_) <= set(self.rows.columns) <= set(self.roles), True
        n = len(next(iter(self.rows.columns.values())).values)
        yield "sample", self.sample.ndim == 1 and 0 < len(self.sample) <= n, True
        yield "sample", bool((self.sample >= 0).all() and (self.sample < n).all()), True
        yield "detector", hasattr(self.detector, "to_score"), True
        yield "detector", self.detector.n_features_in_, len(self.encoder.owner_)
        yield "n_rows", is_whole(self.n_rows) and self.n_rows >= n, True
        yield "level", are_finite(self.level, self.threshold), True
        yield "threshold", self._draws_line(), True
        yield "hours", set(self.hours) <= set(self.roles), True
        yield "versions", all(are_texts(*each) for each in self.versions.items()), True
        yield "versions", not is_later_than_ours(self.versions.get("tellwhy", "0")), True
        yield "marks", all(isinstance(mark, Mark) for mark in self.marks), True
        yield "texts", all(isinstance(each, TextModel) for each in self.texts.values()), True
        yield "rules", are_rules(self.rules), True
        yield "texts", set(self.texts) <= set(self.roles), True
        yield "words", are_texts(self.source, self.fingerprint, self.words, self.rule), True
        yield "by_rows", (self.by_rows is None), (not self.by_roles)
        if self.by_rows is not None:
            yield "by_rows", list(self.by_rows.columns), list(self.by_roles)
            yield "bends", set(self.bends.values()) <= {"as it is", "square root", "logarithm"}, True


@one_blas_thread()
def fit_model(data: str | Path | TableLike, *, clean: bool = False, **settings: Any) -> TableModel:
    """Learn what is ordinary in a table, to judge other tables by (`explain_new`).

    Parameters
    ----------
    data
        A file name, a `Table`, a pandas or polars frame, or an array.
    clean
        Whether all rows are ordinary. Otherwise the oddest tenth is set aside before it is learned what is
        ordinary. Rows that `normal` names are taken for clean.
    settings
        See `Request`: normal, id_column, detector, alarms, contamination, fdr, columns, exclude, category,
        number, date, text, by, label, missing, random_state.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(300, 3))
    >>> model = fit_model(rows)
    >>> model.n_rows, model.words
    (300, 'committee of six simple detectors')
    """
    request = Request(**settings)
    table = read_source(data)
    if request.normal is not None:
        table = choose_ordinary(table, request.normal)
        clean = True
    return fit(table, request, clean=clean)


def fit(table: Table, request: Request, *, clean: bool) -> TableModel:
    """Learn from the rows of a table, or from a random sample of many."""
    n = len(table.frame)
    chosen = np.sort(draw_sample(n, MOST_ROWS, generator(request.random_state)))
    if len(chosen) == n:
        return fit_rows(table, request, clean=clean, n_rows=n)
    sampled = replace(table, frame=table.frame.iloc[chosen])
    model = fit_rows(sampled, request, clean=clean, n_rows=n)
    others = {name: role for name, role in model.roles.items() if name not in model.texts}
    read = read_columns(table.frame[list(others)], roles=others)
    return replace(model, seen={**model.seen, **look_at_columns(read.frame, others)})


def choose_ordinary(table: Table, normal: str) -> Table:
    """The rows that a marker 'COLUMN=VALUE' names."""
    column, value = split_marker(table, normal)
    if value is None:
        raise InvalidInput(f"normal must be 'COLUMN=VALUE'. Got {normal!r}, which names a column alone.")
    return replace(table, frame=table.frame.iloc[find_rows_equal_to(table, column, value)])


def fit_rows(table: Table, request: Request, *, clean: bool, n_rows: int) -> TableModel:
    """Learn from every row of a table that fits into memory; `n_rows` is what it was drawn from."""
    told = replace(request, normal=None)
    table = replace(table, frame=_drop_marker(table, request))
    learned = learn(table, told, is_clean=clean)
    model = keep_model(learned)
    model = replace(model, n_rows=n_rows, request=replace(model.request, normal=request.normal))
    fitted = learned.batch.fitted
    if fitted.selection.context is None:
        model.remembered["encoded"] = fitted.known.encoded[fitted.learned]
    return model


def keep_model(learned: Learned) -> TableModel:
    """What is kept of what was learned from the rows of a table, to judge others by."""
    judged = learned.batch.judged()
    batch = judged.batch
    roles = learned.read.roles
    selection = batch.fitted.selection
    encoder = batch.fitted.encoder
    kept = np.flatnonzero(np.isin(learned.read.rows, selection.rows))
    by = _keep_segment_columns(batch.table, batch.request, kept)
    alarms = judged.ranking.alarms
    model = TableModel(
        source=batch.table.source,
        fingerprint=batch.table.fingerprint,
        n_rows=len(batch.table.frame),
        request=batch.request,
        table_columns=tuple(map(str, batch.table.frame.columns)),
        roles=roles,
        by_roles=by[1],
        rows=StoredRows.of(_keep_columns(learned.read.frame.iloc[kept], roles)),
        by_rows=by[0],
        hours=tuple(name for name, role in roles.items() if role.orders and name in encoder.columns_),
        bends=_find_bends(selection),
        seen=look_at_columns(learned.read.frame, roles),
        encoder=encoder,
        detector=batch.fitted.detector,
        words=batch.fitted.words,
        sample=batch.fitted.sample,
        is_clean=selection.is_clean,
        calibration=judged.calibration,
        level=float(alarms.level),
        threshold=float(judged.ranking.threshold),
        rule=alarms.rule,
        versions=versions(),
        texts={name: each.without_texts() for name, each in batch.texts.models.items()},
    )
    return replace(model, rules=learn_rules(model.facts))


def _drop_marker(table: Table, request: Request) -> pd.DataFrame:
    """The table without the column that told which rows are ordinary: it is no feature."""
    if request.normal is None:
        return table.frame
    return table.frame.drop(columns=[split_marker(table, request.normal)[0]])


def _keep_columns(frame: pd.DataFrame, roles: Mapping[str, Role]) -> pd.DataFrame:
    return frame[[name for name in frame.columns if roles[name].kind not in NOT_KEPT]]


def _find_bends(selection: Selection) -> dict[str, str]:
    if selection.context is None:
        return {}
    return {name: column.bend for name, column in selection.context.columns.items()}


def _keep_segment_columns(
    table: Table, request: Request, kept: Integers
) -> tuple[StoredRows | None, dict[str, Role]]:
    """The columns that make segments, as they were read."""
    by = list(dict.fromkeys(request.by))
    if not by:
        return None, {}
    read = read_as_told(table.frame[by], None, request.told_kinds(table, by))
    return StoredRows.of(read.frame.iloc[kept]), dict(read.roles)


def load_table_model(path: str | Path) -> TableModel:
    """Read a model of a table, or raise `UnreadableFile`."""
    model = load(path)
    if not isinstance(model, TableModel):
        raise UnreadableFile(
            f"{path} holds a {type(model).__name__}; expected a model of a table. Make one with "
            f"`tellwhy fit data.csv --save {Path(path).name}`."
        )
    return model


def marks_at(path: str | Path) -> tuple[Mark, ...]:
    """Return the marks of the model that stands at a place; none where there is no model of a table."""
    if not Path(path).is_file():
        return ()
    try:
        return load_table_model(path).marks
    except UnreadableFile:  # what cannot be read is refused, or replaced, by whoever writes there
        return ()


@dataclass(frozen=True, eq=False)
class Learned:
    """What is ordinary, and the rows of the table beside it.

    Attributes
    ----------
    batch
        The rows of the table.
    read
        All rows as they were read and checked, before any was dropped and hours took the place of dates.
    """

    batch: Batch
    read: Selection


def learn(table: Table, request: Request, *, is_clean: bool = False) -> Learned:
    """Learn what is ordinary in the rows of a table, and place them beside it.

    Parameters
    ----------
    table
        The rows to judge.
    request
        What was asked; only the rows that `normal` names are learned from.
    is_clean
        Whether the user vouches for all rows.
    """
    texts = turn_texts_into_numbers(table, request)
    table, request = texts.table, texts.request
    selection = select(table, request)
    selection = replace(
        selection,
        is_clean=selection.is_clean or is_clean,
        roles=say_oddness_of_texts(selection.roles, texts.columns.models),
    )
    read, found = check_selection(table, selection, request.missing)
    selection, rare = place_in_segments(read, table, request)
    found = found.with_more(rare)
    stage("encoding columns")
    selection, encoder = encode_selection(selection, request)
    found = found.without(np.flatnonzero(np.isin(read.rows, selection.rows)))
    stage("fitting the detector")
    fitted = fit_table(selection, encoder, request.detector, generator(request.random_state))
    return Learned(Batch(table, request, fitted, found, read.frame, texts.columns), read)


def check_selection(table: Table, selection: Selection, missing: str) -> tuple[Selection, RowFindings]:
    """Look for what is wrong with the data; cells that a finding explains are missing from then on.

    They stay where missing cells are not filled in: whoever drops rows with gaps means the table's own gaps.
    """
    checked = check_table(
        selection.frame,
        selection.roles,
        raw=table.frame[list(selection.frame.columns)],
    )
    found = RowFindings.of(checked.findings, len(selection.frame))
    return selection.with_cells(checked.frame) if missing == "impute" else selection, found


def encode_selection(selection: Selection, request: Request) -> tuple[Selection, TableEncoder]:
    """Fit the encoding of columns to the reference rows, and drop rows with missing cells where asked to."""
    selection = selection.with_hours()
    # Columns that the user named are used even if they look like a numbering of the rows.
    named = None if request.columns is None else list(selection.frame.columns)
    encoder = TableEncoder(
        missing=request.missing,
        columns=named,
        exclude=selection.context_columns(),
        roles=selection.roles,
        compress=request.detector != "auto",  # the default detector deals with long tails itself
    )
    encoder.fit(selection.compared()[1])
    learned = selection.compared()[1]
    counted = encoder.count_missing_in(learned)
    others = [each for each in encoder.said_ if each not in counted]
    encoder.said_ = [*selection.said, *others, *encoder.count_missing_in(learned, selection.emptied)]
    if request.missing == "drop":
        selection = selection.without(
            encoder.kept_rows(selection.frame), encoder.kept_rows(selection.reference)
        )
    return selection, encoder
