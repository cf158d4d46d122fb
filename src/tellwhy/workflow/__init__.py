"""From a model or a file to explained anomalies."""

from typing import TYPE_CHECKING

from tellwhy.core.lazy import lazy_names

if TYPE_CHECKING:
    from tellwhy.workflow.graphs.graph_run import GraphRun as GraphRun, explain_graph as explain_graph
    from tellwhy.workflow.media.media_run import MediaRun as MediaRun
    from tellwhy.workflow.media.picture_run import explain_pictures as explain_pictures
    from tellwhy.workflow.media.series_run import explain_series as explain_series
    from tellwhy.workflow.media.text_run import explain_documents as explain_documents
    from tellwhy.workflow.models.explain_new import (
        explain_new as explain_new,
        explain_table as explain_table,
    )
    from tellwhy.workflow.models.files import load as load, save as save
    from tellwhy.workflow.models.table_model import TableModel as TableModel, fit_model as fit_model
    from tellwhy.workflow.networks.explain_network import explain_network as explain_network
    from tellwhy.workflow.networks.grids import (
        ExplanationGrid as ExplanationGrid,
        architecture_grid as architecture_grid,
        batch_norm_grid as batch_norm_grid,
        image_grid as image_grid,
        neuron_grid as neuron_grid,
        sweep_grid as sweep_grid,
    )
    from tellwhy.workflow.networks.loading import load_network as load_network
    from tellwhy.workflow.run import Run as Run
    from tellwhy.workflow.run_io import load_run as load_run, save_run as save_run
    from tellwhy.workflow.tables.difference import Difference as Difference, diff_tables as diff_tables
    from tellwhy.workflow.tables.table_comparison import (
        TableComparison as TableComparison,
        compare_table as compare_table,
    )
    from tellwhy.workflow.texts.text_labels import TextLabels as TextLabels, explain_texts as explain_texts

_PLACES = {
    "Difference": "tables.difference",
    "ExplanationGrid": "networks.grids",
    "GraphRun": "graphs.graph_run",
    "MediaRun": "media.media_run",
    "Run": "run",
    "TableComparison": "tables.table_comparison",
    "TableModel": "models.table_model",
    "TextLabels": "texts.text_labels",
    "architecture_grid": "networks.grids",
    "batch_norm_grid": "networks.grids",
    "compare_table": "tables.table_comparison",
    "diff_tables": "tables.difference",
    "explain_documents": "media.text_run",
    "explain_graph": "graphs.graph_run",
    "explain_network": "networks.explain_network",
    "explain_new": "models.explain_new",
    "explain_pictures": "media.picture_run",
    "explain_series": "media.series_run",
    "explain_table": "models.explain_new",
    "explain_texts": "texts.text_labels",
    "fit_model": "models.table_model",
    "image_grid": "networks.grids",
    "load": "models.files",
    "load_network": "networks.loading",
    "load_run": "run_io",
    "neuron_grid": "networks.grids",
    "save": "models.files",
    "save_run": "run_io",
    "sweep_grid": "networks.grids",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
