"""What every server here does: who may call, how errors are told, how it starts and stops.

server = guarded(Starlette(routes=…, exception_handlers=error_handlers()), Access(hosts={"127.0.0.1"}))
with open_socket("127.0.0.1", 0) as place:
    serve(server, place, ready=lambda address: print(address))
"""

from __future__ import annotations

import hmac
import logging
import secrets
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tellwhy.core.errors import CannotWrite, InvalidParameter, TellwhyError, UnsupportedModel
from tellwhy.core.optional import require

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOG = logging.getLogger("tellwhy.server")
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
MEBIBYTE = 2**20
SECONDS_TO_END = 10  # that requests in progress have when the server stops
TOO_LARGE = 413
NUMBER = "tellwhy.error"  # under which a request holds the number of its error
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
Handler = Callable[["Request", Exception], "Response"]


@dataclass(frozen=True)
class Access:
    """Who may call a server, and how much may come in.

    Attributes
    ----------
    hosts
        Names, without a port, by which callers may address it; a page elsewhere that made a name of its own
        point here is refused. None allows any name.
    origins
        Origins of pages that may call besides the server's own, as "https://desk.example.org".
    most_bytes
        Largest body of a request.
    policy
        Content security policy of every answer.
    headers
        Further headers of every answer.
    """

    hosts: Collection[str] | None = LOOPBACK
    origins: Collection[str] = ()
    most_bytes: int = 64 * MEBIBYTE
    policy: str = "default-src 'none'; frame-ancestors 'none'"
    headers: Mapping[str, str] = field(default_factory=dict)

    def refusal(self, headers: Mapping[str, str], scheme: str) -> tuple[int, str] | None:
        """Status and sentence for a request that may not come in; None for one that may."""
        host = headers.get("host", "")
        if self.hosts is not None and host_name(host) not in self.hosts:
            return 421, f"This server does not answer to the name {host[:80]!r}."
        origin = headers.get("origin")
        if origin is not None and origin not in {f"{scheme}://{host}", *self.origins}:
            return 403, f"Pages of {origin[:80]!r} may not call this server."
        if origin is None and headers.get("sec-fetch-site") == "cross-site" and not _is_visit(headers):
            return 403, "Other pages may not call this server."
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self.most_bytes:
            return 413, too_large(self.most_bytes)
        return None


def host_name(host: str) -> str:
    """The name of a host without its port, in lower case.

    Examples
    --------
    >>> host_name("LocalHost:8000"), host_name("[::1]:8000"), host_name("127.0.0.1")
    ('localhost', '[::1]', '127.0.0.1')
    """
    name = host.lower()
    return name.partition("]")[0] + "]" if name.startswith("[") else name.partition(":")[0]


def _is_visit(headers: Mapping[str, str]) -> bool:
    """Whether somebody followed a link: the answer is shown in a window of its own."""
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def too_large(most_bytes: int) -> str:
    """The sentence on a body that is too large."""
    return f"The request holds more than {most_bytes / MEBIBYTE:,.0f} MiB, which is the most that is read."


def guarded(app: ASGIApp, access: Access) -> ASGIApp:
    """Return an application that refuses who may not call, and bodies that are too large."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # the start and the end of the server; nothing here speaks WebSocket
            if scope["type"] == "lifespan":
                await app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = access.refusal(headers, scope["scheme"])
        told = _telling(send, access)
        if refused is not None:
            await error_answer(*refused)(scope, receive, told)
            return
        try:
            await app(scope, _limited(receive, access.most_bytes), told)
        except Exception:  # it was told as a number by `_tell_failure`, unless the answer had begun
            number = scope.get(NUMBER, "after the answer began")
            LOG.exception("Error %s at %s", number, scope["path"])

    return call


def _telling(send: Send, access: Access) -> Send:
    """Send answers with the headers that every answer has; those that an answer has itself stay."""
    own = {**HEADERS, "content-security-policy": access.policy, **access.headers}

    async def tell(message: Message) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message["headers"]}
            more = [(n.encode(), v.encode()) for n, v in own.items() if n.encode() not in there]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return tell


def _limited(receive: Receive, most_bytes: int) -> Receive:
    """Receive a body until it is too large, whatever length was announced."""
    from starlette.exceptions import HTTPException

    n_read = 0

    async def take() -> MutableMapping[str, Any]:
        nonlocal n_read
        message = await receive()
        n_read += len(message.get("body", b""))
        if n_read > most_bytes:
            raise HTTPException(413, too_large(most_bytes))
        return message

    return take


def error_answer(status: int, message: str, **more: Any) -> Response:
    """Answer with an error as JSON: {"error": {"message": …}}."""
    from starlette.responses import JSONResponse

    answer = JSONResponse({"error": {"message": message, **more}}, status_code=status)
    if status == TOO_LARGE:  # otherwise the rest of the body would still be read, and thrown away
        answer.headers["connection"] = "close"
    return answer


def error_handlers() -> dict[Any, Handler]:
    """How errors become answers, for `Starlette(exception_handlers=…)` and `FastAPI(exception_handlers=…)`.

    An error of ours says what is wrong and what to do, and is told. Any other says too much of the machine:
    its number is told, and the log holds the rest under that number.
    """
    from starlette.exceptions import HTTPException

    return {HTTPException: _tell_refusal, TellwhyError: _tell_error, Exception: _tell_failure}


def _tell_refusal(_: Request, error: Exception) -> Response:
    answer = error_answer(error.status_code, str(error.detail))  # type: ignore[attr-defined]
    answer.headers.update(getattr(error, "headers", None) or {})
    return answer


def _tell_error(_: Request, error: Exception) -> Response:
    return error_answer(status_of(error), str(error), kind=type(error).__name__)


def status_of(error: Exception) -> int:
    """The HTTP status of an error: of data, of a model, or of this machine."""
    if isinstance(error, CannotWrite):
        return 507
    return 422 if isinstance(error, UnsupportedModel) else 400


def _tell_failure(request: Request, _: Exception) -> Response:
    number = secrets.token_hex(4)
    request.scope[NUMBER] = number  # `guarded` writes the log
    return error_answer(500, f"Something went wrong here. The server's log says what, as error {number}.")


def is_same_secret(given: str | None, expected: str) -> bool:
    """Compare secrets in a time that does not tell how much of them agrees."""
    return given is not None and hmac.compare_digest(given.encode(), expected.encode())


@contextmanager
def open_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Listen at a place before anything else is done; port 0 takes any that is free."""
    if not 0 <= port < 2**16:
        raise InvalidParameter(f"--port must be from 0 (any that is free) to 65535. Got {port}.")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        place = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        raise CannotWrite(
            f"Nothing can listen at {host}, port {port}: {error}. Choose another with --port; 0 takes any "
            "that is free."
        ) from error
    # Connections inherit it; asyncio sets it only on sockets made with the protocol's number. Without it, the
    # second part of an answer waits 40 ms until the first is acknowledged.
    place.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with place:
        yield place


def address_of(place: socket.socket) -> str:
    """The address of a server that listens at a socket: 'http://127.0.0.1:8000'."""
    host, port = place.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(
    app: ASGIApp,
    place: socket.socket,
    *,
    ready: Callable[[str], None] | None = None,
    most_at_once: int = 64,
) -> None:
    """Answer requests until SIGINT or SIGTERM; those in progress are ended first.

    Parameters
    ----------
    app
        The application.
    place
        Of `open_socket`.
    ready
        Called with the address once requests are answered.
    most_at_once
        Connections that are answered at a time; further ones get status 503.
    """
    uvicorn = require("uvicorn", "Serving pages")
    from tellwhy.views.server.patience import PatientProtocol

    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        log_level="warning",
        access_log=False,  # addresses may hold a token
        server_header=False,
        limit_concurrency=most_at_once,
        timeout_graceful_shutdown=SECONDS_TO_END,
    )

    class Server(uvicorn.Server):  # type: ignore[name-defined]
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if ready is not None and not self.should_exit:
                ready(address_of(place))

    Server(config).run(sockets=[place])
