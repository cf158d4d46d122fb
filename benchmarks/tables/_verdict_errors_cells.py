"""Errors that one cell shows: placeholders, slips, wrong levels, wrong dates."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.tables._verdict_planting import Planted, Site, planted, replaced


def same_value(role: str, value, *, many: bool):
    """The same value in one cell, or in about one row in a hundred of a column."""

    def plant(site: Site) -> Planted:
        column = site.one_of(role)
        rows = site.rows([column], site.many() if many else 1)
        return site.changed(column, rows, value)

    return plant


def times(role: str, factor: float, *, few: bool = True):
    """Cells multiplied by a factor."""

    def plant(site: Site) -> Planted:
        column = site.one_of(role)
        rows = site.rows([column], site.few() if few else site.many(), site.number(column) != 0)
        return site.changed(column, rows, (site.number(column)[rows] * factor).round(4))

    return plant


def mapped(role: str, change, *, few: bool = True):
    """Cells of a column put through a function."""

    def plant(site: Site) -> Planted:
        column = site.one_of(role)
        rows = site.rows([column], site.few() if few else site.many())
        values = [change(value, site.rng) for value in site.frame[column].iloc[rows]]
        return site.changed(column, rows, values)

    return plant


def eight_deviations(site: Site) -> Planted:
    """A few values 8 standard deviations off, each in any of the bell-shaped columns."""
    frame = site.frame.copy()
    rows, causes = [], []
    for row in site.rows([], site.few()):
        column = site.one_of("bell")
        spread, middle = np.nanstd(site.number(column)), np.nanmean(site.number(column))
        value = round(middle + site.rng.choice([-8, 8]) * spread, 3)
        frame[column] = replaced(frame[column], np.array([row]), value)
        rows.append(row)
        causes.append(frozenset([column]))
    return planted(frame, rows, causes)


def spike(site: Site) -> Planted:
    """One reading beyond all others of the series, by half of their whole range."""
    column = site.one_of("series")
    cells = site.number(column)
    low, high = np.nanmin(cells), np.nanmax(cells)
    return site.changed(column, site.rows([column], 1), round(high + 0.5 * (high - low), 3))


def sign_flips(site: Site) -> Planted:
    column = site.one_of("positive")
    rows = site.rows([column], site.few(), site.number(column) > np.nanmedian(site.number(column)) / 2)
    return site.changed(column, rows, -site.number(column)[rows])


def rare_level(site: Site) -> Planted:
    column = site.one_of("levels")
    return site.changed(column, site.rows([column], 1), "KP")


def new_level(site: Site) -> Planted:
    """A level of some rows that no row of the reference has."""
    half = len(site.frame) // 2
    later = Site(site.frame.iloc[half:].reset_index(drop=True), site.schema, site.rng)
    column = later.one_of("levels")
    rows = later.rows([column], later.few())
    return later.changed(column, rows, "other-new", reference=site.frame.iloc[:half].reset_index(drop=True))


def misspelt(text: str, rng: np.random.Generator) -> str:
    """Two neighbouring letters swapped, or one doubled where a word is short."""
    text = str(text)
    places = [
        i
        for i in range(len(text) - 1)
        if text[i] != text[i + 1] and text[i].isalpha() and text[i + 1].isalpha()
    ]
    if len(text) < 4 or not places:
        return text + text[-1]
    i = int(rng.choice(places[1:] or places))
    return text[:i] + text[i + 1] + text[i] + text[i + 2 :]


def other_case(text: str, _: np.random.Generator) -> str:
    text = str(text)
    return text.upper() if text != text.upper() else text.lower()


def garbled(site: Site) -> Planted:
    """Letters read in the wrong encoding: München as MÃ¼nchen."""
    column = site.one_of("letters")
    cells = site.frame[column].astype(str)
    beyond = ~cells.map(str.isascii).to_numpy()
    rows = site.rows([column], site.few(), beyond)
    return site.changed(column, rows, [cells.iloc[r].encode("utf-8").decode("latin-1") for r in rows])


def future(site: Site) -> Planted:
    """A few dates years ahead of any other."""
    column = site.one_of("events")
    rows = site.rows([column], site.few())
    years = pd.DateOffset(years=int(site.rng.integers(15, 60)))
    return site.changed(column, rows, [moment + years for moment in site.frame[column].iloc[rows]])


def at_night(site: Site) -> Planted:
    """Events at 2 to 4 in the morning; all others are in office hours."""
    column = site.one_of("office")
    rows = site.rows([column], site.few())
    day = site.frame[column].iloc[rows].dt.normalize()
    values = day + pd.to_timedelta(site.rng.integers(2 * 3600, 4 * 3600, len(rows)), unit="s")
    return site.changed(column, rows, list(values), right=_event_and_later(site, column))


def at_weekend(site: Site) -> Planted:
    """Events on a Saturday; all others are from Monday to Friday."""
    column = site.one_of("office")
    rows = site.rows([column], site.few())
    moments = site.frame[column].iloc[rows]
    values = moments + pd.to_timedelta(5 - moments.dt.day_of_week, unit="D")
    return site.changed(column, rows, list(values), right=_event_and_later(site, column))


def _event_and_later(site: Site, column: str) -> set[str]:
    """The event's column, and those of dates that are compared with it."""
    return {column, *(name for pair in site.schema.orders if column in pair for name in pair)}


def default_birthday(site: Site) -> Planted:
    """1 January 1980 in about one row in a hundred: a form's default, inside the usual range."""
    column = site.one_of("births")
    return site.changed(column, site.rows([column], site.many()), pd.Timestamp("1980-01-01"))


def wrong_pattern(text: str, rng: np.random.Generator) -> str:
    """A code with a letter O for its last digit and a blank in the middle."""
    middle = int(rng.integers(1, len(text) - 1))
    return f"{text[:middle]} {text[middle:-1]}O"


def letter_for_digit(value: float, rng: np.random.Generator) -> str:
    return str(rng.choice([f"{value:g}O", f"~{value:g}", "see note", "n/a?"]))
