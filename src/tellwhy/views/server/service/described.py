"""What the service says of itself: bodies of requests with their examples, for its OpenAPI page."""

from __future__ import annotations

import re
from typing import Any

from tellwhy.views.server.service.bodies import ARROW, CSV, JSON

Document = dict[str, Any]
CELL: Document = {"type": ["string", "number", "integer", "boolean", "null"]}
ROWS: Document = {
    "oneOf": [
        {"type": "array", "minItems": 1, "items": {"type": "object", "additionalProperties": CELL}},
        {"type": "array", "minItems": 1, "items": {"type": "array", "items": CELL}},
    ]
}
EXAMPLE_ROWS = [{"size": 20.5, "price": 5.1, "shop": "north"}, {"size": 90.0, "price": 4.9, "shop": "south"}]
SETTINGS: dict[str, Document] = {
    "model": {"type": "string", "description": "Which model; needed where there are several."},
    "columns": {"type": "array", "items": {"type": "string"}, "description": "Names, where rows are lists."},
    "method": {"type": "string", "description": "How columns get their shares; auto by default."},
    "top": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Rows to explain at least."},
    "id_column": {"type": "string", "description": "Column that names rows."},
    "first": {"type": "integer", "minimum": 0, "description": "First anomaly to return."},
    "most": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many anomalies."},
    "old": {"type": "object", "properties": {"rows": ROWS}, "description": "Rows to compare with."},
}
REFUSALS: dict[str, str] = {
    "400": "The body cannot be read.",
    "401": "The key is missing, or nobody's.",
    "404": "There is no such model.",
    "408": "The body came in too slowly.",
    "413": "Too many bytes, rows or columns.",
    "415": "An unknown media type, or a compressed Arrow stream.",
    "422": "The rows do not fit the model; the cell is named.",
    "429": "Too many requests wait; Retry-After says how long to wait.",
    "504": "No answer in time; the work was stopped.",
}


def in_path(path: str, told: Document) -> Document:
    """The description of an endpoint, with the names that stand in its path."""
    names = re.findall(r"\{(\w+)\}", path)
    parts = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    return {**told, "parameters": [*parts, *told.get("parameters", [])]}


def table_request(*settings: str) -> Document:
    """The description of an endpoint that takes rows."""
    told = {name: SETTINGS[name] for name in ("model", "columns", *settings)}
    schema = {
        "type": "object",
        "required": ["rows"],
        "properties": {"rows": ROWS, **told},
        "additionalProperties": False,
    }
    query = [
        {"name": name, "in": "query", "required": False, "schema": SETTINGS[name]}
        for name in ("model", *(each for each in settings if each != "old"))
    ]
    text = "size,price,shop\n20.5,5.1,north\n90.0,4.9,south\n"
    content = {
        JSON: {"schema": schema, "example": {"rows": EXAMPLE_ROWS}},
        CSV: {"schema": {"type": "string"}, "example": text},
        ARROW: {"schema": {"type": "string", "format": "binary"}},
    }
    body = {"required": True, "content": content}
    return {"parameters": query, "requestBody": body, "responses": refusals()}


def json_request(properties: Document, required: list[str], example: Document) -> Document:
    """The description of an endpoint that takes JSON alone."""
    schema = {"type": "object", "required": required, "properties": properties}
    content = {JSON: {"schema": schema, "example": example}}
    return {"requestBody": {"required": True, "content": content}, "responses": refusals()}


def refusals() -> Document:
    """The statuses of requests that are refused, all of the same form."""
    schema = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["message"],
                "properties": {"message": {"type": "string"}},
            }
        },
    }
    content = {JSON: {"schema": schema}}
    return {code: {"description": why, "content": content} for code, why in REFUSALS.items()}


INSTANCES = json_request(
    {"instances": {"type": "array", "minItems": 1}}, ["instances"], {"instances": EXAMPLE_ROWS}
)
TENSORS = json_request(
    {
        "id": {"type": "string"},
        "inputs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name", "shape", "datatype"],
                "properties": {
                    "name": {"type": "string"},
                    "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
                    "datatype": {"type": "string"},
                    "data": {"type": "array"},
                },
            },
        },
        "outputs": {"type": "array", "items": {"type": "object"}},
    },
    ["inputs"],
    {
        "inputs": [
            {"name": "size", "shape": [2], "datatype": "FP64", "data": [20.5, 90.0]},
            {"name": "price", "shape": [2], "datatype": "FP64", "data": [5.1, 4.9]},
            {"name": "shop", "shape": [2], "datatype": "BYTES", "data": ["north", "south"]},
        ]
    },
)
