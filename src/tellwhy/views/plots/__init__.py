"""Figures, as plotly figures: `tellwhy.plot.bar(explanation)` and its neighbours."""

from tellwhy.views.plots.evaluation import randomisation, region_flipping
from tellwhy.views.plots.explanations import bar, beeswarm, flipping, heatmap, scores
from tellwhy.views.plots.graphs import cross_plot, node_maps, time_line
from tellwhy.views.plots.insights import insights

__all__ = [
    "bar",
    "beeswarm",
    "cross_plot",
    "flipping",
    "heatmap",
    "insights",
    "node_maps",
    "randomisation",
    "region_flipping",
    "scores",
    "time_line",
]
