"""The endpoints of the service: what they answer is what the library says, and what they refuse."""

import gzip
import io
import json
import re

import jsonschema
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tellwhy
from tellwhy.kinds.table import change_request, judge
from tellwhy.results.schema import make_json_schema
from tellwhy.views.server.service.bodies import ARROW, CSV

from .conftest import rows_of

BAD = {"size": 90.0, "price": 5.0, "shop": "north"}


@pytest.fixture(scope="module")
def rows():
    made = rows_of(30, seed=1)
    made.loc[7, "size"] = 90.0
    return made


def as_rows(frame):
    return frame.to_dict("records")


def arrow_of(frame, **settings):
    held = io.BytesIO()
    table = pa.Table.from_pandas(frame, preserve_index=False) if isinstance(frame, pd.DataFrame) else frame
    with pa.ipc.new_stream(held, table.schema, **settings) as stream:
        stream.write_table(table)
    return held.getvalue()


def oracle(place, frame):
    model = tellwhy.load(place)
    table = tellwhy.data.as_table(frame)
    return judge(model, table, change_request(model, {}), is_part=True)


def test_scores_are_those_of_the_library_in_every_form(client, place, rows):
    expected = oracle(place, rows).ranking.model_scores
    by_json = client.post("/v1/score", json={"rows": as_rows(rows)}).json()
    lists = {"columns": list(rows.columns), "rows": rows.to_numpy().tolist()}
    by_lists = client.post("/v1/score", json=lists).json()
    by_arrow = client.post("/v1/score", content=arrow_of(rows), headers={"content-type": ARROW}).json()
    text = rows.to_csv(index=False)
    by_text = client.post("/v1/score", content=text, headers={"content-type": CSV}).json()
    assert by_json["scores"] == by_lists["scores"] == by_arrow["scores"] == by_text["scores"]
    assert by_json["scores"] == expected.tolist()
    assert by_json["is_alarm"] == (expected > by_json["threshold"]).tolist()
    assert by_json["is_alarm"][7]


def test_explanations_are_those_of_the_library(client, place, rows):
    judged = oracle(place, rows)
    expected = judged.batch.fitted.explain(np.arange(30), "auto")
    found = client.post("/v1/explain", json={"rows": as_rows(rows)}).json()
    assert found["columns"] == list(expected.names())
    assert found["values"] == expected.values.tolist()
    sums = np.array(found["base_values"]) + np.sum(found["values"], axis=1) + np.array(found["residual"])
    assert np.allclose(sums, found["scores"], atol=1e-9)
    assert found["columns"][int(np.argmax(found["values"][7]))] == "size"


def test_a_judgement_is_the_document_of_a_result(client, rows):
    found = client.post("/v1/judge", json={"rows": as_rows(rows), "top": 3, "most": 2}).json()
    jsonschema.validate(found, make_json_schema())
    assert found["anomalies"][0]["part"]["row"] == 7
    assert found["anomalies"][0]["is_alarm"]
    assert found["anomalies"][0]["reasons"][0]["feature"] == "size"
    assert found["page"] == {"first": 0, "n": 2, "of": 3, "next": 2}
    assert (found["n_rows"], found["n_alarms"], found["model"]) == (30, 1, "orders")
    assert "/" not in json.dumps(found["settings"])


def test_a_row_is_judged_alike_whoever_stands_beside_it(client, rows):
    alone = client.post("/v1/score", json={"rows": as_rows(rows)[7:8]}).json()["scores"][0]
    among = client.post("/v1/score", json={"rows": as_rows(rows)}).json()["scores"][7]
    assert alone == among


def test_what_changed_is_told(client, rows):
    moved = rows_of(200, seed=3).assign(price=9.0)
    found = client.post("/v1/diff", json={"rows": as_rows(moved)}).json()
    assert [each["column"] for each in found["drifts"] if each["drifted"]] == ["price"]
    assert found["old"] == {"source": "pandas.DataFrame", "n_rows": 300}
    both = client.post(
        "/v1/diff", json={"rows": as_rows(moved), "old": {"rows": as_rows(rows_of(200, seed=4))}}
    ).json()
    assert (both["old"]["n_rows"], both["n_drifted"]) == (200, 1)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([BAD, {**BAD, "size": "many"}], "Row 1, column 'size'"),
        ([{**BAD, "size": [1]}], "Row 0, column 'size'"),
        ([{**BAD, "price": 2**70}], "Row 0, column 'price'"),
        ([{"size": 1.0}], "'price'"),
        ([], "at least one row"),
        ("rows", "at least one row"),
        ([3], "Row 0"),
        ([{}], "no columns"),
        ([{**BAD, "shop": "\ud800"}], "column 'shop'"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_their_cell(client, rows, words):
    answer = client.post(
        "/v1/score", content=json.dumps({"rows": rows}), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422
    assert words in answer.json()["error"]["message"]


@pytest.mark.parametrize("number", ["1e999", "-1e999"])
def test_numbers_that_are_not_finite_are_refused(client, number):
    text = f'{{"rows": [{{"size": {number}, "price": 1, "shop": "north"}}]}}'
    answer = client.post("/v1/score", content=text)
    assert answer.status_code == 422
    assert "Row 0, column 'size'" in answer.json()["error"]["message"]
    assert client.post("/v1/score", content=text.replace(number, "NaN")).status_code == 400
    table = pa.table({"size": [1.0, float("inf")], "price": [1.0, 2.0], "shop": ["north", "south"]})
    answer = client.post("/v1/score", content=arrow_of(table), headers={"content-type": ARROW})
    assert "Row 1, column 'size'" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("content", "form", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"[]", "application/json", 422),
        (b"x", "application/x-pickle", 415),
        (b"no arrow", ARROW, 400),
        (b"", ARROW, 400),
        (b"\x00\x01,\n", CSV, 422),
        (b"", CSV, 422),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), CSV, 415),
        (b"a\n" * 5_000, CSV, 413),
        (b" " * 300_000, CSV, 413),
    ],
)
def test_bodies_that_cannot_be_read_are_refused(client, content, form, status):
    assert client.post("/v1/score", content=content, headers={"content-type": form}).status_code == status


def test_tables_that_are_too_large_are_refused_before_they_are_unpacked(client, rows):
    many = pa.table({"size": pa.nulls(10**6)})
    wide = pa.table({f"c{k}": [1.0] for k in range(40)})
    packed = arrow_of(rows, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    for content, status in ((arrow_of(many), 413), (arrow_of(wide), 413), (packed, 415)):
        answer = client.post("/v1/score", content=content, headers={"content-type": ARROW})
        assert answer.status_code == status
    wide_rows = [{f"c{k}": 1 for k in range(40)}]
    assert client.post("/v1/score", json={"rows": wide_rows}).status_code == 413
    assert client.post("/v1/score", json={"rows": [BAD] * 1_001}).status_code == 413


def test_settings_that_are_not_known_are_refused(client):
    for asked in ({"path": "/etc/passwd"}, {"model": 3}, {"model": "no"}, {"top": 0}, {"most": 10**6}):
        answer = client.post("/v1/judge", json={"rows": [BAD], **asked})
        assert answer.status_code in (404, 422)
    assert client.post("/v1/judge?top=2", json={"rows": [BAD] * 4}).status_code == 200
    assert client.post("/v1/explain", json={"rows": [BAD], "method": "os.system"}).status_code == 422


def test_cards_and_health(client):
    card = client.get("/v1/models/orders").json()
    assert [column["name"] for column in card["columns"]] == ["size", "price", "shop"]
    assert card["fitted_to"]["n_rows"] == 300
    assert card["fitted_to"]["seen"]["shop"] == {"kind": "category", "n": 300, "n_missing": 0, "n_labels": 2}
    assert client.get("/v1/models").json() == {"models": ["orders"]}
    assert client.get("/v1/models/x").status_code == 404
    for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"):
        assert client.get(path).status_code == 200
    metrics = client.get("/metrics").text
    assert 'tellwhy_requests_total{endpoint="/v1/models/{name}",status="404"}' in metrics
    page = client.get("/openapi.json").json()
    for path, methods in page["paths"].items():
        for endpoint in methods.values():
            told = {each["name"] for each in endpoint.get("parameters", []) if each["in"] == "path"}
            assert told == set(re.findall(r"{(\w+)}", path))
    assert page["paths"]["/v1/score"]["post"]["requestBody"]["content"]["application/json"]["example"]


def test_kserve_of_version_1(client, place, rows):
    expected = oracle(place, rows).ranking.model_scores.tolist()
    told = client.post("/v1/models/orders:predict", json={"instances": as_rows(rows)}).json()
    lists = client.post("/v1/models/orders:predict", json={"instances": rows.to_numpy().tolist()}).json()
    assert told["predictions"] == lists["predictions"] == expected
    why = client.post("/v1/models/orders:explain", json={"instances": as_rows(rows)}).json()["explanations"]
    assert max(why[7]["values"], key=why[7]["values"].get) == "size"
    assert client.post("/v1/models/orders:predict", json={"instances": [[1.0]]}).status_code == 422


def test_the_open_inference_protocol(client, place, rows):
    expected = oracle(place, rows).ranking.model_scores
    kinds = {"size": "FP64", "price": "FP64", "shop": "BYTES"}
    inputs = [
        {"name": name, "shape": [30], "datatype": kind, "data": rows[name].tolist()}
        for name, kind in kinds.items()
    ]
    described = client.get("/v2/models/orders").json()
    assert {each["name"]: each["datatype"] for each in described["inputs"]} == kinds
    found = client.post("/v2/models/orders/infer", json={"id": "a", "inputs": inputs}).json()
    outputs = {each["name"]: each["data"] for each in found["outputs"]}
    assert outputs["score"] == expected.tolist()
    assert found["id"] == "a"
    version = described["versions"][0]
    assert client.get(f"/v2/models/orders/versions/{version}/ready").status_code == 200
    assert client.get("/v2/models/orders/versions/0/ready").status_code == 404
    for wrong in ({"shape": [29]}, {"datatype": "FP64"}, {"shape": [-1]}, {"data": "x"}, {"shape": [10**9]}):
        assert client.post(
            "/v2/models/orders/infer", json={"inputs": [*inputs[:2], {**inputs[2], **wrong}]}
        ).status_code in (413, 422)


def test_tensors_as_bytes(client, place, rows):
    expected = oracle(place, rows).ranking.model_scores
    texts = b"".join(len(each).to_bytes(4, "little") + each.encode() for each in rows["shop"])
    parts = [rows["size"].to_numpy().tobytes(), rows["price"].to_numpy().tobytes(), texts]
    inputs = [
        {"name": n, "shape": [30, 1], "datatype": k, "parameters": {"binary_data_size": len(p)}}
        for n, k, p in zip(rows.columns, ("FP64", "FP64", "BYTES"), parts, strict=True)
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    answer = client.post(
        "/v2/models/orders/infer",
        content=head + b"".join(parts),
        headers={"inference-header-content-length": str(len(head))},
    )
    length = int(answer.headers["inference-header-content-length"])
    assert np.array_equal(np.frombuffer(answer.content[length : length + 240]), expected)
    cut = client.post(
        "/v2/models/orders/infer",
        content=(head + b"".join(parts))[:-50],
        headers={"inference-header-content-length": str(len(head))},
    )
    assert cut.status_code in (400, 422)
