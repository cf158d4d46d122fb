"""The service as a process: many callers, slow ones, keys, deadlines, processes that die, models that change."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from starlette.testclient import TestClient

import tellwhy
from tellwhy.core.progress import stage
from tellwhy.views.server import patience
from tellwhy.views.server.http import address_of, open_socket
from tellwhy.views.server.service import app as apps, calls
from tellwhy.views.server.service.client import Client, ServiceError
from tellwhy.views.server.service.keys import add_key, read_keys
from tellwhy.views.server.service.limits import Limits
from tellwhy.views.server.service.shelf import Shelf, places_of

from .conftest import OWN, rows_of

uvicorn = pytest.importorskip("uvicorn")


@contextmanager
def running(shelf, limits=None, keys=None):
    """The service behind a real socket, in a thread."""
    service = apps.make_service(shelf, limits or Limits(), keys)
    with open_socket("127.0.0.1", 0) as place:
        config = uvicorn.Config(service, http=patience.PatientProtocol, log_level="warning", access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield address_of(place), place.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(20)


def test_the_client_is_answered_as_the_library_answers(shelf, place):
    rows = rows_of(20, seed=5)
    rows.loc[3, "price"] = 50.0
    with running(shelf) as (address, _), Client(address) as client:
        found = client.judge(rows, top=2)
        scores = client.score(rows)
        assert found.anomalies[0].row == 3
        assert found.anomalies[0].reasons[0].feature == "price"
        assert scores.is_alarm[3]
        assert client.explain(rows).values.shape == (20, 3)
        assert client.models() == ["orders"]
        assert client.card("orders")["version"] == scores.version
        assert client.diff(rows_of(100, 6))["n_drifted"] == 0
        with pytest.raises(ServiceError, match="'shop'") as refused:
            client.score(rows.drop(columns=["shop"]))
        assert refused.value.status == 422


def test_many_callers_get_what_one_gets_to_the_last_bit(shelf):
    tables = [rows_of(1 + k % 40, seed=k) for k in range(24)]

    def ask(address, table):
        with Client(address) as client:
            values = client.explain(table).values if len(table) % 8 == 1 else np.zeros(0)
            return client.score(table).scores, values

    with running(shelf, Limits(threads=4)) as (address, _):
        serial = [ask(address, table) for table in tables]
        with ThreadPoolExecutor(16) as pool:
            at_once = list(pool.map(lambda table: ask(address, table), tables))
    for (scores, values), (scores_at_once, values_at_once) in zip(serial, at_once, strict=True):
        assert scores.tobytes() == scores_at_once.tobytes()
        assert values.tobytes() == values_at_once.tobytes()


def test_callers_who_send_slowly_or_half_close_block_nobody(shelf, monkeypatch):
    monkeypatch.setattr(patience, "HEAD_SECONDS", 0.5)
    with running(shelf, Limits(body_seconds=0.5)) as (address, port):
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        for one in held[:30]:
            one.sendall(b"POST /v1/score HTTP/1.1\r\nhost: 127.0.0.1\r\nx-more: ")
        for one in held[30:45]:
            one.sendall(b"POST /v1/score HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{")
        for one in held[45:]:
            one.shutdown(socket.SHUT_WR)
        with Client(address) as client:
            assert len(client.score(rows_of(3)).scores) == 3
        answers = [receive_all(one) for one in held]
        assert not any(answers[:30])
        assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers[30:45])


def receive_all(connection):
    connection.settimeout(5)
    found = b""
    with connection, suppress(ConnectionError):
        while part := connection.recv(4096):
            found += part
    return found


def test_a_large_body_is_refused_unread(shelf):
    with running(shelf) as (_, port), socket.create_connection(("127.0.0.1", port)) as connection:
        head = "POST /v1/score HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n"
        connection.sendall(head.format(120 * 2**20).encode())
        connection.settimeout(5)
        assert connection.recv(4096).startswith(b"HTTP/1.1 413")
        connection.settimeout(5)
        with pytest.raises(ConnectionError):  # nobody reads the rest
            for _ in range(200):
                connection.sendall(b"x" * 65536)


def waiting(seconds, stopped):
    def call(served, frame, asked):
        try:
            for _ in range(int(seconds / 0.01)):
                stage("waiting")
                time.sleep(0.01)
        finally:
            stopped.append(time.monotonic())
        return {"scores": []}

    return call


def test_what_takes_too_long_is_stopped(shelf, monkeypatch):
    stopped = []
    monkeypatch.setattr(calls, "score", waiting(5, stopped))
    with TestClient(apps.make_service(shelf, Limits(seconds=0.3)), base_url=OWN) as client:
        started = time.monotonic()
        answer = client.post("/v1/score", json={"rows": [{"size": 1}]})
        assert answer.status_code == 504
        sooner = client.post(
            "/v1/score", json={"rows": [{"size": 1}]}, headers={"x-deadline-seconds": "0.05"}
        )
        assert sooner.status_code == 504
    assert len(stopped) == 2
    assert max(stopped) - started < 2


def test_who_comes_while_too_many_wait_is_told_when_to_come_again(shelf, monkeypatch):
    monkeypatch.setattr(calls, "score", waiting(0.4, []))
    limits = Limits(threads=1, most_waiting=1)
    with TestClient(apps.make_service(shelf, limits), base_url=OWN) as client, ThreadPoolExecutor(6) as pool:
        body = {"rows": [{"size": 1}]}
        answers = list(pool.map(lambda _: client.post("/v1/score", json=body), range(6)))
    statuses = [answer.status_code for answer in answers]
    assert statuses.count(200) == 2
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 4
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)


def test_keys_are_asked_for_and_kept_as_hashes(shelf, tmp_path):
    path = tmp_path / "keys"
    key = add_key(path, "shop")
    assert key not in path.read_text()
    other = add_key(path, "till")
    with TestClient(apps.make_service(shelf, keys=read_keys(path)), base_url=OWN) as client:
        ask = client.get
        assert ask("/v1/models").status_code == 401
        assert ask("/v1/models", headers={"authorization": f"Bearer {key}x"}).status_code == 401
        assert ask("/v1/models", headers={"authorization": f"Bearer {key}"}).status_code == 200
        assert ask("/v1/models", headers={"x-api-key": other}).status_code == 200
        assert ask("/metrics").status_code == 401
        assert ask("/openapi.json").status_code == 401
        assert ask("/healthz").status_code == 200
    with pytest.raises(tellwhy.core.errors.InvalidParameter, match="already"):
        add_key(path, "shop")
    path.write_text("shop secret\n")
    with pytest.raises(tellwhy.core.errors.UnreadableFile, match="Line 1"):
        read_keys(path)


def test_logs_and_errors_hold_nothing_of_the_rows(shelf, caplog, monkeypatch):
    def fail(served, frame, asked):
        raise RuntimeError(frame["shop"][0])

    from tellwhy.views.server.service.counts import JsonLines

    monkeypatch.setattr(calls, "score", fail)
    body = {"rows": [{"size": 1, "price": 2, "shop": "secret-cell"}]}
    with TestClient(apps.make_service(shelf), base_url=OWN, raise_server_exceptions=False) as client:
        answer = client.post("/v1/score", json=body)
        client.post("/v1/secret-path", json=body)
    assert answer.status_code == 500
    lines = [JsonLines().format(record) for record in caplog.records if record.name.startswith("tellwhy")]
    assert len(lines) >= 1
    assert any(json.loads(line).get("error") == "RuntimeError" for line in lines)
    assert "secret" not in "".join([answer.text, *lines])


def test_a_request_is_a_span_below_that_of_its_caller(shelf, monkeypatch):
    trace = pytest.importorskip("opentelemetry.trace")
    spans = []

    class Span:
        def __init__(self, context):
            self.parent = trace.get_current_span(context).get_span_context().trace_id
            spans.append(self)

        def update_name(self, name):
            self.name = name

        def set_attributes(self, told):
            self.told = told

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name, context):
            yield Span(context)

    monkeypatch.setattr(trace, "get_tracer", lambda _: Tracer())
    caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with TestClient(apps.make_service(shelf), base_url=OWN) as client:
        client.get("/v1/models/orders", headers={"traceparent": caller})
        client.get("/v1/secret-path")
    assert spans[0].name == "GET /v1/models/{name}"
    assert spans[0].told == {"http.route": "/v1/models/{name}", "http.response.status_code": 200}
    assert f"{spans[0].parent:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert spans[1].name == "GET other"


def test_models_are_read_again_without_losing_a_request(tmp_path):
    path = tmp_path / "m.tellwhy"
    tellwhy.save(tellwhy.fit(rows_of(100)), path)
    shelf = Shelf(places_of([f"orders={path}"]))
    before = shelf.find("orders")
    path.write_bytes(b"no model")
    assert shelf.reload() == []  # what cannot be read changes nothing
    assert shelf.find("orders") is before
    path.unlink()
    tellwhy.save(tellwhy.fit(rows_of(120, seed=9)), path)
    assert shelf.reload() == ["orders"]
    assert shelf.find(None).version != before.version
    assert shelf.find(None).model.n_rows == 120


@contextmanager
def started(place, *words):
    """The command, as a process of its own, at any free port."""
    command = [sys.executable, "-m", "tellwhy", "serve", str(place), "--port", "0", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        lines = []
        for line in process.stderr:
            lines.append(line)
            found = re.search(r"http://127.0.0.1:(\d+)", line)
            if found:
                break
        else:
            raise AssertionError("".join(lines))
        reader = threading.Thread(target=lambda: lines.extend(process.stderr))
        reader.start()
        yield process, int(found[1]), lines
    finally:
        process.terminate()
        process.wait(30)
        reader.join(10)
        process.stderr.close()


@pytest.mark.slow
def test_a_process_that_is_killed_is_replaced_and_the_end_finishes_what_was_begun(place):
    with started(place, "--workers", "2") as (process, port, lines):
        address = f"http://127.0.0.1:{port}"
        out = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
        )
        children = [int(word) for word in out.stdout.split()]
        rows = rows_of(5)
        with Client(address) as client:
            expected = client.score(rows).scores
        os.kill(children[0], signal.SIGKILL)
        until = time.monotonic() + 20
        n_answered = 0
        while time.monotonic() < until and not any("worker_ended" in line for line in lines):
            with Client(address) as client:
                n_answered += np.array_equal(client.score(rows).scores, expected)
        assert n_answered > 0
        assert any("worker_ended" in line for line in lines)
        metrics = http.client.HTTPConnection("127.0.0.1", port)
        metrics.request("GET", "/metrics")
        assert b"tellwhy_requests_total" in metrics.getresponse().read()
        metrics.close()
        process.send_signal(signal.SIGHUP)
        with Client(address) as client:
            assert np.array_equal(client.score(rows).scores, expected)
        process.terminate()
        assert process.wait(30) == 0
    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
