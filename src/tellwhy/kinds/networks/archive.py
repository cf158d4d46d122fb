"""Torch.export without pickle.

The parts of an archive of `torch.export.save`, read without PyTorch's own loader.

That loader unpickles some parts (example inputs, constants that are not plain tensors, weights with unusual
layouts) and evaluates expressions of sizes: either can run code. Here the graph is read as JSON and the
weights as raw numbers; an archive that needs more is refused.

A network from an archive of `torch.export.save`, as a module that runs the operations of its graph.

Operations are PyTorch's own, called by their name; whatever else a graph may hold is refused. Explainers see
them as they see those of any other module.
"""

from __future__ import annotations

import json
import math
import operator
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tellwhy.core.errors import UnreadableFile, UnsupportedModel
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
    module = _read_json(opened, names[models[0]])["graph_module"]
    stem = Path(models[0]).stem
    tensors: dict[str, Tensor] = {}
    is_parameter: dict[str, bool] = {}
    for kind in ("weights", "constants"):
        config = f"data/{kind}/{stem}_{kind}_config.json"
        if config not in names:
            continue
        for name, entry in _read_json(opened, names[config])["config"].items():
            tensors[name] = _read_tensor(opened, names, kind, name, entry)
            is_parameter[name] = kind == "weights" and bool(entry["is_param"])
    return Archive(module["graph"], module["signature"], tensors, is_parameter)


def _is_older(opened: zipfile.ZipFile) -> bool:
    """Whether it is of the older form, with pickled weights, or a file of torch.save."""
    return any(name.endswith((".pt", ".pkl")) for name in opened.namelist())


def _read_json(opened: zipfile.ZipFile, name: str) -> Any:
    if opened.getinfo(name).file_size > LARGEST_TEXT:
        raise UnreadableFile(f"{name} has more than {LARGEST_TEXT:,} bytes; graphs of networks are smaller.")
    return json.loads(opened.read(name))


def _read_tensor(
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
    shape = [read_whole(size, name) for size in meta["sizes"]]
    strides = [read_whole(step, name) for step in meta["strides"]]
    offset = read_whole(meta["storage_offset"], name)
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


def read_whole(size: Mapping[str, Any], what: str) -> int:
    """A size that is a number, not an expression."""
    if not isinstance(size.get("as_int"), int):
        raise UnreadableFile(f"{what!r} has a size that is no number.")
    return int(size["as_int"])


Values = dict[str, Any]
KEYWORD = 2  # kind of an argument that is given by its name
_FAMILY = "torch.ops.aten."
_CHECKS = ("_assert", "sym_constrain_range", "_guard")  # of sizes, while exporting
_MEMORY = {
    1: torch.contiguous_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
    4: torch.preserve_format,
}


def _slice(
    x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


# Operations that PyTorch's graphs have by other names than people's programs.
_OTHERS: dict[str, Callable[..., Any]] = {
    "slice": _slice,
    "embedding": lambda table, tokens, *_: nn.functional.embedding(tokens, table),
    "index": lambda x, places: x[tuple(slice(None) if at is None else at for at in places)],
    "sym_size": lambda x, dim: x.shape[dim],
    "lift_fresh_copy": torch.clone,
    "alias": lambda x: x,
    "detach_": torch.detach,
    "_to_copy": lambda x, **how: x.to(how.get("dtype") or x.dtype),
}
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    f"_operator.{name}": getattr(operator, name)
    for name in ("add", "sub", "mul", "floordiv", "mod", "neg", "eq", "ge", "le", "lt", "gt")
}


class ExportedNetwork(nn.Module):
    """The graph of an archive as a module.

    Attributes
    ----------
    input_shape
        Shape that the first input must have, rows first; None along an axis that may have any length.
    input_dtype
        Its type.
    """

    def __init__(self, archive: Archive):
        super().__init__()
        self._nodes = archive.graph["nodes"]
        self._places: dict[str, str] = {}  # name in the graph -> name of the tensor
        self._inputs: list[str] = []
        for spec in archive.signature["input_specs"]:
            self._take(spec, archive)
        self._outputs = [_read_output(spec) for spec in archive.signature["output_specs"]]
        if len(self._inputs) != 1:
            raise UnsupportedModel(
                f"The exported network takes {len(self._inputs)} inputs; one is explained from the command "
                "line. In Python, explainers take several as a tuple or a dict."
            )
        meta = archive.graph["tensor_values"][self._inputs[0]]
        self.input_shape = [size.get("as_int") for size in meta["sizes"]]
        self.input_dtype = DTYPES.get(meta["dtype"], torch.float32)
        _check_evaluation(self._nodes)
        self._calls = [_find_function(node["target"]) for node in self._nodes]
        self.eval()

    def _take(self, spec: Mapping[str, Any], archive: Archive) -> None:
        """Put one input of the graph in its place: a weight, or what the network is applied to."""
        kind, said = next(iter(spec.items()))
        if kind == "user_input":
            argument = said["arg"]
            if "as_tensor" in argument:
                self._inputs.append(str(argument["as_tensor"]["name"]))
            return
        key = {
            "parameter": "parameter_name",
            "buffer": "buffer_name",
            "tensor_constant": "tensor_constant_name",
        }
        if kind not in key:
            raise UnsupportedModel(
                f"The exported network has an input of the kind {kind!r}, which is not read."
            )
        name = str(said[key[kind]])
        tensor = archive.tensors[name]
        place = f"at_{len(self._places)}"  # names with dots cannot be those of buffers
        if archive.is_parameter.get(name) and tensor.is_floating_point():
            self.register_parameter(place, nn.Parameter(tensor, requires_grad=False))
        else:
            self.register_buffer(place, tensor)
        self._places[str(said["arg"]["name"])] = place

    def forward(self, x: Tensor) -> Any:
        """Run the operations of the graph, in their order."""
        values: Values = {name: getattr(self, place) for name, place in self._places.items()}
        values[self._inputs[0]] = x
        for node, call in zip(self._nodes, self._calls, strict=True):
            if call is not None:
                arguments, named = _read_arguments(node["inputs"], values)
                _keep(node["outputs"], call(*arguments, **named), values)
        found = [values[name] for name in self._outputs]
        return found[0] if len(found) == 1 else tuple(found)


def _check_evaluation(nodes: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a network that was exported in training mode, where outputs depend on chance."""
    for node in nodes:
        for entry in node["inputs"]:
            if entry["name"] in ("train", "training") and entry["arg"].get("as_bool"):
                raise UnsupportedModel(
                    f"The network was exported in training mode: {node['target']} depends on chance, or on "
                    "other rows. Call model.eval() before exporting."
                )


def _read_output(spec: Mapping[str, Any]) -> str:
    kind, said = next(iter(spec.items()))
    if kind != "user_output" or "as_tensor" not in said["arg"]:
        raise UnsupportedModel(
            f"The exported network gives out {kind.replace('_', ' ')}: it changes its own state, as in "
            "training mode, or gives no tensor. Call model.eval() before exporting."
        )
    return str(said["arg"]["as_tensor"]["name"])


def _find_function(target: str) -> Callable[..., Any] | None:
    """PyTorch's function of an operation; None for checks of sizes, which compute nothing."""
    if target in _ARITHMETIC:
        return _ARITHMETIC[target]
    name = target.removeprefix(_FAMILY).partition(".")[0]
    if not target.startswith(_FAMILY) or not name.isidentifier():
        raise UnsupportedModel(
            f"The exported network has the operation {target!r}; only PyTorch's own are run. Name the "
            "network as module:function instead."
        )
    if name.startswith(_CHECKS):
        return None
    for place in (_OTHERS, torch._C._nn, torch, Tensor):
        found = place.get(name) if isinstance(place, dict) else getattr(place, name, None)
        if callable(found):
            function: Callable[..., Any] = found
            return function
    raise UnsupportedModel(f"This version of PyTorch ({torch.__version__}) has no operation {target!r}.")


def _read_arguments(listed: Sequence[Mapping[str, Any]], values: Values) -> tuple[list[Any], dict[str, Any]]:
    placed = [_read_value(entry["arg"], values) for entry in listed if entry.get("kind") != KEYWORD]
    named = {e["name"]: _read_value(e["arg"], values) for e in listed if e.get("kind") == KEYWORD}
    named.pop("pin_memory", None)
    named.pop("layout", None)
    return placed, named


def _read_value(argument: Mapping[str, Any], values: Values) -> Any:
    """What an argument stands for."""
    kind, said = next(iter(argument.items()))
    if kind not in _READ:
        raise UnsupportedModel(
            f"The exported network has an argument of the kind {kind!r}, which is not read."
        )
    return _READ[kind](said, values)


def _find_named(said: Any, values: Values) -> Any:
    """A tensor by its name, or nothing where an optional one is left out."""
    return values[said["name"]] if "name" in said else _read_value(said, values)


def _read_size(said: Any, values: Values) -> Any:
    """A size that was computed on the way, by its name, or a number."""
    return values[said["as_name"]] if "as_name" in said else next(iter(said.values()))


def _take_as_is(said: Any, _: Values) -> Any:
    return said


def _read_each(read: Callable[[Any, Values], Any]) -> Callable[[Any, Values], list[Any]]:
    return lambda said, values: [read(one, values) for one in said]


_READ: dict[str, Callable[[Any, Values], Any]] = {
    **dict.fromkeys(("as_int", "as_ints", "as_bool", "as_bools", "as_string"), _take_as_is),
    "as_none": lambda *_: None,
    "as_float": lambda said, _: float(said),  # JSON has no infinity: it comes as a word
    "as_floats": lambda said, _: [float(one) for one in said],
    **dict.fromkeys(("as_tensor", "as_optional_tensor"), _find_named),
    **dict.fromkeys(("as_tensors", "as_optional_tensors"), _read_each(_find_named)),
    **dict.fromkeys(("as_sym_int", "as_sym_bool", "as_sym_float"), _read_size),
    **dict.fromkeys(("as_sym_ints", "as_sym_bools", "as_sym_floats"), _read_each(_read_size)),
    "as_scalar_type": lambda said, _: DTYPES[said],
    "as_memory_format": lambda said, _: _MEMORY.get(said, torch.preserve_format),
    "as_layout": lambda *_: torch.strided,
    "as_device": lambda *_: torch.device("cpu"),  # where a network is loaded
}


def _keep(listed: Sequence[Mapping[str, Any]], result: Any, values: Values) -> None:
    """Keep what an operation gave under the names that the graph has for it."""
    results = [result] if len(listed) == 1 else list(result)
    for entry, one in zip(listed, results, strict=True):
        kind, said = next(iter(entry.items()))
        if kind == "as_tensors":
            values.update({part["name"]: value for part, value in zip(said, one, strict=True)})
        elif kind == "as_tensor":
            values[said["name"]] = one
        elif kind.startswith("as_sym"):
            values[said["as_name"]] = one


def load_exported(path: Path) -> ExportedNetwork:
    """Read a network from an archive of `torch.export.save`, without unpickling anything."""
    archive = read_archive(path)
    try:
        return ExportedNetwork(archive)
    except (KeyError, TypeError, StopIteration, AttributeError) as error:
        if isinstance(error, UnsupportedModel):
            raise
        raise UnreadableFile(
            f"{path} does not hold what an exported network must hold: {error!r}."
        ) from error
