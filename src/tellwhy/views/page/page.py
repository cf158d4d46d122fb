"""The page itself: sections put into the template, with a security policy that lets nothing in or out."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from tellwhy.results.node_picture import NodePicture
from tellwhy.results.run import Run
from tellwhy.storage.folders import new_file
from tellwhy.views.page import anomalies as verdicts, overview as sections
from tellwhy.views.page.anomalies import KIND_WORDS, cards
from tellwhy.views.page.evidence import detection_words, evidence
from tellwhy.views.page.limits import MOST_BYTES, Limits, clipped
from tellwhy.views.page.nodes import pictures
from tellwhy.views.page.svg import Quantiles, range_strip
from tellwhy.words import wording

MOST_PRINTED = 40  # ranked rows on paper
_KEY_QUANTILES = Quantiles(0.0, 2.0, 3.5, 4.5, 5.5, 7.0, 8.0)  # of the example in the key


def render(run: Run, picture: NodePicture | None = None) -> str:
    """Return the report of a run: one HTML page of at most 8 MB that makes no request.

    Parameters
    ----------
    run
        What `tellwhy explain` produced, or `Run` filled by other means.
    picture
        What to draw of the nodes of a grid, a sequence or a graph.

    Returns
    -------
    str
        The page. It says where it lists fewer rows or columns than the run holds.
    """
    limits = Limits()
    page = _page(run, limits, picture)
    while len(page.encode()) > MOST_BYTES and limits.listed > 1:
        limits = limits.smaller()
        page = _page(run, limits, picture)
    return page


def write_report(run: Run, path: str | Path, picture: NodePicture | None = None) -> Path:
    """Write the report of a run to a file, whole or not at all, and return its path."""
    return save_page(render(run, picture), path)


def save_page(page: str, path: str | Path) -> Path:
    """Write a page to a file, whole or not at all, and return its path."""
    target = Path(path)
    with new_file(target) as work:
        work.write_text(page, encoding="utf-8")
    return target


def _page(run: Run, limits: Limits, picture: NodePicture | None) -> str:
    table = sections.lines(run, limits)
    return filled(
        "page.html.j2",
        run=run,
        overview=sections.overview(run, limits),
        scores=sections.scores(run),
        lines=table,
        main_columns=sections.main_columns(table),
        cards=cards(run, limits),
        groups=sections.groups(run, limits),
        findings=verdicts.findings(run, limits),
        roles=sections.roles(run, limits),
        with_p_values=run.alarms is not None,
        most_printed=MOST_PRINTED,
        columns=sections.columns(run, limits),
        evidence=evidence(run),
        detection=detection_words(run.detection, len(run.scores)) if run.detection else [],
        settings=sections.settings(run, limits),
        versions=sections.versions(run, limits),
        is_attribution=run.explanation.kind == "attribution",
        kind_words=KIND_WORDS[run.explanation.kind],
        key_strip=range_strip(_KEY_QUANTILES, 40.0, 6.2, "Example of a range strip"),
        limits=limits,
        pictures=pictures(picture),
        **assets("style.css"),
    )


def filled(template: str, **parts: object) -> str:
    """Return a template with its parts put in, as text that any file can hold."""
    page = environment().get_template(template).render(**parts)
    return page.encode("utf-8", "replace").decode()  # a lone surrogate cannot be written to a file


@cache
def environment() -> Environment:
    """Return what fills templates: everything is escaped, and a missing name is an error."""
    made = Environment(
        loader=FunctionLoader(_read),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(number=wording.number, clipped=clipped)
    made.globals["count"] = wording.count
    return made


def _read(name: str) -> str:
    return files("tellwhy.views.page").joinpath(name).read_text(encoding="utf-8")


@cache
def assets(*styles: str) -> dict[str, Markup]:
    """Style and scripts, and the policy that names their hashes and allows nothing else."""
    style = "".join(_read(name) for name in styles)
    theme = _read("theme.js")
    script = _read("script.js")
    # No request can leave the page, and no script but these two can run, whatever a cell of the table holds.
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(theme)} {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return {
        "style": Markup(style),
        "theme": Markup(theme),
        "script": Markup(script),
        "policy": Markup(policy),
    }


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
