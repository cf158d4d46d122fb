"""Tellwhy insight, fit-svm.

The command `tellwhy insight`: what a model has learned.

`tellwhy fit-svm`: a multi-class SVM from a file, on several threads or ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import options, screen
from tellwhy.views.cli.terminal import escape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tellwhy.classifiers.svm.training.job import Job
    from tellwhy.explainers.surrogate.chains import Convergence
    from tellwhy.explainers.surrogate.insight import Insight
    from tellwhy.kinds.insight import InsightRun
    from tellwhy.results.labelled_texts import LabelDoubt


MOST_SHOWN = 8  # features per line; the files hold all
MOST_DOUBTS = 5  # labels that are contradicted, told one by one
OPTIONS = {
    "Raise n_burn and n_sweeps, or lower n_components": "Raise --minutes or --sweeps, or lower --components"
}


def insight_command(
    model: Annotated[
        str, typer.Argument(metavar="MODULE:NAME", help="A function of rows, a fitted model or network.")
    ],
    data: Annotated[Path, typer.Argument(help="Rows: a table of numbers, or an .npz file with the array X.")],
    *,
    top: Annotated[int, typer.Option(min=1, help="Main features of each pattern.")] = 10,
    components: Annotated[int, typer.Option(min=1, help="The most components of the mixture.")] = 10,
    features: Annotated[
        int | None, typer.Option(min=1, help="Use only this many columns, the most correlated.")
    ] = None,
    sweeps: Annotated[
        int, typer.Option(min=8, help="Sweeps of each chain, after half as many of burn-in.")
    ] = 1000,
    chains: Annotated[int, typer.Option(min=1, help="Chains, which must agree.")] = 4,
    minutes: Annotated[
        float,
        typer.Option(min=0.0, help="Chains that disagree go on for up to this long per class; 0: they stop."),
    ] = 5.0,
    scale: Annotated[
        str, typer.Option(help="columns, or common: pixels and other columns of one unit.")
    ] = "columns",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder; by default tellwhy-insight-NAME.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Save the chains here on the way; if cut off, go on from there."),
    ] = None,
    json: options.Json = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Show what a model has learned, with credible intervals.

    Fits a Bayesian mixture of sparse regressions to the model's outputs on the rows, and writes a folder with
    `insights.html` (a page on the patterns) and `insights.json`.

    Examples
    --------
    - `tellwhy insight my_models:predict data.csv`
    - `tellwhy insight my_models:network digits.npz --top 150 --scale common`
    """
    from tellwhy.kinds.insight import check_place, read_insights, run_record, save_insights
    from tellwhy.kinds.model import fit, judge

    folder = Path(f"tellwhy-insight-{options.name_stem(data)}") if out is None else out
    check_place(folder)  # before the model is asked: that may take hours
    with screen.progress_bar(quiet=quiet), screen.show_warnings_as_notes(OPTIONS):
        asked = fit(
            model,
            kind="insight",
            top=top,
            checkpoint=checkpoint,
            n_components=components,
            features=features,
            n_sweeps=sweeps,
            n_burn=max(1, sweeps // 2),
            n_chains=chains,
            max_seconds=60.0 * minutes or None,
            scale=scale,
            random_state=seed,
        )
        run = read_insights(judge(asked, data))
        save_insights(run, folder, add=lambda work: _write_page(run, work / "insights.html"))
    if json:
        screen.print_json({**run_record(run), "out": str(folder)})
        return
    screen.print_notes(run.notices, quiet=quiet)
    show_insights(run)
    screen.print_line(f"Page: {folder / 'insights.html'}")


def _write_page(run: InsightRun, path: Path) -> None:
    from tellwhy.views.page.insight import write_insight_report

    write_insight_report(run, path)


def show_insights(run: InsightRun) -> None:
    """Print one line per pattern: class, share of rows, main features with intervals, where it applies."""
    from tellwhy.words.wording import between

    table = screen.make_table()
    table.add_column("class", overflow="fold")
    table.add_column("rows", justify="right", overflow="fold")
    table.add_column("main features with intervals", overflow="fold")
    table.add_column("where", overflow="fold")
    for insight in run.insights:
        where = ", ".join(f"{name} {between(low, high)}" for name, low, high in insight.applies)
        share = f"{100 * insight.share:.0f} %"
        table.add_row(escape(insight.target), share, _write_pattern(insight), escape(where))
    console = screen.out()
    console.print(table)
    level = 100 * run.insights[0].credibility if run.insights else 95
    console.print(
        f"[dim]Change of the output per unit of each feature, with {level:.0f} % credible intervals, from "
        f"{run.n_rows} rows of {escape(run.source)}. Chains: {escape(_write_agreement(run.convergence))}.[/]"
    )


def _write_agreement(convergence: Mapping[str, Convergence]) -> str:
    """How far chains agree: of the class where they agree least."""
    worst = max(convergence, key=lambda name: convergence[name].worst_r_hat)
    words = convergence[worst].words()
    return words if len(convergence) == 1 else f"{words} (class {worst}; the other classes agree better)"


def _write_pattern(insight: Insight) -> str:
    """The features that surely matter; where there are none, the first, said to be unsure."""
    lines = list(insight.to_frame().itertuples(index=False))
    sure = [line for line in lines if line.low > 0 or line.high < 0]
    words = ", ".join(_write_feature(line) for line in (sure or lines[:1])[:MOST_SHOWN])
    rest = []
    if len(sure) > MOST_SHOWN:
        rest.append(f"{len(sure) - MOST_SHOWN} more")
    if len(sure) < len(lines):
        rest.append(f"{len(lines) - len(sure)} that may be 0" if sure else "all may be 0")
    return f"{words} [dim]({', '.join(rest)})[/]" if rest else words


def _write_feature(line: Any) -> str:
    from tellwhy.words.wording import number

    limits = escape(f"[{number(line.low, 2)}, {number(line.high, 2)}]")
    return f"[bold]{escape(line.feature)}[/] {number(line.coefficient, 2)} {limits}"


class FittedSVM(Protocol):
    """What is told of a fitted machine."""

    classes_: Sequence[object]
    n_features_in_: int
    objective_: float
    dual_gap_: float
    n_iter_: int
    density_: float
    history_: Sequence[dict[str, float]]


def fit_svm_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="Labelled rows: libsvm format, .npz, or a table (Parquet, CSV, Excel, JSON lines) with "
            "--label."
        ),
    ],
    *,
    label: Annotated[str | None, typer.Option(metavar="COL", help="Column of labels of a table.")] = None,
    text: Annotated[
        str | None,
        typer.Option(metavar="COL", help="Column of texts: train on their words, explain labels by them."),
    ] = None,
    ngrams: Annotated[
        int | None, typer.Option(help="With --text: 2 or 3 also count pairs, triples of words; by default 1.")
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="With --text: keep a share of the rows for checking labels, in place of --folds.",
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Label every row by one of so many further models, that has not seen it; by default 5 for "
            "tables and 0 for other files and with --ranks.",
        ),
    ] = None,
    c: Annotated[
        str,
        typer.Option(
            "--c",
            metavar="C|auto|C,C,…",
            help="Weight of the losses; auto or several: the best by cross-validation on training rows.",
        ),
    ] = "1",
    loss: Annotated[
        str,
        typer.Option(
            help="ww (Weston–Watkins), cs (Crammer–Singer), llw (Lee–Lin–Wahba), ovr (one-vs-rest)."
        ),
    ] = "ww",
    ranks: Annotated[
        int, typer.Option(help="Processes, started with mpiexec; each holds a share of the model.")
    ] = 1,
    threads: Annotated[int, typer.Option(help="Threads of each process.")] = 1,
    feature_parts: Annotated[
        int | None,
        typer.Option(
            help="Of ranks (ww, cs): parts of the features, 1, 2, 4 or 8; by default as rows allow."
        ),
    ] = None,
    tol: Annotated[float, typer.Option(help="Relative duality gap to stop at.")] = 1e-3,
    max_epochs: Annotated[int, typer.Option(help="Most passes over the data.")] = 1000,
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    intercept: Annotated[bool, typer.Option(help="Whether to add a constant feature.")] = True,
    scale: Annotated[
        bool | None, typer.Option(help="Train on columns of mean 0 and variance 1; by default for tables.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The model; by default NAME-svm.tellwhy.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(help="Epochs between checkpoints.")] = 20,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the checkpoint of the same command.")
    ] = False,
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a multi-class SVM and write it to a file; `tellwhy.load` reads it.

    With --text, a page of the same name is written beside it: texts with the words that decided, and the
    words of each class. With folds, every row is labelled by a model that has not seen it: rows whose label
    is contradicted are listed in NAME-labels.csv, the surest first, and the model is calibrated, so that
    `tellwhy predict` gives probabilities.

    Examples
    --------
    - `tellwhy fit-svm data.svm --c 1 --loss ww`
    - `tellwhy fit-svm measurements.csv --label species`
    - `tellwhy fit-svm mails.csv --text body --label topic`
    - `tellwhy fit-svm mails.csv --text body --label topic --c auto`: C by cross-validation
    - `tellwhy fit-svm data.svm --c 1 --loss ww --ranks 4`
    - `tellwhy fit-svm data.svm --c 1 --loss ww --ranks 4 --resume`
    """
    from tellwhy.classifiers.svm.training.files import is_table
    from tellwhy.classifiers.svm.training.job import Job
    from tellwhy.classifiers.svm.training.run import pass_on_now_and_then

    place = Path(f"{options.name_stem(file)}-svm.tellwhy") if out is None else out
    job = Job(
        data=str(file),
        out=str(place),
        loss=loss,
        C=1.0,
        tol=tol,
        max_epochs=max_epochs,
        ranks=ranks,
        threads=threads,
        feature_parts=feature_parts,
        dtype=dtype,
        fit_intercept=intercept,
        label=label,
        seed=seed,
        checkpoint_every=checkpoint_every,
        resume=resume,
        quiet=quiet,
        scale=text is None and (is_table(file) if scale is None else scale),
    )
    asked = {"ngrams": ngrams, "held_out": held_out}
    given = {name: value for name, value in asked.items() if value is not None}
    _check_options(text, bool(scale), list(given))
    if held_out is not None and folds:
        raise InvalidParameter("--folds judges every row, --held-out some of them. Give one of the two.")
    values = _read_values_of_c(c)
    job = replace(job, C=values[0])
    n_folds = _choose_folds(folds, job, is_table=is_table(file))
    show = pass_on_now_and_then(lambda line: None if quiet else screen.err().print(line))
    if text is not None:
        if n_folds:
            given["folds"] = n_folds
        elif held_out is None:
            given["held_out"] = HELD_OUT if folds is None else 0.0
        _fit_texts(job, text, values, show, as_json=json, quiet=quiet, **given)
        return
    _fit_rows(job, values, n_folds, show, as_json=json, quiet=quiet)


HELD_OUT = 0.1  # of texts that are trained on over ranks
FOLDS = 5


def _choose_folds(asked: int | None, job: Job, *, is_table: bool) -> int:
    if asked is None:
        return FOLDS if is_table and job.ranks == 1 else 0
    if asked == 1:
        raise InvalidParameter("--folds 1 leaves no rows to train on. Give 2 or more, or 0 for none.")
    return asked


def _read_values_of_c(text: str) -> tuple[float, ...]:
    """Values of C to choose from; a single one is taken as it is."""
    from tellwhy.classifiers.svm.training.judged import GRID

    if text.strip().lower() == "auto":
        return GRID
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or not all(0 < value < float("inf") for value in values):
        raise InvalidParameter(
            "--c must be a positive number, several with commas between them (0.1,1,10), or auto. Got "
            f"{text!r}."
        )
    return values


def _fit_rows(
    job: Job,
    values: tuple[float, ...],
    folds: int,
    show: Callable[[str], None],
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Train on rows of numbers; with folds, say which labels are contradicted."""
    from tellwhy.classifiers.svm.training.judged import choose_c_of_job, judge_rows, read_rows_of_job
    from tellwhy.classifiers.svm.training.run import train
    from tellwhy.results.labelled_texts import LabelDoubt

    told: dict[str, Any] = {"model": job.out}
    lines = []
    with screen.show_work([job.data], quiet=quiet):
        if len(values) > 1:
            job.check()
            rows = read_rows_of_job(job)
            job = replace(job, C=choose_c_of_job(job, rows.X, rows.y, values))
            told["c"] = job.C
            lines.append(_tell_c(job.C, values))
        model = train(job, show)
        if folds:
            found = judge_rows(job, model, folds)
            given = read_rows_of_job(job).y
            doubts = [
                LabelDoubt(
                    int(i), str(given[i]), str(found.labels[i]), float(found.own[i]), float(found.told[i])
                )
                for i in found.find_doubtful()
            ]
            n_judged = int((found.fold >= 0).sum())
            lines += _write_doubts(job, doubts, n_judged, "row", told)
    _tell(model, told, lines, as_json=as_json)


def _tell_c(chosen: float, values: tuple[float, ...]) -> str:
    from tellwhy.words.wording import number

    tried = ", ".join(number(value) for value in sorted(values))
    return f"C = {number(chosen)}, the best of {tried} by cross-validation."


def _write_doubts(
    job: Job, doubts: Sequence[LabelDoubt], n_judged: int, what: str, told: dict[str, Any]
) -> list[str]:
    """List the rows whose label is contradicted in a file beside the model; return what to say of them."""
    from tellwhy.storage.csv_cells import write_cells
    from tellwhy.storage.folders import new_file
    from tellwhy.words.wording import count, share

    place = Path(job.out).with_suffix("").with_name(Path(job.out).with_suffix("").name + "-labels.csv")
    names = [what, "given", "label", "probability_of_given", "probability"]
    with new_file(place, sign=f"{what},given,label,".encode()) as work:
        write_cells(work, names, ([d.row, d.given, d.label, d.own, d.told] for d in doubts))
    told |= {"labels": str(place), "judged": n_judged, "contradicted": len(doubts)}
    lines = [
        f"{len(doubts):,} of {count(n_judged, what)} ({share(len(doubts) / max(n_judged, 1))}) get another "
        f"label from a model that has not seen them: {place}, the surest first."
    ]
    lines += [
        f"  {what} {d.row}: {d.given} → {d.label} ({share(d.told)}; {d.given} {share(d.own)})"
        for d in doubts[:MOST_DOUBTS]
        if d.own is not None and d.told is not None
    ]
    return lines


def _check_options(text: str | None, scale: bool, of_texts: list[str]) -> None:
    """Raise for options that only texts have, or that texts do not have."""
    if text is not None and scale:
        raise InvalidParameter(
            "--scale is for tables of numbers; the features of texts, with --text, have unit length."
        )
    if text is None and of_texts:
        raise InvalidParameter(f"--{of_texts[0].replace('_', '-')} goes with --text, which names the texts.")


def _fit_texts(
    job: Job,
    text: str,
    values: tuple[float, ...],
    show: Callable[[str], None],
    *,
    as_json: bool,
    quiet: bool,
    **settings: Any,
) -> None:
    """Train on texts, write the report beside the model, and tell how many labels are right."""
    from tellwhy.data import read_table
    from tellwhy.kinds.model import fit, judge
    from tellwhy.results.labelled_texts import read_labels
    from tellwhy.views.page.labels import write_text_report
    from tellwhy.views.page.shell import check_page
    from tellwhy.words.wording import count, count_wrong_labels

    page = Path(job.out).with_suffix(".html")
    with screen.show_work([job.data], quiet=quiet):
        check_page(page)
        job.validate()
        table = read_table(job.data)
        several = {"Cs": values} if len(values) > 1 else {}
        asked = _collect_asked(job) | several | settings
        model = fit(table, kind="labels", text=text, show=show, **asked)
        found = read_labels(judge(model, table))
        if found is None:
            raise AssertionError("labels were explained")
        report = write_text_report(found, page)
        kept = model.trained_on_
        told = {"model": job.out, "report": str(report), "texts": found.n_texts, "wrong": found.n_wrong}
        told |= {"held_out": len(kept.held), "c": model.classifier_.C}
        lines = [_tell_c(model.classifier_.C, values)] if len(values) > 1 else []
        if kept.folds:
            lines += _write_doubts(job, found.doubts, found.n_texts, "row", told)
        else:
            texts = f"the {count(found.n_texts, 'text')} {'held out' if len(kept.held) else 'trained on'}"
            lines.append(count_wrong_labels(found.n_wrong or 0, found.n_texts, texts))
    screen.print_notes(found.notes[1:], quiet=as_json or quiet)
    _tell(model.classifier_, told, lines, as_json=as_json)


def _collect_asked(job: Job) -> dict[str, Any]:
    """What a job asks of labels, as settings of the kind."""
    from tellwhy.kinds.labels import TRAINING

    return {name: getattr(job, name) for name in (*sorted(TRAINING), "label", "out")}


def _tell(model: FittedSVM, told: dict[str, Any], lines: list[str], *, as_json: bool) -> None:
    """Print what was fitted and where it is, in words or as JSON."""
    if as_json:
        screen.print_json(
            told
            | {
                "classes": len(model.classes_),
                "features": model.n_features_in_,
                "objective": model.objective_,
                "dual_gap": model.dual_gap_,
                "epochs": model.n_iter_,
                "seconds": model.history_[-1]["seconds"],
                "density": model.density_,
            }
        )
        return
    for line in [_fit_words(model), *lines, f"Model: {told['model']}"]:
        screen.print_line(line)
    if "report" in told:
        screen.print_line(f"Report: {told['report']}")


def _fit_words(model: FittedSVM) -> str:
    from tellwhy.words.wording import count, share

    return (
        f"{len(model.classes_)} classes, {count(model.n_features_in_, 'feature')}: objective "
        f"{model.objective_:.6g}, certified to {abs(model.dual_gap_):.1e} in "
        f"{count(model.n_iter_, 'epoch')}; {share(model.density_)} of the weights are not zero."
    )
