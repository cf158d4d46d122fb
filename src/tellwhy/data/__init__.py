"""Reading tables as people have them, encoding their columns, and generating data."""

from tellwhy.data import graphs
from tellwhy.data.benchmarks import fetch
from tellwhy.data.encoder import TableEncoder
from tellwhy.data.parquet_batches import parquet_batches
from tellwhy.data.reading import read_table
from tellwhy.data.summary import ColumnSummary, describe_column
from tellwhy.data.synthetic import gaussian_mixture
from tellwhy.data.table import Table, as_table
from tellwhy.data.text_cells import MISSING_WORDS

__all__ = [
    "MISSING_WORDS",
    "ColumnSummary",
    "Table",
    "TableEncoder",
    "as_table",
    "describe_column",
    "fetch",
    "gaussian_mixture",
    "graphs",
    "parquet_batches",
    "read_table",
]
