"""Tellwhy mcp.

The command `tellwhy mcp`: tools for assistants.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def mcp_command(
    *,
    root: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder whose files may be read, and nothing else.")
    ] = Path("."),
    write: Annotated[
        bool, typer.Option("--write", help="Models may be saved below the folder; by default nothing may.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Speak HTTP at this port of this machine; by default through stdin, stdout.",
        ),
    ] = None,
) -> None:
    """Offer check, explain, diff, fit, judge, row and repair_plan to an assistant (Model Context Protocol).

    Example, as an assistant starts it: `tellwhy mcp --root /home/me/tables`
    """
    from tellwhy.core.optional import require

    require("mcp", "tellwhy mcp")
    from tellwhy.views.mcp.files import Root
    from tellwhy.views.mcp.server import serve_http, serve_standard_streams

    place = Root.of(root, may_write=write)
    if port is None:
        serve_standard_streams(place)
    else:
        serve_http(place, port)
