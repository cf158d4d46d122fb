from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from tellwhy.data import read_table
from tellwhy.data.places import place_of

RECORDS = [{"n": 1, "t": "a", "on": "2024-05-31"}, {"n": 2.5, "t": "NA"}, {"t": "c", "flag": True, "n": None}]


def check(frame):
    assert list(frame.columns) == ["n", "t", "on", "flag"]
    assert frame["n"].tolist()[:2] == [1, 2.5]
    assert np.isnan(frame["n"].tolist()[2])
    assert frame["t"].isna().tolist() == [False, True, False]
    assert frame["flag"].isna().tolist() == [True, True, False]


LINES = "\n".join(json.dumps(r) for r in RECORDS)


@pytest.mark.parametrize("name", ["t.jsonl", "t.ndjson", "t.json"])
def test_lines(tmp_path, name):
    (tmp_path / name).write_text(LINES, encoding="utf-8")
    check(read_table(tmp_path / name).frame)


def test_packed_lines_and_other_encodings(tmp_path):
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(LINES.encode()))
    check(read_table(tmp_path / "t.jsonl.gz").frame)
    (tmp_path / "u.jsonl").write_bytes(LINES.encode("utf-16"))
    check(read_table(tmp_path / "u.jsonl").frame)


def test_list_of_objects(tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(RECORDS, indent=1), encoding="utf-8")
    check(read_table(tmp_path / "t.json").frame)


def test_types_that_change_between_lines_become_text(tmp_path):
    (tmp_path / "t.jsonl").write_text(
        '{"a": 1, "b": [1]}\n{"a": "x", "b": {"c": 2}}\n\n{"a": NaN}\n', encoding="utf-8"
    )
    frame = read_table(tmp_path / "t.jsonl").frame
    assert frame["a"].tolist()[:2] == ["1", "x"]
    assert frame["b"].tolist()[:2] == ["[1]", '{"c": 2}']
    assert len(frame) == 3


def test_numbers_beyond_64_bits(tmp_path):
    (tmp_path / "t.json").write_text(f'[{{"a": {10**30}}}, {{"a": 1}}]', encoding="utf-8")
    assert read_table(tmp_path / "t.json").frame["a"].tolist() == [1e30, 1.0]


def test_fast_and_slow_reader_agree(tmp_path):
    rng = np.random.default_rng(0)
    records = [
        {"x": float(v), "k": int(k)}
        for v, k in zip(rng.normal(size=200), rng.integers(9, size=200), strict=True)
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    (tmp_path / "t.json").write_text(json.dumps(records), encoding="utf-8")
    fast, slow = read_table(tmp_path / "t.jsonl").frame, read_table(tmp_path / "t.json").frame
    fast.attrs = {}
    pd.testing.assert_frame_equal(fast, slow)


def test_lines_are_known_where_each_row_is_one(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n{"a": 2}\n', encoding="utf-8")
    assert place_of(read_table(tmp_path / "t.jsonl").frame, 1) == "row 1 (line 2 of the file)"
    (tmp_path / "u.jsonl").write_text('{"a": 1}\n\n{"a": 2}\n', encoding="utf-8")
    assert place_of(read_table(tmp_path / "u.jsonl").frame, 1) == "row 1"
    (tmp_path / "v.json").write_text('[{"a": 1},\n{"a": 2}]', encoding="utf-8")
    assert place_of(read_table(tmp_path / "v.json").frame, 1) == "row 1"


def test_a_value_stays_in_its_row_when_the_rows_between_lack_it(tmp_path):
    records = [{"a": 1.5, "b": 1}, {"b": 2}, {"b": 3}, {"a": 4.5, "b": 4}, {"b": 5}]
    (tmp_path / "t.json").write_text(json.dumps(records), encoding="utf-8")
    frame = read_table(tmp_path / "t.json").frame
    np.testing.assert_array_equal(frame["a"], [1.5, np.nan, np.nan, 4.5, np.nan])
    assert frame["b"].tolist() == [1, 2, 3, 4, 5]


def test_names_of_json_are_believed_also_when_packed(tmp_path):
    (tmp_path / "t.ndjson").write_text('{ "a": 1 }\n{ "a": 2 }\n', encoding="utf-8")
    assert read_table(tmp_path / "t.ndjson").frame["a"].tolist() == [1, 2]
    (tmp_path / "t.json.gz").write_bytes(gzip.compress(b'[{"a": 1}, {"a": 2}]'))
    assert read_table(tmp_path / "t.json.gz").frame["a"].tolist() == [1, 2]


def test_large_whole_numbers_are_exact(tmp_path):
    numbers = [2**53 + 1, -(2**63), 2**63 - 1]
    (tmp_path / "t.json").write_text(json.dumps([{"a": n} for n in numbers]), encoding="utf-8")
    assert read_table(tmp_path / "t.json").frame["a"].tolist() == numbers
