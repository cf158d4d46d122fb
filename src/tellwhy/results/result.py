"""What was found, as fields: which kind, where, with which facts. `words` makes the sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Floats
from tellwhy.results.evidence import NO_EVIDENCE, Detection, Evidence
from tellwhy.results.notice import Notice

SCHEMA = 3
MISSING = "treated as missing"
TOLD = "told only"
Value = Any  # what JSON holds: a number, a text, a truth value, None, or lists and mappings of these


@dataclass(frozen=True)
class Part:
    """Where something is: a row or a cell of a table, a stretch of a series, a region of a picture, a word.

    Attributes
    ----------
    kind
        "row", "cell", "span", "picture", "region", "text", "word", "node" or "pattern".
    row
        Number (from 0) of the row of the table, of the node, or of the picture or text among all; of a
        stretch, the first of its rows.
    column
        Of a table, or the channel of a series.
    name
        What people call it: the id of a row, the file of a picture, the word.
    file, line
        The file it came from, where there are several, and its line (from 1), where it is known.
    box
        First and last cell (exclusive) of each axis in turn, where it is a part of an array.
    """

    kind: str
    row: int | None = None
    column: str | None = None
    name: str | None = None
    file: str | None = None
    line: int | None = None
    box: tuple[int, ...] = ()


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
    probabilities
        How probable it is that the cell of each row is wrong; empty where nothing says it.
    expected
        What the cell of each row should hold, None where that is not known; empty where it is known of none.
    own
        What is known of each row for itself, and told of it; empty where `facts` and `usual` hold for all.
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
    probabilities: Sequence[float] = ()
    expected: Sequence[Value] = ()
    own: Sequence[Mapping[str, Value]] = ()

    @property
    def n_rows(self) -> int:
        """How many rows it is about."""
        return len(self.rows) if self.n is None else self.n

    def of_rows(self, places: Sequence[int]) -> Finding:
        """Return the finding of some of its rows only, named by their places in `rows`."""
        kept = list if isinstance(self.rows, list) else tuple
        return replace(
            self,
            rows=kept(self.rows[i] for i in places),
            probabilities=kept(self.probabilities[i] for i in places) if self.probabilities else (),
            expected=kept(self.expected[i] for i in places) if self.expected else (),
            own=kept(self.own[i] for i in places) if self.own else (),
        )

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
        Whether the row is ordinary without this reason, and odd with it alone: it was scored again to see.
    kind
        "value": far from what is usual; "pair": odd beside the cell of another column; "finding": something
        is wrong with it as data; "words": a text that is odd through some of its words; "region" of a
        picture, "channel" of a series, "word" of a text.
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
    part
        Where it is, where a column does not say it: the region, the stretch, the word.
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
    part: Part | None = None

    @property
    def text(self) -> str:
        """The reason in a line: 'TSH = 145 (usually 0.9–4.1) · 71 %'."""
        from tellwhy.words import tell

        return tell.reason(self)


@dataclass(frozen=True)
class Anomaly:
    """A part of the data worth looking at: a row, a stretch, a picture, a text, a node.

    Attributes
    ----------
    part
        Where it is.
    score, p_value
        What the detector says of it; the chance that it finds an ordinary one as odd, None where nothing says
        what is ordinary. Findings stand beside p-values.
    is_alarm
        Whether it is above the line.
    reasons
        Why it is odd, the first one first.
    percentile
        0 to 100, among the reference rows; None where it was not counted.
    nearest_normal
        Column → value that would look normal.
    unattributed
        Share of the score that no column received.
    doubt
        Why no reason is sure, where none holds.
    segment, usual
        "role = intern", the rows it was compared with, where they are not all; what is usual there.
    notices
        What was done to it.
    shown
        What views draw of it besides: times of its ends, names of channels, words with their relevance.
        Arrays stand in `Result.arrays`, under "<name>.<place in the list>".
    """

    part: Part
    score: float
    p_value: float | None = 1.0
    is_alarm: bool = False
    reasons: Sequence[Reason] = ()
    percentile: float | None = None
    nearest_normal: Mapping[str, Any] | None = None
    unattributed: float = 0.0
    doubt: Notice | None = None
    segment: str = ""
    usual: Mapping[str, Typical] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()
    shown: Mapping[str, Value] = field(default_factory=dict)

    @property
    def row(self) -> int:
        """Number of its row, from 0; −1 where it is none."""
        return -1 if self.part.row is None else self.part.row

    @property
    def id(self) -> str | None:
        """What people call it."""
        return self.part.name

    @property
    def line(self) -> int | None:
        """Line of the file, from 1, where it is known."""
        return self.part.line

    @property
    def file(self) -> str | None:
        """The file it came from, where there are several."""
        return self.part.file

    @property
    def above_threshold(self) -> bool:
        """Whether it is an alarm."""
        return self.is_alarm

    @property
    def note(self) -> str:
        """What is not sure about it: 'not verified: …', where no reason holds."""
        from tellwhy.words import tell

        return "" if self.doubt is None else tell.doubt(self.doubt)

    @property
    def holds(self) -> bool:
        """Whether the reasons were verified: without them the row is ordinary."""
        return any(reason.holds for reason in self.reasons)

    @property
    def known_by(self) -> str:
        """How its reasons are known: "verified", by a "rule" about data, or "unverified"."""
        if any(reason.holds and reason.finding is None for reason in self.reasons):
            return "verified"
        return "rule" if any(reason.finding is not None for reason in self.reasons) else "unverified"


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
        Those that a rule about the data found, and whose reasons were not verified besides.
    n_holding, n_many
        Those whose reasons were verified, and of the others those that are odd in many columns at once.
    n_causes
        How many different causes the explained alarms have; 0 where nobody counted them.
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
    n_causes: int = 0
    more: Sequence[Notice] = ()
    is_written: bool = False

    @property
    def sentences(self) -> list[str]:
        """The headline in sentences."""
        from tellwhy.words import tell

        return tell.headline(self)


def _explain_nothing() -> Explanation:
    return Explanation(values=np.zeros((0, 0)), scores=np.zeros(0), method="")


@dataclass(frozen=True, kw_only=True)
class Result:
    """What was found in data of any kind: the one thing that views read, and `results.store` keeps.

    Attributes
    ----------
    kind
        Of the data: "table", "graph", "pictures", "series", "texts", "network", …
    source, fingerprint
        The input as the user named it, and the SHA-256 of its content.
    settings
        What was asked and what was used: detector, method, seed, …
    anomalies
        Those that were explained, the oddest first.
    scores, rows, names
        Of all that was judged: scores, the data row of each, and what they are called where they are no rows.
    threshold
        Score above which something is an alarm; None where nothing says what is ordinary.
    alarms
        How that line was drawn.
    explanation
        Of exactly the anomalies, in their order, in the user's columns; None of what has no columns.
    columns, roles, usual
        Columns that were used, in their order; what each was taken for; what is usual in it.
    column_shares
        Which columns make rows odd, over the explained rows; they sum to 1.
    findings, groups
        What is wrong with the data, the most important first; anomalies with the same main reasons.
    evidence, detection, drift
        How far explanations can be trusted; how well scores find labelled rows; how the data differ from
        those of the fitting.
    opening, done, notices
        What a manager reads first; what was done; what was left out or changed on the way in.
    table_rows
        The anomalies as they stand in the table, a frame of all its columns.
    arrays, own
        Arrays, and other facts, that views of this kind of data draw.
    versions, created
        Of the packages that matter; when it was made (ISO time).
    """

    kind: str = "table"
    source: str
    settings: Mapping[str, Any]
    anomalies: Sequence[Anomaly]
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    rows: Any = None
    names: Sequence[str] = ()
    threshold: float | None
    alarms: AlarmRule | None = None
    explanation: Explanation = field(default_factory=_explain_nothing)
    columns: Sequence[str] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    usual: Mapping[str, Typical] = field(default_factory=dict)
    column_shares: Mapping[str, float] = field(default_factory=dict)
    findings: Sequence[Finding] = ()
    groups: Sequence[Group] = ()
    evidence: Evidence = NO_EVIDENCE
    detection: Detection | None = None
    drift: Mapping[str, Value] | None = None
    opening: Headline | None = None
    done: Notice | None = None
    notices: Sequence[Notice] = ()
    table_rows: Any = None
    arrays: Mapping[str, Any] = field(default_factory=dict)
    own: Mapping[str, Value] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    created: str = ""
    schema: int = SCHEMA

    @property
    def headline(self) -> list[str]:
        """What a manager reads: three sentences."""
        return [] if self.opening is None else self.opening.sentences

    @property
    def summary(self) -> str:
        """What was done, in one paragraph."""
        return "" if self.done is None else self.done.text

    @property
    def notes(self) -> list[str]:
        """The notices in sentences."""
        return [notice.text for notice in self.notices]

    @property
    def n_flagged(self) -> int:
        """How many are alarms."""
        if self.alarms is not None:
            return self.alarms.n_flagged
        return int((np.asarray(self.scores) > self.line).sum())

    @property
    def line(self) -> float:
        """The threshold; infinite where nothing says what is ordinary."""
        return float("inf") if self.threshold is None else self.threshold

    @property
    def typical(self) -> Mapping[str, Typical]:
        """What is usual in each column, by the name it had before."""
        return self.usual

    def array_of(self, name: str, at: int) -> Any:
        """Return what is drawn of an anomaly, by its place in the list: "data", "relevance"."""
        return self.arrays.get(f"{name}.{at}", np.empty(0))


Run = Result  # its names before
MediaRun = Result
