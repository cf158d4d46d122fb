"""What the page answers: pieces of HTML, and what comes of decisions and of work that was asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from markupsafe import Markup

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.page.overview import cut_file_name, write_title
from tellwhy.views.page.shell import clip, fill, read_asset
from tellwhy.views.server.app_files import TYPES, Uploads, export, repaired_table
from tellwhy.views.server.app_jobs import Jobs
from tellwhy.views.server.app_panels import show_chart, show_list, show_row
from tellwhy.views.server.app_session import Session, explain_named, free_folder, judge_again
from tellwhy.views.server.app_tabs import list_other_runs, list_tabs, show_tab
from tellwhy.views.server.app_tries import explain_row, show_neighbours, show_opinion, show_what_if
from tellwhy.views.server.app_view import SHOWN, View
from tellwhy.views.server.http import MEBIBYTE, error_answer, is_same_secret, too_large
from tellwhy.words import wording

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from tellwhy.kinds.decisions import Decision

ASSETS = {
    "style.css": "text/css",
    "app.css": "text/css",
    "theme.js": "text/javascript",
    "zoom.js": "text/javascript",
    "app.js": "text/javascript",
}
COOKIE = "tellwhy"
MOST_MAIN = 20
SORTS = (("rank", "rank"), ("row", "place in the table"), ("name", "name"), ("p", "p-value"))
MOST_TOLD = MEBIBYTE  # of what a request says
T = TypeVar("T")


@dataclass(eq=False)
class App:
    """The application on one session, which may be changed for another.

    Attributes
    ----------
    session
        The result that is open.
    token
        What a browser must show once, in the address; then a cookie holds it.
    uploads
        Files that were dropped onto the page.
    who
        Who decides, as the journal calls them, where it is not the user of this machine.
    """

    session: Session
    token: str
    uploads: Uploads
    who: str = ""
    jobs: Jobs = field(default_factory=Jobs)

    def page(self, request: Request) -> Response:
        """The whole page, with the first rows and the first of them."""
        session = self.session
        result = session.result
        standing = session.standing()
        # Where there is no alarm, what was explained is looked at first.
        usual = {"show": "alarms" if result.n_flagged else "explained"}
        view = View.of({**usual, **request.query_params})
        page = session.rows.page(view)
        first = page.lines[0].row if page.lines else None
        headline, *sentences = result.headline or [f"{wording.count(result.n_flagged, 'alarm')}."]
        return _html(
            fill(
                "app_page.html.j2",
                title=write_title(result),
                source=clip(cut_file_name(result.source), 80),
                kind=result.kind,
                tabs=list_tabs(session),
                headline=wording.shorten(headline, 240),
                sentences=[wording.shorten(text, 300) for text in sentences[:2]],
                view=view,
                shown=SHOWN,
                counts=session.rows.counts(),
                main_columns=session.rows.main_columns()[:MOST_MAIN],
                columns=session.rows.columns,
                sorts=[*SORTS, *((f"-{name}", f"{name}, highest first") for name in session.rows.columns)],
                list=Markup(show_list(session, page)),
                row=Markup("" if first is None else show_row(session, first, standing)),
                most_bytes=self.uploads.most_bytes,
                folder=str(session.folder),
            )
        )

    def list(self, request: Request) -> Response:
        """The lines of the list."""
        self.session.standing()
        return _html(show_list(self.session, self.session.rows.page(View.of(request.query_params))))

    def row(self, request: Request) -> Response:
        """The panel of one row."""
        return _html(show_row(self.session, request.path_params["row"], self.session.standing()))

    def counts(self, _: Request) -> Response:
        """How many rows each choice shows."""
        self.session.standing()
        return _json(self.session.rows.counts())

    def explained(self, request: Request) -> Response:
        """Why a row is odd that was not explained before."""
        return _html(explain_row(self.session, request.path_params["row"]))

    def near(self, request: Request) -> Response:
        """The nearest ordinary rows."""
        return _html(show_neighbours(self.session, request.path_params["row"]))

    def chart(self, request: Request) -> Response:
        """How a column is distributed, with the value of a row marked."""
        name = request.query_params.get("column", "")
        return _html(show_chart(self.session, request.path_params["row"], name))

    def methods(self, _: Request) -> Response:
        """The names of methods that can be asked."""
        return _json(self.session.methods())

    def opinion(self, request: Request) -> Response:
        """What another method says."""
        method = request.query_params.get("method", "")
        return _html(show_opinion(self.session, request.path_params["row"], method))

    async def what_if(self, request: Request) -> Response:
        """What becomes of a row when cells are others."""
        told = await read_told(request)
        changes = told.pairs("changes")
        row = request.path_params["row"]
        checked = bool(told.get("checked"))
        return _html(await in_thread(show_what_if, self.session, row, changes, with_checks=checked))

    def tab(self, request: Request) -> Response:
        """A part of the page."""
        return _html(show_tab(self.session, request.path_params["name"], request.query_params))

    async def mark(self, request: Request) -> Response:
        """Say that a row is benign or confirmed; the answer comes once it is on the disk."""
        told = await read_told(request)
        why = str(told.get("why") or "")
        row = told.number("row")
        self.session.rows.rank_of(row)  # a row that is not there is an error
        decide = self.session.decisions.mark_row
        made = await in_thread(decide, self.session.result, row, str(told["verdict"]), why=why, by=self.who)
        return _json({"id": made.id, "row": row, "verdict": made.verdict})

    async def reject(self, request: Request) -> Response:
        """Say that a finding is no trouble."""
        told = await read_told(request)
        findings = self.session.result.findings
        finding = findings[told.number("finding", below=len(findings))]
        why = str(told.get("why") or "")
        made = await in_thread(self.session.decisions.reject_finding, finding, why=why, by=self.who)
        return _json({"id": made.id})

    async def repair(self, request: Request) -> Response:
        """Accept or reject what a cell should hold, or accept all that nobody decided."""
        told = await read_told(request)
        made = await in_thread(self._repair, told)
        return _json({"id": made[-1].id if made else "", "n": len(made)})

    def _repair(self, told: Told) -> Sequence[Decision]:
        decisions = self.session.decisions
        repairs = {(change.row, change.column): change.new for change in self.session.repairs}
        if told.get("all"):
            known = self.session.standing().repairs
            wanted = [(cell, new) for cell, new in repairs.items() if cell not in known]
            return decisions.accept_repairs(wanted, by=self.who)
        cell = (told.number("row"), str(told["column"]))
        if cell not in repairs:
            raise InvalidParameter(
                f"Nothing is known that the cell {cell[1][:60]} of row {cell[0]} should hold."
            )
        return [decisions.decide_repair(cell, repairs[cell], str(told["verdict"]), by=self.who)]

    async def undo(self, request: Request) -> Response:
        """Take a decision back."""
        told = await read_told(request)
        await in_thread(self.session.decisions.take_back, str(told["id"]), by=self.who)
        return _json({"id": str(told["id"])})

    def export(self, request: Request) -> Response:
        """The rows of a view as a file."""
        from starlette.responses import Response

        form = request.path_params["form"]
        ending = form.removeprefix("view.")
        if form == "repaired.csv":
            body = repaired_table(self.session)
        else:
            body = export(self.session, ending, View.of(request.query_params))
        name = f"{self.session.folder.name}{'-' if ending == form else '.'}{ending}"
        plain = "".join(
            sign if sign.isascii() and (sign.isalnum() or sign in "-_.") else "_" for sign in name
        )
        kept = {"content-disposition": f'attachment; filename="{plain}"'}
        return Response(body, media_type=TYPES[ending.rpartition(".")[2]], headers=kept)

    async def again(self, request: Request) -> Response:
        """Judge the same rows again: with what is benign held back, perhaps with another line."""
        told = await read_told(request)
        alarms = told.get("alarms")
        settings = {} if alarms in (None, "") else {"alarms": told.number("alarms")}
        session = self.session
        job = self.jobs.start(
            "judging the rows again", lambda: judge_again(session, settings), self.show_folder
        )
        return _json(job.told())

    async def upload(self, request: Request) -> Response:
        """Take a file that was dropped onto the page."""
        return _json(await self.uploads.take(request.query_params.get("name", "table"), request))

    async def drop(self, request: Request) -> Response:
        """Forget a file."""
        self.uploads.drop(request.path_params["number"])
        return _json({})

    async def explain(self, request: Request) -> Response:
        """Find what is odd in the files that were dropped."""
        told = await read_told(request)
        paths = self.uploads.paths([str(number) for number in told["files"] or []])
        folder = free_folder(
            self.session.folder.resolve().parent, f"tellwhy-{paths[0].name.partition('.')[0]}"
        )
        job = self.jobs.start(
            f"explaining {paths[0].name}",
            lambda: explain_named([str(path) for path in paths], folder, {}),
            self.show_folder,
        )
        return _json(job.told())

    async def open(self, request: Request) -> Response:
        """Open another run of the same folder."""
        told = await read_told(request)
        name = str(told["run"])
        if name not in list_other_runs(self.session):
            raise InvalidParameter(f"There is no result {name[:80]!r} beside this one.")
        await in_thread(self.show_folder, self.session.folder.resolve().parent / name)
        return _json({"run": name})

    def show_folder(self, folder: Path) -> None:
        """Open another result in the place of this one."""
        self.session = Session.open(folder)

    def progress(self, _: Request) -> Response:
        """What is being done."""
        return _json({"state": "none"} if self.jobs.job is None else self.jobs.job.told())

    async def cancel(self, _: Request) -> Response:
        """End what is being done."""
        self.jobs.cancel()
        return _json({})

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


def _html(text: str) -> Response:
    from starlette.responses import HTMLResponse

    return HTMLResponse(text)


def _json(value: Any) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(value)


async def in_thread(function: Callable[..., T], *arguments: Any, **named: Any) -> T:
    """Call a function while other requests are answered."""
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(function, *arguments, **named)


async def read_told(request: Request) -> Told:
    """What a request says, as JSON; a form that another page sends has another type."""
    from starlette.exceptions import HTTPException

    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise HTTPException(415, "Expected JSON.")
    held = b""
    async for piece in request.stream():
        held += piece
        if len(held) > MOST_TOLD:
            raise HTTPException(413, too_large(MOST_TOLD))
    try:
        told = Told(json.loads(held))
    except (ValueError, TypeError, RecursionError) as error:
        raise HTTPException(400, "Expected a JSON object.") from error
    return told


class Told(dict[str, Any]):
    """What a request says; what it lacks is an error of who asked."""

    def number(self, name: str, *, below: int = 2**53) -> int:
        """A whole number that it says."""
        text = str(self[name])
        if not text.isascii() or not text.isdigit() or int(text) >= below:
            raise InvalidParameter(f"{name!r} must be a whole number below {below:,}. Got {text[:40]!r}.")
        return int(text)

    def pairs(self, name: str) -> dict[str, str]:
        """Names with a text each."""
        value = self[name]
        if not isinstance(value, dict):
            raise InvalidParameter(f"{name!r} must be an object. Got {str(value)[:40]!r}.")
        return {str(key): str(text) for key, text in value.items()}

    def __missing__(self, name: str) -> Any:
        raise InvalidParameter(f"{name!r} is missing.")
