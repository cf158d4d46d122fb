"""The published schema is that of the types, and what is written follows it."""

import json
from pathlib import Path

import numpy as np
import pytest

from tellwhy.results.notice import Notice
from tellwhy.results.result import Anomaly, Part, Reason, Result
from tellwhy.results.schema import from_plain, make_json_schema, to_plain
from tellwhy.results.store import load_result, save_result
from tellwhy.storage.documents import Misfit
from tellwhy.workflow import explain_table

PUBLISHED = Path(__file__).parents[2] / "docs" / "reference" / "result.schema.json"


def misfits(schema, value, whole, place="result"):
    """Return what a value has that its schema does not allow: the words of JSON Schema that ours uses."""
    if "$ref" in schema:
        return misfits(whole["$defs"][schema["$ref"].rpartition("/")[2]], value, whole, place)
    if "anyOf" in schema:
        return min((misfits(each, value, whole, place) for each in schema["anyOf"]), key=len)
    if "const" in schema or "enum" in schema:
        return [] if value in schema.get("enum", [schema.get("const")]) else [place]
    kinds = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "integer": int,
        "null": type(None),
    }
    kind = schema.get("type")
    if kind == "number":
        return [] if type(value) in (int, float) else [place]
    if kind is None:
        return []
    if type(value) is not kinds[kind]:
        return [place]
    found = []
    if kind == "array":
        for i, each in enumerate(value):
            found += misfits(schema["items"], each, whole, f"{place}[{i}]")
    if kind == "object":
        found += [f"{place}.{name} is missing" for name in schema.get("required", []) if name not in value]
        for name, each in value.items():
            of = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            found += (
                [f"{place}.{name} is not known"]
                if of is None
                else misfits(of, each, whole, f"{place}.{name}")
            )
    return found


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(120, 3))
    rows[7, 1] = 9.0
    return explain_table(rows, top=3)


def test_the_published_schema_is_that_of_the_types():
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == make_json_schema(), (
        "python -m tellwhy.results.schema > docs/reference/result.schema.json"
    )


def test_what_is_written_follows_the_schema(found, tmp_path):
    save_result(found, tmp_path / "run")
    held = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    schema = make_json_schema()
    assert misfits(schema, held, schema) == []
    held["anomalies"][0]["score"] = "high"
    held["anomalies"][0]["part"]["sheet"] = 1
    del held["settings"]
    assert misfits(schema, held, schema) == [
        "result.settings is missing",
        "result.anomalies[0].part.sheet is not known",
        "result.anomalies[0].score",
    ]


def test_parts_of_other_kinds_come_back(tmp_path):
    part = Part("region", box=(3, 9, 0, 4))
    region = Reason("", None, [], 0.6, kind="as_written", facts={"text": "top left"}, part=part)
    odd = Anomaly(Part("picture", row=4, name="a.png"), 7.5, None, is_alarm=True, reasons=[region])
    result = Result(
        kind="pictures",
        source="folder",
        settings={"patch": 8},
        anomalies=[odd],
        scores=np.arange(5.0),
        names=list("abcde"),
        threshold=None,
        notices=[Notice("marked")],
        arrays={"data.0": np.ones((4, 4))},
    )
    again = load_result(save_result(result, tmp_path / "run"))
    assert again.anomalies == [odd]
    assert (again.kind, again.names, again.notices, again.threshold) == (
        "pictures",
        list("abcde"),
        result.notices,
        None,
    )
    np.testing.assert_array_equal(again.arrays["data.0"], np.ones((4, 4)))
    np.testing.assert_array_equal(again.scores, result.scores)
    assert (again.n_flagged, len(again.explanation)) == (0, 0)


def test_numbers_that_json_has_not_come_back(found):
    held = json.loads(json.dumps(to_plain(Anomaly(Part("row", row=1), float("inf")))))
    again = from_plain(Anomaly, held)
    assert again.score == float("inf")
    assert again.percentile is None


@pytest.mark.parametrize("score", [True, "1.5", None, [1.5]])
def test_values_of_other_types_are_refused(score):
    held = to_plain(Anomaly(Part("row", row=1), 1.0)) | {"score": score}
    with pytest.raises(Misfit) as refusal:
        from_plain(Anomaly, held)
    assert refusal.value.key == "score"
