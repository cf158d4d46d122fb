"""The guard of every server: names, origins, sizes, errors, starting and stopping."""

import logging
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from tellwhy.core.errors import CannotWrite, InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.views.server.http import (
    HEADERS,
    Access,
    address_of,
    error_handlers,
    guarded,
    is_same_secret,
    open_socket,
    status_of,
)

applications = pytest.importorskip("starlette.applications")
from starlette.responses import PlainTextResponse, StreamingResponse  # noqa: E402
from starlette.routing import Route  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402

OWN = "http://127.0.0.1:8000"
SMALL = Access(most_bytes=1000)


async def hear(request):
    return PlainTextResponse(str(len(await request.body())))


async def refuse(request):
    raise InvalidInput("There are only 3 rows; at least 10 are needed.")


async def fail(request):
    raise RuntimeError("secret of this machine")


async def break_off(request):
    async def parts():
        yield "begun"
        raise RuntimeError("secret of this machine")

    return StreamingResponse(parts())


def client(access=SMALL):
    routes = [Route("/", hear, methods=["GET", "POST"]), Route("/refuse", refuse), Route("/fail", fail)]
    routes.append(Route("/break", break_off))
    app = applications.Starlette(routes=routes, exception_handlers=error_handlers())
    return TestClient(guarded(app, access), base_url=OWN)


def test_every_answer_has_the_headers_of_the_guard():
    answer = client(Access(policy="default-src 'self'", headers={"x-more": "1"})).get("/")
    assert HEADERS.items() <= dict(answer.headers).items()
    assert answer.headers["content-security-policy"] == "default-src 'self'"
    assert answer.headers["x-more"] == "1"
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[::2]:8000"]
)
def test_another_name_is_refused(host):
    answer = client().get("/", headers={"host": host})
    assert answer.status_code == 421
    assert answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST:8000", "[::1]:8000"])
def test_names_of_this_machine_are_answered(host):
    assert client().get("/", headers={"host": host}).status_code == 200


def test_no_name_is_refused_where_any_may_call():
    assert client(Access(hosts=None)).get("/", headers={"host": "desk.example"}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": OWN}, 200),
        ({"origin": "https://desk.example"}, 200),
        ({"origin": "http://127.0.0.1:9000"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}, 200),
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}, 200),
    ],
)
def test_pages_of_other_origins_are_refused(headers, status):
    assert client(Access(origins=["https://desk.example"])).get("/", headers=headers).status_code == status


def test_large_bodies_are_refused_whether_announced_or_not():
    def pieces(n):
        yield from [b"x" * 100] * n

    there = client()
    assert there.post("/", content=b"x" * 1000).text == "1000"
    assert there.post("/", content=b"x" * 1001).status_code == 413
    assert there.post("/", content=pieces(10)).text == "1000"
    assert there.post("/", content=pieces(11)).status_code == 413
    assert there.post("/", headers={"content-length": "-1"}).status_code == 413


def test_errors_of_ours_are_told_and_others_are_numbered(caplog):
    there = client()
    told = there.get("/refuse")
    assert told.status_code == 400
    assert told.json()["error"]["message"] == "There are only 3 rows; at least 10 are needed."
    with caplog.at_level(logging.ERROR, logger="tellwhy.server"):
        failed = there.get("/fail")
    assert failed.status_code == 500
    number = failed.json()["error"]["message"].split()[-1].strip(".")
    assert number in caplog.text
    assert "secret of this machine" in caplog.text
    assert "secret" not in failed.text
    assert there.get("/nowhere").json() == {"error": {"message": "Not Found"}}


def test_an_error_after_the_answer_began_is_in_the_log(caplog):
    with caplog.at_level(logging.ERROR, logger="tellwhy.server"):
        client().get("/break")
    assert "secret of this machine" in caplog.text


def test_statuses_and_secrets():
    assert [status_of(e("x")) for e in (InvalidInput, UnsupportedModel, CannotWrite)] == [400, 422, 507]
    assert is_same_secret("abc", "abc")
    assert not is_same_secret("abd", "abc")
    assert not is_same_secret(None, "abc")


def test_a_place_that_is_taken_is_said_before_anything_starts():
    with open_socket("127.0.0.1", 0) as place:
        port = place.getsockname()[1]
        assert address_of(place) == f"http://127.0.0.1:{port}"
        with pytest.raises(CannotWrite, match=f"port {port}"), open_socket("127.0.0.1", port):
            pass
    with pytest.raises(InvalidParameter, match="70000"), open_socket("127.0.0.1", 70000):
        pass
    with socket.socket() as free:
        free.bind(("127.0.0.1", port))


SERVER = """
import asyncio
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tellwhy.views.server.http import Access, guarded, open_socket, serve

async def slow(request):
    await asyncio.sleep(0.5)
    return PlainTextResponse("done")

with open_socket("127.0.0.1", 0) as place:
    serve(guarded(Starlette(routes=[Route("/", slow)]), Access()), place, ready=lambda a: print(a, flush=True))
print("ended")
"""


def test_a_request_in_progress_is_ended_before_the_server_stops():
    pytest.importorskip("uvicorn")
    started = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    address = started.stdout.readline().strip()
    asked = urllib.request.Request(address)
    from threading import Timer

    Timer(0.2, os.kill, (started.pid, signal.SIGTERM)).start()
    with urllib.request.urlopen(asked, timeout=20) as answer:
        assert answer.read() == b"done"
    started.wait(20)
    started.stdout.close()
