"""A result as plain values and back, by the types of its fields; and their JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from tellwhy.results.notice import Notice
from tellwhy.results.result import SCHEMA, Anomaly, Finding, Reason, Result
from tellwhy.storage.documents import Misfit, make_plain

ADDRESS = "https://json-schema.org/draft/2020-12/schema"
NOT_IN_HEAD = ("scores", "rows", "explanation", "table_rows", "arrays")  # of a result: in files of their own
# sentences, written beside the fields they are made of, for who reads the file
SAID: dict[type, tuple[str, ...]] = {
    Anomaly: ("note",),
    Finding: ("text", "example"),
    Notice: ("text",),
    Reason: ("text",),
    Result: ("headline", "summary"),
}
NOT_FINITE = ("nan", "inf", "-inf")  # JSON has no numbers for them
_OF = {True: "additionalProperties", False: "items"}
_JSON = {str: "string", bool: "boolean", int: "integer"}


def to_plain(value: Any) -> Any:
    """A result, or a part of one, as JSON holds it: its fields, and what they say in words.

    Examples
    --------
    >>> to_plain(Notice("marked"))
    {'kind': 'marked', 'facts': {}, 'text': 'known to be harmless'}
    """
    if is_dataclass(value):
        kind: Any = type(value)
        held = {field.name: to_plain(getattr(value, field.name)) for field in _list_fields(kind)}
        return held | {name: getattr(value, name) for name in SAID.get(kind, ())}
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [to_plain(each) for each in value]
    return make_plain(value)


def from_plain(kind: Any, value: Any, key: str = "it") -> Any:
    """What `to_plain` made, as the type of a field again; raise `Misfit` where it is of another type.

    Examples
    --------
    >>> from_plain(Notice, {"kind": "marked", "facts": {}})
    Notice(kind='marked', facts={})
    """
    if kind is Any:
        return value
    if is_dataclass(kind):
        return _read_object(kind, value, key)
    inner = get_args(kind)
    if type(None) in inner:
        return None if value is None else from_plain(_find_given_type(inner), value, key)
    if inner:
        return _read_container(get_origin(kind), inner, value, key)
    if kind is float and (_is_a(int, value) or value in NOT_FINITE):
        return float(value)
    if not _is_a(kind, value):
        raise _refuse_type(value, key)
    return value


def _read_container(origin: Any, inner: Sequence[Any], value: Any, key: str) -> Any:
    if origin is Mapping and isinstance(value, dict):
        return {name: from_plain(inner[1], each, key) for name, each in value.items()}
    if origin is not Mapping and isinstance(value, (list, tuple)):
        made = [from_plain(inner[0], each, key) for each in value]
        return tuple(made) if origin is tuple else made
    raise _refuse_type(value, key)


def _refuse_type(value: Any, key: str) -> Misfit:
    return Misfit(f"it holds {str(value)[:40]!r}", key)


def _is_a(kind: type, value: Any) -> bool:
    """Whether a value is of a plain type; True is no number."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _read_object(kind: Any, value: Any, key: str) -> Any:
    if not isinstance(value, dict):
        raise _refuse_type(value, key)
    hints = _read_hints(kind)
    known = {field.name: field for field in _list_fields(kind)}
    for name, field in known.items():
        if name not in value and _is_required(field):
            raise Misfit(f"{name!r} is missing", key)
    return kind(
        **{name: from_plain(hints[name], each, name) for name, each in value.items() if name in known}
    )


def make_json_schema() -> dict[str, Any]:
    """Return the JSON Schema of `result.json`."""
    parts: dict[str, Any] = {}
    whole = _describe_class(Result, parts)
    whole["properties"]["schema"] = {"const": SCHEMA}
    return {"$schema": ADDRESS, "title": "A result of tellwhy", **whole, "$defs": parts}


def _describe_type(kind: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """The schema of one type; classes are written into `parts`."""
    if kind is Any:
        return {}
    if is_dataclass(kind):
        return _make_reference(kind, parts)
    inner = get_args(kind)
    if type(None) in inner:
        return {"anyOf": [_describe_type(_find_given_type(inner), parts), {"type": "null"}]}
    if inner:
        is_object = get_origin(kind) is Mapping
        of = _describe_type(inner[-1] if is_object else inner[0], parts)
        return {"type": "object" if is_object else "array", _OF[is_object]: of}
    if kind is float:
        return {"anyOf": [{"type": "number"}, {"enum": list(NOT_FINITE)}]}
    return {"type": _JSON[kind]}


def _make_reference(kind: Any, parts: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in parts:
        parts[name] = {}  # a class may hold itself
        parts[name] = _describe_class(kind, parts)
    return {"$ref": f"#/$defs/{name}"}


def _describe_class(kind: Any, parts: dict[str, Any]) -> dict[str, Any]:
    hints = _read_hints(kind)
    held = {field.name: _describe_type(hints[field.name], parts) for field in _list_fields(kind)}
    said = {name: _describe_type(_find_saying(kind, name), parts) for name in SAID.get(kind, ())}
    return {
        "description": str(kind.__doc__).splitlines()[0],
        "type": "object",
        "properties": held | said,
        "required": [field.name for field in _list_fields(kind) if _is_required(field)],
    }


def _find_saying(kind: Any, name: str) -> Any:
    return get_type_hints(getattr(kind, name).fget)["return"]


def _find_given_type(kinds: Sequence[Any]) -> Any:
    """The type that an optional one has where it is given."""
    return next(kind for kind in kinds if kind is not type(None))


def _is_required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


@cache
def _read_hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _list_fields(kind: Any) -> list[Field[Any]]:
    return [field for field in fields(kind) if kind is not Result or field.name not in NOT_IN_HEAD]


if __name__ == "__main__":
    print(json.dumps(make_json_schema(), indent=1, ensure_ascii=False))
