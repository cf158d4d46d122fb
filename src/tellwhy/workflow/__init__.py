"""From a model or a file to explained anomalies; names are loaded when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tellwhy.workflow.graph_run import GraphRun, explain_graph
    from tellwhy.workflow.run import Run
    from tellwhy.workflow.run_io import load_run, save_run
    from tellwhy.workflow.table_comparison import TableComparison, compare_table
    from tellwhy.workflow.table_run import explain_table
    from tellwhy.workflow.text_labels import TextLabels, explain_texts

_PUBLIC = {
    "GraphRun": "graph_run",
    "Run": "run",
    "TableComparison": "table_comparison",
    "TextLabels": "text_labels",
    "compare_table": "table_comparison",
    "explain_graph": "graph_run",
    "explain_table": "table_run",
    "explain_texts": "text_labels",
    "load_run": "run_io",
    "save_run": "run_io",
}

__all__ = [
    "GraphRun",
    "Run",
    "TableComparison",
    "TextLabels",
    "compare_table",
    "explain_graph",
    "explain_table",
    "explain_texts",
    "load_run",
    "save_run",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tellwhy.workflow' has no attribute {name!r}")
    return getattr(importlib.import_module(f"tellwhy.workflow.{_PUBLIC[name]}"), name)
