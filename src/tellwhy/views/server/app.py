"""The page that an analyst works in, as a web application: one result, its rows, what is decided."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tellwhy.core.optional import require
from tellwhy.views.page.overview import cut_file_name, write_title
from tellwhy.views.page.shell import clip, fill, read_asset
from tellwhy.views.server.app_panels import show_list, show_row
from tellwhy.views.server.app_rows import SHOWN, View
from tellwhy.views.server.app_session import Session
from tellwhy.views.server.app_tries import explain_row, show_neighbours, show_opinion, show_what_if
from tellwhy.views.server.http import (
    LOOPBACK,
    Access,
    error_answer,
    error_handlers,
    guarded,
    is_same_secret,
)
from tellwhy.words import wording

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ASSETS = {
    "style.css": "text/css",
    "app.css": "text/css",
    "theme.js": "text/javascript",
    "app.js": "text/javascript",
}
COOKIE = "tellwhy"
MOST_MAIN = 20
SORTS = (("rank", "rank"), ("row", "place in the table"), ("name", "name"), ("p", "p-value"))
Answer = Callable[["Request"], Awaitable["Response"]]


@dataclass(eq=False)
class App:
    """The application on one session.

    Attributes
    ----------
    session
        The result that is open.
    token
        What a browser must show once, in the address; then a cookie holds it.
    who
        Who decides, as the journal calls them, where it is not the user of this machine.
    """

    session: Session
    token: str
    who: str = ""

    def page(self, request: Request) -> Response:
        """The whole page, with the first rows and the first of them."""
        from starlette.responses import HTMLResponse

        session = self.session
        result = session.result
        standing = session.standing()
        view = View.of(request.query_params)
        page = session.rows.page(view)
        first = page.lines[0].row if page.lines else None
        headline, *sentences = result.headline or [f"{result.n_flagged} alarms."]
        return HTMLResponse(
            fill(
                "app_page.html.j2",
                title=write_title(result),
                source=clip(cut_file_name(result.source), 80),
                kind=result.kind,
                tabs=self.tabs(),
                headline=wording.shorten(headline, 200),
                sentences=[wording.shorten(text, 300) for text in sentences[:2]],
                view=view,
                shown=SHOWN,
                counts=session.rows.counts(),
                main_columns=session.rows.main_columns()[:MOST_MAIN],
                columns=session.rows.columns,
                sorts=[*SORTS, *((f"-{name}", f"{name}, highest first") for name in session.rows.columns)],
                list=_markup(show_list(session, page)),
                row=_markup("" if first is None else show_row(session, first, standing)),
            )
        )

    def tabs(self) -> list[tuple[str, str]]:
        """The parts of the page: their names in addresses, and in words."""
        return [("rows", "Rows")]

    def list(self, request: Request) -> Response:
        """The lines of the list."""
        self.session.standing()
        return _html(show_list(self.session, self.session.rows.page(View.of(request.query_params))))

    def row(self, request: Request) -> Response:
        """The panel of one row."""
        return _html(show_row(self.session, request.path_params["row"], self.session.standing()))

    def counts(self, _: Request) -> Response:
        """How many rows each choice shows."""
        from starlette.responses import JSONResponse

        self.session.standing()
        return JSONResponse(self.session.rows.counts())

    def explained(self, request: Request) -> Response:
        """Why a row is odd that was not explained before."""
        return _html(explain_row(self.session, request.path_params["row"]))

    def near(self, request: Request) -> Response:
        """The nearest ordinary rows."""
        return _html(show_neighbours(self.session, request.path_params["row"]))

    def methods(self, _: Request) -> Response:
        """The names of methods that can be asked."""
        return _json(self.session.methods())

    def opinion(self, request: Request) -> Response:
        """What another method says."""
        method = request.query_params.get("method", "")
        return _html(show_opinion(self.session, request.path_params["row"], method))

    async def what_if(self, request: Request) -> Response:
        """What becomes of a row when cells are others."""
        from starlette.concurrency import run_in_threadpool

        told = await _told(request)
        changes = {str(name): str(value) for name, value in dict(told["changes"]).items()}
        row = request.path_params["row"]
        checked = bool(told.get("checked"))
        return _html(await run_in_threadpool(show_what_if, self.session, row, changes, with_checks=checked))

    async def mark(self, request: Request) -> Response:
        """Say that a row is benign or confirmed; the answer comes once it is on the disk."""
        from starlette.concurrency import run_in_threadpool

        told = await _told(request)
        row = int(told["row"])
        made = await run_in_threadpool(
            self.session.decisions.mark_row,
            self.session.result,
            row,
            str(told["verdict"]),
            why=str(told.get("why") or ""),
            by=self.who,
        )
        return _json({"id": made.id, "row": row, "verdict": made.verdict})

    async def undo(self, request: Request) -> Response:
        """Take a decision back."""
        from starlette.concurrency import run_in_threadpool

        told = await _told(request)
        await run_in_threadpool(self.session.decisions.take_back, str(told["id"]), by=self.who)
        return _json({"id": str(told["id"])})

    def asset(self, request: Request) -> Response:
        """A style or a script of the page."""
        from starlette.responses import Response

        name = request.path_params["name"]
        if name not in ASSETS:
            return error_answer(404, "There is no such file.")
        return Response(read_asset(name), media_type=ASSETS[name])

    def enter(self, request: Request) -> Response | None:
        """What a caller is told instead of an answer: to come in by the token, or to show it first."""
        from starlette.responses import RedirectResponse

        given = request.query_params.get("token")
        name = f"{COOKIE}-{request.url.port or 80}"
        if given is not None and is_same_secret(given, self.token):
            kept = request.url.remove_query_params("token")
            answer = RedirectResponse(f"{kept.path}{'?' + kept.query if kept.query else ''}", status_code=303)
            answer.set_cookie(name, self.token, httponly=True, samesite="strict", path="/")
            return answer
        if is_same_secret(request.cookies.get(name), self.token):
            return None
        return error_answer(
            403, "Open the address that the terminal shows: it holds a token that lets this browser in."
        )


def make_app(session: Session, *, token: str | None = None, hosts: Any = LOOPBACK) -> ASGIApp:
    """Return the application on a session; only who shows the token is let in."""
    require("starlette", "The page")
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.routing import Route

    app = App(session, secrets.token_urlsafe(24) if token is None else token)
    routes = [
        Route("/", app.page),
        Route("/list", app.list),
        Route("/counts", app.counts),
        Route("/row/{row:int}", app.row),
        Route("/row/{row:int}/explained", app.explained),
        Route("/row/{row:int}/neighbours", app.near),
        Route("/row/{row:int}/opinion", app.opinion),
        Route("/row/{row:int}/what-if", app.what_if, methods=["POST"]),
        Route("/methods", app.methods),
        Route("/marks", app.mark, methods=["POST"]),
        Route("/undo", app.undo, methods=["POST"]),
        Route("/static/{name}", app.asset),
    ]
    inner = Starlette(
        routes=routes, exception_handlers=error_handlers(), middleware=[Middleware(_Door, app.enter)]
    )
    return guarded(inner, Access(hosts=hosts, policy=POLICY))


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


def _markup(text: str) -> Any:
    from markupsafe import Markup

    return Markup(text)


def _html(text: str) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(text)


def _json(value: Any) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(value)


async def _told(request: Request) -> dict[str, Any]:
    """What a request says, as JSON; a form that another page sends has another type."""
    from starlette.exceptions import HTTPException

    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "Expected JSON.")
    try:
        told = await request.json()
    except ValueError as error:
        raise HTTPException(400, "Expected JSON.") from error
    if not isinstance(told, dict):
        raise HTTPException(400, "Expected an object.")
    return told
