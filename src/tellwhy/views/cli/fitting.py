"""Tellwhy fit, mark.

The command `tellwhy fit`: learn what is ordinary once, and keep it.

The command `tellwhy mark`: say that an alarm is no trouble, so that its like is not raised again.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import options, screen
from tellwhy.views.cli.bulk import is_large

if TYPE_CHECKING:
    from tellwhy.kinds.marks import Mark
    from tellwhy.kinds.table_model import TableModel
    from tellwhy.results.result import Result


def fit_command(
    files: options.Files,
    *,
    save: Annotated[Path, typer.Option(metavar="FILE", help="File for the model, such as orders.tellwhy.")],
    sheet: options.Sheet = None,
    db: options.Database = None,
    normal: options.Normal = None,
    clean: Annotated[
        bool, typer.Option("--clean", help="All rows are ordinary; otherwise the oddest are set aside.")
    ] = False,
    id: Annotated[str | None, typer.Option(help="Column that names rows in the output.")] = None,
    detector: options.Detector = "auto",
    contamination: Annotated[
        float | None, typer.Option(help="Share of the rows above the alarm line.")
    ] = None,
    fdr: Annotated[
        float | None, typer.Option(help="Share of false alarms to expect; 0.1 by default.")
    ] = None,
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    ignore: options.Ignore = None,
    category: options.Category = None,
    number: options.Number = None,
    date: options.Date = None,
    text: options.Text = None,
    by: options.By = None,
    grid: options.IsGrid = False,
    time: options.Time = None,
    window: options.Window = None,
    edges: options.Edges = None,
    classes: options.Classes = None,
    neighbours: options.Neighbours = None,
    label: Annotated[
        str | None,
        typer.Option(metavar="COL[=VALUE]", help="Column that marks true anomalies; never a feature."),
    ] = None,
    missing: options.Missing = "impute",
    export_checks: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of a table: write ranges, labels and orders as a pandera schema."),
    ] = None,
    sign: options.Sign = None,
    dry_run: options.DryRun = False,
    force: options.Force = False,
    json: options.Json = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Learn what is ordinary in a table and save it to one file, for `tellwhy explain --model`.

    The file holds how columns are read, the ranges, labels and relations of the table, the detector, where
    alarms begin, and up to 50,000 rows (without free text and identifiers). It holds no code.
    Pictures, readings in time (`--time`, with or without `--window`), texts (`--text`) and nodes (`--edges`,
    `--grid`, `--time` with `--classes`) are learned from in the same way, and kept as patches, readings,
    windows, words and latent classes.

    Examples
    --------
    - `tellwhy fit january.csv --save orders.tellwhy`
    - `tellwhy fit good/ --clean --save parts.tellwhy`
    - `tellwhy fit may.csv --time second --save pump.tellwhy`: to find events in the weeks to come
    - `tellwhy fit may.csv --time second --window 40 --save pump.tellwhy`: stretches that look like no other
    """
    from tellwhy.kinds.mark_file import carry_marks
    from tellwhy.kinds.table_model import fit_model, marks_at
    from tellwhy.kinds.table_rows import read_named
    from tellwhy.storage.model_file import check_place, save as write
    from tellwhy.storage.signature import check_secret

    asked: dict[str, Any] = {
        "normal": normal,
        "clean": clean,
        "id_column": id,
        "detector": detector,
        "contamination": contamination,
        "fdr": fdr,
        "columns": options.split_options(columns),
        "exclude": options.split_options([*(exclude or []), *(ignore or [])]) or (),
        "by": options.split_options(by) or (),
        "label": label,
        "missing": missing,
        "random_state": seed,
        **options.collect_kinds(category, number, date, text),
    }
    inputs = files if db is None else [db]
    is_graph = grid or edges is not None or classes is not None
    kind = "graph" if is_graph else _choose_media(files, asked, db, time=time, window=window)
    if dry_run:
        with screen.show_work(inputs, quiet=True, force=force):
            check_place(save)
        of = kind or "rows of a table"
        screen.say_plan(map(str, files), kind=of, learned="nothing else", written=save)
        return
    if sign is not None:
        check_secret(sign)
    if kind is not None:
        if export_checks is not None:
            raise InvalidParameter("--export-checks is for tables; other kinds have no columns to check.")
        media: dict[str, Any] = {"time": time, "window": window, "sheet": sheet, "db": db}
        media |= {"edges": edges, "n_classes": classes or None, "neighbours": neighbours}
        _fit_media(kind, files, asked | media, save, force=force, as_json=json, quiet=quiet)
        _sign(save, sign)
        return
    with screen.show_work(inputs, quiet=quiet, force=force):
        check_place(save)
        if sheet is None and db is None and is_large(files):
            from tellwhy.bulk.fit import fit_bulk

            model = fit_bulk(list(files), **asked)
        else:
            model = fit_model(read_named(files, sheet=sheet, db=db), **asked)
        before = marks_at(save)
        write(model, save)
        carry_marks(save, before)
        if export_checks is not None:
            _export(model, export_checks)
    _sign(save, sign)
    if json:
        screen.print_json(record_model(model, save))
        return
    screen.print_notes(model.encoder.notices_, quiet=quiet)
    screen.print_line(summarise_model(model))
    screen.print_line(f"Model: {save}")


def _export(model: TableModel, path: Path) -> None:
    from tellwhy.storage.folders import new_file
    from tellwhy.views.exported_checks import write_checks

    with new_file(path) as work:
        work.write_text(write_checks(model), encoding="utf-8")


def _sign(model: Path, secret: Path | None) -> None:
    from tellwhy.storage.signature import sign_model

    if secret is not None:
        sign_model(model, secret)


def _choose_media(
    files: list[str], asked: dict[str, Any], db: str | None, *, time: str | None, window: int | None
) -> str | None:
    """Events, pictures, series or texts; None for a table."""
    from tellwhy.kinds.choose_kind import find_kind, is_texts

    if db is None and is_texts(files, asked["text"] or None, asked["columns"]):
        return "texts"
    return find_kind(files if db is None else [], time=time, window=window)


OF_MEDIA = {
    "events": ("clean", "time", "columns", "exclude", "sheet", "db"),
    "pictures": ("clean", "fdr", "random_state"),
    "series": ("clean", "fdr", "random_state", "time", "window", "columns", "exclude", "sheet", "db"),
    "texts": ("clean", "fdr", "random_state", "text", "normal", "id_column", "columns", "sheet"),
    "graph": (
        *("clean", "fdr", "contamination", "random_state", "time", "edges", "n_classes", "neighbours"),
        *("id_column", "columns", "exclude", "sheet", "db"),
    ),
}
_USUAL = ("auto", "impute", None, False, ())  # of options that were not given


def _fit_media(
    kind: str,
    files: list[str],
    asked: dict[str, Any],
    save: Path,
    *,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Learn from pictures, a series or texts, and keep the model."""
    from tellwhy.kinds.model import fit
    from tellwhy.kinds.table_rows import read_named
    from tellwhy.storage.model_file import check_place, save as write

    for name, value in asked.items():
        if name not in OF_MEDIA[kind] and value not in _USUAL and value != []:
            option = {"id_column": "id", "n_classes": "classes"}.get(name, name)
            raise InvalidParameter(f"--{option} does not go with {kind}. Leave it out.")
    aside = ("sheet", "db", *(("columns",) if kind == "texts" else ()))
    told = {name: asked[name] for name in OF_MEDIA[kind] if name not in aside}
    with screen.show_work(files, quiet=quiet, force=force):
        check_place(save)
        named = {"sheet": asked["sheet"], "db": asked["db"]}
        model = fit(files if kind == "pictures" else read_named(files, **named), kind=kind, **told)
        write(model, save)
    if as_json:
        screen.print_json({"model": str(save), "kind": kind, "source": model.source})
        return
    vouched = "" if asked["clean"] or asked["normal"] else " Pass --clean if all of it is ordinary."
    screen.print_line(
        f"A model of {'nodes' if kind == 'graph' else kind} learned from {model.source}.{vouched}"
    )
    screen.print_line(f"Model: {save}")


def record_model(model: TableModel, path: Path) -> dict[str, Any]:
    """What `--json` prints."""
    from tellwhy.storage.signature import fingerprint_of

    return {
        "model": str(path),
        "sha256": fingerprint_of(path),
        "source": model.source,
        "n_rows": model.n_rows,
        "rows_kept": len(model.reference),
        "columns": list(model.encoder.columns_),
        "roles": {name: role.words for name, role in model.roles.items()},
        "detector": model.words,
        "threshold": model.threshold,
        "threshold_rule": model.rule,
        "notices": list(model.encoder.notices_),
    }


def summarise_model(model: TableModel) -> str:
    """One paragraph: what was learned from what, and what a sample cannot show."""
    from tellwhy.kinds import table_model

    n_kept = len(model.reference)
    most = table_model.MOST_ROWS
    is_sampled = model.n_rows > most
    chosen = f"a random {most:,} of them" if is_sampled else f"{n_kept:,} of them, those without gaps"
    unseen = (
        " Ranges and labels were counted over all rows. What fewer than one row in 10,000 shows may be in "
        "none of the rows drawn: relations and segments that rare are not learned."
    )
    rows = f"{model.n_rows:,} rows ({chosen})" if n_kept < model.n_rows else f"{n_kept:,} rows"
    return (
        f"A {model.words} learned from {rows} of {Path(model.source).name} in "
        f"{len(model.encoder.columns_)} columns. A row is an alarm above a score of {model.threshold:.4g} "
        f"({model.rule}).{unseen if is_sampled else ''}"
    )


def mark_command(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|MODEL",
            help="Folder that `tellwhy explain --model` wrote; or the model's file, to see its marks.",
        ),
    ],
    *,
    row: Annotated[
        str | None, typer.Option(metavar="ID|N", help="The row: its id, or its number, as the run shows it.")
    ] = None,
    line: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The row: its line in the file, as the run shows it."),
    ] = None,
    benign: Annotated[
        str | None, typer.Option(metavar="WHY", help="Why it is harmless: 'known supplier'.")
    ] = None,
    forget: Annotated[
        str | None,
        typer.Option(metavar="N|ID", help="A mark that no longer holds: its number in the list, or its id."),
    ] = None,
    who: Annotated[str, typer.Option(metavar="NAME", help="Who says so; by default the user's name.")] = "",
    merge: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Add the marks of another model's file of marks.")
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The model; by default the one of the run.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Mark an alarm as harmless; without --row or --line, list the marks.

    Marks go by what made the row odd: another row that is odd for the same cause is held back by the next
    run, which says how many it held back. A row that is odd for something else, or more than twice as far
    off, is raised. Marks are kept beside the model, in FILE.marks.jsonl: who, when, why and what they cover.
    The file only grows; fitting the model again keeps them.

    Examples
    --------
    - `tellwhy mark tellwhy-feb --row A1708 --benign "known supplier"`
    - `tellwhy mark orders.tellwhy`: the marks
    - `tellwhy mark orders.tellwhy --forget 2`
    """
    from tellwhy.kinds.mark_file import add_marks, choose_marks, forget_marks, merge_marks
    from tellwhy.kinds.marks import make_marks, row_at_line, row_of
    from tellwhy.kinds.table_model import load_table_model

    if (row is None and line is None) != (benign is None) or (row is not None and line is not None):
        raise InvalidParameter(
            "Give --benign together with --row or --line: which row, and why it is no trouble."
        )
    run = _run(place) if place.is_dir() or benign is not None else None
    file = place if run is None else _find_model(place, run, model)
    marks = load_table_model(file).marks
    if run is not None and benign is not None:
        number = row_of(run, str(row)) if line is None else row_at_line(run, line)
        for mark in add_marks(file, make_marks(run, number, benign), run=str(place), who=who):
            if not json:
                screen.print_line(f"Marked: {mark.words}{tell_reach(mark)}")
    if forget is not None:
        forget_marks(file, choose_marks(marks, forget), who=who)
    if merge is not None:
        added = merge_marks(file, merge)
        if not json:
            screen.print_line(f"{added} new mark{'s' if added != 1 else ''} of {merge}.")
    _show_marks(file, is_listed=benign is None, as_json=json)


def _show_marks(file: Path, *, is_listed: bool, as_json: bool) -> None:
    """Print the marks of a model as they are now."""
    from tellwhy.kinds.mark_file import count_other_marks, path_of_marks
    from tellwhy.kinds.table_model import load_table_model

    marks = load_table_model(file).marks
    if as_json:
        told = {"model": str(file), "file": str(path_of_marks(file)), "marks": [vars(mark) for mark in marks]}
        screen.print_json(told)
        return
    if not is_listed:
        return
    screen.print_line(f"{file} has {len(marks)} mark{'s' if len(marks) != 1 else ''}.")
    for number, mark in enumerate(marks, start=1):
        made = ", ".join(filter(None, [mark.who, mark.when[:10], mark.id]))
        screen.print_line(
            f"{number}. {mark.why}: {mark.words}{tell_reach(mark)}{f' [{made}]' if made else ''}"
        )
    others = count_other_marks(file)
    if others:
        screen.print_line(
            f"{others} more in {path_of_marks(file)} are of another model, and do nothing here."
        )


def tell_reach(mark: Mark) -> str:
    """Say which numbers a mark covers.

    Examples
    --------
    >>> from tellwhy.kinds.marks import Mark
    >>> tell_reach(Mark("c", "price is high", "known", {"price": (None, 1800.0)}))
    ' (covers price up to 1800)'
    """
    told = []
    for name, (low, high) in mark.reach.items():
        ends = [f"from {low:.6g}"] if low is not None else []
        ends += [f"{'to' if ends else 'up to'} {high:.6g}"] if high is not None else []
        told += [f"{name} {' '.join(ends)}"] if ends else []
    return f" (covers {', '.join(told)})" if told else ""


def _run(run_dir: Path) -> Result:
    from tellwhy.verdicts.run_io import load_run

    inside = run_dir / "run"  # of a run block by block
    return load_run(inside if inside.is_dir() else run_dir)


def _find_model(run_dir: Path, run: Result, told: Path | None) -> Path:
    """The model of a run: the one that the user names, or the very one that the run was made with."""
    from tellwhy.kinds.mark_file import fingerprint_of

    if told is not None:
        return told
    known = str(run.settings.get("model") or "")
    if not known:
        raise InvalidParameter(
            f"{run_dir} was made without a model, in which a mark could be kept. Fit one "
            "(`tellwhy fit data.csv --save m.tellwhy`), explain with it, and mark rows of that run."
        )
    if run.settings.get("model_sha256") != fingerprint_of(known):
        raise InvalidParameter(
            f"{known} is not the model that {run_dir} was made with: it was fitted again, or the run is from "
            "elsewhere. Explain with it once more, or name the model that the mark is for with --model."
        )
    return Path(known)
