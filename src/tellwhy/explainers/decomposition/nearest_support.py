"""Squared differences to the nearest support point."""

from __future__ import annotations

from tellwhy.core.capabilities import HasExpansion, support_points
from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.registry import register
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer, lacks
from tellwhy.scoring.scores.distance_score import nearest_points


@register(
    "explainer",
    family="decomposition",
    needs="a model made of distances to support points or neighbours",
    cost="O(n m d)",
    exactness="a baseline: shares of one distance, not of the score",
    citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020), section 8.2",
    applies=lambda score: support_points(score) is not None,
)
class NearestSupport(ScoreExplainer):
    """R_i = (x_i − u_i)² for the support point u nearest to x (another one than x itself).

    Examples
    --------
    >>> from tellwhy.detectors import KernelDensity
    >>> model = KernelDensity(bandwidth=1.0).fit([[0.0, 0.0], [4.0, 4.0]])
    >>> NearestSupport(model).explain([[1.0, 2.0]]).values
    array([[1., 4.]])
    """

    kind = "ranking"
    leaves_rows_out = True

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasExpansion):
            raise lacks(rows.score, "NearestSupport", "support points")
        points = support_points(rows.score)
        if points is None:
            raise UnsupportedModel(
                "NearestSupport needs support points; this model is a distance to a centre."
            )
        nearest = nearest_points(points, rows.X, rows.skipped)
        return Attribution((rows.X - points[nearest]) ** 2, rows.scores())
