"""What a run produced: ranked anomalies, their reasons, and the evidence for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Floats
from tellwhy.results.result import AlarmRule, Anomaly, Finding, Group, Headline, Typical

SCHEMA = 2


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
    opening: Headline | None = None  # what a manager reads first
    roles: Mapping[str, str] = field(default_factory=dict)  # what each column was taken for, in words
    table_rows: Any = None  # the ranked rows as they stand in the table, a frame of all its columns
    schema: int = SCHEMA

    @property
    def headline(self) -> list[str]:
        """What a manager reads: three sentences."""
        return [] if self.opening is None else self.opening.sentences

    @property
    def n_flagged(self) -> int:
        """How many rows are alarms."""
        return int((self.scores > self.threshold).sum())
