"""Explanations on disk: `explanation.json`, `arrays.npz`, and a Parquet file for each table: data and extras."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.explanation import Explanation
from tellwhy.core.extras import Extras
from tellwhy.core.storage.files import new_folder, read_versioned, stored_arrays, write_json

SCHEMA = 1
_HEAD = "explanation.json"
_ARRAYS = ("values", "scores", "base_values", "stderr")


def save(explanation: Explanation, folder: Path) -> Path:
    """Write the folder, whole or not at all."""
    arrays = {name: getattr(explanation, name) for name in _ARRAYS if getattr(explanation, name) is not None}
    extras = explanation.extras.computed()
    extra_arrays = {k: v for k, v in extras.items() if isinstance(v, np.ndarray) and v.dtype != object}
    tables = {k: v for k, v in extras.items() if hasattr(v, "columns")}
    files = {name: f"extra_{i}.parquet" for i, name in enumerate(tables)}
    arrays.update({f"extra:{name}": extra for name, extra in extra_arrays.items()})
    is_table = hasattr(explanation.data, "columns")
    if explanation.data is not None and not is_table:
        arrays["data"] = np.asarray(explanation.data)
    head = {
        "schema": SCHEMA,
        "method": explanation.method,
        "kind": explanation.kind,
        "params": dict(explanation.params),
        "feature_names": explanation.feature_names,
        "extras": {k: v for k, v in extras.items() if k not in extra_arrays and k not in tables},
        "tables": files,
    }
    with new_folder(folder, marker=_HEAD) as work:
        write_json(work / _HEAD, head)
        np.savez_compressed(work / "arrays.npz", allow_pickle=False, **arrays)
        if is_table:
            _write_table(explanation.data, work / "data.parquet")
        for name, file in files.items():
            _write_table(tables[name], work / file)
    return folder


def load(folder: Path) -> Explanation:
    """Read what `save` wrote."""
    head = _read_head(folder)
    arrays = stored_arrays(folder / "arrays.npz")
    missing = {"values", "scores", "base_values"} - set(arrays)
    if missing:
        raise UnreadableFile(f"{folder / 'arrays.npz'} lacks {sorted(missing)}.")
    extras = dict(head["extras"])
    extras.update({k.removeprefix("extra:"): v for k, v in arrays.items() if k.startswith("extra:")})
    extras.update({name: _read_table(folder / file) for name, file in _table_files(head, folder).items()})
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


def _read_head(folder: Path) -> dict[str, Any]:
    path = folder / _HEAD
    head = read_versioned(path, SCHEMA, "an explanation")
    missing = {"method", "kind", "params", "feature_names", "extras"} - set(head)
    if missing:
        raise UnreadableFile(f"{path} lacks {sorted(missing)}.")
    return head


def _table_files(head: dict[str, Any], folder: Path) -> dict[str, str]:
    files = head.get("tables", {})
    if not isinstance(files, dict) or not all(
        isinstance(f, str) and f == Path(f).name for f in files.values()
    ):
        raise UnreadableFile(f"{folder / _HEAD} does not name the files of its tables.")
    return files


def _write_table(data: Any, path: Path) -> None:
    if hasattr(data, "to_parquet"):
        named = data if all(isinstance(c, str) for c in data.columns) else data.rename(columns=str)
        named.to_parquet(path)
    else:
        data.write_parquet(path)


def _read_data(folder: Path, arrays: dict[str, Any]) -> Any:
    path = folder / "data.parquet"
    return _read_table(path) if path.exists() else arrays.get("data")


def _read_table(path: Path) -> Any:
    import pandas as pd
    import pyarrow as pa

    try:
        return pd.read_parquet(path)
    except (OSError, pa.ArrowException) as error:
        raise UnreadableFile(f"{path} is damaged: {error}.") from error
