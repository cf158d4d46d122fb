"""From a model or a file to explained anomalies."""

from tellwhy.workflow.compare_table import TableComparison, compare_table
from tellwhy.workflow.explain import explain, methods
from tellwhy.workflow.explain_table import explain_table
from tellwhy.workflow.run import Run
from tellwhy.workflow.run_io import load_run, save_run

__all__ = ["Run", "TableComparison", "compare_table", "explain", "explain_table", "load_run", "methods", "save_run"]
