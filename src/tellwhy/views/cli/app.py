"""Tellwhy app.

The command `tellwhy app`: a page in the browser to go through what was found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import options, screen

MEBIBYTE = 2**20


def app_command(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|FILE...",
            help="A folder that `tellwhy explain` wrote; or what `tellwhy explain` takes, explained first.",
        ),
    ],
    *,
    db: options.Database = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judge the rows by a model that `tellwhy fit` saved.")
    ] = None,
    id: Annotated[
        str | None, typer.Option(metavar="COL", help="Column that names rows in the output.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=10_000, help="How many rows to explain at least.")] = 10,
    fdr: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Expected share of false alarms; 0.1 by default.")
    ] = None,
    exclude: options.Exclude = None,
    by: options.By = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the run; by default tellwhy-NAME here.")
    ] = None,
    view: Annotated[
        str,
        typer.Option(metavar="QUERY", help="What to show first, as the page writes it below its list."),
    ] = "",
    port: Annotated[int, typer.Option(metavar="N", help="0: any port that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    largest: Annotated[
        int, typer.Option(min=1, metavar="MIB", help="Largest file that can be dropped onto the page.")
    ] = 512,
    quiet: options.Quiet = False,
) -> None:
    """Open a page in the browser to go through what was found: sort, compare, decide, try.

    It is served from this machine to this machine alone and needs no network. Only a browser that was given
    the address with its token may open it. Ctrl-C ends it. Decisions are kept beside the run.

    Examples
    --------
    - `tellwhy app tellwhy-orders`: a run that is there
    - `tellwhy app orders.csv`: explained first
    - `tellwhy app today.csv --model orders.tellwhy`: by a model that was fitted before
    - `tellwhy app "SELECT * FROM orders" --db shop.duckdb`
    - `tellwhy app tellwhy-orders --view "show=all&where=price > 100"`
    """
    from tellwhy.core.optional import require

    for module in ("starlette", "uvicorn", "duckdb"):
        require(module, "tellwhy app")
    import secrets

    from tellwhy.views.server.app import make_app
    from tellwhy.views.server.app_session import Session
    from tellwhy.views.server.app_view import View
    from tellwhy.views.server.http import open_socket, serve

    asked: dict[str, Any] = {"id_column": id, "top": top, "fdr": fdr}
    asked |= {"exclude": options.split_options(exclude) or (), "by": options.split_options(by) or ()}
    shown = View.parse(view)
    with open_socket("127.0.0.1", port) as place:
        folder = _make_folder(source, db, model, out, asked, quiet=quiet)
        session = Session.open(folder)
        token = secrets.token_urlsafe(24)

        def tell(address: str) -> None:
            page = f"{address}/?token={token}{'&' + shown.query() if shown.query() else ''}"
            screen.print_line(f"{session.name}: {page}")
            if not quiet:
                screen.note(f"Ctrl-C ends the page. Decisions are kept in {session.decisions.path}.")
            if browser:
                import webbrowser

                webbrowser.open(page)

        serve(make_app(session, token=token, most_bytes=largest * MEBIBYTE), place, ready=tell)


def _make_folder(
    source: list[str],
    db: str | None,
    model: Path | None,
    out: Path | None,
    asked: dict[str, Any],
    *,
    quiet: bool,
) -> Path:
    """The folder of the run that is named, or of a table that is explained first."""
    from tellwhy.views.server.app_session import explain_named

    if db is None and len(source) == 1 and Path(source[0]).is_dir() and _is_run(Path(source[0])):
        given = [name for name, value in asked.items() if value not in (None, (), 10)]
        if given or model is not None:
            name = "--model" if model is not None else f"--{given[0].removesuffix('_column')}"
            raise InvalidParameter(f"{name} goes with a table; {source[0]} is a run that is there already.")
        return Path(source[0])
    folder = Path(f"tellwhy-{options.name_first_stem(source, db)}") if out is None else out
    with screen.show_work([] if db is not None else source, quiet=quiet):
        return explain_named(source, folder, asked, model_file=model, db=db)


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("result.json", "run.json", "run/result.json"))
