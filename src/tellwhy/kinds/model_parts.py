"""What a saved model of a table is made of, and what must be true of each part that is read from a file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tellwhy.data import TableEncoder
from tellwhy.data.columns.codes import BooleanCode, CategoryCode, DateCode, NumberCode
from tellwhy.data.columns.dates import WrittenDates
from tellwhy.data.columns.kinds import Verdict
from tellwhy.data.columns.labels import WrittenBooleans
from tellwhy.data.columns.numbers import WrittenNumbers
from tellwhy.data.columns.reading import Role
from tellwhy.data.columns.times import Compact, Epoch, WrittenTimes
from tellwhy.data.text import BagOfWords
from tellwhy.detectors import NearestNeighbours, OneClassSVM
from tellwhy.detectors.model_io import KIND
from tellwhy.kinds.request import Request
from tellwhy.kinds.table_model import Mark, TableModel
from tellwhy.kinds.table_rows import LARGEST_STEP, StoredColumn, StoredRows
from tellwhy.kinds.text_columns import LIKENESS, TextModel
from tellwhy.scoring.surprise import Surprise
from tellwhy.storage.codec import Fit, Part, Parts, by_name
from tellwhy.verdicts.alarms import Calibration
from tellwhy.verdicts.seen_values import SeenValues

_KINDS = ("number", "boolean", "date", "category", "text", "identifier", "constant", "empty")
_READINGS = (WrittenNumbers, WrittenTimes, WrittenBooleans, WrittenDates, Epoch, Compact)


def _is_finite(*values: Any) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in values)


def _are_texts(*values: Any) -> bool:
    return all(isinstance(value, str) for value in values)


def _role(role: Role) -> Iterator[Fit]:
    yield "kind", role.kind in _KINDS, True
    yield "words", _are_texts(role.words, role.orders), True
    yield "reading", role.reading is None or isinstance(role.reading, _READINGS), True


def _numbers(reading: WrittenNumbers) -> Iterator[Fit]:
    yield "words", _are_texts(reading.words, reading.decimal, *reading.before, *reading.after), True
    yield "decimal", reading.decimal in (".", ","), True
    yield "factors", _are_texts(*reading.factors) and _is_finite(*reading.factors.values()), True


def _texts_only(reading: Any) -> Iterator[Fit]:
    """Readings whose fields are short words, or true or false."""
    for name, value in vars(reading).items():
        yield name, isinstance(value, (bool, str)) or _is_words(value), True
    # A word that names no way of writing shows when it is read with.
    yield "words", isinstance(reading.words, str), True


def _is_words(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and _are_texts(*value)


def _epoch(reading: Epoch) -> Iterator[Fit]:
    yield "unit", reading.unit in ("seconds", "milliseconds", "microseconds"), True


def _number_code(code: NumberCode) -> Iterator[Fit]:
    yield "centre", _is_finite(code.centre), True
    yield "scale", _is_finite(code.scale) and code.scale > 0, True
    yield "compress", isinstance(code.compress, bool), True


def _boolean_code(code: BooleanCode) -> Iterator[Fit]:
    yield "usual", code.usual in (0.0, 1.0), True
    yield "distance", _is_finite(code.distance) and code.distance > 0, True


def _category_code(code: CategoryCode) -> Iterator[Fit]:
    yield "labels", len(code.labels) > 0 and _are_texts(*code.labels), True
    yield "scales", len(code.scales), len(code.labels)
    yield "scales", _is_finite(*code.scales) and min(code.scales) >= 0, True


def _date_code(code: DateCode) -> Iterator[Fit]:
    yield "days", isinstance(code.days, NumberCode), True
    yield "cycles", set(code.cycles) <= {"time of day", "day of week", "day of year"}, True
    yield "radius", len(code.radius), len(code.cycles)
    yield "radius", _is_finite(*code.radius), True
    yield "middle", [len(pair) for pair in code.middle], [2] * len(code.cycles)
    yield "middle", _is_finite(*(value for pair in code.middle for value in pair)), True


def _verdict(verdict: Verdict) -> Iterator[Fit]:
    yield "kind", _are_texts(verdict.kind, verdict.layout, verdict.reason), True


def _encoder(encoder: TableEncoder) -> Iterator[Fit]:
    names = list(encoder.columns_)
    yield "columns_", len(names) > 0 and _are_texts(*names), True
    for part in ("kinds_", "codes_", "verdicts_"):
        yield part, list(getattr(encoder, part)), names
    codes = list(encoder.codes_.values())
    known = (NumberCode, BooleanCode, CategoryCode, DateCode)
    yield "codes_", all(isinstance(code, known) for code in codes), True
    yield "kinds_", list(encoder.kinds_.values()), [code.kind for code in codes]
    yield "verdicts_", [each.kind for each in encoder.verdicts_.values()], [code.kind for code in codes]
    owner = np.repeat(np.arange(len(codes)), [code.width for code in codes])
    yield "owner_", np.array_equal(encoder.owner_, owner), True
    yield "encoded_names_", len(encoder.encoded_names_), len(owner)
    yield "notices_", _is_words(encoder.notices_), True


def _stored_column(column: StoredColumn) -> Iterator[Fit]:
    forms = {"number": "f", "whole": "i", "boolean": "u", "date": "i", "label": "i", "category": "i"}
    values = column.values
    yield "kind", column.kind in forms, True
    yield "values", (values.ndim, values.dtype.kind), (1, forms[column.kind])
    gaps = column.is_missing
    yield "is_missing", (gaps.ndim, gaps.dtype.kind), (1, "b")
    yield "is_missing", len(gaps) in (0, len(values)), True
    yield "names", _are_texts(*column.names), True
    if column.kind in ("label", "category") and len(values):
        yield "values", bool(values.min() >= -1 and values.max() < len(column.names)), True
        yield "names", len(set(column.names)), len(column.names)
    if column.kind == "date" and len(values):
        yield "values", bool(np.abs(values).max() < LARGEST_STEP), True


def _stored_rows(rows: StoredRows) -> Iterator[Fit]:
    columns = list(rows.columns.values())
    yield "columns", len(columns) > 0 and all(isinstance(c, StoredColumn) for c in columns), True
    yield "columns", len({len(column.values) for column in columns}), 1


def _seen(seen: SeenValues) -> Iterator[Fit]:
    yield "kind", seen.kind in _KINDS, True
    yield "n", _is_finite(seen.n, seen.n_missing, seen.n_more) and 0 <= seen.n_missing <= seen.n, True
    yield "low", _is_finite(seen.low, seen.high) and seen.low <= seen.high, True
    labels = seen.labels or {}
    yield "labels", _are_texts(*labels) and _is_finite(*labels.values()), True


def _calibration(calibration: Calibration) -> Iterator[Fit]:
    yield "law", calibration.law is None or isinstance(calibration.law, Surprise), True


def _request(request: Request) -> Iterator[Fit]:
    yield "top", request.top >= 1, True  # what else may be in it was checked when it was made


def _mark(mark: Mark) -> Iterator[Fit]:
    yield "cause", _are_texts(mark.cause, mark.words, mark.why), True


def _bag(bag: BagOfWords) -> Iterator[Fit]:
    words = list(bag.words_)
    yield "words_", len(words) > 1 and _are_texts(*words), True
    yield "columns_", dict(bag.columns_), {word: k for k, word in enumerate(words[:-1])}
    for part in ("weights_", "is_common_"):
        yield part, getattr(bag, part).shape, (len(words),)
    yield "weights_", bag.weights_.dtype.kind, "f"
    yield "is_common_", bag.is_common_.dtype.kind, "b"


def _text_model(model: TextModel) -> Iterator[Fit]:
    yield "likeness", model.likeness in LIKENESS, True
    yield "bag", isinstance(model.bag, BagOfWords), True
    yield "detector", isinstance(model.detector, (NearestNeighbours, OneClassSVM)), True
    yield "detector", model.detector.n_features_in_, len(model.bag.words_)
    yield "learned", list(model.learned), []
    yield "places", np.array_equal(model.places, [-1]), True


def _model(model: TableModel) -> Iterator[Fit]:
    yield "roles", all(isinstance(role, Role) for role in model.roles.values()), True
    yield "seen", sorted(model.seen), sorted(model.roles)
    yield "encoder", isinstance(model.encoder, TableEncoder), True
    yield "encoder", set(model.encoder.columns_) <= set(model.roles), True
    yield "rows", isinstance(model.rows, StoredRows), True
    yield "rows", set(model.encoder.columns_) <= set(model.rows.columns) <= set(model.roles), True
    n = len(next(iter(model.rows.columns.values())).values)
    yield "sample", model.sample.ndim == 1 and 0 < len(model.sample) <= n, True
    yield "sample", bool((model.sample >= 0).all() and (model.sample < n).all()), True
    yield "detector", model.detector.n_features_in_, len(model.encoder.owner_)
    yield "level", _is_finite(model.level, model.threshold), True
    yield "marks", all(isinstance(mark, Mark) for mark in model.marks), True
    yield "texts", all(isinstance(each, TextModel) for each in model.texts.values()), True
    yield "texts", set(model.texts) <= set(model.roles), True
    yield "words", _are_texts(model.source, model.fingerprint, model.words, model.rule), True
    yield "by_rows", (model.by_rows is None), (not model.by_roles)
    if model.by_rows is not None:
        yield "by_rows", list(model.by_rows.columns), list(model.by_roles)
        yield "bends", set(model.bends.values()) <= {"as it is", "square root", "logarithm"}, True


_Fits = Callable[[Any], Iterator[Fit]]
_OWN: dict[type, _Fits] = {
    Role: _role,
    WrittenNumbers: _numbers,
    WrittenTimes: _texts_only,
    WrittenBooleans: _texts_only,
    WrittenDates: _texts_only,
    Epoch: _epoch,
    Compact: _texts_only,
    NumberCode: _number_code,
    BooleanCode: _boolean_code,
    CategoryCode: _category_code,
    DateCode: _date_code,
    Verdict: _verdict,
    TableEncoder: _encoder,
    StoredColumn: _stored_column,
    StoredRows: _stored_rows,
    SeenValues: _seen,
    Calibration: _calibration,
    Request: _request,
    Mark: _mark,
    BagOfWords: _bag,
    TextModel: _text_model,
    TableModel: _model,
}


def stored_rows_parts() -> Parts:
    """What rows of a table are kept as."""
    return by_name(Part(StoredRows, _stored_rows), Part(StoredColumn, _stored_column))


def model_parts() -> Parts:
    """Everything that a model of a table may be made of."""
    own = by_name(*(Part(cls, fits) for cls, fits in _OWN.items()))
    return {**KIND.parts, **KIND.models(), **own}
