"""Files damaged at random: byte by byte, and in their structure with checksums made right again."""

from __future__ import annotations

import gzip
import io
import json
import re
import warnings
import zipfile
from typing import Any

import numpy as np

_NUMBERS = (b"0", b"-1", b"1e999", b"99999999999999999999", b"1048577", b"NaN", b"", b"0x7f", b"-0", b"1.5.2")
_BITS = tuple(
    n.to_bytes(size, order)
    for size in (2, 4, 8)
    for n in (0, 1, 2 ** (8 * size - 1), 2 ** (8 * size) - 1, 2 ** (8 * size - 1) - 1)
    for order in ("little", "big")
)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    float("nan"),
    float("-inf"),
    "",
    "\x00",
    "../x",
    [],
    {},
)
_VALUES += ([[[]]], {"schema": 1}, "NaN", "\ud800", [1, "a", None])
_SIGNS = (
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\0",
    b";",
    b"\t",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\\",
    b"'",
)


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content after one to three damages of bytes."""
    for _ in range(rng.integers(1, 4)):
        content = _DAMAGES[rng.integers(len(_DAMAGES))](content, rng)
    return content


def _place(content: bytes, rng: np.random.Generator) -> int:
    return int(rng.integers(len(content) + 1)) if content else 0


def _flip(content: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    if changed:
        changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _overwrite(content: bytes, rng: np.random.Generator) -> bytes:
    at = _place(content, rng)
    new = _BITS[rng.integers(len(_BITS))]
    return content[:at] + new + content[at + len(new) :]


def _cut(content: bytes, rng: np.random.Generator) -> bytes:
    at = _place(content, rng)
    return content[:at] + content[at + int(rng.integers(1, 40)) :]


def _truncate(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: _place(content, rng)]


def _repeat(content: bytes, rng: np.random.Generator) -> bytes:
    at = _place(content, rng)
    size = int(rng.integers(1, 200))
    return content[: at + size] + content[at:]


def _insert(content: bytes, rng: np.random.Generator) -> bytes:
    at = _place(content, rng)
    return content[:at] + rng.bytes(int(rng.integers(1, 20))) + content[at:]


def _sign(content: bytes, rng: np.random.Generator) -> bytes:
    at = _place(content, rng)
    return content[:at] + _SIGNS[rng.integers(len(_SIGNS))] + content[at:]


def _swap(content: bytes, rng: np.random.Generator) -> bytes:
    ends = sorted(_place(content, rng) for _ in range(3))
    first = content[: ends[0]]
    return first + content[ends[1] : ends[2]] + content[ends[0] : ends[1]] + content[ends[2] :]


_DAMAGES = (_flip, _flip, _overwrite, _cut, _truncate, _repeat, _insert, _sign, _swap)


def reworded(text: bytes, rng: np.random.Generator) -> bytes:
    """Return text (XML, CSV, JSON, libsvm) with a number, a word or a tag replaced by another."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?|<[^<>]+>|\"[^\"]*\"|[A-Za-z_]+", text))
    if not found or rng.random() < 0.2:
        return damaged(text, rng)
    one = found[rng.integers(len(found))]
    other = found[rng.integers(len(found))].group()
    new = _NUMBERS[rng.integers(len(_NUMBERS))] if rng.random() < 0.5 else other
    return text[: one.start()] + new + text[one.end() :]


def rezipped(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a zip archive with one member changed, dropped, doubled or renamed, and sound checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        members = [(entry.filename, old.read(entry.filename)) for entry in old.infolist()]
    at = int(rng.integers(len(members)))
    name, data = members[at]
    is_text = name.endswith((".xml", ".rels", ".csv"))
    kind = rng.integers(10)
    if kind == 0:
        del members[at]
    elif kind == 1:
        members[at] = (members[rng.integers(len(members))][0] + rng.choice(["", "x"]), data)
    else:
        members[at] = (name, reworded(data, rng) if is_text else damaged(data, rng))
    new = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # of names that occur twice, which is the point
        for each, body in members:
            archive.writestr(zipfile.ZipInfo(each), body)
    return new.getvalue()


def remodelled(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a model file with one member changed, and sound checksums: the head more often than an array."""
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    name = "model.json" if rng.integers(2) else str(rng.choice(sorted(members)))
    change = restructured if name.endswith(".json") else damaged
    members[name] = change(members[name], rng)
    new = io.BytesIO()
    with zipfile.ZipFile(new, "w") as archive:
        for each, body in members.items():
            archive.writestr(each, body)
    return new.getvalue()


def regzipped(content: bytes, rng: np.random.Generator) -> bytes:
    """Return a gzip file whose content is changed, and whose checksum is right."""
    return gzip.compress(reworded(gzip.decompress(content), rng), 1)


def restructured(content: bytes, rng: np.random.Generator) -> bytes:
    """Return JSON with one value, name or element replaced, dropped or moved."""
    value = json.loads(content)
    places = list(_places(value))
    if not places:
        return damaged(content, rng)
    owner, key = places[rng.integers(len(places))]
    kind = rng.integers(4)
    if kind == 0:
        del owner[key]
    elif kind == 1:
        other, name = places[rng.integers(len(places))]
        owner[key] = other[name]
    else:
        owner[key] = _VALUES[rng.integers(len(_VALUES))]
    try:
        return json.dumps(value).encode()
    except ValueError:  # a value was put into itself
        return damaged(content, rng)


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)
