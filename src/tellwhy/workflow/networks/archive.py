"""The parts of an archive of `torch.export.save`, read without PyTorch's own loader.

That loader unpickles some parts (example inputs, constants that are not plain tensors, weights with unusual
layouts) and evaluates expressions of sizes: either can run code. Here the graph is read as JSON and the
weights as raw numbers; an archive that needs more is refused.
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tellwhy.core.errors import UnreadableFile
from tellwhy.storage.documents import check_regular

LARGEST_TEXT = 256 * 2**20  # bytes of the graph
AGAIN = (
    "Export it again with PyTorch 2.9 or later: torch.export.save(torch.export.export(model, (x,)), path)."
)
# Numbers of types as the format counts them.
DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
}


@dataclass(frozen=True, eq=False)
class Archive:
    """What an archive holds: the graph as JSON has it, and tensors by their names in the model."""

    graph: Mapping[str, Any]
    signature: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    is_parameter: Mapping[str, bool]


def read_archive(path: Path) -> Archive:
    """Read the graph and the weights of an archive; nothing in it is executed."""
    try:
        check_regular(path)
        with zipfile.ZipFile(path) as opened:
            return _read(opened, path)
    except FileNotFoundError as error:
        raise UnreadableFile(f"{path} does not exist.") from error
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise UnreadableFile(f"{path} cannot be read as an exported network: {error}. {AGAIN}") from error
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, UnreadableFile):
            raise
        raise UnreadableFile(
            f"{path} does not hold what an exported network must hold, or not in the form it must have: "
            f"{error!r}. {AGAIN}"
        ) from error


def _read(opened: zipfile.ZipFile, path: Path) -> Archive:
    names = {name.partition("/")[2]: name for name in opened.namelist()}
    models = [name for name in names if name.startswith("models/") and name.endswith(".json")]
    if not models:
        what = (
            "keeps its weights as a pickle, which could run code" if _is_older(opened) else "holds no graph"
        )
        raise UnreadableFile(f"{path} {what}: it is not loaded. {AGAIN}")
    if len(models) > 1:
        raise UnreadableFile(f"{path} holds {len(models)} networks; expected one. Save each on its own.")
    if "byteorder" in names and opened.read(names["byteorder"]) != b"little":
        raise UnreadableFile(f"{path} holds numbers whose bytes are in the other order. {AGAIN}")
    module = _json(opened, names[models[0]])["graph_module"]
    stem = Path(models[0]).stem
    tensors: dict[str, Tensor] = {}
    is_parameter: dict[str, bool] = {}
    for kind in ("weights", "constants"):
        config = f"data/{kind}/{stem}_{kind}_config.json"
        if config not in names:
            continue
        for name, entry in _json(opened, names[config])["config"].items():
            tensors[name] = _tensor(opened, names, kind, name, entry)
            is_parameter[name] = kind == "weights" and bool(entry["is_param"])
    return Archive(module["graph"], module["signature"], tensors, is_parameter)


def _is_older(opened: zipfile.ZipFile) -> bool:
    """Whether it is of the older form, with pickled weights, or a file of torch.save."""
    return any(name.endswith((".pt", ".pkl")) for name in opened.namelist())


def _json(opened: zipfile.ZipFile, name: str) -> Any:
    if opened.getinfo(name).file_size > LARGEST_TEXT:
        raise UnreadableFile(f"{name} has more than {LARGEST_TEXT:,} bytes; graphs of networks are smaller.")
    return json.loads(opened.read(name))


def _tensor(
    opened: zipfile.ZipFile, names: Mapping[str, str], kind: str, name: str, entry: Mapping[str, Any]
) -> Tensor:
    """One weight or constant, from its raw numbers."""
    if entry["use_pickle"] or entry["tensor_meta"] is None:
        raise UnreadableFile(
            f"{name!r} is kept as a pickle, which could run code: the network is not loaded. Only plain "
            "tensors are read; make it one before exporting (no subclass, not sparse, not quantised)."
        )
    meta = entry["tensor_meta"]
    dtype = DTYPES.get(meta["dtype"])
    if dtype is None:
        raise UnreadableFile(f"{name!r} is of a type (number {meta['dtype']}) that is not read here.")
    shape = [whole(size, name) for size in meta["sizes"]]
    strides = [whole(step, name) for step in meta["strides"]]
    offset = whole(meta["storage_offset"], name)
    where = names[f"data/{kind}/{entry['path_name']}"]
    # Checked before memory is given: a few bytes can claim to be terabytes.
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    needed = 0 if 0 in shape else (last + 1) * dtype.itemsize
    there = opened.getinfo(where).file_size
    if needed > there or min([offset, *shape, *strides]) < 0 or math.prod(shape) * dtype.itemsize > there:
        raise UnreadableFile(f"{name!r} says that it has {shape} numbers; its part holds {there:,} bytes.")
    raw = (
        torch.frombuffer(bytearray(opened.read(where)), dtype=dtype) if there else torch.empty(0, dtype=dtype)
    )
    return torch.as_strided(raw, shape, strides, offset).clone()


def whole(size: Mapping[str, Any], what: str) -> int:
    """A size that is a number, not an expression."""
    if not isinstance(size.get("as_int"), int):
        raise UnreadableFile(f"{what!r} has a size that is no number.")
    return int(size["as_int"])
