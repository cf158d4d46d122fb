"""Explanations on disk: `explanation.json`, `arrays.npz`, and a Parquet file for each table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.arrays import Frame, PandasRows
from tellwhy.core.errors import UnreadableFile
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Extras
from tellwhy.storage.documents import Arrays, Format, read_stored_table, write_stored_table
from tellwhy.storage.folders import find_standing

FORMAT = Format(
    "an explanation",
    "explanation.json",
    keys={
        "method": (str,),
        "kind": (str,),
        "params": (dict,),
        "feature_names": (list, type(None)),
        "extras": (dict,),
    },
    arrays=("values", "scores", "base_values"),
)
_ARRAYS = (*FORMAT.arrays, "stderr")
_DATA = "data.parquet"
_EXTRA = "extra:"  # begins the names of arrays that are extras


def save(explanation: Explanation, folder: Path) -> Path:
    """Write the folder, whole or not at all."""
    extras = explanation.extras.computed()
    extra_arrays = {k: v for k, v in extras.items() if isinstance(v, np.ndarray) and v.dtype != object}
    tables = {k: v for k, v in extras.items() if isinstance(v, Frame)}
    files = {name: f"extra_{i}.parquet" for i, name in enumerate(tables)}
    head = {
        "method": explanation.method,
        "kind": explanation.kind,
        "params": dict(explanation.params),
        "feature_names": explanation.feature_names,
        "extras": {k: v for k, v in extras.items() if k not in extra_arrays and k not in tables},
        "tables": files,
    }

    def add_tables(work: Path) -> None:
        if isinstance(explanation.data, Frame):
            _write_table(explanation.data, work / _DATA)
        for name, file in files.items():
            _write_table(tables[name], work / file)

    return FORMAT.write(folder, head, _collect_arrays(explanation, extra_arrays), add=add_tables)


def _collect_arrays(explanation: Explanation, extras: Mapping[str, Any]) -> Arrays:
    """Return everything that is an array, by the name it has in the file."""
    found = {name: getattr(explanation, name) for name in _ARRAYS}
    arrays = {name: array for name, array in found.items() if array is not None}
    if explanation.data is not None and not isinstance(explanation.data, Frame):
        arrays["data"] = np.asarray(explanation.data)
    return arrays | {_EXTRA + name: extra for name, extra in extras.items()}


def load(folder: Path) -> Explanation:
    """Read what `save` wrote."""
    folder = find_standing(folder)
    head, arrays = FORMAT.read(folder)
    extras = dict(head["extras"])
    extras.update({k.removeprefix(_EXTRA): v for k, v in arrays.items() if k.startswith(_EXTRA)})
    extras.update(
        {name: read_stored_table(folder / file) for name, file in _list_table_files(head, folder).items()}
    )
    try:
        return Explanation(
            values=arrays["values"],
            scores=arrays["scores"],
            base_values=arrays["base_values"],
            stderr=arrays.get("stderr"),
            data=_read_data(folder, arrays),
            method=head["method"],
            kind=head["kind"],
            params=head["params"],
            feature_names=head["feature_names"],
            extras=Extras(extras),
        )
    except (TypeError, ValueError) as error:  # arrays of text, or of shapes that do not belong together
        raise UnreadableFile(f"{folder} does not hold a whole explanation: {error}") from error


def _list_table_files(head: Mapping[str, Any], folder: Path) -> dict[str, str]:
    files = head.get("tables", {})  # folders of the first versions have none
    # A name with a path in it could make us read any file of the machine.
    is_sound = isinstance(files, dict) and all(
        isinstance(file, str) and file == Path(file).name for file in files.values()
    )
    if not is_sound:
        raise UnreadableFile(f"{folder / FORMAT.head} does not name the files of its 'tables'.")
    return dict(files)


def _write_table(data: Any, path: Path) -> None:
    is_pandas = isinstance(data, PandasRows)
    if is_pandas:
        # Parquet's names are text; pandas' may be numbers.
        named = data if all(isinstance(c, str) for c in data.columns) else data.rename(columns=str)
        write_stored_table(named, path)
    else:
        data.write_parquet(path)  # polars


def _read_data(folder: Path, arrays: Mapping[str, Any]) -> Any:
    path = folder / _DATA
    return read_stored_table(path) if path.exists() else arrays.get("data")
