"""How far the explanations of a run can be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import spearmanr

from tellwhy.core.errors import TellwhyError
from tellwhy.core.explainer import LearnsFromRows
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import measure_unattributed_share
from tellwhy.core.registry import card
from tellwhy.core.score import Floats, ScoreFunction
from tellwhy.evaluation import flipping
from tellwhy.results.evidence import Agreement, Evidence

EVIDENCE_ROWS = 20
# Rows × columns²: of a wide table fewer rows are tried, of a very wide one none. So many take about a fifth
# of the time of a run; they are counted, not timed, because what is tried must not depend on the clock.
FLIPPED_CELLS = 5e4
LEAST_EVIDENCE_ROWS = 3
OPERATIONS = 5e10  # a few seconds: second opinions must not take longer than the explanation
SECOND_OPINIONS = ("OneClassDTD", "Occlusion", "GaussianNLL")


def collect_evidence(
    explanation: Explanation, score: ScoreFunction, background: Any, *, second_opinions: bool = False
) -> Evidence:
    """Flip features against a random order and, where asked to, ask other methods about the same rows.

    `background` are ordinary rows, in the columns that the score takes.
    """
    if not len(explanation):
        return Evidence(str(explanation.params.get("explains", "")), float("nan"), {}, {}, [])
    affordable = int(FLIPPED_CELLS / explanation.values.shape[1] ** 2)
    some = explanation[: max(LEAST_EVIDENCE_ROWS, min(EVIDENCE_ROWS, affordable))]
    # Of one column, or a row or two, the order of columns says nothing.
    tells = min(affordable, len(some)) >= LEAST_EVIDENCE_ROWS and explanation.values.shape[1] > 1
    curves, areas = _flip_features(some, score, background) if tells else ({}, {})
    return Evidence(
        explains=str(explanation.params.get("explains", "")),
        unattributed=measure_unattributed_share(explanation),
        flipping=curves,
        flipping_area=areas,
        agreement=_measure_agreements(some, score, background) if second_opinions else [],
    )


def _flip_features(
    some: Explanation, score: ScoreFunction, background: Any
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Curves of flipping in the order of the explanation and in a random one, and the areas below them."""
    curves = {}
    areas = {}
    for each in (some, explain_by("RandomAttribution", score, some.data, background)):
        flipped = flipping(each, score, background=background)
        if np.isfinite(flipped.area):  # it is not where no row is odd enough to be flipped
            curves[each.method] = [float(v) for v in flipped.mean_curve()]
            areas[each.method] = flipped.area
    return curves, areas


def explain_by(method: str, score: ScoreFunction, data: Any, background: Any) -> Explanation:
    """Return what a method says of some rows; it learns from the background where it learns from rows."""
    explainer = card("explainer", method).cls(score)
    if isinstance(explainer, LearnsFromRows):
        explainer.fit(background)
    found: Explanation = explainer.explain(data)
    return found


def _measure_agreements(explanation: Explanation, score: ScoreFunction, background: Any) -> list[Agreement]:
    found = []
    for method in SECOND_OPINIONS:
        if method == explanation.method:
            continue
        some = explanation[: _count_affordable_rows(method, explanation, len(background))]
        try:
            other = explain_by(method, score, some.data, background)
        except TellwhyError:  # a method that does not apply to this score, or has no rows, has no opinion
            continue
        found.append(_measure_agreement(some, other))
    return found


def _count_affordable_rows(method: str, explanation: Explanation, n_background: int) -> int:
    """Occlusion scores every column of every row 32 times: few rows, or none, of a wide table."""
    if method != "Occlusion":
        return len(explanation)
    return int(OPERATIONS / (64.0 * explanation.values.shape[1] ** 2 * n_background))


def _measure_agreement(one: Explanation, other: Explanation) -> Agreement:
    same = float((one.values.argmax(axis=1) == other.values.argmax(axis=1)).mean())
    correlations = [correlate_ranks(a, b) for a, b in zip(one.values, other.values, strict=True)]
    return Agreement(other.method, same, float(np.mean(correlations)))


def correlate_ranks(a: Floats, b: Floats) -> float:
    """Spearman's; 1 for a single feature, 0 where one of the two does not order the features."""
    if len(a) == 1:
        return 1.0
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(spearmanr(a, b).statistic)
