"""The command `tellwhy insight`: what a model has learned."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from tellwhy.core.storage.files import plain
from tellwhy.views.cli import screen
from tellwhy.views.wording import between, number
from tellwhy.workflow.insights.insight_run import (
    InsightRun,
    check_place,
    learn_insights,
    run_record,
    save_insights,
)

MOST_SHOWN = 8  # features per line; the files hold all
OPTIONS = {"Raise n_burn and n_sweeps, or lower n_components": "Raise --sweeps, or lower --components"}


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
    chains: Annotated[int, typer.Option(min=1, help="Chains.")] = 2,
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
    json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout and nothing else.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notices.")] = False,
) -> None:
    """Tell what a model has learned, with credible intervals.

    Fits a Bayesian mixture of sparse regressions to the model's outputs on the rows, and writes a folder with
    `insights.html` (a gallery of the patterns) and `insights.json`.

    Examples
    --------
    - `tellwhy insight my_models:predict data.csv`
    - `tellwhy insight my_models:network digits.npz --top 150 --scale common`
    """
    folder = Path(f"tellwhy-insight-{data.name.partition('.')[0]}") if out is None else out
    check_place(folder)
    with screen.progress_bar(quiet=quiet), screen.warnings_as_notes(OPTIONS):
        run = learn_insights(
            model,
            data,
            top=top,
            checkpoint=checkpoint,
            n_components=components,
            features=features,
            n_sweeps=sweeps,
            n_burn=max(1, sweeps // 2),
            n_chains=chains,
            scale=scale,
            random_state=seed,
        )
        save_insights(run, folder, add=lambda work: _write_gallery(run, work / "insights.html"))
    if json:
        typer.echo(
            json_format.dumps(plain({**run_record(run), "out": str(folder)}), indent=2, ensure_ascii=False)
        )
        return
    if not quiet:
        for text in run.notices:
            screen.note(text)
    show_insights(run)
    typer.echo(f"Gallery: {folder / 'insights.html'}")


def _write_gallery(run: InsightRun, path: Path) -> None:
    from tellwhy.views.plots.gallery import insights

    insights(run.insights).write_html(path, include_plotlyjs=True)


def show_insights(run: InsightRun) -> None:
    """Print one line per pattern: its class, its share, its main features with intervals, where it applies."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in (
        ("class", "left"),
        ("rows", "right"),
        ("main features with intervals", "left"),
        ("where", "left"),
    ):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for insight in run.insights:
        where = ", ".join(f"{name} {between(low, high)}" for name, low, high in insight.applies)
        table.add_row(
            escape(insight.target), f"{100 * insight.share:.0f} %", _pattern_words(insight), escape(where)
        )
    console = screen.out()
    console.print(table)
    level = 100 * run.insights[0].credibility if run.insights else 95
    console.print(
        f"[dim]Change of the output per unit of each feature, with {level:.0f} % credible intervals, from {run.n_rows} "
        f"rows of {escape(run.source)}. Chains: {escape(_agreement(run.convergence))}.[/]"
    )


def _agreement(convergence: dict[str, Any]) -> str:
    """How far chains agree: of the class where they agree least."""
    worst = max(convergence, key=lambda name: float(convergence[name].worst_r_hat))
    words = str(convergence[worst].words())
    return words if len(convergence) == 1 else f"{words} (class {worst}; the other classes agree better)"


def _pattern_words(insight: Any) -> str:
    """The features that surely matter; where there are none, the first, said to be unsure."""
    lines = list(insight.to_frame().itertuples(index=False))
    sure = [line for line in lines if line.low > 0 or line.high < 0]
    words = ", ".join(_feature_words(line) for line in (sure or lines[:1])[:MOST_SHOWN])
    more, unsure = max(0, len(sure) - MOST_SHOWN), len(lines) - len(sure)
    rest = [f"{more} more"] * (more > 0) + [f"{unsure} that may be 0" if sure else "all may be 0"] * (
        unsure > 0
    )
    return f"{words} [dim]({', '.join(rest)})[/]" if rest else words


def _feature_words(line: Any) -> str:
    limits = escape(f"[{number(line.low, 2)}, {number(line.high, 2)}]")
    return f"[bold]{escape(line.feature)}[/] {number(line.coefficient, 2)} {limits}"
