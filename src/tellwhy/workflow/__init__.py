"""From a model or a file to explained anomalies."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.kinds.comparison import TableComparison as TableComparison, compare_table as compare_table
    from tellwhy.kinds.drift import Difference as Difference
    from tellwhy.kinds.events import explain_events as explain_events
    from tellwhy.kinds.graph import GraphRun as GraphRun, explain_graph as explain_graph
    from tellwhy.kinds.labels import explain_texts as explain_texts
    from tellwhy.kinds.networks.grids import (
        ExplanationGrid as ExplanationGrid,
        architecture_grid as architecture_grid,
        batch_norm_grid as batch_norm_grid,
        image_grid as image_grid,
        neuron_grid as neuron_grid,
        sweep_grid as sweep_grid,
    )
    from tellwhy.kinds.networks.loading import load_network as load_network
    from tellwhy.kinds.networks.network import explain_network as explain_network
    from tellwhy.kinds.pictures import explain_pictures as explain_pictures
    from tellwhy.kinds.repair import Repaired as Repaired, repair_table as repair_table
    from tellwhy.kinds.table import explain_new as explain_new, explain_table as explain_table
    from tellwhy.kinds.table_model import TableModel as TableModel, fit_model as fit_model
    from tellwhy.kinds.texts import explain_documents as explain_documents
    from tellwhy.kinds.two_tables import diff_tables as diff_tables
    from tellwhy.kinds.windows import explain_series as explain_series
    from tellwhy.results.labelled_texts import TextLabels as TextLabels
    from tellwhy.results.result import MediaRun as MediaRun, Run as Run
    from tellwhy.storage.model_file import load as load, save as save
    from tellwhy.verdicts.run_io import load_run as load_run, save_run as save_run

_PLACES = {
    "Difference": "tellwhy.kinds.drift",
    "ExplanationGrid": "tellwhy.kinds.networks.grids",
    "GraphRun": "tellwhy.kinds.graph",
    "MediaRun": "tellwhy.results.result",
    "Repaired": "tellwhy.kinds.repair",
    "Run": "tellwhy.results.result",
    "TableComparison": "tellwhy.kinds.comparison",
    "TableModel": "tellwhy.kinds.table_model",
    "TextLabels": "tellwhy.results.labelled_texts",
    "architecture_grid": "tellwhy.kinds.networks.grids",
    "batch_norm_grid": "tellwhy.kinds.networks.grids",
    "compare_table": "tellwhy.kinds.comparison",
    "diff_tables": "tellwhy.kinds.two_tables",
    "explain_documents": "tellwhy.kinds.texts",
    "explain_events": "tellwhy.kinds.events",
    "explain_graph": "tellwhy.kinds.graph",
    "explain_network": "tellwhy.kinds.networks.network",
    "explain_new": "tellwhy.kinds.table",
    "explain_pictures": "tellwhy.kinds.pictures",
    "explain_series": "tellwhy.kinds.windows",
    "explain_table": "tellwhy.kinds.table",
    "explain_texts": "tellwhy.kinds.labels",
    "fit_model": "tellwhy.kinds.table_model",
    "image_grid": "tellwhy.kinds.networks.grids",
    "load": "tellwhy.storage.model_file",
    "load_network": "tellwhy.kinds.networks.loading",
    "load_run": "tellwhy.verdicts.run_io",
    "neuron_grid": "tellwhy.kinds.networks.grids",
    "repair_table": "tellwhy.kinds.repair",
    "save": "tellwhy.storage.model_file",
    "save_run": "tellwhy.verdicts.run_io",
    "sweep_grid": "tellwhy.kinds.networks.grids",
}
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
