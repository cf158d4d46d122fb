"""Tellwhy app.

The command `tellwhy app`: a page in the browser to go through what was found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellwhy.views.cli import options, screen


def app_command(
    source: Annotated[
        str, typer.Argument(metavar="RUN|FILE", help="A folder that `tellwhy explain` wrote, or a table.")
    ],
    *,
    port: Annotated[int, typer.Option(metavar="N", help="0: any port that is free.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the run; by default tellwhy-<name> here.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Open a page in the browser to go through what was found: sort, compare, decide, try.

    It is served from this machine to this machine alone, and needs no network. Ctrl-C ends it.

    Examples
    --------
    - `tellwhy app tellwhy-orders`
    - `tellwhy app orders.csv`
    """
    from tellwhy.core.optional import require

    require("uvicorn", "tellwhy app")
    import secrets

    from tellwhy.views.server.app import make_app
    from tellwhy.views.server.app_session import Session, make_result
    from tellwhy.views.server.http import open_socket, serve

    with open_socket("127.0.0.1", port) as place:
        folder = Path(source)
        if not folder.is_dir():
            folder = Path(f"tellwhy-{options.name_first_stem([source], None)}") if out is None else out
            with screen.show_work([source], quiet=quiet):
                make_result(Path(source), folder, {"top": 50})
        session = Session.open(folder)
        token = secrets.token_urlsafe(24)

        def tell(address: str) -> None:
            page = f"{address}/?token={token}"
            screen.print_line(f"{session.name}: {page}")
            if not quiet:
                screen.note(
                    "Ctrl-C ends the page. Decisions are kept in " + str(folder / "decisions.jsonl") + "."
                )
            if browser:
                import webbrowser

                webbrowser.open(page)

        serve(make_app(session, token=token), place, ready=tell)
