"""The page on a run of rows or nodes: its panels, one after the other."""

from __future__ import annotations

from pathlib import Path

from tellwhy.results.node_picture import NodePicture, read_picture
from tellwhy.results.result import Result
from tellwhy.views.page.anomalies import show_anomalies
from tellwhy.views.page.evidence import show_evidence, show_trust
from tellwhy.views.page.nodes import show_nodes
from tellwhy.views.page.overview import (
    cut_file_name,
    make_overview,
    show_findings,
    show_groups,
    show_overview,
    show_settings_of_run,
    write_title,
)
from tellwhy.views.page.scores import show_scores
from tellwhy.views.page.shell import Limits, clip, fit_page, make_page, write_page


def render(run: Result, picture: NodePicture | None = None) -> str:
    """Return the report of a run: one HTML page of at most 8 MB that makes no request.

    Parameters
    ----------
    run
        What `tellwhy explain` produced, or `Result` filled by other means.
    picture
        What to draw of nodes, where the result of an earlier version does not hold it.

    Returns
    -------
    str
        The page. It says where it lists fewer rows or columns than the run holds.
    """
    return fit_page(lambda limits: _draw(run, limits, picture))


def write_report(run: Result, path: str | Path, picture: NodePicture | None = None) -> Path:
    """Write the report of a run to a file, whole or not at all, and return its path."""
    return write_page(render(run, picture), path)


def _draw(run: Result, limits: Limits, picture: NodePicture | None) -> str:
    panels = [
        show_overview(make_overview(run, limits)),
        show_trust(run, limits),
        show_findings(run, limits),
        show_anomalies(run, limits),
        show_groups(run, limits),
        show_scores(run, limits),
        show_nodes(picture or read_picture(run), limits),
        show_evidence(run, limits),
        show_settings_of_run(run, limits),
    ]
    return make_page(write_title(run), clip(cut_file_name(run.source), 80), panels)
