"""What is wrong with data, in English: one function for each form of a finding.

Each makes a clause, without a count of rows in front and without a full stop; `tell` puts both. A clause is
given its subject: the name of the column where the finding is told of many rows ('bill is 10 times too
large'), the cell where it is told of one ('bill = 142 is 10 times too large').
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tellwhy.results.result import Finding, Reason
from tellwhy.results.schema import from_plain
from tellwhy.words.english.reasons import explain_reason
from tellwhy.words.numbers import (
    name_usual_time,
    write_cell,
    write_exact,
    write_list,
    write_moments,
    write_number,
    write_plain,
    write_range,
    write_rows,
    write_times,
    write_value,
)

Clause = Callable[[Finding, str], str]
ROWS = "{rows}"
MOST_WRITTEN = 3  # cells that are written in an odd way, told together
MOST_GAPS = 4  # columns that are named together


@dataclass(frozen=True)
class Sentence:
    """How one form of a finding is told.

    Attributes
    ----------
    clause
        What is wrong, in words.
    head
        What stands before it, with a place for the count of rows; "" where the clause counts them itself.
    begins
        "cell" where the clause begins with the cell as it stands, so that nobody has to be told it again;
        "subject" where it begins with what it is told of; else "".
    shows
        Whether the value of the example stands in the clause.
    """

    clause: Clause
    head: str = ROWS
    begins: str = ""
    shows: bool = False


SENTENCES: dict[str, Sentence] = {}


def says(*forms: str, head: str = ROWS, begins: str = "", shows: bool = False) -> Callable[[Clause], Clause]:
    """Register a function as the words for forms of findings."""

    def register(clause: Clause) -> Clause:
        for form in forms:
            SENTENCES[form] = Sentence(clause, head, begins, shows or begins == "cell")
        return clause

    return register


def _name(f: Finding) -> str:
    return f.columns[0]


def _tell_others(f: Finding) -> str:
    return f"other values {write_range(f.usual)}"


def _compare(f: Finding, name: str, words: str, what: str) -> str:
    """What holds in the others, where their number is known: not in findings of several blocks of rows."""
    return f" ({words} {f.usual[name]:,}{what})" if name in f.usual else ""


@says("as_written", head="", shows=True)
def _tell_as_written(f: Finding, _subject: str) -> str:
    """A finding of a run that an earlier version saved as a sentence."""
    return str(f.facts["text"]).removesuffix(".")


# Cells of one column


@says("placeholder", begins="cell")
def _tell_placeholder(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {write_value(f.facts['value'])}, a placeholder ({_tell_others(f)})"


@says("default_day", begins="cell")
def _tell_default_day(f: Finding, _subject: str) -> str:
    most = f"99 in 100 other days have at most {f.usual['most']:.0f}"
    return f"{_name(f)} = {f.facts['value']}, a placeholder ({most})"


@says("placeholder_word", begins="cell")
def _tell_placeholder_word(f: Finding, _subject: str) -> str:
    values = f.usual["values"]
    more = ", …" if f.usual["are_more"] else ""
    others = f"{', '.join(map(repr, values))}{more}"
    return f"{_name(f)} = {f.facts['value']!r}, a placeholder (other values are {others})"


@says("impossible_date", begins="cell")
def _tell_impossible_date(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {f.facts['value']!r}: there is no such date"


@says("unread_word", begins="cell")
def _tell_unread_word(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {f.facts['value']!r}: a word among {f.facts['among']}"


@says("future_date", begins="subject")
def _tell_future_date(f: Finding, subject: str) -> str:
    return f"{subject} lies in the future (the others end on {f.usual['high']})"


@says("sign_flip", begins="subject")
def _tell_sign_flip(f: Finding, subject: str) -> str:
    return f"{subject} is negative but otherwise of a usual size ({_tell_others(f)}): a flipped sign"


@says("swapped")
def _tell_swapped(f: Finding, _subject: str) -> str:
    return f"{_name(f)} and {f.columns[1]} seem to be swapped"


@says("beyond_bound", begins="subject")
def _tell_beyond_bound(f: Finding, subject: str) -> str:
    bound = f"{f.facts['side']} {write_exact(f.facts['bound'])}"
    return f"{subject} is {bound} ({_tell_others(f)})"


@says("not_whole", begins="subject")
def _tell_not_whole(f: Finding, subject: str) -> str:
    others = f"other {f.usual['n']:,}" if "n" in f.usual else "others"
    return f"{subject} is not a whole number, as the {others} are"


@says("slip", begins="subject")
def _tell_slip(f: Finding, subject: str) -> str:
    is_power = f.kind == "decimal_slip"
    what = "a slipped decimal point" if is_power else "another unit"
    about = "" if is_power else "about "
    return f"{subject} is {about}{write_times(f.facts['times'])}{_compare_slip(f)}, {what}?"


def _compare_slip(f: Finding) -> str:
    """What the column usually has, at the level of a label that all these rows share."""
    label = f.facts.get("label")
    if label is None:
        return f" (usually {write_range(f.usual)})"
    if "level" not in f.facts:
        return f" for its {label}"
    return f" for {write_cell(label, f.facts['level'])} (there usually {write_range(f.usual)})"


@says("fahrenheit", begins="subject")
def _tell_fahrenheit(_f: Finding, subject: str) -> str:
    return f"{subject} fits the others if it is read as °F: another unit?"


@says("misplaced", begins="cell")
def _tell_misplaced(f: Finding, _subject: str) -> str:
    home = f"which belongs to {f.facts['home']}{_compare(f, 'n', 'there in', ' rows')}"
    return f"{_name(f)} = {write_value(f.facts['value'])}, {home}"


@says("two_values", begins="subject")
def _tell_two_values(f: Finding, subject: str) -> str:
    return (
        f"{subject} also holds {write_value(f.facts['value'])}, which belongs to the empty {f.facts['home']}"
    )


@says("second_convention")
def _tell_second_convention(f: Finding, _subject: str) -> str:
    usual = f.facts["usual"]
    others = f"with {usual!r}" if usual else "without a unit"
    written = f"with {f.facts['written']!r}" if f.facts["written"] else "without a unit"
    return f"{_name(f)} is written {written}, elsewhere {others}{_compare(f, 'n', 'in', ' rows')}"


@says("damaged_text", begins="subject")
def _tell_damaged_text(_f: Finding, subject: str) -> str:
    return f"{subject} has letters that were read in the wrong encoding"


@says("odd_cell", begins="subject")
def _tell_odd_cell(_f: Finding, subject: str) -> str:
    return f"{subject} is odd: several mistakes could have made it"


@says("far_value", begins="subject")
def _tell_far_value(f: Finding, subject: str) -> str:
    return f"{subject} is far from all the others ({write_range(f.usual)})"


# Cells of several columns


@says("relation")
def _tell_relation(f: Finding, _subject: str) -> str:
    through = "" if f.facts["is_first"] else f", probably because of {_name(f)}"
    return f"{write_equation(f.facts['equation'])} does not hold{through}{_tell_holding(f)}"


@says("relation_sign")
def _tell_relation_sign(f: Finding, _subject: str) -> str:
    return f"{_name(f)} has the wrong sign for {write_equation(f.facts['equation'])}{_tell_holding(f)}"


@says("relation_slip")
def _tell_relation_slip(f: Finding, _subject: str) -> str:
    factor = f.facts["times"]
    size = f"{round(max(factor, 1 / factor)):,} times too {'large' if factor > 1 else 'small'}"
    return f"{_name(f)} is {size} for {write_equation(f.facts['equation'])}{_tell_holding(f)}"


def _tell_holding(f: Finding) -> str:
    return _compare(f, "n", "it holds in the other", " rows")


def write_equation(equation: dict[str, Any]) -> str:
    """An equation as people write it.

    Examples
    --------
    >>> known = {"pattern": "{0} = {1} × {2}", "columns": ["total", "price", "pieces"], "before": []}
    >>> write_equation({**known, "factor": 1.19, "offset": -5.0})
    'total = 1.19 × price × pieces − 5'
    """
    names = [
        f"{name} of the row before" if at in equation["before"] else name
        for at, name in enumerate(equation["columns"])
    ]
    left, right = equation["pattern"].format(*names).split(" = ", maxsplit=1)
    if abs(equation["factor"] - 1) > 1e-5:
        many = "+" in right or "−" in right
        right = f"{_write_constant(equation['factor'])} × {f'({right})' if many else right}"
    if equation["offset"]:
        sign = "+" if equation["offset"] > 0 else "−"
        right = f"{right} {sign} {_write_constant(abs(equation['offset']))}"
    return f"{left} = {right}"


def _write_constant(value: float) -> str:
    return write_exact(float(f"{value:.4g}"))


@says("order")
def _tell_order(f: Finding, _subject: str) -> str:
    low = f.facts["low"]
    high = f.facts["high"]
    word = "before" if f.facts["is_date"] else "below"
    return f"{high} is {word} {low}{_compare(f, 'n', f'{low} ≤ {high} in the other', ' rows')}"


@says("dependency")
def _tell_dependency(f: Finding, _subject: str) -> str:
    return f"{f.facts['target']} does not match {f.facts['source']}{_tell_expected(f)}"


@says("missing_cell")
def _tell_missing_cell(f: Finding, _subject: str) -> str:
    return f"{_name(f)} is empty where {f.facts['source']} tells it{_tell_expected(f)}"


@says("report")
def _tell_report(f: Finding, _subject: str) -> str:
    n = f"{f.usual['n']:,} of {f.usual['n_reports']:,} reports say so" if "n" in f.usual else ""
    return f"{_name(f)} is not what more reliable sources say{_tell_expected(f, n)}"


def _tell_expected(f: Finding, others: str = "") -> str:
    """What was expected of the first row, or of the only one, and why."""
    if "level" not in f.usual:
        return ""
    example = "for example, " if f.n_rows > 1 and len(f.own) != 1 else ""
    if not others and "n" in f.usual:
        others = write_rows_have(f.usual["n"])
    level = f"{f.facts['source']} = {write_value(f.usual['level'])}"
    expected = f"{f.facts['target']} = {write_value(f.usual['expected'])}"
    return f" ({example}{level} goes with {expected}{f': {others}' if others else ''})"


def write_rows_have(n: int) -> str:
    """'49 rows have it'."""
    return f"{write_rows(n)} {'has' if n == 1 else 'have'} it"


@says("filled_cell")
def _tell_filled_cell(f: Finding, _subject: str) -> str:
    label = f"{f.columns[1]} = {f.facts['level']}"
    return f"{_name(f)} is filled although {label}{_compare(f, 'n', 'it is empty in the other', ' rows')}"


@says("rare_pair", begins="cell")
def _tell_rare_pair(f: Finding, _subject: str) -> str:
    pair = " with ".join(
        f"{name} = {write_value(level)}" for name, level in zip(f.columns, f.facts["levels"], strict=True)
    )
    n_first, n_second = f.usual["counts"]
    return f"{pair} ({n_first:,} and {n_second:,} rows; together {f.usual['expected']:,.0f} expected)"


# Labels


@says("new_level", begins="cell")
def _tell_new_level(f: Finding, _subject: str) -> str:
    n = f.facts.get("n", 1)
    levels = "a level" if n == 1 else f"one of {n} levels"
    return f"{_name(f)} = {f.facts['level']!r}, {levels} that the reference lacks"


@says("new_levels")
def _tell_new_levels(f: Finding, _subject: str) -> str:
    n = f.facts["n"]
    levels = f"{n} level{'' if n == 1 else 's'}"
    return (
        f"{_name(f)} has {levels} that the reference lacks, such as {f.facts['level']!r} (it has many rare "
        "levels)"
    )


@says("vanished_level", shows=True)
def _tell_vanished_level(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {f.facts['level']!r} is gone ({f.usual['n']:,} rows of the reference have it)"


@says("rare_level", begins="cell")
def _tell_rare_level(f: Finding, _subject: str) -> str:
    others = f"each of the other {f.usual['n_levels']} has at least {f.usual['least']:,} rows"
    return f"{_name(f)} = {f.facts['level']!r}, a rare level ({others})"


@says("off_scale", begins="cell")
def _tell_off_scale(f: Finding, _subject: str) -> str:
    others = f"{f.usual['low']:g} to {f.usual['high']:g}"
    return f"{_name(f)} = {write_list(f.facts['values'])}, off the scale of the others ({others})"


@says("odd_pattern", begins="cell")
def _tell_odd_pattern(f: Finding, _subject: str) -> str:
    if "value" in f.facts:  # of a run that an earlier version saved
        return (
            f"{_name(f)} = {f.facts['value']!r} is not written like the others (such as {f.usual['value']!r})"
        )
    others = f" (such as {f.usual['like']!r})" if "like" in f.usual else ""
    written = list(dict.fromkeys(repr(each["value"]) for each in f.own))
    more = ", …" if len(written) > MOST_WRITTEN else ""
    cells = f"{_name(f)} = {', '.join(written[:MOST_WRITTEN])}{more}" if written else _name(f)
    return f"{cells} {'is' if len(written) < 2 else 'are'} not written like the others{others}"


@says("misspelling", begins="cell")
def _tell_misspelling(f: Finding, _subject: str) -> str:
    n = f" ({f.usual['n']:,} rows)" if "n" in f.usual else ""
    return f"{_name(f)} = {f.facts['level']!r}, a misspelling of {f.facts['meant']!r}{n}"


@says("rare_in_segment", begins="cell")
def _tell_rare_in_segment(f: Finding, _subject: str) -> str:
    where = f"{_name(f)} = {f.facts['level']} where {f.facts['segment']}"
    there = f"{f.usual['n_there']:,} of {f.usual['n_segment']:,} rows there"
    return f"{where} ({there}, {f.usual['share']:.0%} of all rows)"


# Rows


@says("gap", begins="cell")
def _tell_gap(f: Finding, _subject: str) -> str:
    if len(f.columns) == 1:
        return f"{_name(f)} is missing (it is filled in all others)"
    more = len(f.columns) - MOST_GAPS
    names = [*f.columns[:MOST_GAPS], *([f"{more} more columns"] if more > 0 else [])]
    return f"{', '.join(names[:-1])} and {names[-1]} are missing (they are filled in all others)"


@says("empty_row", head="{rows} almost empty")
def _tell_empty_row(f: Finding, _subject: str) -> str:
    missing = f"at least {f.facts['least']} of {f.facts['n_columns']} cells are missing"
    return f"{missing} (at most {f.usual['most']} in the others)"


@says("duplicate", head="")
def _tell_duplicate(f: Finding, _subject: str) -> str:
    verb = "repeats" if f.n_rows == 1 else "repeat"
    return f"{write_rows(f.n_rows)} {verb} another row {_count_columns(f)}"


@says("burst", head="")
def _tell_burst(f: Finding, _subject: str) -> str:
    return f"{write_rows(f.n_rows)} are equal {_count_columns(f)}"


def _count_columns(f: Finding) -> str:
    return f"in all {f.facts['n_columns']} columns that tell rows apart"


@says("repeated_elsewhere", head="")
def _tell_repeated_elsewhere(f: Finding, _subject: str) -> str:
    again = _name_row(f.facts["row"])
    first = _name_row(f.facts["first"])
    verb = "repeats" if f.n_rows == 1 else "repeat"
    rows = f"{write_rows(f.n_rows)} {verb} a row of another block {_count_columns(f)}"
    return f"{rows}; the first is {again}, which repeats {first}"


def _name_row(place: dict[str, Any]) -> str:
    return f"row {place['row']:,} of {place['file']}"


@says("repeated_identifier", begins="subject")
def _tell_repeated_identifier(_f: Finding, subject: str) -> str:
    return f"{subject} is the same as in another row (it differs in all other rows)"


@says("one_moment", head="{rows} at one moment", begins="cell")
def _tell_one_moment(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {f.facts['value']} (other moments have at most {f.usual['most']} rows)"


@says("stuck", begins="cell")
def _tell_stuck(f: Finding, _subject: str) -> str:
    value = write_value(f.facts["value"])
    return f"{_name(f)} is stuck at {value} (elsewhere it changes from row to row)"


@says("odd_rows", shows=True)
def _tell_odd_rows(f: Finding, _subject: str) -> str:
    """Alarms with one cause: the cells that they have in common, and one of them."""
    example = explain_reason(from_plain(Reason, f.facts["example"]))
    if f.facts.get("is_one_value", True):
        return example
    ends = f.facts["ends"]
    low = write_plain(ends[0])
    high = write_plain(ends[-1])
    cell = f"{_name(f)} = {low}" if low == high else f"{_name(f)} from {low} to {high}"
    others = "".join(f" with {name}" for name in f.columns[1:])
    return f"{cell}{others}, for example {example}"


# Rows in the order of time


@says("stuck_reading", begins="cell")
def _tell_stuck_reading(f: Finding, _subject: str) -> str:
    return f"{_tell_when(f)}: {_name(f)} is stuck at {write_number(f.facts['value'])}"


@says("spike", "passing_shift")
def _tell_spike(f: Finding, _subject: str) -> str:
    size = f.facts["size"]
    side = "above" if size > 0 else "below"
    beside = "the readings around it"
    if f.facts["season"]:
        beside = f"what is usual for {name_usual_time(f.facts['moment'], f.facts['season'])}"
    return f"{_tell_when(f)}: {_name(f)} is {write_number(abs(size))} {side} {beside}"


@says("level_shift", head="")
def _tell_level_shift(f: Finding, _subject: str) -> str:
    size = f.facts["size"]
    more = "higher" if size > 0 else "lower"
    change = f"{write_number(abs(size))} {more} than before ({write_rows(f.usual['n'])})"
    return f"{f.facts['first']}: from here on {_name(f)} is {change}"


@says("drift", head="")
def _tell_drift(f: Finding, _subject: str) -> str:
    size = f.facts["size"]
    verb = "rises" if size > 0 else "falls"
    amount = write_number(abs(size))
    return f"{_name(f)} slowly {verb} by {amount} from {f.facts['first']} to {f.facts['last']}"


def _tell_when(f: Finding) -> str:
    """When readings were taken: moments, or what the rows are called where time is a plain number."""
    first = f.facts["first"]
    last = f.facts["last"]
    if f.facts["is_clock"]:
        return write_moments(first, last)
    return f"at {first}" if first == last else f"from {first} to {last}"
