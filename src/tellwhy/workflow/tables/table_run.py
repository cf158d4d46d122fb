"""From a table to ranked, explained anomalies: load → encode → fit → score → explain → check."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.explanation import Explanation
from tellwhy.core.params import generator
from tellwhy.core.progress import stage
from tellwhy.data import Table, TableEncoder, describe_column
from tellwhy.workflow.run import Anomaly, Run
from tellwhy.workflow.tables.detection import detection_of
from tellwhy.workflow.tables.evidence import evidence_of
from tellwhy.workflow.tables.fitted import FittedTable, fit_table
from tellwhy.workflow.tables.nearest import nearest_normals
from tellwhy.workflow.tables.ranking import Ranking, rank
from tellwhy.workflow.tables.reasons import groups_of, reasons_of, typical_of
from tellwhy.workflow.tables.request import Request, cell_text
from tellwhy.workflow.tables.selection import Selection, as_source, select


def explain_table(data: Any, *, reference: Any = None, **settings: Any) -> Run:
    """Find the odd rows of a table and tell why they are odd.

    Parameters
    ----------
    data
        A file name, a `Table`, a pandas or polars frame, or an array.
    reference
        Ordinary rows to compare with, in the same forms; without it (or `normal`), the table's own rows.
    settings
        See `Request`: normal, id_column, detector, method, top, contamination, columns, exclude, label,
        missing, random_state.

    Returns
    -------
    Run
        Ranked anomalies with reasons, and the evidence for them.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(200, 3))
    >>> rows[7, 1] = 9.0
    >>> run = explain_table(rows, top=1)
    >>> run.anomalies[0].row, run.anomalies[0].reasons[0].feature
    (7, 'x1')
    """
    request = Request(**settings)
    table = as_source(data)
    selection = select(table, None if reference is None else as_source(reference), request)
    stage("encoding columns")
    selection, encoder = encoded_selection(selection, request)
    stage("fitting the detector")
    fitted = fit_table(selection, encoder, request.detector, generator(request.random_state))
    ranking = rank(fitted, request)
    explanation = fitted.explain(ranking.positions, request.method, ranking.threshold)
    stage("checking the explanation")
    return _run(table, request, fitted, ranking, explanation)


def encoded_selection(selection: Selection, request: Request) -> tuple[Selection, TableEncoder]:
    """Fit the encoding of columns to the reference rows, and drop rows with missing cells where asked to."""
    other_rows = None if selection.reference is selection.frame else selection.frame
    named = (
        None if request.columns is None else list(selection.frame.columns)
    )  # used even if they look like numbering
    encoder = TableEncoder(missing=request.missing, columns=named).fit(selection.reference, scored=other_rows)
    if other_rows is not None:
        encoder.notices_ += [f"In the scored rows: {text}" for text in encoder.missing_in(other_rows)]
    if request.missing == "drop":
        selection = selection.without(
            encoder.kept_rows(selection.frame), encoder.kept_rows(selection.reference)
        )
    return selection, encoder


def _run(
    table: Table, request: Request, fitted: FittedTable, ranking: Ranking, explanation: Explanation
) -> Run:
    selection, encoder = fitted.selection, fitted.encoder
    typical = {
        name: typical_of(name, describe_column(selection.reference[name], encoder.kinds_[name]))
        for name in encoder.columns_
    }
    normal = nearest_normals(fitted, ranking, explanation, request.top)
    anomalies = _anomalies(
        table, request, fitted, ranking, zip(reasons_of(explanation, typical), normal, strict=True)
    )
    return Run(
        source=table.source,
        settings=_settings(request, fitted, ranking, explanation),
        summary=_summary(table, fitted, ranking, explanation),
        notices=[*table.notices, *encoder.notices_, *_sampling_notices(fitted)],
        columns=list(encoder.columns_),
        scores=ranking.scores,
        rows=selection.rows,
        threshold=ranking.threshold,
        anomalies=anomalies,
        explanation=explanation,
        typical=typical,
        column_shares=column_shares(explanation),
        groups=groups_of(anomalies),
        evidence=evidence_of(explanation, fitted.score, fitted.background()),
        detection=detection_of(table, request.label, selection.rows, ranking.scores),
        versions=versions(),
        fingerprint=table.fingerprint,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _anomalies(
    table: Table, request: Request, fitted: FittedTable, ranking: Ranking, told: Iterable[Any]
) -> list[Anomaly]:
    """One entry per explained row; `told` gives its reasons and its nearest normal values."""
    rows = fitted.selection.rows[ranking.positions]
    ids = None if request.id_column is None else table.frame[request.id_column]
    return [
        Anomaly(
            row=int(row),
            id=None if ids is None else cell_text(ids.iloc[int(row)]),
            score=float(score),
            percentile=float(percentile),
            above_threshold=bool(score > ranking.threshold),
            reasons=why,
            nearest_normal=normal,
        )
        for row, score, percentile, (why, normal) in zip(
            rows, ranking.scores[ranking.positions], ranking.percentiles, told, strict=True
        )
    ]


def column_shares(explanation: Explanation) -> dict[str, float]:
    """Mean share of each column over the explained rows, largest first, summing to 1."""
    mean = explanation.shares().mean(axis=0)
    total = mean.sum()
    order = np.argsort(-mean, kind="stable")
    return {explanation.names()[c]: float(mean[c] / total) if total > 0 else 0.0 for c in order}


def _settings(
    request: Request, fitted: FittedTable, ranking: Ranking, explanation: Explanation
) -> dict[str, Any]:
    asked = asdict(request)
    seed = asked.pop("random_state")
    return {
        **asked,
        "detector": fitted.words,
        "method": explanation.method,
        "reference": fitted.selection.words,
        "rows_learned_from": len(fitted.sample),
        "threshold_rule": ranking.rule,
        "seed": seed,
    }


def _summary(table: Table, fitted: FittedTable, ranking: Ranking, explanation: Explanation) -> str:
    learned = len(fitted.sample)
    sampled = f" (a random {learned:,} of them)" if learned < len(fitted.selection.reference) else ""
    verb = "row is" if ranking.n_above == 1 else "rows are"
    return (
        f"{len(ranking.scores):,} rows of {Path(table.source).name} were compared with "
        f"{fitted.selection.words}{sampled} in {len(fitted.encoder.columns_)} columns by a {fitted.words}. "
        f"{ranking.n_above:,} {verb} above the threshold ({ranking.rule}). The {len(explanation)} highest scores were "
        f"explained by {explanation.method}, each row "
        "scored as if the detector had not seen it."
    )


def _sampling_notices(fitted: FittedTable) -> list[str]:
    n = len(fitted.selection.reference)
    if len(fitted.sample) == n:
        return []
    return [f"The detector learned from a random {len(fitted.sample):,} of {n:,} reference rows."]


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter."""
    packages = ("tellwhy", "numpy", "scipy", "scikit-learn", "numba", "pandas")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
