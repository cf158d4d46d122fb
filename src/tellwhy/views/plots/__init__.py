"""Figures, as plotly figures: `tellwhy.plot.bar(explanation)` and its neighbours.

Each name is loaded when first used, so that one figure does not load what the others need.
"""

from typing import TYPE_CHECKING

from tellwhy.core.lazy import lazy_names

if TYPE_CHECKING:
    from tellwhy.views.plots.dependence import scatter as scatter
    from tellwhy.views.plots.evaluation import (
        flipping as flipping,
        randomisation as randomisation,
        region_flipping as region_flipping,
    )
    from tellwhy.views.plots.explanations import bar as bar, beeswarm as beeswarm, scores as scores
    from tellwhy.views.plots.gallery import insights as insights
    from tellwhy.views.plots.graphs import (
        cross_plot as cross_plot,
        node_maps as node_maps,
        time_line as time_line,
    )
    from tellwhy.views.plots.heatmaps import heatmap as heatmap
    from tellwhy.views.plots.media.seen import series as series, six_views as six_views
    from tellwhy.views.plots.media.visualisations import visualise as visualise
    from tellwhy.views.plots.networks.grids import grid as grid
    from tellwhy.views.plots.networks.systematic import box_ratios as box_ratios, strategies as strategies
    from tellwhy.views.plots.overlays import overlay as overlay, text as text
    from tellwhy.views.plots.sums import decision as decision, force as force, waterfall as waterfall

# No module may have the name of a function here: loading it would put the module in the function's place.
_PLACES = {
    "bar": "explanations",
    "beeswarm": "explanations",
    "box_ratios": "networks.systematic",
    "cross_plot": "graphs",
    "decision": "sums",
    "flipping": "evaluation",
    "force": "sums",
    "grid": "networks.grids",
    "heatmap": "heatmaps",
    "insights": "gallery",
    "node_maps": "graphs",
    "overlay": "overlays",
    "randomisation": "evaluation",
    "region_flipping": "evaluation",
    "scatter": "dependence",
    "scores": "explanations",
    "series": "media.seen",
    "six_views": "media.seen",
    "strategies": "networks.systematic",
    "text": "overlays",
    "time_line": "graphs",
    "visualise": "media.visualisations",
    "waterfall": "sums",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
