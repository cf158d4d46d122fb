"""How far a result can be trusted: by flipping, by other methods, and by labels where there are some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


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


NO_EVIDENCE = Evidence("", float("nan"), {}, {}, ())


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
