"""Tellwhy mcp, serve, watch.

The command `tellwhy mcp`: tools for assistants.

The command `tellwhy serve`: saved models behind an address.

The command `tellwhy watch`: events as they come.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import options, screen

if TYPE_CHECKING:
    from tellwhy.bulk.stream.sources import Source


def mcp_command(
    *,
    root: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder whose files may be read, and nothing else.")
    ] = Path("."),
    write: Annotated[
        bool,
        typer.Option("--write", help="Allow models to be saved below the folder; by default nothing may be."),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Speak HTTP on this port of this machine; by default, over stdin and stdout.",
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


def serve_command(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=]FILE...", help="Models of `tellwhy fit`, named as their files."),
    ] = None,
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes any that is free.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes; one that dies is replaced.")] = 1,
    threads: Annotated[
        int, typer.Option(min=1, max=64, help="Requests that each process works on at a time.")
    ] = 2,
    api_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keys of who may call, kept as hashes.")
    ] = None,
    new_key: Annotated[
        str | None, typer.Option(metavar="NAME", help="Add a key to the file, print it once, and stop.")
    ] = None,
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Listen on another address even without keys.")
    ] = False,
    deadline: Annotated[float, typer.Option(min=0.01, help="Seconds that a request may take.")] = 30.0,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of a request.")] = 100_000,
    max_mib: Annotated[int, typer.Option(min=1, max=4096, help="Size of a request's body.")] = 64,
    max_waiting: Annotated[int, typer.Option(min=0, help="Requests that wait for a thread.")] = 64,
    quiet: options.Quiet = False,
) -> None:
    """Serve saved models: score, explain, judge and diff for programs, and the protocols of KServe.

    SIGHUP reads the models again, SIGTERM ends after what was accepted. Logs are JSON lines on stderr and
    hold nothing of the rows.

    Examples
    --------
    - `tellwhy serve orders.tellwhy`
    - `tellwhy serve --new-key shop --api-key-file keys`
    - `tellwhy serve orders.tellwhy --host 0.0.0.0 --workers 4 --api-key-file keys`
    """
    from tellwhy.core.optional import require

    if new_key is not None:
        _add_key(new_key, api_key_file)
        return
    if not models:
        raise InvalidParameter("Name at least one model to serve, as `tellwhy fit` saved it.")
    require("fastapi", "tellwhy serve")
    require("prometheus_client", "tellwhy serve")
    from tellwhy.views.server.http import LOOPBACK, address_of, open_socket
    from tellwhy.views.server.service.limits import Limits
    from tellwhy.views.server.service.shelf import places_of
    from tellwhy.views.server.service.workers import Setup, Watch, answer

    if host not in LOOPBACK and f"[{host}]" not in LOOPBACK and api_key_file is None and not open_to_all:
        raise InvalidParameter(
            f"At {host} anybody who reaches this machine could ask. Give --api-key-file, or --open if "
            "something else asks who they are."
        )
    limits = Limits(
        most_bytes=max_mib * 2**20,
        most_rows=max_rows,
        seconds=deadline,
        threads=threads,
        most_waiting=max_waiting,
    )
    keys = None if api_key_file is None else str(api_key_file)
    places = {name: str(path) for name, path in places_of(models).items()}
    setup = Setup(places, host, keys, limits, quiet)
    with open_socket(host, port) as place:
        told = f"Serving {', '.join(places)} at {address_of(place)}"
        if workers == 1:
            answer(setup, place, lambda _: screen.note(told))
            return
        status = Watch(setup, place, workers).run(lambda: screen.note(told))
    raise typer.Exit(status)


def _add_key(name: str, path: Path | None) -> None:
    from tellwhy.views.server.service.keys import add_key

    if path is None:
        raise InvalidParameter("Say which file holds the keys: --api-key-file FILE.")
    screen.print_line(add_key(path, name))
    screen.note(f"The key of {name}; {path} holds its hash, and nothing else holds the key.")


def watch_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A file that grows (CSV, JSON lines), a pipe, - for standard input, "
            "redis://HOST/0?stream=NAME, kafka://HOST:PORT/TOPIC.",
        ),
    ],
    *,
    model: Annotated[
        Path, typer.Option(metavar="FILE", help="A model of a table, as `tellwhy fit` saved it.")
    ],
    state: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the journal, by which it goes on.")],
    alarms: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add alarms here; by default they are printed.")
    ] = None,
    rule: Annotated[
        str, typer.Option(help="lord or elond: --level is the share of false alarms; rate: of false events.")
    ] = "lord",
    level: Annotated[float, typer.Option(help="What the rule keeps to.")] = 0.1,
    id: Annotated[str | None, typer.Option(metavar="COL", help="Column that names events.")] = None,
    window: Annotated[int, typer.Option(min=200, help="Events that a new model is learned from.")] = 5_000,
    refit_every: Annotated[int, typer.Option(min=0, help="Learn a new model after so many events.")] = 0,
    drift_every: Annotated[int, typer.Option(min=0, help="Look for drift after so many events.")] = 0,
    refit_on_drift: Annotated[
        bool, typer.Option("--refit-on-drift", help="Learn a new model where something drifted.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop at the end of the file.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Watch events as they come, and tell of each odd one why it is odd: one JSON line an alarm.

    It goes on where it was stopped or killed, with no alarm lost or told twice.

    Examples
    --------
    - `tellwhy watch orders.csv --model orders.tellwhy --state watch --alarms alarms.jsonl`
    - `tail -F app.jsonl | tellwhy watch - --model app.tellwhy --state watch`
    - `tellwhy watch kafka://localhost:9092/orders --model orders.tellwhy --state watch --refit-every 100000`
    """
    import signal
    import sys

    from tellwhy.bulk.stream.journal import Outlet
    from tellwhy.bulk.stream.watch import Settings, Watch

    settings = Settings(rule, level, id, window, refit_every, drift_every, refit_on_drift)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outlet = Outlet(sys.stdout if alarms is None else alarms)
    events = _open_source(source, once=once)
    watch = Watch(source, events, model=model, folder=state, outlet=outlet, settings=settings)
    try:
        found = watch.run()
    except KeyboardInterrupt:
        found = watch.state
    finally:
        watch.close()
    if not quiet:
        told = f"{found.n_events:,} events, {found.n_lines:,} lines told"
        unreadable = f", {found.n_unreadable:,} unreadable" if found.n_unreadable else ""
        screen.note(f"{told}{unreadable}. The same command goes on from here.")


def _open_source(name: str, *, once: bool) -> Source:
    from tellwhy.bulk.stream.sources import KafkaTopic, Lines, RedisStream

    if name.startswith(("redis://", "rediss://")):
        return RedisStream(name)
    return KafkaTopic(name) if name.startswith("kafka://") else Lines(name, follow=not once)
