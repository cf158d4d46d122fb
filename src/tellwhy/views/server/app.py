"""The page that an analyst works in, as a web application: who is let in, and what can be asked."""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tellwhy.core.optional import require
from tellwhy.views.server.app_files import Uploads
from tellwhy.views.server.app_handlers import App
from tellwhy.views.server.app_session import Session
from tellwhy.views.server.http import LOOPBACK, MEBIBYTE, Access, error_handlers, guarded

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
THREADS = 6
MOST_ARENAS = -8  # as glibc numbers what it can be told: how many pools of memory threads share
MOST_BYTES = 512 * MEBIBYTE  # of a file that is dropped onto the page


def make_app(
    session: Session,
    *,
    token: str | None = None,
    hosts: Collection[str] = LOOPBACK,
    most_bytes: int = MOST_BYTES,
) -> ASGIApp:
    """Return the application on a session; only who shows the token is let in.

    Parameters
    ----------
    session
        The result that is open.
    token
        What lets a browser in; one is drawn where none is given.
    hosts
        Names by which the server may be addressed.
    most_bytes
        Largest file that can be dropped onto the page.
    """
    require("starlette", "The page")
    from starlette.applications import Starlette
    from starlette.middleware import Middleware

    app = App(session, secrets.token_urlsafe(24) if token is None else token, Uploads(most_bytes))
    inner = Starlette(
        routes=_list_routes(app),
        exception_handlers=error_handlers(),
        middleware=[Middleware(_Door, app.enter)],
        lifespan=partial(_live, app),
    )
    return guarded(inner, Access(hosts=hosts, policy=POLICY, most_bytes=most_bytes))


@asynccontextmanager
async def _live(app: App, _: Any) -> AsyncIterator[None]:
    """What the server leaves behind when it ends: nothing but results and decisions."""
    from anyio.to_thread import current_default_thread_limiter

    # Each thread keeps memory of its own: few of them serve one desk as well as forty.
    current_default_thread_limiter().total_tokens = THREADS
    with suppress(OSError, AttributeError):  # of another C library
        ctypes.CDLL(None).mallopt(MOST_ARENAS, 2)
    try:
        yield
    finally:
        app.jobs.cancel()
        app.uploads.close()


def _list_routes(app: App) -> list[Any]:
    from starlette.routing import Route

    asked = {
        "/": app.page,
        "/list": app.list,
        "/counts": app.counts,
        "/row/{row:int}": app.row,
        "/row/{row:int}/explained": app.explained,
        "/row/{row:int}/neighbours": app.near,
        "/row/{row:int}/chart": app.chart,
        "/row/{row:int}/opinion": app.opinion,
        "/methods": app.methods,
        "/tab/{name}": app.tab,
        "/export/{form}": app.export,
        "/job": app.progress,
        "/static/{name}": app.asset,
    }
    done = {
        "/row/{row:int}/what-if": app.what_if,
        "/marks": app.mark,
        "/findings": app.reject,
        "/repairs": app.repair,
        "/undo": app.undo,
        "/again": app.again,
        "/explain": app.explain,
        "/open": app.open,
        "/job/cancel": app.cancel,
        "/files/{number}/drop": app.drop,
    }
    return [
        *(Route(path, call) for path, call in asked.items()),
        *(Route(path, call, methods=["POST"]) for path, call in done.items()),
        Route("/files", app.upload, methods=["PUT"]),
    ]


class _Door:
    """Lets nobody in who did not show the token."""

    def __init__(self, app: ASGIApp, enter: Callable[[Request], Response | None]):
        self.app = app
        self.enter = enter

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.requests import Request

        if scope["type"] == "http":
            answer = self.enter(Request(scope))
            if answer is not None:
                await answer(scope, receive, send)
                return
        await self.app(scope, receive, send)
