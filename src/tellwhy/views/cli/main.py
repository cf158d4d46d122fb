"""Commands of `tellwhy`.

Exit status: 0 done, 1 an error (said on stderr), 2 wrong usage, 3 more alarms than `--fail-on-alarms` allows,
124 stopped by `--timeout`, 130 interrupted, 141 whoever read the output went away.

Nothing here loads numpy: every command imports what it needs when it runs, so that `--help` answers at once.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ParamSpec

import typer

import tellwhy
from tellwhy.core.errors import TellwhyError, UnreadableFile
from tellwhy.views.cli import screen
from tellwhy.views.cli.app import app_command
from tellwhy.views.cli.explain import explain_command
from tellwhy.views.cli.fitting import fit_command, mark_command
from tellwhy.views.cli.models import fit_svm_command, insight_command
from tellwhy.views.cli.network import network_command
from tellwhy.views.cli.observe import TookTooLong, observed
from tellwhy.views.cli.options import Force, Json
from tellwhy.views.cli.predict import predict_command
from tellwhy.views.cli.service import mcp_command, serve_command, watch_command
from tellwhy.views.cli.tables import check_command, compare_command, diff_command, repair_command
from tellwhy.views.cli.terminal import abandon, prepare_streams

app = typer.Typer(
    name="tellwhy",
    help="Find what is odd in your data, and tell why.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FAILED = 1
OUT_OF_TIME = 124  # as `timeout` has it
CLOSED_PIPE = 141  # 128 + SIGPIPE, as shells have it
INTERRUPTED = 130  # 128 + SIGINT, as shells have it

P = ParamSpec("P")


def guard(told: Callable[P, None]) -> Callable[..., None]:
    """Turn this library's errors and Ctrl-C into a line on stderr and an exit status."""
    command = observed(told)

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt as stop:
            screen.fail(str(stop) or "Interrupted; nothing was written.")
            raise typer.Exit(INTERRUPTED) from None
        except TookTooLong as error:
            screen.fail(str(error))
            raise typer.Exit(OUT_OF_TIME) from None
        except TellwhyError as error:
            screen.fail(str(error))
            raise typer.Exit(FAILED) from None
        except MemoryError:
            screen.fail(
                "There is not enough memory for this. Use fewer rows or columns, or a larger machine."
            )
            raise typer.Exit(FAILED) from None

    return run


@app.callback(invoke_without_command=True)
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and stop.", is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself."""
    if version:
        screen.print_line(f"tellwhy {tellwhy.__version__}")
        raise typer.Exit


def report_command(
    run_dir: Annotated[
        Path,
        typer.Argument(metavar="RUN_DIR", help="Folder that `tellwhy explain` or `tellwhy network` wrote."),
    ],
    *,
    out: Annotated[Path | None, typer.Option(help="File to write; by default RUN_DIR/report.html.")] = None,
    force: Force = False,
) -> None:
    """Rebuild the page of a run from its folder."""
    target = run_dir / "report.html" if out is None else out
    inputs = [path for path in run_dir.rglob("*") if path.suffix != ".html"]
    with screen.show_work(inputs, quiet=True, force=force):
        screen.print_line(str(_write_again(run_dir, target)))


def _write_again(run_dir: Path, target: Path) -> Path:
    """Write the page of a run of any kind."""
    from tellwhy.results.labelled_texts import read_labels
    from tellwhy.results.network_run import load_network_run
    from tellwhy.results.node_picture import load_picture
    from tellwhy.verdicts.run_io import load_run
    from tellwhy.views.page.events import write_events_report
    from tellwhy.views.page.labels import write_text_report
    from tellwhy.views.page.media import NAMES, write_media_report
    from tellwhy.views.page.network import write_network_report
    from tellwhy.views.page.page import write_report
    from tellwhy.views.page.shell import check_page, write_page
    from tellwhy.views.tell import tell

    check_page(target)
    try:
        network = load_network_run(run_dir)
        if network is not None:
            return write_network_report(network, target)
        run = load_run(run_dir)
        labels = read_labels(run)
        if labels is not None:
            return write_text_report(labels, target)
        if run.kind == "insight":
            return write_page(tell(run, "html"), target)
        if run.kind == "events":
            return write_events_report(run, target)
        if run.kind in NAMES:
            return write_media_report(run, target)
        return write_report(run, target, load_picture(run_dir))
    except TellwhyError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, MemoryError) as error:
        raise UnreadableFile(
            f"{run_dir} does not hold what a run must hold, or not in the form it must have: {error}. Make "
            "the run again with `tellwhy explain`."
        ) from error


def methods_command(*, json: Json = False) -> None:
    """List the explainers: what each needs, costs and cites."""
    from tellwhy.one_liner.explain import methods

    table = methods()
    if json:
        screen.print_json(table.to_dict("records"))
        return
    screen.show_methods(table)


# In this order `tellwhy --help` lists them.
app.command("explain")(guard(explain_command))
app.command("fit")(guard(fit_command))
app.command("mark")(guard(mark_command))
app.command("check")(guard(check_command))
app.command("repair")(guard(repair_command))
app.command("diff")(guard(diff_command))
app.command("compare")(guard(compare_command))
app.command("app")(guard(app_command))
app.command("report")(guard(report_command))
app.command("methods")(guard(methods_command))
app.command("network")(guard(network_command))
app.command("insight")(guard(insight_command))
app.command("fit-svm")(guard(fit_svm_command))
app.command("predict")(guard(predict_command))
app.command("watch")(guard(watch_command))
app.command("serve")(guard(serve_command))
app.command("mcp")(guard(mcp_command))


def main() -> None:
    """Run the command line."""
    # A command makes many objects that stay, and few that are garbage in cycles: to look through them all the
    # time would take an eighth of a short run.
    gc.set_threshold(200_000, 20, 20)
    prepare_streams()
    status = _run_command()
    try:
        sys.stderr.flush()
    except OSError:
        abandon(sys.stderr)
    sys.exit(status)


def _run_command() -> int:
    """Run the command that was asked for, up to the last character it writes."""
    try:
        try:
            app()
            status = 0
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else FAILED
        sys.stdout.flush()
    except KeyboardInterrupt:  # before or after a command: there is nothing to say
        return INTERRUPTED
    except BrokenPipeError:  # who read has seen enough
        abandon(sys.stdout)
        return CLOSED_PIPE
    except OSError as error:
        abandon(sys.stdout)
        screen.fail(f"The system refused: {error}.")
        return FAILED
    return status
