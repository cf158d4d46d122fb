"""What was found, in English: one function for each form of a finding, a reason and a notice.

Of a finding it makes a clause, without a count of rows in front and without a full stop; `tell` puts both. A
clause is given its subject: the name of the column where the finding is told of many rows ('bill is 10 times
too large'), the cell where it is told of one ('bill = 142 is 10 times too large').
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tellwhy.results.records import reason_of
from tellwhy.results.result import Finding, Headline, Notice, Reason
from tellwhy.words.numbers import (
    cell_words,
    exact_number,
    listed,
    moments_words,
    number_text,
    percent,
    plain_words,
    range_words,
    rows_words,
    times_words,
    usual_time,
    value_words,
)

Clause = Callable[[Finding, str], str]
ROWS = "{rows}"
MOST_NAMED = 3  # columns that a reason names


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


def _others(f: Finding) -> str:
    return f"other values {range_words(f.usual)}"


def _beside(f: Finding, name: str, words: str, what: str) -> str:
    """What holds in the others, where their number is known: not in findings of several blocks of rows."""
    return f" ({words} {f.usual[name]:,}{what})" if name in f.usual else ""


@says("as_written", head="", shows=True)
def _(f: Finding, _subject: str) -> str:
    """A finding of a run that an earlier version saved as a sentence."""
    return str(f.facts["text"]).removesuffix(".")


# Cells of one column


@says("placeholder", begins="cell")
def _(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {value_words(f.facts['value'])}, a placeholder ({_others(f)})"


@says("default_day", begins="cell")
def _(f: Finding, _subject: str) -> str:
    most = f"99 in 100 other days have at most {f.usual['most']:.0f}"
    return f"{_name(f)} = {f.facts['value']}, a placeholder ({most})"


@says("placeholder_word", begins="cell")
def _(f: Finding, _subject: str) -> str:
    values = f.usual["values"]
    more = ", …" if f.usual["are_more"] else ""
    others = f"{', '.join(map(repr, values))}{more}"
    return f"{_name(f)} = {f.facts['value']!r}, a placeholder (other values are {others})"


@says("impossible_date", begins="cell")
def _(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {f.facts['value']!r}: there is no such date"


@says("unread_word", begins="cell")
def _(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {f.facts['value']!r}: a word among {f.facts['among']}"


@says("future_date", begins="subject")
def _(f: Finding, subject: str) -> str:
    return f"{subject} lies in the future (the others end on {f.usual['high']})"


@says("sign_flip", begins="subject")
def _(f: Finding, subject: str) -> str:
    return f"{subject} is negative but otherwise of a usual size ({_others(f)}): a flipped sign"


@says("beyond_bound", begins="subject")
def _(f: Finding, subject: str) -> str:
    bound = f"{f.facts['side']} {exact_number(f.facts['bound'])}"
    return f"{subject} is {bound} ({_others(f)})"


@says("not_whole", begins="subject")
def _(f: Finding, subject: str) -> str:
    others = f"other {f.usual['n']:,}" if "n" in f.usual else "others"
    return f"{subject} is not a whole number, as the {others} are"


@says("slip", begins="subject")
def _(f: Finding, subject: str) -> str:
    is_power = f.kind == "decimal_slip"
    what = "a slipped decimal point" if is_power else "another unit"
    about = "" if is_power else "about "
    return f"{subject} is {about}{times_words(f.facts['times'])}{_slip_beside(f)}, {what}?"


def _slip_beside(f: Finding) -> str:
    """What the column usually has, at the level of a label that all these rows share."""
    label = f.facts.get("label")
    if label is None:
        return f" (usually {range_words(f.usual)})"
    if "level" not in f.facts:
        return f" for its {label}"
    return f" for {cell_words(label, f.facts['level'])} (there usually {range_words(f.usual)})"


@says("fahrenheit", begins="subject")
def _(_f: Finding, subject: str) -> str:
    return f"{subject} fits the others if it is read as °F: another unit?"


# Cells of several columns


@says("relation")
def _(f: Finding, _subject: str) -> str:
    through = "" if f.facts["is_first"] else f", probably because of {_name(f)}"
    return f"{equation_words(f.facts['equation'])} does not hold{through}{_holding(f)}"


@says("relation_sign")
def _(f: Finding, _subject: str) -> str:
    return f"{_name(f)} has the wrong sign for {equation_words(f.facts['equation'])}{_holding(f)}"


@says("relation_slip")
def _(f: Finding, _subject: str) -> str:
    factor = f.facts["times"]
    size = f"{round(max(factor, 1 / factor)):,} times too {'large' if factor > 1 else 'small'}"
    return f"{_name(f)} is {size} for {equation_words(f.facts['equation'])}{_holding(f)}"


def _holding(f: Finding) -> str:
    return _beside(f, "n", "it holds in the other", " rows")


def equation_words(equation: dict[str, Any]) -> str:
    """An equation as people write it.

    Examples
    --------
    >>> known = {"pattern": "{0} = {1} × {2}", "columns": ["total", "price", "pieces"], "before": []}
    >>> equation_words({**known, "factor": 1.19, "offset": -5.0})
    'total = 1.19 × price × pieces − 5'
    """
    names = [
        f"{name} of the row before" if at in equation["before"] else name
        for at, name in enumerate(equation["columns"])
    ]
    left, right = equation["pattern"].format(*names).split(" = ", maxsplit=1)
    if abs(equation["factor"] - 1) > 1e-5:
        many = "+" in right or "−" in right
        right = f"{_constant(equation['factor'])} × {f'({right})' if many else right}"
    if equation["offset"]:
        sign = "+" if equation["offset"] > 0 else "−"
        right = f"{right} {sign} {_constant(abs(equation['offset']))}"
    return f"{left} = {right}"


def _constant(value: float) -> str:
    return exact_number(float(f"{value:.4g}"))


@says("order")
def _(f: Finding, _subject: str) -> str:
    low = f.facts["low"]
    high = f.facts["high"]
    word = "before" if f.facts["is_date"] else "below"
    return f"{high} is {word} {low}{_beside(f, 'n', f'{low} ≤ {high} in the other', ' rows')}"


@says("dependency")
def _(f: Finding, _subject: str) -> str:
    source = f.facts["source"]
    target = f.facts["target"]
    example = "for example, " if f.usual["are_several"] else ""
    others = f"in {f.usual['n']:,} other rows" if "n" in f.usual else "elsewhere"
    level = f"{source} = {value_words(f.usual['level'])}"
    usual = f"{level} has {target} = {value_words(f.usual['expected'])} {others}"
    return f"{target} does not match {source} as it does elsewhere ({example}{usual})"


@says("filled_cell")
def _(f: Finding, _subject: str) -> str:
    label = f"{f.columns[1]} = {f.facts['level']}"
    return f"{_name(f)} is filled although {label}{_beside(f, 'n', 'it is empty in the other', ' rows')}"


@says("rare_pair", begins="cell")
def _(f: Finding, _subject: str) -> str:
    pair = " with ".join(
        f"{name} = {value_words(level)}" for name, level in zip(f.columns, f.facts["levels"], strict=True)
    )
    n_first, n_second = f.usual["counts"]
    return f"{pair} ({n_first:,} and {n_second:,} rows; together {f.usual['expected']:,.0f} expected)"


# Labels


@says("new_level", begins="cell")
def _(f: Finding, _subject: str) -> str:
    n = f.facts.get("n", 1)
    levels = "a level" if n == 1 else f"one of {n} levels"
    return f"{_name(f)} = {f.facts['level']!r}, {levels} that the reference lacks"


@says("new_levels")
def _(f: Finding, _subject: str) -> str:
    n = f.facts["n"]
    levels = f"{n} level{'' if n == 1 else 's'}"
    return (
        f"{_name(f)} has {levels} that the reference lacks, such as {f.facts['level']!r} (it has many rare "
        "levels)"
    )


@says("vanished_level", shows=True)
def _(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {f.facts['level']!r} is gone ({f.usual['n']:,} rows of the reference have it)"


@says("rare_level", begins="cell")
def _(f: Finding, _subject: str) -> str:
    others = f"each of the other {f.usual['n_levels']} has at least {f.usual['least']:,} rows"
    return f"{_name(f)} = {f.facts['level']!r}, a rare level ({others})"


@says("off_scale", begins="cell")
def _(f: Finding, _subject: str) -> str:
    others = f"{f.usual['low']:g} to {f.usual['high']:g}"
    return f"{_name(f)} = {listed(f.facts['values'])}, off the scale of the others ({others})"


@says("odd_pattern", begins="cell")
def _(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {f.facts['value']!r} is not written like the others (such as {f.usual['value']!r})"


@says("misspelling", begins="cell")
def _(f: Finding, _subject: str) -> str:
    n = f" ({f.usual['n']:,} rows)" if "n" in f.usual else ""
    return f"{_name(f)} = {f.facts['level']!r}, a misspelling of {f.facts['meant']!r}{n}"


@says("rare_in_segment", begins="cell")
def _(f: Finding, _subject: str) -> str:
    where = f"{_name(f)} = {f.facts['level']} where {f.facts['segment']}"
    there = f"{f.usual['n_there']:,} of {f.usual['n_segment']:,} rows there"
    return f"{where} ({there}, {f.usual['share']:.0%} of all rows)"


# Rows


@says("gap", begins="cell")
def _(f: Finding, _subject: str) -> str:
    return f"{_name(f)} is missing (it is filled in all others)"


@says("empty_row", head="{rows} almost empty")
def _(f: Finding, _subject: str) -> str:
    missing = f"at least {f.facts['least']} of {f.facts['n_columns']} cells are missing"
    return f"{missing} (at most {f.usual['most']} in the others)"


@says("duplicate", head="")
def _(f: Finding, _subject: str) -> str:
    verb = "repeats" if f.n_rows == 1 else "repeat"
    return f"{rows_words(f.n_rows)} {verb} another row {_in_all(f)}"


@says("burst", head="")
def _(f: Finding, _subject: str) -> str:
    return f"{rows_words(f.n_rows)} are equal {_in_all(f)}"


def _in_all(f: Finding) -> str:
    return f"in all {f.facts['n_columns']} columns that tell rows apart"


@says("repeated_elsewhere", head="")
def _(f: Finding, _subject: str) -> str:
    again = _row_of_file(f.facts["row"])
    first = _row_of_file(f.facts["first"])
    verb = "repeats" if f.n_rows == 1 else "repeat"
    rows = f"{rows_words(f.n_rows)} {verb} a row of another block {_in_all(f)}"
    return f"{rows}; the first is {again}, which repeats {first}"


def _row_of_file(place: dict[str, Any]) -> str:
    return f"row {place['row']:,} of {place['file']}"


@says("repeated_identifier", begins="subject")
def _(_f: Finding, subject: str) -> str:
    return f"{subject} is the same as in another row (it differs in all other rows)"


@says("one_moment", head="{rows} at one moment", begins="cell")
def _(f: Finding, _subject: str) -> str:
    return f"{_name(f)} = {f.facts['value']} (other moments have at most {f.usual['most']} rows)"


@says("stuck", begins="cell")
def _(f: Finding, _subject: str) -> str:
    value = value_words(f.facts["value"])
    return f"{_name(f)} is stuck at {value} (elsewhere it changes from row to row)"


@says("odd_rows", shows=True)
def _(f: Finding, _subject: str) -> str:
    """Alarms with one cause: the cells that they have in common, and one of them."""
    example = phrase_of(reason_of(f.facts["example"]))
    if f.facts.get("is_one_value", True):
        return example
    ends = f.facts["ends"]
    low = plain_words(ends[0])
    high = plain_words(ends[-1])
    cell = f"{_name(f)} = {low}" if low == high else f"{_name(f)} from {low} to {high}"
    others = "".join(f" with {name}" for name in f.columns[1:])
    return f"{cell}{others}, for example {example}"


# Rows in the order of time


@says("stuck_reading", begins="cell")
def _(f: Finding, _subject: str) -> str:
    return f"{_when(f)}: {_name(f)} is stuck at {number_text(f.facts['value'])}"


@says("spike", "passing_shift")
def _(f: Finding, _subject: str) -> str:
    size = f.facts["size"]
    side = "above" if size > 0 else "below"
    beside = "the readings around it"
    if f.facts["season"]:
        beside = f"what is usual for {usual_time(f.facts['moment'], f.facts['season'])}"
    return f"{_when(f)}: {_name(f)} is {number_text(abs(size))} {side} {beside}"


@says("level_shift", head="")
def _(f: Finding, _subject: str) -> str:
    size = f.facts["size"]
    more = "higher" if size > 0 else "lower"
    change = f"{number_text(abs(size))} {more} than before ({rows_words(f.usual['n'])})"
    return f"{f.facts['first']}: from here on {_name(f)} is {change}"


@says("drift", head="")
def _(f: Finding, _subject: str) -> str:
    size = f.facts["size"]
    verb = "rises" if size > 0 else "falls"
    amount = number_text(abs(size))
    return f"{_name(f)} slowly {verb} by {amount} from {f.facts['first']} to {f.facts['last']}"


def _when(f: Finding) -> str:
    """When readings were taken: moments, or what the rows are called where time is a plain number."""
    first = f.facts["first"]
    last = f.facts["last"]
    if f.facts["is_clock"]:
        return moments_words(first, last)
    return f"at {first}" if first == last else f"from {first} to {last}"


# Reasons: a cell of one row, beside what is usual


def phrase_of(reason: Reason) -> str:
    """Return a reason without its share; what is wrong with it as data is told by `tell`."""
    return REASONS[reason.kind](reason)


Phrase = Callable[[Reason], str]
REASONS: dict[str, Phrase] = {}


def explains(kind: str) -> Callable[[Phrase], Phrase]:
    """Register a function as the words for a kind of reasons."""

    def register(phrase: Phrase) -> Phrase:
        REASONS[kind] = phrase
        return phrase

    return register


@explains("value")
def _(r: Reason) -> str:
    times = r.facts.get("times")
    slip = f"; {times_words(times)}, a slipped decimal point?" if times else ""
    return f"{r.feature} = {plain_words(r.value)} ({_usual(r)}{slip})"


def _usual(r: Reason) -> str:
    """'usually 0.9–4.1', 'usually yes or no where role = intern'."""
    where = f" where {r.facts['where']}" if r.facts.get("where") else ""
    if not r.typical:
        return f"never seen{where}"
    if r.facts.get("is_varied"):
        return f"many different values{where}"
    in_class = " in its class" if r.facts.get("in_class") else ""
    return f"usually {_usual_values(r)}{in_class}{where}"


def _usual_values(r: Reason) -> str:
    if r.facts.get("column") == "date":
        return f"{r.typical[0]} to {r.typical[1]}"
    if r.facts.get("column") == "number":
        low = number_text(float(r.typical[0]))
        high = number_text(float(r.typical[1]))
        return low if low == high else f"{low}–{high}"
    return " or ".join(str(value) for value in r.typical[:2])


@explains("pair")
def _(r: Reason) -> str:
    other = r.facts["other"]
    beside = f"{other} = {plain_words(r.facts['other_value'])}"
    if r.facts.get("is_text"):  # how odd a text is in a number, which means nothing to anybody
        beside = f"a {other} as odd as this one"
    both = f"{r.feature} = {plain_words(r.value)} with {beside}"
    if "n_together" in r.facts:
        return f"{both}: {r.facts['n_together']:,} of {r.facts['n']:,} rows"
    if "low" not in r.facts:
        return both
    low = number_text(r.facts["low"])
    high = number_text(r.facts["high"])
    return f"{both} (there usually {low if low == high else f'{low}–{high}'})"


@explains("words")
def _(r: Reason) -> str:
    if r.facts["is_empty"]:
        return f"{r.feature}: no text"
    words = [f"“{word}”" if is_there else f"lacks “{word}”" for word, is_there in r.facts["words"]]
    return f"{r.feature}: {', '.join(words) or 'the combination of its words'}"


@explains("as_written")
def _(r: Reason) -> str:
    """A reason of a run that an earlier version saved as a sentence."""
    return str(r.facts["text"])


# Notices: what is not sure about a row, and what else is to be said

Saying = Callable[[Notice], str]
NOTICES: dict[str, Saying] = {}


def notes(kind: str) -> Callable[[Saying], Saying]:
    """Register a function as the words for a kind of notices."""

    def register(saying: Saying) -> Saying:
        NOTICES[kind] = saying
        return saying

    return register


UNCERTAIN = {"odd_together": "reason uncertain: ", "not_enough": "reason uncertain: "}


@notes("odd_together")
def _(_n: Notice) -> str:
    return "only the combination of several columns is odd"


@notes("odd_in_many")
def _(n: Notice) -> str:
    columns = f"odd in more than {n.facts['most']} columns at once"
    return f"{columns}: usual values in {n.facts['n']} of them would make the row ordinary"


@notes("not_enough")
def _(_n: Notice) -> str:
    return "usual values in the named columns would not make the row ordinary"


@notes("not_explained")
def _(_n: Notice) -> str:
    return "not explained: the time for this block had run out"


@notes("marked")
def _(_n: Notice) -> str:
    return "known to be harmless"


@notes("held_back")
def _(n: Notice) -> str:
    marks = n.facts["marks"]
    rows = n.facts["n"]
    listed = ", ".join(f"{why} ({k:,})" for why, k in marks[:5])
    more = f" and {len(marks) - 5} more" if len(marks) > 5 else ""
    were = "1 row was" if rows == 1 else f"{rows:,} rows were"
    return f"{were} held back by {len(marks)} mark{'s' if len(marks) != 1 else ''}: {listed}{more}."


# What moved between two tables


@notes("missing_share")
def _(n: Notice) -> str:
    return f"missing: {_percents(n)}"


@notes("median_moved")
def _(n: Notice) -> str:
    return f"median {_moved(n)}"


@notes("range_moved")
def _(n: Notice) -> str:
    ends = f"{_ends(n.facts['ends_before'])} → {_ends(n.facts['ends_after'])}"
    return f"9 rows in 10 lie in {ends} (median {_moved(n)})"


@notes("share_moved")
def _(n: Notice) -> str:
    return f"rows up to {number_text(n.facts['up_to'])}: {_percents(n)}"


@notes("levels_moved")
def _(n: Notice) -> str:
    shares = [
        f"{level} in {percent(before)} → {percent(after)}"
        for level, before, after in n.facts["shares"]
        if percent(before) != percent(after)
    ]
    told = f"{', '.join(shares)} of the rows" if shares else ""
    return "; ".join(filter(None, [_levels("new", n.facts["new"]), _levels("gone", n.facts["gone"]), told]))


def _levels(word: str, largest: dict[str, Any]) -> str:
    if not largest["levels"]:
        return ""
    more = f" and {largest['n_more']} more" if largest["n_more"] else ""
    return f"{word}: " + ", ".join(f"{level} ({k:,})" for level, k in largest["levels"].items()) + more


def _percents(n: Notice) -> str:
    return f"{percent(n.facts['before'])} → {percent(n.facts['after'])}"


def _ends(ends: list[float]) -> str:
    return f"{number_text(ends[0])}–{number_text(ends[1])}"


def _moved(n: Notice) -> str:
    """'40 → 50 (+25 %)', or two dates."""
    before = n.facts["before"]
    after = n.facts["after"]
    if isinstance(before, str):
        return f"{before} → {after}"
    told = f"{number_text(before)} → {number_text(after)}"
    if before > 0 and after > 0 and before != after:
        told = f"{told} ({100 * (after / before - 1):+.3g} %)"
    return told


@notes("as_written")
def _(n: Notice) -> str:
    """A sentence that an earlier version saved."""
    return str(n.facts["text"])


# The headline: how many alarms, the foremost of them, and whether the reasons hold


def no_alarm(h: Headline) -> str:
    """Say that nothing stands out.

    Examples
    --------
    >>> from tellwhy.results.result import AlarmRule
    >>> no_alarm(Headline(500, AlarmRule("at most 10 % false alarms expected", 0, 0.0)))
    'None of the 500 rows stands out: no alarm with at most 10 % false alarms expected.'
    """
    return f"None of the {h.n_rows:,} rows stands out: no alarm with {h.alarms.rule}."


def how_many(h: Headline) -> str:
    """Count alarms.

    Examples
    --------
    >>> from tellwhy.results.result import AlarmRule
    >>> how_many(Headline(800, AlarmRule("the highest score", 1, 0.1)))
    '1 of 800 rows is an alarm (the highest score); fewer than one would be expected by chance alone.'
    >>> how_many(Headline(800, AlarmRule("the highest 5 % of scores", 40, 3.1)))
    '40 of 800 rows are alarms (the highest 5 % of scores); about 3 would be expected by chance alone.'
    """
    alarms = h.alarms
    is_one = alarms.n_flagged == 1
    verb = "is an alarm" if is_one else "are alarms"
    expected = alarms.expected_false
    chance = "fewer than one" if expected < 1 else f"about {expected:,.0f}"
    return (
        f"{alarms.n_flagged:,} of {h.n_rows:,} rows {verb} ({alarms.rule}); {chance} would be expected by "
        "chance alone."
    )


def foremost(h: Headline, why: str) -> str:
    """Name the oddest alarm, and why it is one."""
    told = why or "no column stands out"
    return f"The oddest is {h.foremost}: {told}{'' if told.endswith('?') else '.'}"


def how_sure(h: Headline) -> str:
    """Tell how many reasons hold, and what that means."""
    n_judged = h.n_explained - h.n_by_finding
    verb = "was" if h.n_by_finding == 1 else "were"
    alone = _part(h.n_by_finding, h.n_explained, "alarm")
    found = f"{alone[0].upper()}{alone[1:]} {verb} raised by findings about the data alone, not by the model."
    if not n_judged:
        return found
    verified = _verified(h, n_judged, "other" if h.n_by_finding else "alarm")
    return f"{found} {verified}" if h.n_by_finding else verified


def _verified(h: Headline, n_judged: int, noun: str) -> str:
    verb = "is" if h.n_many == 1 else "are"
    many = f"; {h.n_many} {verb} odd in more than {MOST_NAMED} columns at once." if h.n_many else "."
    if not h.n_holding:
        return f"The reasons for {_part(n_judged, n_judged, noun)} could not be verified{many}"
    return (
        f"The reasons for {_part(h.n_holding, n_judged, noun)} were verified: with usual values in the named "
        f"columns the row is ordinary, and with usual values everywhere else it is still odd{many}"
    )


def _part(k: int, n: int, noun: str) -> str:
    """Say so many of all alarms, or of the others, as people do.

    Examples
    --------
    >>> _part(1, 1, "alarm"), _part(1, 1, "other"), _part(2, 2, "other")
    ('the alarm', 'the other one', 'both others')
    >>> _part(5, 5, "alarm"), _part(3, 5, "alarm"), _part(3, 5, "other")
    ('all 5 alarms', '3 of 5 alarms', '3 of the 5 others')
    """
    is_other = noun == "other"
    if n == 1:
        return "the other one" if is_other else "the alarm"
    if k == n:
        return f"{'both' if n == 2 else f'all {n:,}'} {noun}s"
    return f"{k:,} of {'the ' if is_other else ''}{n:,} {noun}s"
