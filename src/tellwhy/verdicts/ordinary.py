"""How improbable a score is among ordinary ones, and who is an alarm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score import Floats
from tellwhy.scoring.surprise import Surprise
from tellwhy.verdicts.alarms import Calibration, draw_alarms

FALSE_ALARMS = 0.05  # share of ordinary things that are alarms
LEAST = 10  # ordinary scores that a law of scores can be learned from


class Law(Protocol):
    """Scores as surprises, −log p, and back."""

    def surprises(self, scores: Floats) -> Floats:
        """Return the surprise of each score."""

    def score_of(self, surprise: float) -> float:
        """Return the score with this surprise."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Probability that something ordinary scores as high, the line for alarms, and how it was drawn.

    `expected_false` is how many alarms chance alone is expected to raise.
    """

    p_values: Floats | None
    threshold: float | None
    rule: str
    expected_false: float = 0.0

    def p_value(self, at: int) -> float | None:
        """The p-value of one of them, None where nothing says what is ordinary."""
        return None if self.p_values is None else float(self.p_values[at])

    def are_alarms(self, scores: Floats) -> NDArray[np.bool_]:
        """Which scores are above the line."""
        line = np.inf if self.threshold is None else self.threshold
        return np.asarray(scores > line)


def judge_by_rank(scores: Floats, ordinary: Floats, *, fdr: float | None, of_what: str) -> Judged:
    """Judge scores by their ranks among those of things that are known to be ordinary, each scored as if new.

    The p-value of a score that k of n ordinary ones reach is (k + 1)/(n + 1), whatever their law: as long as
    new ordinary things are like those, a share p of them has a p-value of at most p (Vovk, Gammerman and
    Shafer, 2005). One in twenty is an alarm, unless `fdr` asks for a share of false ones among the alarms.
    """
    n = len(ordinary)
    reached = n - np.searchsorted(np.sort(ordinary), scores, "left")
    p_values = (reached + 1) / (n + 1)
    if fdr is None:
        level = FALSE_ALARMS
        rule = f"one ordinary {of_what} in {round(1 / FALSE_ALARMS)} would be, as {n:,} of them tell"
    else:
        alarms = draw_alarms(-np.log(p_values), fdr=fdr)
        level = float(np.exp(-alarms.level)) * (1 - 1e-12)
        rule = f"{alarms.rule}, as {n:,} ordinary ones tell"
    above = scores[p_values <= level]
    others = scores[p_values > level]
    # A number between the lowest alarm and the highest other score; without alarms, one that none is above.
    if len(above):
        threshold = float(np.nextafter(above.min(), -np.inf))
    else:
        threshold = max(float(np.quantile(ordinary, 1 - FALSE_ALARMS)), float(others.max()))
    return Judged(p_values, threshold, rule, len(scores) * level)


def judge_by_middle(scores: Floats, usual: Floats, *, of_what: str) -> Judged:
    """Judge scores by the middle of those of things of which some may be odd, each scored as if new.

    One ordinary thing in twenty is an alarm. How high scores of ordinary ones reach is foretold by the middle
    of all of them: high ranks would belong to the odd ones, which then vouch for each other.
    """
    surprises = Surprise.of_middle(usual).value(scores)
    level = -np.log(FALSE_ALARMS)
    above = scores[surprises >= level]
    rule = (
        f"one ordinary {of_what} in {round(1 / FALSE_ALARMS)} would be, as the middle of {len(usual):,} tells"
    )
    threshold = float(np.nextafter(above.min(), -np.inf)) if len(above) else float(scores.max())
    return Judged(np.exp(-surprises), threshold, rule, len(scores) * FALSE_ALARMS)


def judge(
    scores: Floats,
    ordinary: Floats | None,
    *,
    fdr: float | None = None,
    is_clean: bool = True,
    few: str = "above all",
    learn: Callable[[Floats], Law] | None = None,
) -> Judged:
    """Judge scores by those of ordinary things, each scored as if it were new.

    With fewer than ten of them, alarms are what scores above all of them, or nothing is an alarm where `few`
    is "rank": one of many stretches of a series is above a few ordinary ones by chance. Without any ordinary
    score there is no line. `learn` makes another law of the ordinary scores than that of rows.
    """
    if ordinary is None or (not len(ordinary) and few != "rank"):
        return Judged(None, None, "no alarms, since nothing says what is ordinary: a ranking only")
    if len(ordinary) < LEAST and few == "rank":
        n = len(ordinary)
        rule = f"no alarms, since {n} ordinary stretches are too few to tell ({LEAST} are needed): a ranking"
        return Judged(None, None, rule)
    if len(ordinary) < LEAST:
        n = len(ordinary)
        rule = f"above all {n} of the reference: one ordinary picture in {n + 1} would be"
        p_values = (1 + (ordinary[None, :] >= scores[:, None]).sum(axis=1)) / (n + 1)
        return Judged(p_values, float(ordinary.max()), rule, len(scores) / (n + 1))
    calibration = learn(ordinary) if learn else Calibration.learn(ordinary, is_clean=is_clean)
    surprises = calibration.surprises(scores)
    alarms = draw_alarms(surprises, fdr=fdr)
    above = scores[surprises > alarms.level]
    below = scores[surprises <= alarms.level]
    # A number between the lowest alarm and the highest other score; one beyond all of them without alarms.
    if not len(above):
        threshold = max(calibration.score_of(alarms.level), float(scores.max()))
    else:
        threshold = float(np.nextafter(above.min(), -np.inf)) if not len(below) else float(below.max())
    return Judged(np.exp(-surprises), threshold, alarms.rule, alarms.expected_false)
