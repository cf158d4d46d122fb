"""What was found, as fields: which kind, where, with which facts. `words` makes the sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MISSING = "treated as missing"
TOLD = "told only"
Value = Any  # what JSON holds: a number, a text, a truth value, None, or lists and mappings of these


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with rows of a table, or rows that are odd in the same way.

    Attributes
    ----------
    kind
        "placeholder", "duplicate", "burst", "impossible_date", "future_date", "sign_flip", "stuck",
        "empty_row", "gap", "new_level", "vanished_level", "rare_level", "misspelling", "mixed_units",
        "decimal_slip", "broken_relation", "broken_order", "broken_dependency" or "rare_pair"; "spike",
        "passing_shift", "level_shift" or "drift" of a series; "rare_in_segment"; "odd_rows" of alarms.
    columns
        The columns it is about, the guilty one first.
    rows
        Positions (from 0) of the rows in the checked table; empty for what is true of a whole column.
    facts
        What was found: for a placeholder, its value. Findings with the same kind, columns and facts have
        one cause.
    usual
        What the other rows are like: for a placeholder, between which values they lie. `n` is how many of
        them are otherwise.
    cells
        An example: cells of one row, by column.
    form
        In which way it shows, where a kind has several: a placeholder may be a number or a word. The kind
        itself by default.
    n
        How many rows it is about, where it does not name them all: of equal rows, the first is in order.
    action
        "treated as missing": the cells of the first column in these rows; or "told only".
    surprise
        −log of the probability that chance alone makes such a row in an ordinary table, corrected for how
        many candidates were tried; 0 where the finding does not make a row odd.
    lines, files
        Lines (from 1) of the file of the first rows, where they are known; and of which file, of several.
    """

    kind: str
    columns: Sequence[str]
    rows: Sequence[int]
    facts: Mapping[str, Value] = field(default_factory=dict)
    usual: Mapping[str, Value] = field(default_factory=dict)
    cells: Mapping[str, Value] = field(default_factory=dict)
    form: str = ""
    n: int | None = None
    action: str = TOLD
    surprise: float = 0.0
    lines: Sequence[int] = ()
    files: Sequence[str] = ()

    @property
    def n_rows(self) -> int:
        """How many rows it is about."""
        return len(self.rows) if self.n is None else self.n

    @property
    def text(self) -> str:
        """The finding in one line, with its count."""
        from tellwhy.words import tell

        return tell.finding(self)

    @property
    def example(self) -> str:
        """One cell or row of it."""
        from tellwhy.words import tell

        return tell.example(self)


@dataclass(frozen=True)
class Notice:
    """Something that is to be said: of which kind, and with which facts."""

    kind: str
    facts: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Typical:
    """What is usual in a column of the reference rows.

    Numbers (and dates, as ISO text in `labels`) have `quantiles`: minimum, 5 %, 25 %, 50 %, 75 %, 95 %,
    maximum. Categories and booleans have `shares`: the most common values and how often each occurs, most
    common first.
    """

    column: str
    kind: str  # "number" | "date" | "category" | "boolean"
    quantiles: Sequence[float] = ()
    labels: Sequence[str] = ()
    shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Reason:
    """One column's part in a row's oddness, in the user's own units.

    Attributes
    ----------
    feature, value
        The column and the cell: a number, a text, a truth value, or None where it was missing.
    typical
        [low, high] of numbers and dates; the usual values of labels.
    share
        Of the row's score, 0 to 1.
    holds
        Whether the row is ordinary without this reason, and odd with it alone.
    kind
        "value": far from what is usual; "pair": odd beside the cell of another column; "finding": something
        is wrong with it as data; "words": a text that is odd through some of its words.
    facts
        Of a value: `column`, what kind of column it is in; `is_varied` where no label is common; `where`, the
        segment whose usual values are told; `times` where it would be usual if it were not so many times as
        large. Of a pair: `other` and `other_value`; `n_together` of `n` rows, or `low` and `high`, what is
        usual beside the other. Of words: `words`, each with
        whether the text has it.
    finding
        What is wrong, with the cells of this row.
    is_share
        Whether the share is told: some methods do not divide the score.
    """

    feature: str
    value: Value
    typical: Sequence[Value]
    share: float
    holds: bool = False
    kind: str = "value"
    facts: Mapping[str, Value] = field(default_factory=dict)
    finding: Finding | None = None
    is_share: bool = True

    @property
    def text(self) -> str:
        """The reason in a line: 'TSH = 145 (usually 0.9–4.1) · 71 %'."""
        from tellwhy.words import tell

        return tell.reason(self)


@dataclass(frozen=True)
class Anomaly:
    """A row worth looking at."""

    row: int  # 0-based data row
    id: str | None
    score: float
    percentile: float  # 0 to 100, among the reference rows
    above_threshold: bool
    reasons: Sequence[Reason]
    nearest_normal: Mapping[str, Any] | None = None  # column -> value that would look normal
    line: int | None = None  # 1-based line of the file, where it is known
    p_value: float = 1.0  # that the detector finds an ordinary row as odd; findings stand beside it
    unattributed: float = 0.0  # share of the score that no column received
    doubt: Notice | None = None  # why no reason is sure, where none holds
    file: str | None = None  # the file it came from, where there are several
    segment: str = ""  # "role = intern": the rows it was compared with, where they are not all
    usual: Mapping[str, Typical] = field(default_factory=dict)  # in that segment, for the columns named

    @property
    def note(self) -> str:
        """What is not sure about it: 'reason uncertain: …', where no reason holds."""
        from tellwhy.words import tell

        return "" if self.doubt is None else tell.doubt(self.doubt)

    @property
    def holds(self) -> bool:
        """Whether the reasons were verified: without them the row is ordinary."""
        return any(reason.holds for reason in self.reasons)


@dataclass(frozen=True)
class Group:
    """Anomalies that share their main reasons."""

    features: Sequence[str]
    rows: Sequence[int]


@dataclass(frozen=True)
class AlarmRule:
    """Where the line between alarms and other rows was drawn."""

    rule: str  # in words
    n_flagged: int
    expected_false: float  # how many alarms chance alone is expected to raise at this line
    over: str = "these rows"  # that it was drawn over, or those of the "fit"


@dataclass(frozen=True)
class Headline:
    """What a manager reads first: how many alarms, about what, and how far to trust their reasons.

    Attributes
    ----------
    n_rows
        Rows that were scored.
    alarms
        Where the line was drawn.
    foremost
        What the oddest alarm is called; "" without alarms.
    reason
        Its first reason.
    n_explained
        Alarms that were explained.
    n_by_finding
        Those that are alarms only because something is wrong with the data: no model was asked about them.
    n_holding, n_many
        Of the others, those whose reasons hold, and those that are odd in many columns at once.
    more
        What is to be said besides.
    is_written
        Whether that is all: the sentences of a run that an earlier version saved.
    """

    n_rows: int
    alarms: AlarmRule
    foremost: str = ""
    reason: Reason | None = None
    n_explained: int = 0
    n_by_finding: int = 0
    n_holding: int = 0
    n_many: int = 0
    more: Sequence[Notice] = ()
    is_written: bool = False

    @property
    def sentences(self) -> list[str]:
        """The headline in sentences."""
        from tellwhy.words import tell

        return tell.headline(self)
