"""`tellwhy fit-svm`: a multi-class SVM from a file, on several threads or ranks."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated

import typer

from tellwhy.core.files import plain
from tellwhy.views.cli import screen


def fit_svm_command(
    file: Annotated[Path, typer.Argument(help="Labelled rows: libsvm format (also .gz), .npz or .parquet.")],
    *,
    c: Annotated[float, typer.Option("--c", help="C: weight of the losses.")] = 1.0,
    loss: Annotated[
        str, typer.Option(help="ww (Weston–Watkins), cs (Crammer–Singer), llw (Lee–Lin–Wahba), ovr.")
    ] = "ww",
    ranks: Annotated[int, typer.Option(help="Processes, started with mpiexec; each holds a share of the model.")] = 1,
    threads: Annotated[int, typer.Option(help="Threads of each process.")] = 1,
    tol: Annotated[float, typer.Option(help="Relative duality gap to stop at.")] = 1e-3,
    max_epochs: Annotated[int, typer.Option(help="Most passes over the data.")] = 1000,
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    intercept: Annotated[bool, typer.Option(help="Whether to add a constant feature.")] = True,
    label: Annotated[str | None, typer.Option(metavar="COL", help="Column of labels of a Parquet table.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the model; by default <name>-svm.")] = None,
    checkpoint_every: Annotated[int, typer.Option(help="Epochs between checkpoints.")] = 20,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint of the same command.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notices.")] = False,
) -> None:
    """Train a multi-class SVM and write it to a folder; `tellwhy.classifiers.load` reads it.

    Examples
    --------
    - `tellwhy fit-svm data.svm --c 1 --loss ww`
    - `tellwhy fit-svm data.svm --c 1 --loss ww --ranks 4`
    - `tellwhy fit-svm data.svm --c 1 --loss ww --ranks 4 --resume`
    """
    from tellwhy.classifiers.training_job import Job, train

    folder = Path(f"{file.name.partition('.')[0]}-svm") if out is None else out
    job = Job(
        data=str(file), out=str(folder), loss=loss, C=c, tol=tol, max_epochs=max_epochs, ranks=ranks, threads=threads,
        dtype=dtype, fit_intercept=intercept, label=label, seed=seed, checkpoint_every=checkpoint_every,
        resume=resume, quiet=quiet,
    )  # fmt: skip
    model = train(job, lambda text: None if quiet else screen.err().print(text))
    told = {
        "model": str(folder), "classes": len(model.classes_), "features": model.n_features_in_,
        "objective": model.objective_, "dual_gap": model.dual_gap_, "epochs": model.n_iter_,
        "seconds": model.history_[-1]["seconds"], "density": model.density_,
    }  # fmt: skip
    if json:
        typer.echo(json_text.dumps(plain(told), indent=2))
        return
    typer.echo(
        f"{told['classes']} classes, {told['features']} features: objective {model.objective_:.6g}, certified to "
        f"{model.dual_gap_:.1e} in {model.n_iter_} epochs; {100 * model.density_:.1f} % of the weights are not zero."
    )
    typer.echo(f"Model: {folder}")
