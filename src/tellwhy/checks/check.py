"""`check_table`: every check in turn, each on what the ones before it left unexplained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.checks.bounds import find_fractions, find_out_of_bounds, find_sign_flips
from tellwhy.checks.dates import find_future_dates, find_unread_cells
from tellwhy.checks.dependencies import find_broken_dependencies, find_filled_cells
from tellwhy.checks.facts import Facts, HasKind, facts_of
from tellwhy.checks.gaps import find_empty_rows, find_gaps
from tellwhy.checks.labels import find_changed_constants, find_levels, find_odd_patterns, find_rare_pairs
from tellwhy.checks.orders import find_broken_orders
from tellwhy.checks.placeholders import find_placeholders
from tellwhy.checks.relations import find_broken_relations
from tellwhy.checks.repeats import find_repeats
from tellwhy.checks.slips import find_slips
from tellwhy.checks.spelling import find_misspellings
from tellwhy.checks.stuck import find_stuck_values
from tellwhy.core.progress import stage
from tellwhy.results.result import MISSING, Finding


@dataclass(frozen=True, eq=False)
class Quality:
    """What `check_table` found.

    Attributes
    ----------
    findings
        The most important first.
    frame
        The table with the explained cells set missing; untouched columns are shared with the original.
    explained
        For each column that has any, which of its cells were set missing.
    """

    findings: tuple[Finding, ...]
    frame: pd.DataFrame
    explained: dict[str, NDArray[np.bool_]]


Check = Callable[[Facts, Facts], list[Finding]]
# In this order: what makes cells useless for others (placeholders) before what compares them.
CHECKS: tuple[Check, ...] = (
    find_gaps,
    find_placeholders,
    find_unread_cells,
    find_future_dates,
    find_repeats,
    find_empty_rows,
    find_stuck_values,
    find_broken_relations,
    find_sign_flips,
    find_out_of_bounds,
    find_slips,
    find_fractions,
    find_broken_orders,
    find_misspellings,
    find_broken_dependencies,
    find_filled_cells,
    find_levels,
    find_changed_constants,
    find_odd_patterns,
    find_rare_pairs,
)


def check_table(
    frame: pd.DataFrame,
    roles: Mapping[str, HasKind] | None = None,
    *,
    reference: pd.DataFrame | Facts | None = None,
    now: datetime | None = None,
    raw: pd.DataFrame | None = None,
) -> Quality:
    """Find what is wrong with a table as data, and set the cells missing that a finding explains.

    Every claim is tested against chance, with the number of candidates counted. Nothing that is passed in is
    modified.

    Parameters
    ----------
    frame
        The table, its columns read as numbers, dates and labels.
    roles
        What each column is, from `read_columns`; told from the columns' types where not given.
    reference
        An earlier table with the same columns: levels, ranges and relations are learned from it. Its facts
        may be given in its stead, where many tables are checked beside it.
    now
        Dates after this moment are in the future; the present by default.
    raw
        The table as it was written, before columns were read: dates that do not exist stand only there.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> table = pd.DataFrame({"age": rng.integers(18, 95, size=500), "income": rng.normal(40, 8, size=500)})
    >>> table.loc[[3, 77], "age"] = 999
    >>> quality = check_table(table)
    >>> quality.findings[0].text
    '2 rows: age = 999, a placeholder (other values 18–94).'
    >>> int(quality.frame["age"].isna().sum())
    2
    """
    seen = facts_of(frame, roles, now=now, raw=raw)
    learn = seen
    if isinstance(reference, Facts):
        learn = reference.like(seen)
        seen = seen.like(learn)
    elif reference is not None and len(reference):
        learn = facts_of(reference[[c for c in frame.columns if c in reference.columns]], seen.roles).like(
            seen
        )
        seen = seen.like(learn)
    findings: list[Finding] = []
    for check in CHECKS if len(frame) else ():
        stage(f"checking the data: {check.__name__.removeprefix('find_').replace('_', ' ')}")
        found = check(seen, learn)
        findings += found
        is_same = learn is seen
        seen = seen.without(found)
        learn = seen if is_same else learn
    findings.sort(key=lambda finding: (-finding.surprise, -len(finding.rows)))
    explained = _explained(findings, len(frame))
    return Quality(tuple(findings), _emptied(frame, explained), explained)


def _explained(findings: list[Finding], n: int) -> dict[str, NDArray[np.bool_]]:
    masks: dict[str, NDArray[np.bool_]] = {}
    for finding in findings:
        if finding.action == MISSING and finding.rows:
            masks.setdefault(finding.columns[0], np.zeros(n, dtype=np.bool_))[list(finding.rows)] = True
    return masks


def _emptied(frame: pd.DataFrame, explained: dict[str, NDArray[np.bool_]]) -> pd.DataFrame:
    """The table with explained cells missing, sharing the columns that have none."""
    table = frame.copy(deep=False)
    for column, mask in explained.items():
        table[column] = table[column].mask(mask)
    return table
