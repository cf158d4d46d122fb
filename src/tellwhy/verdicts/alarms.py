"""The threshold and the ranking.

How improbable a row's score is among ordinary rows, and from where on a row is an alarm.

Which rows count as anomalous, and which are explained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.params import Fit
from tellwhy.core.score import Floats, Integers
from tellwhy.scoring.surprise import Surprise

FALSE_DISCOVERIES = 0.1  # share of false alarms among the alarms, if the user names no other


@dataclass(frozen=True)
class Alarms:
    """From where on a row is an alarm.

    Attributes
    ----------
    level
        Surprise above which a row is an alarm.
    rule
        How the level was drawn, in words.
    expected_false
        How many alarms chance alone is expected to raise at this level.
    over
        What it was drawn over: "these rows", or those of the "fit".
    """

    level: float
    rule: str
    expected_false: float
    over: str = "these rows"


def draw_alarms(
    surprises: Floats,
    *,
    alarms: int | None = None,
    contamination: float | None = None,
    fdr: float | None = None,
) -> Alarms:
    """Draw the level: a number of alarms, a share of the rows, or (by default) a share of false alarms.

    Parameters
    ----------
    surprises
        −log of each row's p-value.
    alarms
        Largest number of alarms.
    contamination
        Share of rows that are alarms.
    fdr
        Expected share of false alarms among the alarms.

    Examples
    --------
    >>> draw_alarms(np.array([0.5, 1.0, 0.2, 12.0])).rule
    'at most 10 % false alarms expected'
    """
    n = len(surprises)
    if alarms is not None:
        level = _find_level_of_highest(surprises, alarms)
        rule = f"a budget of {alarms:,} alarm{'s' if alarms != 1 else ''}"
        return Alarms(level, rule, _expect_false(surprises, level))
    if contamination is not None:
        level = float(np.quantile(surprises, 1 - contamination))
        rule = f"the highest {100 * contamination:g} % of scores"
        return Alarms(level, rule, _expect_false(surprises, level))
    share = FALSE_DISCOVERIES if fdr is None else fdr
    level = _find_level_of_discoveries(surprises, share)
    n_alarms = int((surprises > level).sum())
    # Also without an alarm: this many chance would have raised at this level.
    expected = min(share * max(n_alarms, 1), n)
    return Alarms(level, f"at most {100 * share:g} % false alarms expected", expected)


def _find_level_of_discoveries(surprises: Floats, share: float) -> float:
    """Benjamini and Hochberg: the k smallest p-values, k the largest with p_(k) ≤ share · k/n.

    P-values of one calibration set depend on each other positively, so that the expected share of false
    alarms stays below `share` (Bates, Candès, Lei, Romano and Sesia, Annals of Statistics 2023).
    """
    n = len(surprises)
    ordered = np.sort(surprises)[::-1]
    critical = np.log(n / (share * np.arange(1, n + 1)))
    passing = np.flatnonzero(ordered >= critical)
    k = int(passing[-1]) if len(passing) else 0  # with no alarm: where the first one would be
    return float(np.nextafter(critical[k], -np.inf))  # alarms are above the level, not at it


def _find_level_of_highest(surprises: Floats, k: int) -> float:
    """A level that at most k rows are above; rows that tie with one too many stay below."""
    if k >= len(surprises):
        return float(np.nextafter(surprises.min(), -np.inf))
    return float(np.sort(surprises)[::-1][k])


def _expect_false(surprises: Floats, level: float) -> float:
    return expect_false(len(surprises), int((surprises > level).sum()), level)


def expect_false(n: int, n_alarms: int, level: float) -> float:
    """Number of alarms that chance alone raises among n rows: n·p, p the probability of the level.

    Examples
    --------
    >>> round(expect_false(1000, 20, np.log(100.0)), 6), expect_false(1000, 3, np.log(100.0))
    (10.0, 3.0)
    """
    return float(min(n * np.exp(-max(level, 0.0)), n_alarms))


@dataclass(frozen=True)
class Calibration:
    """Scores as surprises and back.

    `law` is None where scores are surprises already, as those of a committee are.
    """

    law: Surprise | None = None

    @classmethod
    def learn(cls, reference: Floats, *, is_clean: bool) -> Calibration:
        """Learn from the scores of ordinary rows, each scored as if it were new."""
        return cls(Surprise.learn(reference, is_clean=is_clean))

    def surprises(self, scores: Floats) -> Floats:
        """−log of the probability that an ordinary row scores this high."""
        return scores if self.law is None else self.law.value(scores)

    def score_of(self, surprise: float) -> float:
        """Return the score with this surprise."""
        return surprise if self.law is None else self.law.score_of(surprise)

    def raised(self, scores: Floats, by: Floats) -> Floats:
        """Scores whose surprise is higher by so much; scores that are not raised stay as they are."""
        if self.law is None:
            return np.asarray(scores + by)
        found = np.array(scores, dtype=np.float64)
        for i in np.flatnonzero(by > 0):
            found[i] = self.law.score_of(float(self.law.value(found[i : i + 1])[0] + by[i]))
        return found

    def _require(self) -> Iterator[Fit]:
        yield "law", self.law is None or isinstance(self.law, Surprise), True


EXPLAINED_ROWS = 200


@dataclass(frozen=True)
class Ranking:
    """Scores of all selected rows, the threshold, and the rows to explain, most anomalous first.

    Attributes
    ----------
    scores, surprises
        Of every row, with what findings added; a surprise is −log of the row's p-value.
    model_scores
        Scores of the detector alone.
    threshold
        Score above which a row is an alarm.
    alarms
        How the threshold was drawn.
    positions
        Rows to explain.
    percentiles
        Of those rows, among the reference rows.
    model_surprises
        Of every row, by the detector alone: findings stand beside a p-value, not in it.
    """

    scores: Floats
    surprises: Floats
    model_scores: Floats
    threshold: float
    alarms: Alarms
    positions: Integers
    percentiles: Floats
    model_surprises: Floats

    @property
    def n_above(self) -> int:
        """How many rows are above the threshold."""
        return int((self.scores > self.threshold).sum())

    def p_value(self, position: int) -> float:
        """Probability that the detector finds an ordinary row as odd as this one, whatever findings say."""
        return float(np.exp(-max(self.model_surprises[position], 0.0)))


def rank_rows(
    scores: Floats,
    calibration: Calibration,
    reference: Floats,
    wanted: Wanted,
    added: Floats | None = None,
    *,
    drawn: Alarms | None = None,
    crowded: NDArray[np.bool_] | None = None,
) -> Ranking:
    """Draw the line, and pick the rows to explain.

    These are all rows above the threshold, but at most 200, and never fewer than `wanted.top`.

    Parameters
    ----------
    scores
        Of every row, by the detector.
    calibration
        How scores become surprises.
    reference
        Scores of the rows to compare with.
    wanted
        What the user asked for.
    added
        Surprise that findings add to each row.
    drawn
        Where alarms begin, if that was decided before; `wanted` decides otherwise.
    crowded
        Rows that only say again what others say: where not all alarms are explained, the others come first.
    """
    raised = scores if added is None else calibration.raised(scores, added)
    surprises = calibration.surprises(raised)
    by_model = surprises if raised is scores else calibration.surprises(scores)
    # Rows with findings are alarms in any case. With their tiny p-values among the others, the rule for false
    # discoveries would let more of the others pass.
    is_budget = wanted.alarms is not None or wanted.contamination is not None
    alarms = drawn or draw_alarms(
        surprises if is_budget else by_model,
        alarms=wanted.alarms,
        contamination=wanted.contamination,
        fdr=wanted.fdr,
    )
    threshold = _find_threshold(raised, surprises > alarms.level, calibration.score_of(alarms.level))
    n_above = int((raised > threshold).sum())
    n_explained = max(wanted.top, min(n_above, EXPLAINED_ROWS))
    positions = np.argsort(-raised, kind="stable")
    if crowded is not None and n_above > n_explained:
        first = positions[:n_above]
        first = first[np.argsort(crowded[first] & (scores[first] <= threshold), kind="stable")]
        positions = first[:n_explained][np.argsort(-raised[first[:n_explained]], kind="stable")]
    positions = positions[:n_explained]
    # "left" counts the reference rows that score lower: a row of the reference does not stand above itself.
    percentiles = 100.0 * np.searchsorted(np.sort(reference), raised[positions], "left") / len(reference)
    return Ranking(raised, surprises, scores, threshold, alarms, positions, percentiles, by_model)


class Wanted(Protocol):
    """How many rows are wanted, and where alarms begin."""

    @property
    def top(self) -> int:
        """How many rows to explain at least."""
        ...

    @property
    def alarms(self) -> int | None:
        """Largest number of alarms."""
        ...

    @property
    def contamination(self) -> float | None:
        """Share of rows that are alarms."""
        ...

    @property
    def fdr(self) -> float | None:
        """Expected share of false alarms."""
        ...


def _find_threshold(scores: Floats, is_alarm: NDArray[np.bool_], drawn: float) -> float:
    """Return the score that separates alarms from other rows, as near to the drawn one as they allow.

    Where several scores have one surprise, the way back from the surprise is not exact.
    """
    low = scores[~is_alarm].max(initial=-np.inf)
    high = scores[is_alarm].min(initial=np.inf)
    return float(max(min(drawn, np.nextafter(high, -np.inf)), low))
