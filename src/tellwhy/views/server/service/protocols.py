"""The Open Inference Protocol (v2) and KServe's version 1, in terms of tables and scores."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from starlette.exceptions import HTTPException

from tellwhy.core.score import Floats
from tellwhy.views.server.service.bodies import (
    NOT_JSON,
    UNUSABLE,
    check_size,
    checked,
    frame_of_rows,
    read_json,
)
from tellwhy.views.server.service.limits import Limits
from tellwhy.views.server.service.shelf import Served

TYPES = {
    "BOOL": "?",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
OF_ROLES = {"number": "FP64", "boolean": "BOOL"}  # other columns are texts: BYTES
OUTPUTS = {"score": "FP64", "is_alarm": "BOOL"}
MOST_AXES = 2
Document = dict[str, Any]


def instances_of(told: Mapping[str, Any], served: Served, limits: Limits) -> pd.DataFrame:
    """The table of a request of KServe's version 1: objects, or lists in the order of the model's columns."""
    instances = told.get("instances")
    if not isinstance(instances, list) or not instances:
        raise HTTPException(UNUSABLE, "The body needs 'instances': a list with at least one row.")
    columns = None if isinstance(instances[0], dict) else served.columns
    return frame_of_rows(instances, columns, limits)


def describe_model(served: Served) -> Document:
    """The metadata of a model, as version 2 has it."""
    roles = {**served.table.roles, **served.table.by_roles}
    inputs = [
        {"name": name, "datatype": OF_ROLES.get(roles[name].kind, "BYTES"), "shape": [-1]}
        for name in served.columns
    ]
    outputs = [{"name": name, "datatype": kind, "shape": [-1]} for name, kind in OUTPUTS.items()]
    return {
        "name": served.name,
        "versions": [served.version],
        "platform": "tellwhy",
        "inputs": inputs,
        "outputs": outputs,
    }


def split_binary(content: bytes, head_bytes: str | None) -> tuple[Document, bytes]:
    """The JSON of a request of version 2, and the numbers that follow it as bytes."""
    if head_bytes is None:
        return read_json(content), b""
    if not head_bytes.isascii() or not head_bytes.isdigit() or int(head_bytes) > len(content):
        raise HTTPException(NOT_JSON, "Inference-Header-Content-Length is no length within the body.")
    length = int(head_bytes)
    return read_json(content[:length]), content[length:]


def tensors_of(told: Mapping[str, Any], rest: bytes, served: Served, limits: Limits) -> pd.DataFrame:
    """The table of a request of version 2: a tensor a column, or one of all columns in their order."""
    inputs = told.get("inputs")
    if not isinstance(inputs, list) or not inputs or not all(isinstance(each, dict) for each in inputs):
        raise HTTPException(UNUSABLE, "The body needs 'inputs': a list of tensors.")
    columns: dict[str, Any] = {}
    for tensor in inputs:
        size = _binary_size(tensor)
        if size > len(rest):
            raise HTTPException(NOT_JSON, "The body ends before the tensors do.")
        shape = _shape(tensor, limits)
        values = _values(tensor, shape, rest[:size] if size else None)
        rest = rest[size:]
        columns |= _columns(tensor, values, shape, served.columns)
    if len({len(values) for values in columns.values()}) > 1:
        raise HTTPException(UNUSABLE, "The tensors have different numbers of rows.")
    return checked(pd.DataFrame(columns), limits)


def _binary_size(tensor: Mapping[str, Any]) -> int:
    parameters = tensor.get("parameters") or {}
    size = parameters.get("binary_data_size", 0) if isinstance(parameters, dict) else 0
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise HTTPException(UNUSABLE, "binary_data_size must be a whole number.")
    return size


def _shape(tensor: Mapping[str, Any], limits: Limits) -> tuple[int, int]:
    """Rows and columns of a tensor."""
    name = str(tensor.get("name", ""))[:80]
    shape = tensor.get("shape")
    is_shape = (
        isinstance(shape, list)
        and 1 <= len(shape) <= MOST_AXES
        and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape)
    )
    if not isinstance(shape, list) or not is_shape:
        raise HTTPException(UNUSABLE, f"Tensor {name!r} needs a shape of one or two whole numbers.")
    n_columns = shape[1] if len(shape) == MOST_AXES else 1
    check_size(shape[0], n_columns, limits)
    return shape[0], n_columns


def _values(tensor: Mapping[str, Any], shape: tuple[int, int], raw: bytes | None) -> list[Any] | np.ndarray:
    """The cells of a tensor, one after the other."""
    kind = tensor.get("datatype")
    name = str(tensor.get("name", ""))[:80]
    n = shape[0] * shape[1]
    found: Any
    try:
        if raw is not None:
            found = _texts(raw, n) if kind == "BYTES" else np.frombuffer(raw, TYPES[str(kind)])
        else:
            data = tensor.get("data")
            flat = _flat(data) if isinstance(data, list) else []
            texts = kind == "BYTES"
            found = [_as_text(each) for each in flat] if texts else np.array(flat, dtype=TYPES[str(kind)])
    except (KeyError, ValueError, TypeError, OverflowError, struct.error):
        raise HTTPException(UNUSABLE, f"Tensor {name!r} does not hold {str(kind)[:20]} cells.") from None
    if len(found) != n:
        raise HTTPException(UNUSABLE, f"Tensor {name!r} holds {len(found)} cells; its shape says {n}.")
    if isinstance(found, np.ndarray) and found.dtype.kind == "f" and not np.isfinite(found).all():
        place = int(np.argmax(~np.isfinite(found)))
        row, column = divmod(place, shape[1])
        raise HTTPException(UNUSABLE, f"Tensor {name!r}, row {row}, column {column}: no finite number.")
    return found


def _flat(data: Sequence[Any]) -> list[Any]:
    """Cells that may stand in lists of lists."""
    return [cell for each in data for cell in (each if isinstance(each, list) else [each])]


def _as_text(cell: Any) -> str | None:
    if cell is not None and not isinstance(cell, str):
        raise ValueError("no text")
    return cell


def _texts(raw: bytes, n: int) -> list[str]:
    """Texts as bytes, each behind its length."""
    found = []
    at = 0
    for _ in range(n):
        length = struct.unpack_from("<I", raw, at)[0]
        found.append(raw[at + 4 : at + 4 + length].decode("utf-8"))
        at += 4 + length
    if at != len(raw):
        raise ValueError("bytes are left over")
    return found


def _columns(
    tensor: Mapping[str, Any], values: list[Any] | np.ndarray, shape: tuple[int, int], known: Sequence[str]
) -> dict[str, Any]:
    """Names and cells of the columns of a tensor."""
    name = str(tensor.get("name", ""))
    if name in known or shape[1] == 1:
        if shape[1] != 1:
            raise HTTPException(UNUSABLE, f"Tensor {name!r} is a column; its shape has {shape[1]} of them.")
        return {name if name in known or len(known) != 1 else known[0]: values}
    if shape[1] != len(known):
        raise HTTPException(
            UNUSABLE, f"Tensor {name[:80]!r} has {shape[1]} columns; the model has {len(known)}."
        )
    return {column: values[k :: shape[1]] for k, column in enumerate(known)}


def answer_infer(
    served: Served, told: Mapping[str, Any], scores: Floats, threshold: float
) -> tuple[Document, bytes]:
    """The answer of version 2: the JSON, and outputs that were asked for as bytes."""
    made = {"score": scores, "is_alarm": scores > threshold}
    wanted = told.get("outputs") or [{"name": name} for name in OUTPUTS]
    is_list = isinstance(wanted, list) and all(isinstance(each, dict) for each in wanted)
    if not is_list or any(each.get("name") not in made for each in wanted):
        raise HTTPException(UNUSABLE, f"'outputs' must name some of {', '.join(made)}.")
    general = _parameter(told, "binary_data_output", False)
    outputs = []
    rest = b""
    for each in wanted:
        name = each["name"]
        output: Document = {"name": name, "datatype": OUTPUTS[name], "shape": [len(scores)]}
        if _parameter(each, "binary_data", general):
            raw = made[name].astype(TYPES[OUTPUTS[name]]).tobytes()
            output["parameters"] = {"binary_data_size": len(raw)}
            rest += raw
        else:
            output["data"] = [None if cell != cell else cell for cell in made[name].tolist()]  # noqa: PLR0124
        outputs.append(output)
    document: Document = {"model_name": served.name, "model_version": served.version, "outputs": outputs}
    if isinstance(told.get("id"), str):
        document["id"] = told["id"]
    return document, rest


def _parameter(told: Mapping[str, Any], name: str, usual: bool) -> bool:
    parameters = told.get("parameters") or {}
    return bool(parameters.get(name, usual)) if isinstance(parameters, dict) else usual


def joined(document: Mapping[str, Any], rest: bytes) -> tuple[bytes, dict[str, str]]:
    """The body of an answer, and the header that says where its bytes begin."""
    head = json.dumps(document).encode()
    return head + rest, {"inference-header-content-length": str(len(head))} if rest else {}
