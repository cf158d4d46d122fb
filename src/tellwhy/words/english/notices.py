"""What else is to be said, in English: doubts about a row, marks, what moved between two tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tellwhy.results.notice import Notice
from tellwhy.words.numbers import write_number, write_percent, write_rows

Saying = Callable[[Notice], str]
NOTICES: dict[str, Saying] = {}


def notes(kind: str) -> Callable[[Saying], Saying]:
    """Register a function as the words for a kind of notices."""

    def register(saying: Saying) -> Saying:
        NOTICES[kind] = saying
        return saying

    return register


UNCERTAIN = {"odd_together": "not verified: ", "not_enough": "not verified: "}


@notes("odd_together")
def _note_odd_together(_n: Notice) -> str:
    return "only the combination of several columns is odd"


@notes("odd_in_many")
def _note_odd_in_many(n: Notice) -> str:
    columns = f"odd in more than {n.facts['most']} columns at once"
    return f"{columns}: usual values in {n.facts['n']} of them would make the row ordinary"


@notes("not_enough")
def _note_not_enough(_n: Notice) -> str:
    return "usual values in the named columns would not make the row ordinary"


@notes("not_explained")
def _note_not_explained(_n: Notice) -> str:
    return "not explained: the time for this block had run out"


@notes("marked")
def _note_marked(_n: Notice) -> str:
    return "known to be harmless"


@notes("held_back")
def _note_held_back(n: Notice) -> str:
    marks = n.facts["marks"]
    rows = n.facts["n"]
    listed = ", ".join(f"{why} ({k:,})" for why, k in marks[:5])
    more = f" and {len(marks) - 5} more" if len(marks) > 5 else ""
    were = "1 row was" if rows == 1 else f"{rows:,} rows were"
    return f"{were} held back by {len(marks)} mark{'s' if len(marks) != 1 else ''}: {listed}{more}."


# What else a table could be asked


@notes("advise_time")
def _note_advise_time(n: Notice) -> str:
    name = n.facts["column"]
    return (
        f"In the order of {name}, {n.facts['other']} changes little from row to row: --time {name} looks for "
        "spikes, shifts and stuck readings."
    )


@notes("advise_by")
def _note_advise_by(n: Notice) -> str:
    name = n.facts["column"]
    return f"{n.facts['other']} differs by {name}: --by {name} compares rows with those of the same {name}."


# What moved between two tables


@notes("missing_share")
def _note_missing_share(n: Notice) -> str:
    return f"missing: {_compare_shares(n)}"


@notes("median_moved")
def _note_median_moved(n: Notice) -> str:
    return f"median {_compare_values(n)}"


@notes("range_moved")
def _note_range_moved(n: Notice) -> str:
    ends = f"{_write_ends(n.facts['ends_before'])} → {_write_ends(n.facts['ends_after'])}"
    return f"9 rows in 10 lie in {ends} (median {_compare_values(n)})"


@notes("share_moved")
def _note_share_moved(n: Notice) -> str:
    return f"rows up to {write_number(n.facts['up_to'])}: {_compare_shares(n)}"


@notes("levels_moved")
def _note_levels_moved(n: Notice) -> str:
    shares = [
        f"{level} in {write_percent(before)} → {write_percent(after)}"
        for level, before, after in n.facts["shares"]
        if write_percent(before) != write_percent(after)
    ]
    told = f"{', '.join(shares)} of the rows" if shares else ""
    return "; ".join(
        filter(None, [_list_levels("new", n.facts["new"]), _list_levels("gone", n.facts["gone"]), told])
    )


def _list_levels(word: str, largest: dict[str, Any]) -> str:
    if not largest["levels"]:
        return ""
    more = f" and {largest['n_more']} more" if largest["n_more"] else ""
    return f"{word}: " + ", ".join(f"{level} ({k:,})" for level, k in largest["levels"].items()) + more


def _compare_shares(n: Notice) -> str:
    return f"{write_percent(n.facts['before'])} → {write_percent(n.facts['after'])}"


def _write_ends(ends: list[float]) -> str:
    return f"{write_number(ends[0])}–{write_number(ends[1])}"


def _compare_values(n: Notice) -> str:
    """'40 → 50 (+25 %)', or two dates."""
    before = n.facts["before"]
    after = n.facts["after"]
    if isinstance(before, str):
        return f"{before} → {after}"
    told = f"{write_number(before)} → {write_number(after)}"
    if before > 0 and after > 0 and before != after:
        told = f"{told} ({100 * (after / before - 1):+.3g} %)"
    return told


@notes("as_written")
def _note_as_written(n: Notice) -> str:
    """A sentence that an earlier version saved."""
    return str(n.facts["text"])


@notes("columns_drifted")
def _note_columns_drifted(n: Notice) -> str:
    f = n.facts
    columns = f"{f['n']:,} columns" if f["n"] != 1 else "column"
    told = f"{f['n_drifted']:,} of {columns}" if f["n_drifted"] else "No column"
    tables = [f"{f[name]} ({write_rows(k)})" for name, k in zip(("old", "new"), f["n_rows"], strict=True)]
    return f"{told} drifted from {tables[0]} to {tables[1]}."


# Which method to trust


@notes("fewer_coalitions")
def _note_fewer_coalitions(n: Notice) -> str:
    methods = " and ".join(n.facts["methods"])
    return f"{methods} ask {n.facts['n']} coalitions a row here, fewer than by themselves."


@notes("none_measured")
def _note_none_measured(_n: Notice) -> str:
    return "No method could be measured on this data."


@notes("trust_none")
def _note_trust_none(_n: Notice) -> str:
    return "No method finds the changed columns better than a random order: trust none of them on this data."


@notes("trust_best")
def _note_trust_best(n: Notice) -> str:
    f = n.facts
    best = f"{f['method']} finds the changed column best (mean reciprocal rank {f['mrr']:.2f})"
    return f"{best}; {', '.join(f['others'])} may be just as good." if f["others"] else f"{best}."
