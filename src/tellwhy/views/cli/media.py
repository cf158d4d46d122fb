"""`tellwhy explain` for pictures, windows of series, and texts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tellwhy.core.errors import InvalidParameter
from tellwhy.results.media_run import Item, MediaRun, check_place, save_media
from tellwhy.views.cli import screen
from tellwhy.views.cli.terminal import escape
from tellwhy.views.page.media import write_media_report

WHAT = {"pictures": "picture", "series": "stretch", "texts": "text"}
MOST_LETTERS = 300  # of a text on the terminal
TAKEN = {
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
    as_json: bool,
    quiet: bool,
) -> MediaRun:
    """Find what is odd, write the folder of the run, and print what was found.

    `asked` are the options that these runs have; of `others`, which they do not have, none may be given.
    """
    options = {f"--{name}": asked[name] for name in ("reference", "columns", "time", "text")}
    options["--id"] = asked["id_column"]
    for name, value in (dict(others) | options).items():
        if value and name not in TAKEN[kind]:
            raise InvalidParameter(f"{name} does not go with {kind}. Leave it out.")
    with screen.working(quiet=quiet):
        check_place(folder)
        run = _explain(kind, named, asked)
        save_media(run, folder, add=lambda work: write_media_report(run, work / "report.html"))
    if as_json:
        screen.print_json(_told(run, folder))
        return run
    screen.notes(run.notices, quiet=quiet)
    show(run)
    screen.say(f"Report: {folder / 'report.html'}")
    return run


def _explain(kind: str, named: Mapping[str, Any], asked: Mapping[str, Any]) -> MediaRun:
    shared = {name: asked[name] for name in ("reference", "top", "fdr", "random_state")}
    if kind == "pictures":
        from tellwhy.kinds.pictures import explain_pictures

        return explain_pictures(named["names"], **shared)
    from tellwhy.kinds.table_rows import named_source
    from tellwhy.kinds.texts import explain_documents
    from tellwhy.kinds.windows import explain_series

    if kind == "texts":
        column = asked["text"][0]
        own = {name: asked[name] for name in ("id_column", "normal")}
        return explain_documents(named_source(**named), text=column, **own, **shared)
    own = {name: asked[name] for name in ("time", "window", "columns", "exclude")}
    return explain_series(named_source(**named), **shared, **own)


def _told(run: MediaRun, folder: Path) -> dict[str, Any]:
    """A run as `--json` prints it."""
    items = [_record(item) for item in run.items]
    head = {"kind": run.kind, "headline": run.headline, "n_flagged": run.n_flagged, "anomalies": items}
    tail = {
        "threshold": run.threshold,
        "source": run.source,
        "notices": list(run.notices),
        "out": str(folder),
    }
    return {**head, **run.settings, **tail}


def _record(item: Item) -> dict[str, Any]:
    places = [{"where": place.text, "share": place.share, "box": list(place.box)} for place in item.places]
    return {
        "name": item.name,
        "score": item.score,
        "p_value": item.p_value,
        "above_threshold": item.is_alarm,
        "places": places,
        "row": item.start,
    }


def show(run: MediaRun) -> None:
    """Print what was found: the headline, the ranked items with their places, and what was done."""
    console = screen.out()
    console.print(f"[bold]{escape(run.headline)}[/]")
    table = screen.plain_table()
    table.add_column("#", justify="right", style="dim")
    table.add_column(WHAT[run.kind], style="bold", overflow="fold")
    table.add_column("score", justify="right")
    table.add_column("p-value", justify="right")
    table.add_column("where · share of the relevance", overflow="fold")
    for rank, item in enumerate(run.items, start=1):
        p_value = "" if item.p_value is None else screen.p_text(item.p_value)
        where = "\n".join(escape(f"{place.text} · {place.share:.0%}") for place in item.places)
        mark = "" if item.is_alarm or run.threshold is None else " [dim](below the threshold)[/]"
        where = (where or "—") + mark + _marked(item)
        table.add_row(str(rank), escape(item.name), f"{item.score:.4g}", p_value, where)
    console.print(table)
    console.print(escape(run.summary))


def _marked(item: Item) -> str:
    """The beginning of a text, with its most relevant words set off."""
    if not item.words:
        return ""
    strongest = max(value for _, value in item.words)
    line = ""
    for word, value in item.words:
        is_strong = strongest > 0 and value > 0.3 * strongest
        line += f"[bold reverse]{escape(word)}[/]" if is_strong else escape(" ".join(word.split()) or " ")
        if len(line) > MOST_LETTERS:
            return f"\n[dim]{line} …[/]"
    return f"\n[dim]{line}[/]"
