"""A detector fitted to a table, behind the encoding of its columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tellwhy.core.explanation import Explanation
from tellwhy.core.score_function import Floats, Integers
from tellwhy.data import TableEncoder
from tellwhy.scoring import EncodedScore, as_score
from tellwhy.workflow.explain import chosen_card, explain
from tellwhy.workflow.tables.default_detector import make_detector, training_sample
from tellwhy.workflow.tables.selection import Selection

REFERENCE_ROWS = 20_000


@dataclass(frozen=True)
class FittedTable:
    """Score of raw rows, and which of them the detector learned from."""

    selection: Selection
    encoder: TableEncoder
    score: EncodedScore
    words: str
    sample: Integers  # positions in the reference of the rows learned from

    def scores(self) -> Floats:
        """Score of every selected row; those learned from are scored as if they were new."""
        return self._scored(self.selection.frame, self._learned_positions())

    def reference_scores(self, scores: Floats) -> Floats:
        """Scores of the reference rows (of at most 20,000 of a separate reference), each as if it were new."""
        if self.selection.own is not None:
            return scores[self.selection.own]
        first = self.sample[: min(len(self.sample), REFERENCE_ROWS)]
        return self._scored(self.selection.reference.iloc[first], np.arange(len(first)))

    def score_version(self, row: Any, position: int) -> float:
        """Score of a changed version of a selected row, without the row itself where it was learned from."""
        learned = np.flatnonzero(self._learned_positions() == position)
        inner: Any = self.score.inner
        Z = self.score.encode(row)
        if not len(learned) or not hasattr(inner, "match"):
            return float(inner.value(Z)[0])
        return float(inner.value(Z, inner.leave_some(self._points()[learned]))[0])

    def explain(self, positions: Integers, method: str, threshold: float) -> Explanation:
        """Explain some of the selected rows; their normal versions score at most the threshold."""
        params: dict[str, Any] = {}
        if chosen_card(self.score, method).name == "OneClassDTD":
            learned = np.full(len(self.selection.frame), -1, dtype=np.int64)
            learned[self._learned_positions()] = np.arange(len(self._learned_positions()))
            params["training_rows"] = learned[positions]
        rows = self.selection.frame.iloc[positions]
        return explain(replace(self.score, level=threshold), rows, method, self.background(), **params)

    def background(self) -> Any:
        """Rows that the detector learned from."""
        return self.selection.reference.iloc[self.sample]

    def _learned_positions(self) -> Integers:
        """Frame position of each row learned from; none with a separate reference."""
        if self.selection.own is None:
            return np.empty(0, dtype=np.int64)
        return self.selection.own[self.sample]

    def _scored(self, frame: Any, learned: Integers) -> Floats:
        inner: Any = self.score.inner
        Z = self.score.encode(frame)
        if not len(learned) or not hasattr(inner, "match"):
            return np.asarray(inner.value(Z))
        left_out = np.full(len(Z), -1, dtype=np.int64)
        left_out[learned] = self._points()
        return np.asarray(inner.value(Z, inner.leave_some(left_out)))

    def _points(self) -> Integers:
        """Support point that each row learned from is, or −1."""
        expansion = self.score.inner.expansion  # type: ignore[attr-defined]
        point = np.full(expansion.n_training, -1, dtype=np.int64)
        point[expansion.training_rows] = np.arange(len(expansion.training_rows))
        return point


def fit_table(
    selection: Selection, encoder: TableEncoder, detector: str, rng: np.random.Generator
) -> FittedTable:
    """Fit a detector to the reference rows, or to a random sample of many."""
    sample = training_sample(len(selection.reference), rng)
    Z = encoder.transform(selection.reference.iloc[sample])
    model, words = make_detector(detector, Z, is_clean=selection.is_clean)
    inner = as_score(model)
    score = EncodedScore(
        inner=inner,
        encode=encoder.transform,
        owner=encoder.owner_,
        n_columns=len(encoder.columns_),
        feature_names=list(encoder.columns_),
        describes=inner.describes,
        decode=encoder.inverse_transform,
    )
    return FittedTable(selection, encoder, score, words, sample)
