"""`tellwhy explain` for pictures, series, texts, and what has neighbours: grids, sequences and graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tellwhy.core.errors import InvalidParameter
from tellwhy.kinds.graph import explain_graph
from tellwhy.kinds.model import judge
from tellwhy.kinds.table_rows import read_named
from tellwhy.results.result import Anomaly, Result
from tellwhy.storage.documents import make_plain
from tellwhy.storage.model_file import load
from tellwhy.verdicts.run_io import check_place, record_anomaly, save_run
from tellwhy.views.cli import screen
from tellwhy.views.cli.explain import print_run
from tellwhy.views.cli.terminal import escape
from tellwhy.views.page.events import write_events_report
from tellwhy.views.page.media import write_media_report
from tellwhy.views.page.page import write_report
from tellwhy.views.page.shell import write_page
from tellwhy.views.tell import tell as tell_result
from tellwhy.words import tell
from tellwhy.words.english.events import write_how_sure
from tellwhy.words.wording import write_p

WHAT = {
    "events": "event",
    "pictures": "picture",
    "series": "stretch",
    "texts": "text",
    "labels": "text",
    "insight": "pattern",
}
MOST_LETTERS = 300  # of a text on the terminal
WITH_MODEL = {
    "events": ("--time", "--sheet"),
    "pictures": (),
    "series": ("--time",),
    "texts": ("--columns", "--text", "--id"),
    "labels": ("--text",),
}
TAKEN = {
    "events": ("--reference", "--columns", "--time", "--sheet"),
    "pictures": ("--reference",),
    "series": ("--reference", "--columns", "--time"),
    "texts": ("--reference", "--normal", "--columns", "--text", "--id"),
}


def explain_and_tell(
    kind: str,
    named: Mapping[str, Any],
    folder: Path,
    asked: Mapping[str, Any],
    others: Mapping[str, object],
    *,
    model: Path | None = None,
    as_json: bool,
    quiet: bool,
) -> Result:
    """Find what is odd, write the folder of the run, and print what was found.

    `asked` are the options that these runs have; of `others`, which they do not have, none may be given.
    """
    options = {f"--{name}": asked[name] for name in ("reference", "columns", "time", "text")}
    options["--id"] = asked["id_column"]
    taken = TAKEN if model is None else WITH_MODEL
    for name, value in (dict(others) | options).items():
        if value and name not in taken.get(kind, ()):
            with_what = kind if model is None else f"a model of {kind}"
            raise InvalidParameter(f"{name} does not go with {with_what}. Leave it out.")
    with screen.show_work(quiet=quiet):
        check_place(folder)
        run = _explain(kind, named, asked) if model is None else _judge(kind, named, asked, model)
        save_run(run, folder, add=lambda work: _write_page(run, work / "report.html"))
    if as_json:
        screen.print_json(_record_run(run, folder))
        return run
    screen.print_notes(run.notes, quiet=quiet)
    (show_events if run.kind == "events" else show)(run)
    screen.print_line(f"Report: {folder / 'report.html'}")
    return run


def _write_page(run: Result, path: Path) -> None:
    if run.kind in ("labels", "insight"):
        write_page(tell_result(run, "html"), path)
    else:
        (write_events_report if run.kind == "events" else write_media_report)(run, path)


def _explain(kind: str, named: Mapping[str, Any], asked: Mapping[str, Any]) -> Result:
    if kind == "events":
        return _explain_events(named, asked)
    shared = {name: asked[name] for name in ("reference", "top", "fdr", "random_state")}
    if kind == "pictures":
        from tellwhy.kinds.pictures import explain_pictures

        return explain_pictures(named["names"], **shared)
    from tellwhy.kinds.table_rows import read_named
    from tellwhy.kinds.texts import explain_documents
    from tellwhy.kinds.windows import explain_series

    if kind == "texts":
        column = asked["text"][0]
        own = {name: asked[name] for name in ("id_column", "normal")}
        return explain_documents(read_named(**named), text=column, **own, **shared)
    own = {name: asked[name] for name in ("time", "window", "columns", "exclude")}
    return explain_series(read_named(**named), **shared, **own)


def _explain_events(named: Mapping[str, Any], asked: Mapping[str, Any]) -> Result:
    from tellwhy.kinds.events import explain_events
    from tellwhy.kinds.table_rows import read_named

    own = {name: asked[name] for name in ("reference", "time", "columns", "exclude", "top")}
    return explain_events(read_named(**named), **own)


def _judge(kind: str, named: Mapping[str, Any], asked: Mapping[str, Any], model: Path) -> Result:
    """Judge by a model that `tellwhy fit` saved."""
    from tellwhy.kinds.model import judge
    from tellwhy.kinds.table_rows import read_named
    from tellwhy.storage.model_file import load

    of_kind = {
        "events": ("time",),
        "series": ("time", "window"),
        "texts": ("text", "id_column"),
        "labels": ("text",),
    }
    own = of_kind.get(kind, ())
    source = named["names"] if kind == "pictures" else read_named(**named)
    shared = ("top",) if kind in ("events", "labels", "insight") else ("top", "fdr")
    told = {name: asked[name] for name in (*shared, *own)}
    if isinstance(told.get("text"), list) and len(told["text"]) == 1:
        told["text"] = told["text"][0]
    return judge(load(model), source, **told)


def _record_run(run: Result, folder: Path) -> dict[str, Any]:
    """A run as `--json` prints it."""
    record = record_event if run.kind == "events" else _record
    items = [record(item) for item in run.anomalies]
    head = {
        "kind": run.kind,
        "headline": " ".join(run.headline),
        "n_flagged": run.n_flagged,
        "anomalies": items,
    }
    tail = {
        "threshold": run.threshold,
        "source": run.source,
        "notices": run.notes,
        "out": str(folder),
    }
    return {**head, **run.settings, **tail}


def _record(item: Anomaly) -> dict[str, Any]:
    places = [
        {
            "where": tell.reason_phrase(reason),
            "share": reason.share,
            "box": [] if reason.part is None else list(reason.part.box),
        }
        for reason in item.reasons
    ]
    return {
        "name": item.id,
        "score": item.score,
        "p_value": item.p_value,
        "above_threshold": item.is_alarm,
        "places": places,
        "row": item.row,
        **({"note": item.note} if item.note else {}),
    }


def show(run: Result) -> None:
    """Print what was found: the headline, the ranked items with their places, and what was done."""
    console = screen.out()
    console.print(f"[bold]{escape(' '.join(run.headline))}[/]")
    table = screen.make_table()
    table.add_column("#", justify="right", style="dim")
    table.add_column(WHAT.get(run.kind, "part"), style="bold", overflow="fold")
    table.add_column("score", justify="right")
    table.add_column("p-value", justify="right")
    table.add_column("where · share of the relevance", overflow="fold")
    for rank, item in enumerate(run.anomalies, start=1):
        p_value = "" if item.p_value is None else write_p(item.p_value)
        where = "\n".join(escape(f"{tell.reason_phrase(r)} · {r.share:.0%}") for r in item.reasons)
        mark = "" if item.is_alarm or run.threshold is None else " [dim](below the threshold)[/]"
        note = f"\n{escape(item.note)}" if item.note else ""
        where = (where or "—") + mark + note + _mark_words(item)
        name = item.id or f"{item.part.kind} {item.row}"
        table.add_row(str(rank), escape(name), f"{item.score:.4g}", p_value, where)
    console.print(table)
    console.print(escape(run.summary))


def _mark_words(item: Anomaly) -> str:
    """The beginning of a text, with its most relevant words set off."""
    words = item.shown.get("words", [])
    if not words:
        return ""
    strongest = max(value for _, value in words)
    line = ""
    for word, value in words:
        is_strong = strongest > 0 and value > 0.3 * strongest
        line += f"[bold reverse]{escape(word)}[/]" if is_strong else escape(" ".join(word.split()) or " ")
        if len(line) > MOST_LETTERS:
            return f"\n[dim]{line} …[/]"
    return f"\n[dim]{line}[/]"


def record_event(event: Anomaly) -> dict[str, Any]:
    """One event as `--json` prints it."""
    reason = event.reasons[0]
    facts = reason.facts
    told: dict[str, Any] = make_plain(
        {
            "row": event.row,
            "start": facts["first"],
            "end": facts["last"],
            "readings": facts["n"],
            "channel": reason.feature,
            "other_channels": list(facts["others"]),
            "kind": facts["what"],
            "size": facts["size"],
            "value": reason.value,
            "expected": facts["expected"],
            "usual": list(reason.typical),
            "expected_false": facts["expected_false"],
            "told": event.is_alarm,
            "text": reason.text,
        }
    )
    return told


def show_events(run: Result) -> None:
    """Print the headline, the events with when, what and how sure, and what was done."""
    console = screen.out()
    console.print(f"[bold]{escape(' '.join(run.headline))}[/]")
    if run.anomalies:
        table = screen.make_table()
        table.add_column("#", justify="right", style="dim")
        table.add_column("when", style="bold", overflow="fold")
        table.add_column("what", overflow="fold")
        table.add_column("false ones to expect", overflow="fold")
        for rank, event in enumerate(run.anomalies, start=1):
            sure = write_how_sure(event.reasons[0].facts["expected_false"])
            mark = "" if event.is_alarm else " [dim](to watch)[/]"
            what = escape(tell.reason_phrase(event.reasons[0])) + mark
            table.add_row(str(rank), escape(str(event.id)), what, sure)
        console.print(table)
    console.print(escape(run.summary))


def check_options(ways: Mapping[str, object], table_only: Mapping[str, object]) -> None:
    """Raise unless exactly one way to read neighbours is given, and nothing that only tables have."""
    given = [name for name, value in ways.items() if value] or ["a model of nodes"]
    if len(given) > 1:
        raise InvalidParameter(f"Give one of {', '.join(ways)}; got {' and '.join(given)}.")
    for name, value in table_only.items():
        if value:
            raise InvalidParameter(
                f"{name} does not go with {given[0]}: what has neighbours is judged beside them. "
                "Leave it out."
            )


def check_grid(names: Sequence[str], asked: Mapping[str, Any]) -> None:
    """Raise unless a grid is one file."""
    is_grid = asked["time"] is None and asked["edges"] is None
    if is_grid and (len(names) != 1 or names[0] == "-"):
        raise InvalidParameter("--grid takes one .npz or .npy file; put all features of a grid into it.")


def explain_nodes(
    named: Mapping[str, Any],
    folder: Path,
    asked: Mapping[str, Any],
    *,
    model: Path | None = None,
    as_json: bool,
    quiet: bool,
) -> Result:
    """Find odd nodes, write the folder of the run, and print what was found."""
    with screen.show_work(quiet=quiet):
        check_place(folder)
        if model is None:
            check_grid(named["names"], asked)
        source = read_named(**named)
        run = explain_graph(source, **asked).run if model is None else judge(load(model), source, **asked)
        save_run(run, folder, add=lambda work: write_report(run, work / "report.html"))
    top = run.settings["top"]
    if as_json:
        print_run(run, record_nodes(run, top), folder)
        return run
    screen.print_notes(run.notes, quiet=quiet)
    screen.show_findings(run)
    show_nodes(run, top)
    screen.print_line(f"Report: {folder / 'report.html'}")
    return run


def record_nodes(run: Result, top: int) -> list[dict[str, Any]]:
    """Return the ranked nodes as `--json` prints them: with class and context."""
    extras = run.explanation.extras
    return [
        record_anomaly(anomaly)
        | {"class": int(extras["class"][k]), "context_share": float(extras["context_share"][k])}
        for k, anomaly in enumerate(run.anomalies[:top])
    ]


def show_nodes(run: Result, top: int) -> None:
    """Print the ranked nodes with class, context and reasons."""
    extras = run.explanation.extras
    table = screen.make_table()
    table.add_column("#", justify="right", style="dim")
    table.add_column("node", style="bold")
    for name in ("class", "score", "of which context"):
        table.add_column(name, justify="right")
    table.add_column("why: column = value (what is usual in its class) · share of the score", overflow="fold")
    for k, anomaly in enumerate(run.anomalies[:top]):
        name = anomaly.id or f"row {anomaly.row}"
        share = f"{extras['context_share'][k]:.0%}"
        cells = (str(k + 1), escape(name), str(extras["class"][k]), f"{anomaly.score:.4g}", share)
        table.add_row(*cells, screen.write_reasons(anomaly) + screen.write_below_mark(anomaly))
    console = screen.out()
    console.print(table)
    console.print(escape(run.summary))
