"""`tellwhy fit-svm`: a multi-class SVM from a file, on several threads or ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import options, screen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tellwhy.workflow.training import Job


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
            metavar="SHARE", help="With --text: share of rows kept for checking labels; by default 0.1."
        ),
    ] = None,
    c: Annotated[float, typer.Option("--c", help="C: weight of the losses.")] = 1.0,
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
        Path | None, typer.Option(metavar="DIR", help="Folder of the model; by default NAME-svm.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(help="Epochs between checkpoints.")] = 20,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint of the same command.")
    ] = False,
    seed: options.Seed = 0,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Train a multi-class SVM and write it to a folder; `tellwhy.classifiers.load` reads it.

    With --text, the folder also gets `report.html`: texts with the words that decided, and the words of each
    class.

    Examples
    --------
    - `tellwhy fit-svm data.svm --c 1 --loss ww`
    - `tellwhy fit-svm measurements.csv --label species`
    - `tellwhy fit-svm mails.csv --text body --label topic`
    - `tellwhy fit-svm data.svm --c 1 --loss ww --ranks 4`
    - `tellwhy fit-svm data.svm --c 1 --loss ww --ranks 4 --resume`
    """
    from tellwhy.workflow.training import Job, is_table, now_and_then, train

    folder = Path(f"{options.stem(file)}-svm") if out is None else out
    job = Job(
        data=str(file),
        out=str(folder),
        loss=loss,
        C=c,
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
    show = now_and_then(lambda line: None if quiet else screen.err().print(line))
    if text is not None:
        _fit_texts(job, text, show, as_json=json, quiet=quiet, **given)
        return
    with screen.warnings_as_notes():
        model = train(job, show)
    _tell(model, {"model": str(folder)}, [], as_json=json)


def _check_options(text: str | None, scale: bool, of_texts: list[str]) -> None:
    """Raise for options that only texts have, or that texts do not have."""
    if text is not None and scale:
        raise InvalidParameter(
            "--scale is for tables of numbers; the features of texts, with --text, have unit length."
        )
    if text is None and of_texts:
        raise InvalidParameter(f"--{of_texts[0].replace('_', '-')} goes with --text, which names the texts.")


def _fit_texts(
    job: Job, text: str, show: Callable[[str], None], *, as_json: bool, quiet: bool, **settings: Any
) -> None:
    """Train on texts, write the report into the model's folder, and tell how many labels are right."""
    from tellwhy.views.report import write_text_report
    from tellwhy.views.wording import count, wrong_labels
    from tellwhy.workflow.texts.text_training import train_on_texts

    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes():
        run = train_on_texts(job, text, show=show, **settings)
        report = write_text_report(run.labels, Path(job.out) / "report.html")
    screen.notes(run.notes, quiet=as_json or quiet)
    found = run.labels
    told = {"model": job.out, "report": str(report), "texts": found.n_texts, "wrong": found.n_wrong}
    texts = f"the {count(found.n_texts, 'text')} {'held out' if run.n_held else 'trained on'}"
    lines = [wrong_labels(found.n_wrong or 0, found.n_texts, texts)]
    _tell(run.model.classifier_, told | {"held_out": run.n_held}, lines, as_json=as_json)


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
        screen.say(line)
    if "report" in told:
        screen.say(f"Report: {told['report']}")


def _fit_words(model: FittedSVM) -> str:
    from tellwhy.views.wording import count, share

    return (
        f"{len(model.classes_)} classes, {count(model.n_features_in_, 'feature')}: objective "
        f"{model.objective_:.6g}, certified to {abs(model.dual_gap_):.1e} in "
        f"{count(model.n_iter_, 'epoch')}; {share(model.density_)} of the weights are not zero."
    )
