"""JSON lines (one object a line) and JSON lists of objects."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.json as arrow_json

from tellwhy.core.errors import UnreadableFile
from tellwhy.data.places import mark_lines, shown
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.reading.byte_source import LARGEST_UNPACKED, ByteSource
from tellwhy.data.reading.records import frame_from_records
from tellwhy.data.reading.text_cells import blank_missing
from tellwhy.data.reading.text_survey import TextSurvey, survey_text
from tellwhy.data.table import check_unique


def read_json(source: ByteSource, *, encoding: str | None) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows of JSON lines, or of one JSON list of objects, and notices."""
    survey = survey_text(source, encoding)
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=survey.encoding, errors="replace")
        is_list = text.read(4096).lstrip().startswith("[")
    frame = _read_list(source, survey) if is_list else _read_lines(source, survey)
    if len(frame) == 0 or len(frame.columns) == 0:
        raise UnreadableFile(f'{source.path} holds no rows with values; expected objects such as {{"a": 1}}.')
    return frame, list(survey.notices)


def _read_lines(source: ByteSource, survey: TextSurvey) -> pd.DataFrame:
    frame = None
    if survey.encoding == "utf-8-sig":
        try:
            with source.open() as stream:
                frame = frame_from_arrow(blank_missing(arrow_json.read_json(stream)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            frame = None  # a bad line, or types that change between lines: the slower reader tells which
    if frame is None:
        frame = frame_from_records(_objects(source, survey))
    check_unique([str(name) for name in frame.columns], where=str(source.path))
    if survey.n_lines == len(frame):
        mark_lines(frame, 1)
    return frame


def _objects(source: ByteSource, survey: TextSurvey) -> Iterator[dict[str, Any]]:
    with source.open() as stream:
        text = io.TextIOWrapper(stream, encoding=survey.encoding, errors="replace")
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UnreadableFile(
                    f"{source.path}, line {number}: not valid JSON ({error}); expected one object a line, "
                    'such as {"a": 1}. Fix or remove that line.'
                ) from error
            if not isinstance(value, dict):
                raise _not_an_object(f"{source.path}, line {number}", value)
            yield value


def _read_list(source: ByteSource, survey: TextSurvey) -> pd.DataFrame:
    try:
        content = source.head(LARGEST_UNPACKED).decode(survey.encoding, errors="replace")
        records = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(
            f"{source.path} is not valid JSON: {error}. Check that it was saved whole."
        ) from error
    for position, record in enumerate(records):
        if not isinstance(record, dict):
            raise _not_an_object(f"{source.path}, element {position} of the list", record)
    return frame_from_records(iter(records))


def _not_an_object(place: str, found: object) -> UnreadableFile:
    return UnreadableFile(
        f'{place}: found {shown(found)}; expected an object with named values, such as {{"a": 1}}.'
    )
