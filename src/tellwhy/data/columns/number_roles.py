"""What a column of numbers is: quantities, points in time, codes, or names of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tellwhy.core.score_function import Floats
from tellwhy.data.columns.kinds import CONSTANT, IDENTIFIER, judge_numbers
from tellwhy.data.columns.names import names_a_kind, names_a_place, names_a_time, names_things, words_of
from tellwhy.data.columns.reading import ENOUGH, Outcome, Role, labelled, outcome_of, typed
from tellwhy.data.columns.values import numbers_or_missing
from tellwhy.data.columns.written.identifiers import EXACT
from tellwhy.data.columns.written.times import find_epoch

MOST_KINDS = 100  # distinct numbers under a name such as status or type
_HTTP = {*range(100, 104), *range(200, 209), 226, *range(300, 309), *range(400, 452), *range(500, 512)}
_HTTP_NAMES = {"http", "status", "response", "code", "rc"}


def role_of_numbers(series: pd.Series) -> Outcome:
    """Find out what a column of numbers is; only codes and points in time change its cells."""
    name = str(series.name)
    values = numbers_or_missing(series)
    filled = values[np.isfinite(values)]
    if not len(filled):
        return Outcome(Role("number", "numbers"))
    return _long_names(series, values) or _role_of_quantities(series, name, filled)


def _role_of_quantities(series: pd.Series, name: str, filled: Floats) -> Outcome:
    verdict = judge_numbers(name, filled, keep_numbering=False)
    if verdict.reason == CONSTANT:
        return Outcome(Role("constant", "one number"))
    if verdict.kind == "boolean":
        return Outcome(Role("boolean", "0 or 1"))
    if names_a_time(name) and (reading := find_epoch(filled)) is not None:
        return outcome_of(series, reading, typed(series, reading))
    if verdict.reason == IDENTIFIER:
        return Outcome(Role("identifier", "a number of its own for every row"))
    return _codes(series, name, filled) or Outcome(Role("number", _words(name, filled)))


def _long_names(series: pd.Series, values: Floats) -> Outcome | None:
    """Return whole numbers of so many digits that some are equal as floats as what they are: names."""
    if not pd.api.types.is_integer_dtype(series.dtype):
        return None
    filled = series[np.abs(values) > EXACT]
    n_distinct = filled.nunique()
    if n_distinct == len(np.unique(values[np.abs(values) > EXACT])):
        return None
    if 2 * n_distinct > len(filled):
        return Outcome(Role("identifier", "numbers that name things"))
    role = Role("category", "numbers that name things")
    return Outcome(role, labelled(series), f"{role.words}, used as categories.")


def _codes(series: pd.Series, name: str, filled: Floats) -> Outcome | None:
    """Return whole numbers that name things as categories; None for numbers that measure or count."""
    is_kind = names_a_kind(name)
    if not (is_kind or names_a_place(name) or names_things(name)) or not _are_whole(filled):
        return None
    distinct = np.unique(filled)
    is_measured = (filled < 0).mean() > 1 - ENOUGH  # a few may stand for 'unknown'
    if is_measured or (is_kind and len(distinct) > MOST_KINDS):
        return None
    if 2 * len(distinct) > len(filled) and len(filled) >= 10:
        return None if is_kind else Outcome(Role("identifier", "numbers that name things"))
    role = Role("category", _code_words(name, distinct))
    return Outcome(role, labelled(series), f"{role.words}, used as categories.")


def _are_whole(filled: Floats) -> bool:
    # A glance at the first cells tells most measurements apart.
    return bool((filled[:100] == np.round(filled[:100])).all() and (filled == np.round(filled)).all())


def _code_words(name: str, distinct: Floats) -> str:
    if names_a_place(name):
        return "postal codes"
    if not _HTTP_NAMES.isdisjoint(words_of(name)) and all(int(code) in _HTTP for code in distinct):
        return "HTTP status codes"
    return "numbers that name things" if names_things(name) else "codes"


def _words(name: str, filled: Floats) -> str:
    if not _are_whole(filled):
        return "numbers"
    if words_of(name)[-1:] in (["year"], ["jahr"]) and filled.min() >= 1500 and filled.max() <= 2200:
        return "years"
    return "whole numbers"
