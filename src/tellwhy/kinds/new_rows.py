"""The rows of another table, read as those were that a model was fitted to."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tellwhy.core.errors import InvalidInput
from tellwhy.data import Table
from tellwhy.data.columns.dates import told_by_order
from tellwhy.data.columns.notices import listed
from tellwhy.data.columns.reading import Role, dates_of, numbers_or_missing, stored_kind
from tellwhy.data.columns.roles import read_columns
from tellwhy.kinds.table_model import TableModel
from tellwhy.verdicts.seen_values import measured

_SUITS = {"number": ("number",), "boolean": ("boolean", "number"), "date": ("date",)}


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows to judge, read.

    Attributes
    ----------
    frame
        The features, read as the model's roles say.
    notices
        What could not be read so, one sentence each.
    """

    frame: pd.DataFrame
    notices: list[str]


def read_new_rows(model: TableModel, table: Table) -> NewRows:
    """Read the features of a table as the model's were; cells that cannot be are missing, and told."""
    check_columns(model, table)
    # A column that was read but not used may be absent: it is an empty one.
    read = read_columns(table.frame.reindex(columns=list(model.roles)), roles=model.roles)
    frame = read.frame.copy(deep=False)
    notices = list(read.notices)
    for name, role in model.roles.items():
        cells = _as_kind(frame[name], role)
        if cells is not None:
            n_lost = int((cells.isna() & frame[name].notna()).sum())
            frame[name] = cells
            if n_lost:
                notices.append(
                    f"{name}: {n_lost:,} cells cannot be read as {role.kind}s, as they were in fitting, and "
                    "are taken as missing."
                )
    return NewRows(frame, notices)


def check_columns(model: TableModel, table: Table) -> None:
    """Raise if a column that the model uses is not there; say which may be the same under another name."""
    used = dict.fromkeys([*model.encoder.columns_, *model.by_roles])
    absent = [name for name in used if name not in table.frame.columns]
    if not absent:
        return
    new = [name for name in table.frame.columns if name not in model.table_columns]
    near = difflib.get_close_matches(absent[0], new, n=1, cutoff=0.5)
    hint = f" Was {absent[0]!r} renamed to {near[0]!r}?" if near else ""
    raise InvalidInput(
        f"{table.source} lacks {len(absent)} column(s) that the model was fitted on ({model.source}): "
        f"{listed(absent)}.{hint} It has: {listed(list(table.frame.columns))}. Rename or add them, or fit "
        "the model again without them."
    )


def _as_kind(series: pd.Series, role: Role) -> pd.Series | None:
    """A column that is stored as something else than before; None where nothing is to be done."""
    if role.kind not in _SUITS or series.isna().all() or stored_kind(series) in _SUITS[role.kind]:
        return None
    name = str(series.name)
    own = read_columns(series.to_frame(name))
    if own.roles[name].kind == role.kind:
        return own.frame[name]
    if role.kind == "date":
        text = series.astype(object).map(lambda cell: cell if isinstance(cell, str) else None)
        return pd.to_datetime(text, errors="coerce", format="ISO8601")
    if role.kind == "boolean":
        return pd.Series(pd.array([None] * len(series), dtype="boolean"), index=series.index)
    return pd.Series(numbers_or_missing(series), index=series.index)


def without_other_times(model: TableModel, frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Take dates after those of the fitting as missing: time goes on, which is no oddity of a row.

    So are earlier ones, where more rows have them than chance explains: a whole period that was not seen.
    """
    told = []
    found = frame
    for name, kind in model.encoder.kinds_.items():
        seen = model.seen.get(name)
        if kind != "date" or seen is None or not seen.has_range:
            continue
        days = measured(frame[name], "date")
        sides = {"later": days > seen.high}
        known = dates_of(model.reference, name, "iso")
        if "earlier" in told_by_order(dates_of(frame, name, "iso"), known):
            sides["earlier"] = days < seen.low
        for side, is_beyond in sides.items():
            if is_beyond.any():
                found = found.assign(**{name: found[name].mask(is_beyond)})
                told.append(
                    f"{name}: {int(is_beyond.sum()):,} dates are {side} than those that the model was fitted "
                    "on; they are not compared."
                )
    return found, told


def with_hours(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Put the hour of day in the place of dates that else only tell in which order rows came."""
    found = {}
    for name in names:
        stamps = pd.to_datetime(frame[name], errors="coerce").dt.tz_localize(None)
        values = stamps.to_numpy(dtype="datetime64[us]")
        found[name] = (values - values.astype("datetime64[D]")) / np.timedelta64(1, "h")
    return frame.assign(**found) if found else frame


def unused_columns(model: TableModel, columns: Sequence[str]) -> list[str]:
    """Columns of a table that the model does not know."""
    return [str(name) for name in columns if name not in model.table_columns]
