"""What each endpoint asks of a model: functions of tellwhy, called as the command line calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from starlette.exceptions import HTTPException

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.running import one_thread_for_products
from tellwhy.core.score import Floats
from tellwhy.data.table import Table
from tellwhy.kinds.model import judge as judge_any
from tellwhy.kinds.new_data import compare_with_model
from tellwhy.kinds.table import (
    change_request,
    explain_judged,
    find_unread_cell,
    judge,
    place_unchecked,
    read_rows,
    score_rows,
)
from tellwhy.kinds.table_cells import Judged
from tellwhy.kinds.table_model import TableModel
from tellwhy.kinds.two_tables import diff_tables
from tellwhy.results.result import Result
from tellwhy.storage.documents import make_plain
from tellwhy.views.cli.bulk import record_new_data
from tellwhy.views.cli.tables import record_difference
from tellwhy.views.documents import paged_result, result_document
from tellwhy.views.server.service.bodies import UNUSABLE, check_columns, unusable_cell
from tellwhy.views.server.service.shelf import Served

NAME = "the request"
MOST_TOP = 1_000
Document = dict[str, Any]


def score(served: Served, frame: pd.DataFrame, asked: Mapping[str, Any]) -> Document:
    """Scores of rows, and which are above the line drawn in fitting; nothing is checked or explained."""
    _only(asked, ())
    scores = scores_of(served, frame)
    return {
        **_named(served),
        "scores": [None if np.isnan(each) else float(each) for each in scores],
        "threshold": served.table.threshold,
        "is_alarm": (scores > served.table.threshold).tolist(),
    }


def scores_of(served: Served, frame: pd.DataFrame) -> Floats:
    """Scores of rows, each as if it came alone."""
    return score_rows(served.table, _read(served, frame))


def _read(served: Served, frame: pd.DataFrame) -> Any:
    """Rows as those of the fitting were read; raise for a cell that cannot be."""
    model = served.table
    read = read_rows(model, _table(served, frame), model.request)
    lost = find_unread_cell(model, read)
    if lost is not None:
        kind = model.roles[lost[1]].kind
        raise unusable_cell(*lost, f"cannot be read as a {kind}, which the column holds")
    return read


def explain(served: Served, frame: pd.DataFrame, asked: Mapping[str, Any]) -> Document:
    """What each column contributes to the score of every row."""
    _only(asked, ("method",))
    placed = place_unchecked(served.table, _read(served, frame))
    with one_thread_for_products():
        found = placed.explain(np.arange(len(placed.selection.frame)), str(asked.get("method", "auto")))
    residual = None if found.residual is None else found.residual.tolist()
    return {
        **_named(served),
        "columns": list(found.names()),
        "rows": placed.selection.rows.tolist(),
        "scores": found.scores.tolist(),
        "values": found.values.tolist(),
        "base_values": found.base_values.tolist(),
        "residual": residual,
        "method": found.method,
        "kind": found.kind,
    }


def judge_rows(served: Served, frame: pd.DataFrame, asked: Mapping[str, Any]) -> Document:
    """The document of a result: findings, anomalies with their reasons, and where the line was drawn."""
    _only(asked, ("top", "method", "id_column", "first", "most"))
    settings = {name: asked[name] for name in ("top", "method", "id_column") if name in asked}
    first = _whole(asked, "first", 0, 0, 10**9)
    most = _whole(asked, "most", 200, 1, MOST_TOP)
    if "top" in asked:
        settings["top"] = _whole(asked, "top", 10, 1, MOST_TOP)
    found = result_of(served, frame, settings)
    some, page = paged_result(found, first, most)
    told = {**_named(served), "page": page, "n_rows": len(found.scores), "n_alarms": found.n_flagged}
    return {**result_document(some), **told}


def result_of(served: Served, frame: pd.DataFrame, settings: Mapping[str, Any]) -> Result:
    """Judge rows as they come: of a table, alarms begin at the line drawn in fitting."""
    if isinstance(served.model, TableModel):
        return replace(explain_judged(served.model, _judged(served, frame, settings)), source=NAME)
    return replace(judge_any(served.model, frame, **settings), source=NAME)


def diff(served: Served, frame: pd.DataFrame, asked: Mapping[str, Any], old: pd.DataFrame | None) -> Document:
    """What is new in rows beside those of the fitting, or beside other rows that came with them."""
    _only(asked, ())
    if old is not None:
        return dict(make_plain(record_difference(diff_tables(Table(old, "old"), Table(frame, "new")))))
    found = compare_with_model(served.table, _table(served, frame))
    return {**_named(served), **make_plain(record_new_data(found))}


def _judged(served: Served, frame: pd.DataFrame, settings: Mapping[str, Any]) -> Judged:
    model = served.table
    table = _table(served, frame)
    return judge(model, table, change_request(model, dict(settings)), is_part=True)


def _table(served: Served, frame: pd.DataFrame) -> Table:
    check_columns(frame, served.columns)
    return Table(frame, NAME)


def _named(served: Served) -> Document:
    return {"model": served.name, "version": served.version}


def _only(asked: Mapping[str, Any], known: tuple[str, ...]) -> None:
    others = sorted(set(asked) - {"model", *known})
    if others:
        listed = ", ".join(("model", "rows", "columns", *known))
        raise HTTPException(UNUSABLE, f"{', '.join(others)[:200]} cannot be asked here; known are: {listed}.")


def _whole(asked: Mapping[str, Any], name: str, usual: int, least: int, most: int) -> int:
    value = asked.get(name, usual)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)  # out of an address
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise HTTPException(UNUSABLE, f"{name!r} must be a whole number from {least} to {most}.")
    return value


def told_unusable(error: InvalidInput | UnsupportedModel) -> HTTPException:
    """An error of data as a refusal."""
    return HTTPException(UNUSABLE, str(error))
