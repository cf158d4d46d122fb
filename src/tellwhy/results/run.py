"""What a run produced: ranked anomalies, their reasons, and the evidence for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Floats

SCHEMA = 2


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
    """One column's part in a row's oddness, in the user's own units."""

    feature: str
    value: Any  # number, text, bool or None where the cell was missing
    typical: Sequence[Any]  # [low, high] for numbers and dates; the usual values for categories
    share: float  # of the row's score, 0 to 1
    text: str  # "TSH = 145 (usually 0.9–4.1) · 71 %"
    holds: bool = False  # whether the row is ordinary without this reason, and odd with it alone


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
    note: str = ""  # "reason uncertain: …", where no reason holds
    file: str | None = None  # the file it came from, where there are several
    segment: str = ""  # "role = intern": the rows it was compared with, where they are not all
    usual: Mapping[str, Typical] = field(default_factory=dict)  # in that segment, for the columns named

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
class Finding:
    """Rows with one cause: an error found before any model looked, or rows that are odd in the same way."""

    kind: str
    columns: Sequence[str]  # the one to blame first
    rows: Sequence[int]  # 0-based data rows; none for a finding on a whole column
    text: str  # one line, with the number of rows
    example: str = ""
    action: str = ""  # what was done about it
    lines: Sequence[int] = ()  # 1-based lines of the file of the first rows, where they are known
    files: Sequence[str] = ()  # the file of each of these lines, where there are several


@dataclass(frozen=True)
class AlarmRule:
    """Where the line between alarms and other rows was drawn."""

    rule: str  # in words
    n_flagged: int
    expected_false: float  # how many alarms chance alone is expected to raise at this line
    over: str = "these rows"  # that it was drawn over, or those of the "fit"


@dataclass(frozen=True)
class Agreement:
    """How far another method tells the same story about the same rows."""

    method: str
    same_top_feature: float  # share of rows whose main feature is the same
    rank_correlation: float  # mean Spearman correlation of the features' order


@dataclass(frozen=True)
class Evidence:
    """How far the explanations can be trusted."""

    explains: str  # which scalar was explained
    unattributed: float  # median share of the score that no column received
    flipping: Mapping[str, Sequence[float]]  # method -> mean score (first = 1) as features are reset in turn
    flipping_area: Mapping[str, float]  # method -> area below it, less is better; "RandomAttribution" beside
    agreement: Sequence[Agreement]


@dataclass(frozen=True)
class Detection:
    """How well scores separate labelled rows; only with a label column, which is never a feature."""

    label: str
    positive: str  # the value that marks anomalies; with `negated`, the one that every other row is odd by
    n_positive: int
    auroc: float
    average_precision: float
    n_alarms: int = 0  # labelled rows above the threshold
    precision: float | None = None  # share of the alarms that are true; None without alarms
    recall: float = 0.0  # share of the true anomalies that are alarms
    negated: bool = False


@dataclass(frozen=True)
class Run:
    """Everything a view needs; `save` and `load` (in `run_io`) keep it in a folder."""

    source: str  # the input as the user named it
    settings: Mapping[str, Any]  # detector, method, seed, contamination, columns, …, all as used
    summary: str  # one paragraph: what was done
    notices: Sequence[str]  # what was left out or changed on the way in
    columns: Sequence[str]  # columns used, in order
    scores: Floats  # of every scored row
    rows: Any  # 0-based data row of each score
    threshold: float
    anomalies: Sequence[Anomaly]  # ranked, most anomalous first
    explanation: Explanation  # of exactly those rows, in that order, in the user's columns
    typical: Mapping[str, Typical]
    column_shares: Mapping[str, float]  # which columns make rows odd, over the explained rows; sums to 1
    groups: Sequence[Group]
    evidence: Evidence
    detection: Detection | None
    versions: Mapping[str, str]
    fingerprint: str  # SHA-256 of the input
    created: str  # ISO time
    findings: Sequence[Finding] = ()  # most important first
    alarms: AlarmRule | None = None
    headline: Sequence[str] = ()  # what a manager reads: three sentences
    roles: Mapping[str, str] = field(default_factory=dict)  # what each column was taken for, in words
    table_rows: Any = None  # the ranked rows as they stand in the table, a frame of all its columns
    schema: int = SCHEMA

    @property
    def n_flagged(self) -> int:
        """How many rows are alarms."""
        return int((self.scores > self.threshold).sum())
