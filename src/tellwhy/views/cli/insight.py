"""The command `tellwhy insight`: what a model has learned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellwhy.views.cli import options, screen
from tellwhy.views.cli.terminal import escape

if TYPE_CHECKING:
    from tellwhy.workflow.insights.insight_run import InsightRun
    from tellwhy.workflow.results import Convergence, Insight

MOST_SHOWN = 8  # features per line; the files hold all
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
    """Tell what a model has learned, with credible intervals.

    Fits a Bayesian mixture of sparse regressions to the model's outputs on the rows, and writes a folder with
    `insights.html` (a page on the patterns) and `insights.json`.

    Examples
    --------
    - `tellwhy insight my_models:predict data.csv`
    - `tellwhy insight my_models:network digits.npz --top 150 --scale common`
    """
    from tellwhy.workflow.insights.insight_run import check_place, learn_insights, run_record, save_insights

    folder = Path(f"tellwhy-insight-{options.stem(data)}") if out is None else out
    check_place(folder)  # before the model is asked: that may take hours
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
            max_seconds=60.0 * minutes or None,
            scale=scale,
            random_state=seed,
        )
        save_insights(run, folder, add=lambda work: _write_page(run, work / "insights.html"))
    if json:
        screen.print_json({**run_record(run), "out": str(folder)})
        return
    screen.notes(run.notices, quiet=quiet)
    show_insights(run)
    screen.say(f"Page: {folder / 'insights.html'}")


def _write_page(run: InsightRun, path: Path) -> None:
    from tellwhy.views.insight_page import write_insight_report

    write_insight_report(run, path)


def show_insights(run: InsightRun) -> None:
    """Print one line per pattern: class, share of rows, main features with intervals, where it applies."""
    from tellwhy.views.wording import between

    table = screen.plain_table()
    table.add_column("class", overflow="fold")
    table.add_column("rows", justify="right", overflow="fold")
    table.add_column("main features with intervals", overflow="fold")
    table.add_column("where", overflow="fold")
    for insight in run.insights:
        where = ", ".join(f"{name} {between(low, high)}" for name, low, high in insight.applies)
        share = f"{100 * insight.share:.0f} %"
        table.add_row(escape(insight.target), share, _pattern_words(insight), escape(where))
    console = screen.out()
    console.print(table)
    level = 100 * run.insights[0].credibility if run.insights else 95
    console.print(
        f"[dim]Change of the output per unit of each feature, with {level:.0f} % credible intervals, from "
        f"{run.n_rows} rows of {escape(run.source)}. Chains: {escape(_agreement(run.convergence))}.[/]"
    )


def _agreement(convergence: Mapping[str, Convergence]) -> str:
    """How far chains agree: of the class where they agree least."""
    worst = max(convergence, key=lambda name: convergence[name].worst_r_hat)
    words = convergence[worst].words()
    return words if len(convergence) == 1 else f"{words} (class {worst}; the other classes agree better)"


def _pattern_words(insight: Insight) -> str:
    """The features that surely matter; where there are none, the first, said to be unsure."""
    lines = list(insight.to_frame().itertuples(index=False))
    sure = [line for line in lines if line.low > 0 or line.high < 0]
    words = ", ".join(_feature_words(line) for line in (sure or lines[:1])[:MOST_SHOWN])
    rest = []
    if len(sure) > MOST_SHOWN:
        rest.append(f"{len(sure) - MOST_SHOWN} more")
    if len(sure) < len(lines):
        rest.append(f"{len(lines) - len(sure)} that may be 0" if sure else "all may be 0")
    return f"{words} [dim]({', '.join(rest)})[/]" if rest else words


def _feature_words(line: Any) -> str:
    from tellwhy.views.wording import number

    limits = escape(f"[{number(line.low, 2)}, {number(line.high, 2)}]")
    return f"[bold]{escape(line.feature)}[/] {number(line.coefficient, 2)} {limits}"
