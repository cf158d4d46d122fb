"""From a table to ranked, explained anomalies: load → encode → fit → score → explain → check."""

from __future__ import annotations

import datetime
import platform
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import generator
from tellwhy.core.progress import stage
from tellwhy.core.score_function import Floats
from tellwhy.data import Table, TableEncoder, describe_column
from tellwhy.workflow.evidence import evidence_of
from tellwhy.workflow.fitted import FittedTable, fit_table
from tellwhy.workflow.reasons import groups_of, reasons_of, typical_of
from tellwhy.workflow.request import Request, cell_text, split_marker
from tellwhy.workflow.run import Anomaly, Detection, Run
from tellwhy.workflow.selection import Selection, as_source, select

EXPLAINED_ROWS = 200
POSITIVE_WORDS = frozenset({"1", "true", "yes", "anomaly", "anomalous", "outlier", "abnormal", "fraud", "attack"})


def explain_table(data: Any, *, reference: Any = None, **settings: Any) -> Run:
    """Find the odd rows of a table and tell why they are odd.

    Parameters
    ----------
    data
        A file name, a `Table`, a pandas or polars frame, or an array.
    reference
        Ordinary rows to compare with, in the same forms; without it (or `normal`), the table's own rows.
    settings
        See `Request`: normal, id_column, detector, method, top, contamination, columns, exclude, label, missing,
        random_state.

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
    stage("encoding columns")
    selection, encoder = encoded_selection(select(table, _optional_source(reference), request), request)
    stage("fitting the detector")
    fitted = fit_table(selection, encoder, request.detector, generator(request.random_state))
    scores = fitted.scores()
    reference_scores = fitted.reference_scores(scores)
    threshold, rule = _threshold(scores, reference_scores, selection, request)
    n_explained = max(request.top, min(int((scores > threshold).sum()), EXPLAINED_ROWS))
    ranked = np.argsort(-scores, kind="stable")[:n_explained]
    explanation = fitted.explain(ranked, request.method)
    typical = {
        name: typical_of(name, describe_column(selection.reference[name], encoder.kinds_[name]))
        for name in encoder.columns_
    }
    stage("checking the explanation")
    reasons = reasons_of(explanation, typical)
    rows = selection.rows[ranked]
    percentiles = 100.0 * np.searchsorted(np.sort(reference_scores), scores[ranked], "left") / len(reference_scores)
    anomalies = [
        Anomaly(int(row), _id(table, request, row), float(score), float(percentile), bool(score > threshold), why)
        for row, score, percentile, why in zip(rows, scores[ranked], percentiles, reasons, strict=True)
    ]
    return Run(
        source=table.source,
        settings=_settings(request, fitted, explanation, rule),
        summary=_summary(table, fitted, explanation, scores, threshold, rule),
        notices=[*table.notices, *encoder.notices_, *_sampling_notices(fitted)],
        columns=list(encoder.columns_),
        scores=scores,
        rows=selection.rows,
        threshold=threshold,
        anomalies=anomalies,
        explanation=explanation,
        typical=typical,
        column_shares=_column_shares(explanation),
        groups=groups_of(reasons, [int(r) for r in rows]),
        evidence=evidence_of(explanation, fitted.score, fitted.background()),
        detection=_detection(table, request, selection, scores),
        versions=_versions(),
        fingerprint=table.fingerprint,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _optional_source(reference: Any) -> Table | None:
    return None if reference is None else as_source(reference)


def encoded_selection(selection: Selection, request: Request) -> tuple[Selection, TableEncoder]:
    """Fit the encoding of columns to the reference rows, and drop rows with missing cells where asked to."""
    encoder = TableEncoder(missing=request.missing).fit(selection.reference)
    if request.missing == "drop":
        selection = selection.without(encoder.kept_rows(selection.frame), encoder.kept_rows(selection.reference))
    return selection, encoder


def _threshold(scores: Floats, reference_scores: Floats, selection: Selection, request: Request) -> tuple[float, str]:
    """Return the score above which a row counts as anomalous, and the rule in words."""
    if request.contamination is not None:
        share = request.contamination
        return float(np.quantile(scores, 1 - share)), f"the highest {100 * share:g} % of scores"
    if selection.is_clean:
        return float(np.quantile(reference_scores, 0.99)), "scores that 99 % of the reference rows stay below"
    low, high = np.quantile(scores, [0.25, 0.75])
    return float(high + 1.5 * (high - low)), "scores beyond the upper quartile by 1.5 times the quartiles' distance"


def _id(table: Table, request: Request, row: Any) -> str | None:
    return None if request.id_column is None else cell_text(table.frame[request.id_column].iloc[int(row)])


def _column_shares(explanation: Explanation) -> dict[str, float]:
    """Mean share of each column over the explained rows, largest first, summing to 1."""
    mean = explanation.shares().mean(axis=0)
    total = mean.sum()
    order = np.argsort(-mean, kind="stable")
    return {explanation.names()[c]: float(mean[c] / total) if total > 0 else 0.0 for c in order}


def _settings(request: Request, fitted: FittedTable, explanation: Explanation, rule: str) -> dict[str, Any]:
    asked = asdict(request)
    seed = asked.pop("random_state")
    return {
        **asked,
        "detector": fitted.words,
        "method": explanation.method,
        "reference": fitted.selection.words,
        "rows_learned_from": len(fitted.sample),
        "threshold_rule": rule,
        "seed": seed,
    }


def _summary(
    table: Table, fitted: FittedTable, explanation: Explanation, scores: Floats, threshold: float, rule: str
) -> str:
    n_above = int((scores > threshold).sum())
    learned = len(fitted.sample)
    sampled = f" (a random {learned:,} of them)" if learned < len(fitted.selection.reference) else ""
    return (
        f"{len(scores):,} rows of {table.source} were compared with {fitted.selection.words}{sampled} in "
        f"{len(fitted.encoder.columns_)} columns by a {fitted.words}. {n_above:,} rows are above the threshold "
        f"({rule}). The {len(explanation)} highest scores were explained by {explanation.method}, each row scored as "
        "if the detector had not seen it."
    )


def _sampling_notices(fitted: FittedTable) -> list[str]:
    n = len(fitted.selection.reference)
    if len(fitted.sample) == n:
        return []
    return [f"The detector learned from a random {len(fitted.sample):,} of {n:,} reference rows."]


def _detection(table: Table, request: Request, selection: Selection, scores: Floats) -> Detection | None:
    """Compare scores with a label column, where one was named."""
    if request.label is None:
        return None
    column, value = split_marker(table, request.label)
    cells = table.frame[column].iloc[selection.rows].map(cell_text).to_numpy()
    positive = _positive_value(column, cells) if value is None else value
    truth = cells == positive
    if truth.all() or not truth.any():
        raise InvalidInput(
            f"The label {column} = {positive!r} marks {truth.sum()} of {len(truth)} rows; need both kinds."
        )
    auroc, precision = roc_auc_score(truth, scores), average_precision_score(truth, scores)
    return Detection(column, positive, int(truth.sum()), float(auroc), float(precision))


def _positive_value(column: str, cells: Any) -> str:
    """Return the value that means 'anomaly': by its name, else the rarer of two."""
    values, counts = np.unique(cells.astype(str), return_counts=True)
    named = [v for v in values if v.lower() in POSITIVE_WORDS]
    if len(named) == 1:
        return str(named[0])
    if len(values) != 2:
        shown = ", ".join(repr(str(v)) for v in values[:6])
        raise InvalidInput(
            f"The label column {column!r} has the values {shown}: say which marks anomalies, {column}=VALUE."
        )
    return str(values[np.argmin(counts)])


def _versions() -> dict[str, str]:
    packages = ("tellwhy", "numpy", "scipy", "scikit-learn", "numba", "pandas")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
