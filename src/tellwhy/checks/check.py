"""`check_table`: every check in turn, each on what the ones before it left unexplained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tellwhy.checks.bounds import find_fractions, find_out_of_bounds
from tellwhy.checks.clusters import support_clusters
from tellwhy.checks.contest import Claim, Support, decide
from tellwhy.checks.dates import find_future_dates, find_unread_cells
from tellwhy.checks.dependencies import Dependency, learn_dependencies
from tellwhy.checks.facts import Facts, HasKind, facts_of
from tellwhy.checks.far_values import find_far_values
from tellwhy.checks.filled import claim_filled
from tellwhy.checks.gaps import find_empty_rows, find_gaps
from tellwhy.checks.keyboard import Keyboard
from tellwhy.checks.labels import (
    find_changed_constants,
    find_levels,
    find_rare_pairs,
    learn_scales,
)
from tellwhy.checks.mistakes import BROKEN_ORDER, FAR, ODD_CELL, PLACEHOLDER, RARE_LEVEL
from tellwhy.checks.orders import Order, find_broken_orders, learn_orders
from tellwhy.checks.placeholders import find_placeholders
from tellwhy.checks.relations import Relation, find_broken_relations, learn_relations
from tellwhy.checks.repeats import find_repeats
from tellwhy.checks.row_law import RowLaw, learn_row_law
from tellwhy.checks.stuck import find_stuck_values
from tellwhy.checks.texts import claim_texts, learn_keyboard
from tellwhy.checks.wrong_numbers import find_wrong_numbers
from tellwhy.core.progress import stage
from tellwhy.core.registry import load_entry_points
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


@dataclass(frozen=True)
class Check:
    """A kind of mistake: how it is found in rows beside known ones, and what is learned from those.

    What `find` is given second knows the rules that `learn` makes (`Facts.recall`).
    """

    find: Callable[[Facts, Facts], list[Finding]]
    learn: Callable[[Facts], list[Any]] | None = None
    rule: type | None = None


@dataclass(frozen=True)
class Claimant:
    """A kind of mistake that is claimed: its claims, and what speaks against others, go to the contest.

    `claim` is given rows and those to learn from, as `find` of a `Check` is; `learned` are the functions that
    learn from the latter, each with the type of its rules.
    """

    claim: Callable[[Facts, Facts], Sequence[Claim | Support]]
    learned: tuple[tuple[Callable[[Facts], list[Any]], type], ...] = ()


CLAIMANTS: tuple[Claimant, ...] = (
    Claimant(claim_filled),
    Claimant(claim_texts, ((learn_dependencies, Dependency), (learn_keyboard, Keyboard))),
)


def find_wrong_cells(seen: Facts, known: Facts) -> list[Finding]:
    """Cells of which some explanation wins against being ordinary and against all other explanations."""
    told = [each for claimant in CLAIMANTS for each in claimant.claim(seen, known)]
    claims = [each for each in told if isinstance(each, Claim)]
    supports = [each for each in told if isinstance(each, Support)]
    return decide(seen, claims, [*supports, *support_clusters(seen, claims)])


# In this order: what makes cells useless for others (placeholders) before what compares them.
CHECKS: tuple[Check, ...] = (
    Check(find_gaps),
    Check(find_placeholders),
    Check(find_unread_cells),
    Check(find_future_dates),
    Check(find_repeats),
    Check(find_empty_rows),
    Check(find_stuck_values),
    Check(find_broken_relations, learn_relations, Relation),
    Check(find_wrong_numbers, learn_row_law, RowLaw),
    Check(find_out_of_bounds),
    Check(find_fractions),
    Check(find_broken_orders, learn_orders, Order),
    Check(find_wrong_cells),
    Check(find_levels, learn_scales, str),
    Check(find_changed_constants),
    Check(find_rare_pairs),
    Check(find_far_values),  # what nothing else explains
)


# What these tell of a cell, a claim that was weighed tells better.
_OF_ENDS = {BROKEN_ORDER.kind, RARE_LEVEL.kind, ODD_CELL.kind}
_OF_HABITS = {PLACEHOLDER.kind, "beyond_bound", "not_whole"}
_MOST_COLUMNS = 3  # that err in one way; more do not err
GROUP = "tellwhy.checks"  # of entry points of packages that bring checks of their own
_added: dict[str, Check] = {}
F = TypeVar("F", bound=Callable[[Facts, Facts], list[Finding]])


def add_check(
    *, learn: Callable[[Facts], list[Any]] | None = None, rule: type | None = None
) -> Callable[[F], F]:
    """Enter a function that finds a kind of mistake; it looks at what tellwhy's own checks left.

    Parameters
    ----------
    learn, rule
        What it learns from rows, and the type of these rules (with `@saved`, so that a model keeps them); the
        rows to learn from `recall` them.

    Examples
    --------
    >>> @add_check()
    ... def find_nothing(seen, known):
    ...     return []
    >>> all_checks()[-1].find is find_nothing
    True
    >>> del _added[f"{find_nothing.__module__}.find_nothing"]
    """

    def enter(find: F) -> F:
        _added[f"{find.__module__}.{find.__qualname__}"] = Check(find, learn, rule)
        return find

    return enter


def all_checks() -> tuple[Check, ...]:
    """Those of tellwhy in their order, and those of other packages."""
    load_entry_points(GROUP)
    return (*CHECKS, *_added.values())


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
    known = seen
    if isinstance(reference, Facts):
        known = reference.like(seen)
        seen = seen.like(known)
    elif reference is not None and len(reference):
        known = facts_of(reference[[c for c in frame.columns if c in reference.columns]], seen.roles).like(
            seen
        )
        seen = seen.like(known)
    findings: list[Finding] = []
    for check in all_checks() if len(frame) else ():
        stage(f"checking the data: {check.find.__name__.removeprefix('find_').replace('_', ' ')}")
        found = _told_once(check.find(seen, known), findings)
        findings += found
        is_same = known is seen
        seen = seen.without(found)
        known = seen if is_same else known
    findings.sort(key=lambda finding: (-finding.surprise, -len(finding.rows)))
    explained = _explained(findings, len(frame))
    return Quality(tuple(findings), _emptied(frame, explained), explained)


def _told_once(found: Sequence[Finding], before: Sequence[Finding]) -> list[Finding]:
    """Findings without cells of which something likelier was told: −3 is below 0, but a flipped sign."""
    cells = [(each, each.columns[0], row) for each in before if each.columns for row in each.rows]
    by_any = {(column, row) for each, column, row in cells if each.surprise > 0}
    by_claim = {(column, row) for each, column, row in cells if each.probabilities}
    kept: list[Finding] = []
    for each in found:
        told = by_any if each.form == FAR else by_claim
        new = [at for at, row in enumerate(each.rows) if (each.columns[0], row) not in told]
        if each.kind not in _OF_ENDS or len(new) == len(each.rows):
            kept.append(each)
        elif new:
            kept.append(each.of_rows(new))
    return [replace(each, surprise=0.0) if _is_habit(each, found) else each for each in kept]


def _is_habit(finding: Finding, found: Sequence[Finding]) -> bool:
    """Whether more than a few columns have the same: zeros among measures, values below 0."""
    what = finding.form or finding.kind
    if what not in _OF_HABITS or (what == PLACEHOLDER.kind and finding.facts["value"] != 0):
        return False
    same = {each.columns[0] for each in found if each.kind == finding.kind and each.form == finding.form}
    return len(same) > _MOST_COLUMNS


def learn_rules(facts: Facts) -> dict[str, Any]:
    """What all checks learn from a table: kept with a model, it need not be learned again."""
    for learn in _learners():
        facts.recall(learn)
    return facts.rules


def are_rules(rules: Mapping[str, Any]) -> bool:
    """Whether rules that were read from a file are such as checks learn."""
    kinds = {learn.__name__: rule for learn, rule in _learners().items()}
    return set(rules) <= set(kinds) and all(
        isinstance(found, list) and all(isinstance(rule, kinds[name]) for rule in found)
        for name, found in rules.items()
    )


def _learners() -> dict[Callable[[Facts], list[Any]], type]:
    """What learns rules, and of which type they are."""
    found = {check.learn: check.rule for check in all_checks() if check.learn and check.rule}
    return found | {learn: rule for claimant in CLAIMANTS for learn, rule in claimant.learned}


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
