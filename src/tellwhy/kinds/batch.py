"""Rows beside what is ordinary: read, checked and encoded, and then scored."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pandas as pd

from tellwhy.data import Table
from tellwhy.kinds.fitted import FittedTable
from tellwhy.kinds.request import Request
from tellwhy.kinds.text_columns import TextColumns
from tellwhy.results.result import Result
from tellwhy.verdicts.alarms import Alarms, Calibration, Ranking, ranking_of
from tellwhy.verdicts.findings import RowFindings


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows beside what is ordinary: read, checked and encoded, ready to be scored.

    Attributes
    ----------
    table, request
        The rows, and what was asked of them.
    fitted
        The detector beside these rows.
    found
        What is wrong with them as data.
    cleaned
        The rows as they were read; cells that a finding explains are missing.
    texts
        Columns of texts, which count by how odd each text is.
    calibration
        How scores become surprises; learned from these very rows where it is None.
    drawn
        Where alarms begin, if that was decided before.
    held
        How many rows each mark of the model held back.
    line
        Score above which the model calls a row odd, whatever list it stands in; None where these very rows
        draw it.
    """

    table: Table
    request: Request
    fitted: FittedTable
    found: RowFindings
    cleaned: pd.DataFrame
    texts: TextColumns
    calibration: Calibration | None = None
    drawn: Alarms | None = None
    held: Counter[str] = field(default_factory=Counter)
    line: float | None = None

    def judged(self) -> Judged:
        """Score the rows, and draw the line between alarms and others."""
        scores = self.fitted.scores()
        reference = self.fitted.reference_scores(scores)
        learned = self.fitted.calibration(reference) if self.calibration is None else self.calibration
        ranking = ranking_of(scores, learned, reference, self.request, self.found.added, drawn=self.drawn)
        return Judged(self, learned, ranking)


@dataclass(frozen=True, eq=False)
class Judged:
    """Rows that were scored.

    Attributes
    ----------
    batch
        The rows.
    calibration
        How scores became surprises.
    ranking
        Their scores, and which of them are alarms.
    """

    batch: Batch
    calibration: Calibration
    ranking: Ranking

    @property
    def line(self) -> float:
        """Score above which a row is odd: what is told of a row does not depend on the rows beside it."""
        return self.ranking.threshold if self.batch.line is None else self.batch.line

    def in_words(self, run: Result) -> Result:
        """The run, its reasons in words where a column of texts makes a row odd."""
        return self.batch.texts.told_in(run)
