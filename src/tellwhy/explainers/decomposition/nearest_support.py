"""Squared differences to the nearest support point."""

from __future__ import annotations

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.registry import register
from tellwhy.core.score_function import CentreDistance
from tellwhy.explainers.base import Attribution, Explainer, Rows, needs_member
from tellwhy.scoring.scores.distance_score import nearest_points
from tellwhy.scoring.training_rows import recorded_rows


@register(
    "explainer",
    family="decomposition",
    needs="a model made of distances to support points or neighbours",
    cost="O(n m d)",
    exactness="a baseline: shares of one distance, not of the score",
    citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020), section 8.2",
    applies=lambda score: hasattr(getattr(score, "expansion", None), "points"),
)
class NearestSupport(Explainer):
    """R_i = (x_i − u_i)² for the support point u nearest to x (another one than x itself).

    Examples
    --------
    >>> from tellwhy.detectors import KernelDensity
    >>> NearestSupport(KernelDensity(bandwidth=1.0).fit([[0.0, 0.0], [4.0, 4.0]])).explain([[1.0, 2.0]]).values
    array([[1., 4.]])
    """

    kind = "ranking"

    def _attribute(self, rows: Rows) -> Attribution:
        expansion = needs_member(rows.score, "expansion", "NearestSupport", "support points")
        if isinstance(expansion, CentreDistance):
            raise UnsupportedModel(
                "NearestSupport needs support points; this model is a distance to a centre."
            )
        left_out = rows.score.match(rows.X)
        nearest = nearest_points(expansion.points, rows.X, left_out)
        scores = rows.score.value(rows.X, left_out)
        extras = {"left_out": recorded_rows(left_out, expansion)}
        return Attribution((rows.X - expansion.points[nearest]) ** 2, scores, extras=extras)
