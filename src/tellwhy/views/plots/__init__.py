"""Figures, as plotly figures: `tellwhy.plot.bar(explanation)` and its neighbours.

Each name is loaded when first used, so that one figure does not load what the others need.
"""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.views.plots.dependence import scatter as scatter
    from tellwhy.views.plots.evaluation import (
        flipping as flipping,
        randomisation as randomisation,
        region_flipping as region_flipping,
    )
    from tellwhy.views.plots.gallery import insights as insights
    from tellwhy.views.plots.graphs import (
        cross_plot as cross_plot,
        node_maps as node_maps,
        time_line as time_line,
    )
    from tellwhy.views.plots.heatmaps import heatmap as heatmap, overlay as overlay, text as text
    from tellwhy.views.plots.media import series as series, six_views as six_views
    from tellwhy.views.plots.networks import box_ratios as box_ratios, grid as grid, strategies as strategies
    from tellwhy.views.plots.rows import bar as bar, beeswarm as beeswarm, scores as scores
    from tellwhy.views.plots.sums import decision as decision, force as force, waterfall as waterfall
    from tellwhy.views.plots.visualisations import visualise as visualise

# No module may have the name of a function here: loading it would put the module in the function's place.
_PLACES = {
    "bar": "rows",
    "beeswarm": "rows",
    "box_ratios": "networks",
    "cross_plot": "graphs",
    "decision": "sums",
    "flipping": "evaluation",
    "force": "sums",
    "grid": "networks",
    "heatmap": "heatmaps",
    "insights": "gallery",
    "node_maps": "graphs",
    "overlay": "heatmaps",
    "randomisation": "evaluation",
    "region_flipping": "evaluation",
    "scatter": "dependence",
    "scores": "rows",
    "series": "media",
    "six_views": "media",
    "strategies": "networks",
    "text": "heatmaps",
    "time_line": "graphs",
    "visualise": "visualisations",
    "waterfall": "sums",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
