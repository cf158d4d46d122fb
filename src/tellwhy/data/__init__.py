"""Reading tables as people have them, encoding their columns, and generating data."""

from importlib import import_module
from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.data.benchmarks import fetch as fetch
    from tellwhy.data.columns.encoder import TableEncoder as TableEncoder
    from tellwhy.data.columns.summary import (
        ColumnSummary as ColumnSummary,
        describe_column as describe_column,
    )
    from tellwhy.data.generated import gaussian_mixture as gaussian_mixture
    from tellwhy.data.reading.cells import MISSING_WORDS as MISSING_WORDS
    from tellwhy.data.reading.parquet import parquet_batches as parquet_batches
    from tellwhy.data.sources import read_table as read_table
    from tellwhy.data.table import Table as Table, as_table as as_table

_PLACES = {
    "ColumnSummary": "columns.summary",
    "MISSING_WORDS": "reading.cells",
    "Table": "table",
    "TableEncoder": "columns.encoder",
    "as_table": "table",
    "describe_column": "columns.summary",
    "fetch": "benchmarks",
    "gaussian_mixture": "generated",
    "parquet_batches": "reading.parquet",
    "read_table": "sources",
}
if not TYPE_CHECKING:
    _get, __dir__ = lazy_names(__name__, _PLACES)

    def __getattr__(name: str) -> object:
        return import_module(f"{__name__}.graphs") if name == "graphs" else _get(name)
else:
    from tellwhy.data import graphs as graphs


__all__ = list(_PLACES)
__all__ += ["graphs"]
