"""The command `tellwhy network`: which parts of a picture or a text a network's output comes from."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellwhy.core.errors import InvalidParameter
from tellwhy.views.cli import options, screen
from tellwhy.views.cli.terminal import escape

if TYPE_CHECKING:
    from tellwhy.results.network_run import MethodTold, NetworkItem, NetworkRun

MOST_SHOWN = 20  # inputs on the terminal
OPTIONS = {"target=…": "--target", "batch_size": "--batch-size"}


def network_command(
    network: Annotated[
        str,
        typer.Argument(
            metavar="NETWORK",
            help="module:function that returns a PyTorch network (the module is imported, which runs it), or "
            "model.pt2 of torch.export.save (read without unpickling).",
        ),
    ],
    *,
    input: Annotated[
        str,
        typer.Option(metavar="FILE|DIR|TEXT", help="A picture, a folder of them, a .txt file, or a text."),
    ],
    method: Annotated[
        str, typer.Option(help="lrp, gradient, …; several separated by commas. A wrong name lists all.")
    ] = "lrp",
    target: Annotated[
        str | None, typer.Option(help="Number or name of the class to explain; by default the likeliest.")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Names of the classes, one per line, or JSON.")
    ] = None,
    size: Annotated[
        str | None, typer.Option(metavar="N|HxW", help="Height and width to resize pictures to.")
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option(metavar="X[,X,X]", help="Subtracted from pixels between 0 and 1, per channel."),
    ] = None,
    std: Annotated[
        str | None, typer.Option(metavar="X[,X,X]", help="What pixels are then divided by, per channel.")
    ] = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Words that the network knows, one per line, numbered from 0."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Paint over regions to test the explanations.")
    ] = True,
    batch_size: Annotated[int, typer.Option(min=1, help="Inputs that go through the network at once.")] = 32,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder; by default tellwhy-network-NAME.")
    ] = None,
    json: options.Json = False,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
) -> None:
    """Show which parts of a picture or a text a network's output comes from.

    Writes a folder with `report.html`, `result.json` and `arrays.npz`: the likeliest classes, the relevance
    of every pixel or word by each method, what biases absorbed, and how far each method can be trusted. Of 20
    pictures and more, groups of explanations that look where others do not are named.

    Examples
    --------
    - `tellwhy network my_models:resnet --input cat.png --labels classes.txt`
    - `tellwhy network model.pt2 --input pictures/ --method lrp,gradient --target 3 --out DIR`
    - `tellwhy network my_models:reader --input "how do i reset my pin"`
    """
    from tellwhy.kinds.model import fit, judge
    from tellwhy.kinds.networks.inputs import Preparation
    from tellwhy.results.network_run import check_place, read_network, run_record
    from tellwhy.results.store import save_result
    from tellwhy.views.page.network import write_network_report

    preparation = Preparation(
        size=_read_size(size),
        mean=_read_numbers("--mean", mean, 0.0),
        std=_read_numbers("--std", std, 1.0),
        vocabulary=vocabulary,
    )
    asked: dict[str, Any] = {
        "method": method,
        "target": target,
        "labels": labels,
        "preparation": preparation,
        "check": check,
        "batch_size": batch_size,
        "random_state": seed,
    }
    folder = Path(f"tellwhy-network-{_name_stem(network)}") if out is None else out
    check_place(folder)
    with screen.progress_bar(quiet=quiet), screen.show_warnings_as_notes(OPTIONS):
        result = judge(fit(network, kind="network", **asked), input)
        run = read_network(result)
        if run is None:
            raise AssertionError("a network was explained")
        save_result(result, folder, add=lambda work: write_network_report(run, work / "report.html"))
    if json:
        screen.print_json({**run_record(run), "out": str(folder)})
        return
    screen.print_notes(run.notices, quiet=quiet)
    show(run)
    screen.print_line(f"Report: {folder / 'report.html'}")


def _name_stem(network: str) -> str:
    return (
        options.name_stem(Path(network.replace(":", "-")))
        if network.endswith(".pt2")
        else network.replace(":", "-")
    )


def _read_size(text: str | None) -> tuple[int, int] | None:
    """Height and width of "28" or "224x160"."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,5})(?:[x×](\d{1,5}))?", text.strip().lower())
    if found is None or "0" in (found[1], found[2]):
        raise InvalidParameter(
            f"--size must be a number of pixels, or height x width as 224x160. Got {text!r}."
        )
    return int(found[1]), int(found[2] or found[1])


def _read_numbers(option: str, text: str | None, default: float) -> tuple[float, ...]:
    """Numbers separated by commas."""
    if text is None:
        return (default,)
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(math.isfinite(x) and (x > 0 or option != "--std") for x in found):
        kind = "positive numbers" if option == "--std" else "numbers"
        raise InvalidParameter(f"{option} must be {kind} separated by commas, one per channel. Got {text!r}.")
    return found


def show(run: NetworkRun) -> None:
    """Print what the network says of each input, and how far each method can be trusted."""
    console = screen.out()
    console.print(f"[bold]{escape(run.headline)}[/]")
    table = screen.make_table()
    table.add_column("input", style="bold", overflow="fold")
    table.add_column("likeliest classes", overflow="fold")
    table.add_column("explained", overflow="fold")
    for item in run.items[:MOST_SHOWN]:
        table.add_row(
            escape(item.name), escape(_list_classes(item)), escape(f"{item.explained}: {item.output:.4g}")
        )
    console.print(table)
    if len(run.items) > MOST_SHOWN:
        console.print(f"[dim]{len(run.items) - MOST_SHOWN} more are in the report.[/]")
    for told in run.methods:
        console.print(escape(_write_trust(told)))
    for group in run.groups:
        console.print(f"[bold]Odd group:[/] {escape(group.text)}")


def _list_classes(item: NetworkItem) -> str:
    from tellwhy.words.wording import share

    parts = [
        (c.name, f"{c.output:.3g}" if c.probability is None else share(c.probability)) for c in item.classes
    ]
    return ", ".join(f"{name} {amount}" for name, amount in parts[:3])


def _write_trust(told: MethodTold) -> str:
    """One line on a method."""
    from tellwhy.words.english.networks import write_carried, write_conserved

    return f"{told.title}: {write_conserved(told)} {write_carried(told)}".strip()
