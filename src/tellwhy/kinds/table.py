"""Tables: fitted to, judged by a model that is kept, or checked as data."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tellwhy.checks.check import check_table
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.progress import stage
from tellwhy.core.running import one_blas_thread, one_thread_for_products
from tellwhy.core.score import Floats
from tellwhy.data import Table, TableEncoder
from tellwhy.data.columns.encoder import collect_left_out
from tellwhy.data.columns.reading import Role
from tellwhy.data.columns.roles import read_columns
from tellwhy.data.table import TableLike
from tellwhy.kinds.mark_file import fingerprint_of
from tellwhy.kinds.marks import NOTHING_HELD, Held, Mark, drop_marked, hold_back
from tellwhy.kinds.model import change_settings, kind
from tellwhy.kinds.request import Request
from tellwhy.kinds.segments import find_nested_segments, find_rare_labels, make_context
from tellwhy.kinds.table_cells import Batch, FittedTable, Judged, KnownRows, encode_rows, make_encoded_score
from tellwhy.kinds.table_model import MOST_ROWS, TableModel, fit, fit_model, learn
from tellwhy.kinds.table_result import run_of
from tellwhy.kinds.table_rows import (
    BY_HOUR,
    NewRows,
    Selection,
    count_emptied,
    drop_other_times,
    put_hours,
    read_new_rows,
    read_reference,
    read_source,
    tell_hours,
)
from tellwhy.kinds.text_columns import TextColumns, score_known_texts
from tellwhy.results.notice import Notice
from tellwhy.results.result import Finding, Result
from tellwhy.verdicts.advice import advise
from tellwhy.verdicts.alarms import Alarms
from tellwhy.verdicts.findings import RowFindings

if TYPE_CHECKING:
    from tellwhy.kinds.new_data import NewData

RULES = {"alarms", "contamination", "fdr"}
CHANGEABLE = (
    "id_column",
    "label",
    "method",
    "top",
    "alarms",
    "contamination",
    "fdr",
    "second_opinions",
)


@one_blas_thread()
def explain_table(
    data: str | Path | TableLike, *, reference: str | Path | TableLike | None = None, **settings: Any
) -> Result:
    """Find the odd rows of a table and tell why they are odd.

    Parameters
    ----------
    data
        A file name, a `Table`, a pandas or polars frame, or an array.
    reference
        Ordinary rows to compare with, in the same forms; without it (or `normal`), the table's own rows.
    settings
        See `Request`: normal, id_column, detector, method, top, alarms, contamination, fdr, columns, exclude,
        by, label, missing, second_opinions, random_state.

    Returns
    -------
    Result
        Ranked anomalies with reasons, and the evidence for them.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(200, 3))
    >>> rows[7, 1] = 9.0
    >>> run = explain_table(rows, top=1)
    >>> run.anomalies[0].row, run.anomalies[0].reasons[0].feature
    (7, 'x1')
    """
    table = read_source(data)
    request = Request(**settings)
    if reference is None:
        learned = learn(table, request)
        run = tell_judged(learned.batch.judged())
        advice = [] if request.by else advise(learned.read.frame, learned.read.roles)
        return replace(run, notices=[*run.notices, *advice])
    ordinary, asked = read_reference(table, read_source(reference), request)
    model = fit(ordinary, asked, clean=True)
    return tell_judged(judge(model, table, replace(request, text=model.request.text)))


@one_blas_thread()
def explain_new(model: TableModel, data: str | Path | TableLike, **settings: Any) -> Result:
    """Find the odd rows of a table by a model that was fitted before, and tell why they are odd.

    Scores, p-values and reasons are a matter of a row and the model. Which rows are alarms is decided among
    the rows of the table, by the rule of the fitting unless another is asked for: a share of false alarms is
    one of a list. Where each row must be judged as it comes, `judge` takes the line drawn in fitting.

    Parameters
    ----------
    model
        Of `fit_model`, or read by `tellwhy.load`.
    data
        A file name, a `Table`, a pandas or polars frame, or an array.
    settings
        id_column, label, method, top, alarms, contamination, fdr, second_opinions; everything else was
        decided in fitting.

    Examples
    --------
    >>> from tellwhy.workflow import fit_model
    >>> rng = np.random.default_rng(0)
    >>> model = fit_model(rng.normal(size=(300, 3)))
    >>> rows = rng.normal(size=(50, 3))
    >>> rows[7, 1] = 9.0
    >>> run = explain_new(model, rows, top=1)
    >>> run.anomalies[0].row, run.anomalies[0].reasons[0].feature
    (7, 'x1')
    """
    return explain_judged(model, judge(model, read_source(data), change_request(model, settings)))


@one_blas_thread()
def explain_and_compare(
    model: TableModel, data: str | Path | TableLike, *, model_file: str | Path = "", **settings: Any
) -> tuple[Result, NewData]:
    """The same, and how the rows compare with those of the fitting; the run remembers the model's file."""
    table = read_source(data)
    judged = judge(model, table, change_request(model, settings))
    run = explain_judged(model, judged)
    stage("comparing with the rows of the fitting")
    from tellwhy.kinds.new_data import compare_read

    compared = compare_read(model, judged.batch.table, judged.batch.cleaned)
    return replace(run, settings={**run.settings, **settings_of_model(model_file)}), compared


def settings_of_model(model_file: str | Path) -> dict[str, str]:
    """What a run remembers of the file of its model: where it stands, and the SHA-256 of what it holds."""
    if not model_file:
        return {"model": ""}
    return {"model": os.path.abspath(model_file), "model_sha256": fingerprint_of(model_file)}


def explain_judged(model: TableModel, judged: Judged) -> Result:
    """Explain the alarms among rows that a model judged."""
    run = tell_judged(judged, model.marks)
    return replace(run, settings={**run.settings, "fitted_to": model.source})


def tell_judged(judged: Judged, marks: Sequence[Mark] = ()) -> Result:
    """Explain the alarms among judged rows; those whose cause is marked are held back."""
    return judged.in_words(hold_back(run_of(judged), marks, judged.batch.held))


def change_request(model: TableModel, settings: dict[str, Any]) -> Request:
    """What is asked of new rows: as in fitting, but for what may be asked otherwise."""
    fixed = [name for name in settings if name not in CHANGEABLE]
    if fixed:
        raise InvalidParameter(
            f"{', '.join(fixed)} cannot be changed after fitting; with a model, only "
            f"{', '.join(CHANGEABLE)} can. Fit the model again."
        )
    asked = {name: value for name, value in settings.items() if name not in RULES or value is not None}
    if RULES & asked.keys():
        asked = {**dict.fromkeys(RULES), **asked}
    return replace(replace(model.request, normal=None, label=None), **asked)


@dataclass(frozen=True, eq=False)
class _Read:
    """New rows of a table as they were read.

    Attributes
    ----------
    table, request
        The rows, texts among them as numbers, and what is asked of them.
    texts
        The texts.
    new
        The features, as the model's were read.
    is_own
        Whether the model was fitted to these rows.
    finds_learned, is_part
        See `judge`.
    """

    table: Table
    request: Request
    texts: TextColumns
    new: NewRows
    is_own: bool
    finds_learned: bool = False
    is_part: bool = False


@kind("table")
class TableKind:
    """Rows of a table, beside all rows or beside those of their segments, texts among the columns or not."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> TableModel:
        """Learn what is ordinary in a table."""
        return fit_model(source, clean=clean, **settings)

    def read(self, model: TableModel, source: Any, settings: Mapping[str, Any]) -> _Read:
        """Read the columns of the model in another table."""
        request = change_request(model, change_settings(model.request, settings, CHANGEABLE))
        return read_rows(model, read_source(source), request)

    def check(self, model: TableModel, batch: _Read) -> Batch:
        """Find what is wrong with the rows as data, by the rules of the model."""
        return check_rows(model, batch)

    @one_blas_thread()
    def score(self, model: TableModel, batch: Batch) -> Floats:  # noqa: ARG002
        """Score the rows."""
        return batch.fitted.scores()

    @one_blas_thread()
    def explain(self, model: TableModel, batch: Batch, scores: Floats) -> Result:  # noqa: ARG002
        """Draw the line, and explain the rows above it; they are scored once in a run."""
        return explain_judged(model, batch.judged())


def judge(
    model: TableModel,
    table: Table,
    request: Request,
    *,
    finds_learned: bool = False,
    is_part: bool = False,
) -> Judged:
    """Score new rows, and find what is wrong with them as data.

    Parameters
    ----------
    model, table, request
        What is ordinary, the rows, and what is asked of them.
    finds_learned
        Whether rows that the model was fitted to may be among them: they are judged as if it had not seen
        them.
    is_part
        Whether the rows are some of many (a block, a stream): alarms then begin at the line drawn in fitting.
    """
    read = read_rows(model, table, request)
    return check_rows(model, replace(read, finds_learned=finds_learned, is_part=is_part)).judged()


@one_blas_thread()
def judge_unchecked(model: TableModel, table: Table, request: Request) -> Judged:
    """Score new rows of a stream by the line drawn in fitting, without looking for what is wrong as data."""
    read = replace(read_rows(model, table, request), is_part=True)
    found = RowFindings.of([], len(read.new.frame))
    return place_rows(model, read, read.new.frame, found, NOTHING_HELD).judged()


def place_unchecked(model: TableModel, read: _Read) -> FittedTable:
    """Place new rows, as they were read, beside those that were learned from; nothing is checked.

    `judge` sets cells missing that a finding explains, and so may score a row with a finding otherwise.
    """
    selection, _ = _place_in_segments(model, read.table, _select_rows(model, read.new, read.new.frame))
    if read.request.missing == "drop":
        kept = model.encoder.kept_rows(selection.frame)
        selection = selection.without(kept, np.arange(len(selection.reference)))
    return _take_fitted(model, selection)


def score_rows(model: TableModel, read: _Read) -> Floats:
    """Score new rows as they were read, each as if it came alone; NaN for one dropped for its gaps."""
    scores = np.full(len(read.new.frame), np.nan)
    placed = place_unchecked(model, read)
    n_rows = len(placed.selection.frame)
    if n_rows:
        with one_thread_for_products():  # a row takes less time than looking for libraries anew
            scores[placed.selection.rows] = placed.score.inner.value(placed.known.encoded[:n_rows])
    return scores


def find_unread_cell(model: TableModel, read: _Read) -> tuple[int, str] | None:
    """The first cell that could not be read as those of the fitting were, by row and column."""
    for name, role in model.roles.items():
        if name not in read.table.frame.columns or role.kind not in ("number", "date", "boolean"):
            continue
        is_lost = read.new.frame[name].isna().to_numpy() & read.table.frame[name].notna().to_numpy()
        if is_lost.any():
            return int(np.argmax(is_lost)), name
    return None


def read_rows(model: TableModel, table: Table, request: Request) -> _Read:
    """Read new rows as those of the model were read."""
    stage("reading columns")
    is_own = _is_own(model, table)
    table, texts = score_known_texts(table, model.texts, is_own=is_own)
    return _Read(table, request, texts, read_new_rows(model, table), is_own)


def check_rows(model: TableModel, read: _Read) -> Batch:
    """Find what is wrong with new rows as data, and place them beside those that were learned from.

    Where marks hold something back, the line of alarms stays where it is without them: what is known of some
    rows says nothing of the others.
    """
    quality = check_table(
        read.new.frame,
        model.roles,
        reference=None if read.is_own else model.facts,
        raw=read.table.frame.reindex(columns=list(model.roles)),
    )
    found = RowFindings.of(quality.findings, len(read.new.frame))
    free, held = drop_marked(found, read.table.frame, model.marks)
    batch = place_rows(model, read, quality.frame, free, held)
    if not held.cells or read.is_part:
        return batch
    unmarked = place_rows(model.with_marks(()), read, quality.frame, found, NOTHING_HELD)
    return replace(batch, drawn=unmarked.judged().ranking.alarms)


def place_rows(
    model: TableModel, read: _Read, checked: pd.DataFrame, found: RowFindings, held: Held
) -> Batch:
    """Place new rows, as they were read and checked, beside those that were learned from."""
    table = read.table
    new = read.new
    cells = held.replaced(checked, model.reference) if model.request.missing == "impute" else new.frame
    selection = replace(_select_rows(model, new, cells), emptied=count_emptied(new.frame, cells))
    if read.is_own:
        selection = replace(selection, reference=selection.frame, own=selection.rows)
    selection, rare = _place_in_segments(model, table, selection)
    found, also_held = drop_marked(found.with_more(rare), table.frame, model.marks)
    held = held.with_more(also_held)
    kept = np.arange(len(selection.frame))
    if read.request.missing == "drop":
        kept = model.encoder.kept_rows(selection.frame)
        selection = selection.without(kept, np.arange(len(selection.reference)))
    fitted = replace(_take_fitted(model, selection), finds_learned=read.finds_learned)
    return Batch(
        table,
        read.request,
        fitted,
        found.without(kept),
        checked,
        read.texts,
        calibration=model.calibration,
        drawn=draw_fitted_line(model, len(kept)) if read.is_part else None,
        held=held.without(kept, len(new.frame)),
        line=model.threshold,
    )


def _is_own(model: TableModel, table: Table) -> bool:
    """Whether these are the rows that the model was fitted to, all of them: each is left out of its own."""
    is_same = bool(table.fingerprint) and table.fingerprint == model.fingerprint
    return is_same and len(table.frame) == model.n_rows <= MOST_ROWS and model.request.normal is None


def _select_rows(model: TableModel, new: NewRows, frame: pd.DataFrame) -> Selection:
    """The rows to score beside those learned from, both as they are compared."""
    frame, beyond = drop_other_times(model, frame)
    hours = tell_hours(model.hours, model.roles)
    clocks = {n: Role("number", f"{model.roles[n].words}{BY_HOUR}") for n in model.hours}
    return Selection(
        frame=put_hours(frame, model.hours),
        rows=np.arange(len(frame)),
        reference=put_hours(model.reference, model.hours),
        own=None,
        words=f"{model.n_rows:,} rows of {Path(model.source).name}",
        is_clean=model.is_clean,
        roles={**model.roles, **clocks},
        said=(*new.said, *hours),
        counted=tuple(beyond.told),
        uncompared=beyond.rows,
    )


def _place_in_segments(
    model: TableModel, table: Table, selection: Selection
) -> tuple[Selection, list[Finding]]:
    """Place the rows in the segments that the model knows."""
    by = list(model.by_roles)
    if model.by_reference is None:
        return selection, []
    scored = read_columns(table.frame[by], roles=model.by_roles).frame
    known = model.by_reference if selection.own is None else scored
    levels = find_nested_segments(scored, known, dict(model.by_roles), table.source)
    n_none = int((levels[0].scored < 0).sum())
    lost = Notice("no_segment", {"n": n_none, "column": by[0]})
    placed = replace(
        selection,
        context=make_context(selection, levels, by, model.bends),
        counted=(*selection.counted, *([lost] if n_none else [])),
        words=f"{selection.words}, each with those of the same {' and '.join(by)}",
    )
    return placed, find_rare_labels(selection, levels[-1], by)


def _take_fitted(model: TableModel, selection: Selection) -> FittedTable:
    encoder: TableEncoder = model.encoder
    is_apart = selection.own is None
    # Rows relative to their segments are made anew for every table.
    is_kept = is_apart and selection.context is None
    encoded = encode_rows(
        selection, encoder, model.sample, model.remembered.get("encoded") if is_kept else None
    )
    if is_kept:
        model.remembered["encoded"] = encoded[len(selection.frame) :]
    known = KnownRows(encoded, encoder.owner_, list(encoder.columns_))
    score = make_encoded_score(encoder, model.detector)
    told = _copy_encoder(encoder, selection)
    fitted = FittedTable(selection, told, score, model.detector, model.words, model.sample, known)
    if not is_apart:
        return fitted
    if "learned" not in model.remembered:
        model.remembered["learned"] = fitted.scores_of_learned()
    return replace(fitted, learned_scores=model.remembered["learned"])


def _copy_encoder(encoder: TableEncoder, selection: Selection) -> TableEncoder:
    """A copy of the encoder whose notices are about these rows; the model itself stays as it is."""
    told = copy.copy(encoder)
    told.said_ = [
        *collect_left_out(encoder.left_out_),
        *selection.said,
        *keep_counting_notices(encoder, selection),
    ]
    return told


def keep_counting_notices(encoder: TableEncoder, selection: Selection) -> list[Notice]:
    """Notices that count these very rows, and say nothing of others that the model judges."""
    filled = encoder.count_missing_in(selection.compared()[0], selection.emptied)
    if selection.own is None:  # the rows learned from may have had gaps too
        filled = [each.beside(where="scored") for each in filled]
    return [*selection.counted, *filled]


def draw_fitted_line(model: TableModel, n_rows: int) -> Alarms:
    """Where alarms begin for so many new rows: at the line that was drawn in fitting."""
    expected = float(n_rows * np.exp(-max(model.level, 0.0)))
    return Alarms(model.level, f"the line drawn in fitting: {model.rule}", expected, "fit")
