"""`save` and `load`: any fitted model as one file; and models of tables in particular."""

from __future__ import annotations

from pathlib import Path

from tellwhy.core.errors import UnreadableFile
from tellwhy.kinds.table_model import TableModel
from tellwhy.storage.model_file import load, save

__all__ = ["load", "load_table_model", "save"]


def load_table_model(path: str | Path) -> TableModel:
    """Read a model of a table, or raise `UnreadableFile`."""
    model = load(path)
    if not isinstance(model, TableModel):
        raise UnreadableFile(
            f"{path} holds a {type(model).__name__}; expected a model of a table. Make one with "
            f"`tellwhy fit data.csv --save {Path(path).name}`."
        )
    return model
