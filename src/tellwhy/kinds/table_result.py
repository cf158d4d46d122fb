"""From judged rows of a table to a result: odd rows with their reasons, and how far to trust these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.stats import rankdata

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.optional import versions
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table, describe_column
from tellwhy.data.places import find_file, find_line
from tellwhy.kinds.request import Request, split_label, write_cell
from tellwhy.kinds.table_cells import FittedTable, Judged
from tellwhy.kinds.table_rows import Selection, add_lines, find_title_column, write_rows
from tellwhy.kinds.usual_in_segments import InSegments
from tellwhy.results.evidence import Detection, Evidence
from tellwhy.results.notice import Notice, as_notices, written
from tellwhy.results.result import AlarmRule, Anomaly, Part, Reason, Result, Typical
from tellwhy.storage import clock
from tellwhy.verdicts.alarms import Ranking
from tellwhy.verdicts.causes import Cause, find_causes
from tellwhy.verdicts.evidence import LEAST_EVIDENCE_ROWS, collect_evidence
from tellwhy.verdicts.findings import RowFindings, add_findings, make_finding_reasons, tell_findings
from tellwhy.verdicts.headline import find_doubt, make_headline
from tellwhy.verdicts.reasons import (
    group_anomalies,
    list_verified_reasons,
    make_typical,
    measure_unattributed,
)
from tellwhy.verdicts.repair import find_nearest_normals, repair_causes

ORDINARY = float(-np.log(0.01))  # surprise up to which a row is ordinary: one in a hundred is beyond


def run_of(judged: Judged, *, with_evidence: bool = True) -> Result:
    """Explain the ranked rows of a table, and tell everything as a `Result`.

    Without evidence the explanation is not tested as a whole; the reasons of each row are verified anyway.
    """
    return _run(_explain_ranked(judged, with_evidence=with_evidence))


@dataclass(frozen=True, eq=False)
class _Findings:
    """Everything that a run is written from."""

    table: Table
    request: Request
    fitted: FittedTable
    ranking: Ranking
    line: float  # score above which a row is odd
    found: RowFindings  # of the quality pass
    explanation: Explanation  # of the ranked rows, as the user has them
    evidence: Evidence
    causes: Sequence[Cause]  # of each of these rows, verified
    normal: Sequence[Mapping[str, Any] | None]  # what to change in each of these rows
    typical: Mapping[str, Typical]
    segments: InSegments | None = None  # what is usual in the segments of these rows, where there are any


def _explain_ranked(judged: Judged, *, with_evidence: bool) -> _Findings:
    """Explain the ranked rows, and check the explanation, on the rows that were encoded for scoring."""
    batch = judged.batch
    fitted = batch.fitted
    ranking = judged.ranking
    level = _find_ordinary_level(judged)
    told = fitted.explain(ranking.positions, batch.request.method)
    stage("checking the explanation")
    trials = fitted.trials(ranking.positions)
    by_row = batch.found.by_row(ranking.positions)
    # A row that is no alarm has only a little oddness to explain: half of it must go.
    levels = np.minimum(level, ranking.model_scores[ranking.positions] / 2)
    groups = group_columns(fitted.known.encoded[trials.donors], fitted.known.owner)
    causes = find_causes(trials, told.values, levels, groups)
    causes = repair_causes(causes, trials, judged.line, by_row, fitted.encoder.columns_)
    reference = fitted.selection.reference
    encoder = fitted.encoder
    as_told = replace(told, data=fitted.selection.frame.iloc[ranking.positions])
    raised = (ranking.scores - ranking.model_scores)[ranking.positions]
    typical = {
        name: make_typical(
            name,
            describe_column(reference[name], encoder.kinds_[name]),
            is_clock=fitted.selection.is_clock(name),
        )
        for name in encoder.columns_
    }
    segments = _describe_segments(fitted, ranking, typical)
    tested = _find_judged(ranking, by_row, level) if with_evidence else np.zeros(0, dtype=np.int64)
    return _Findings(
        batch.table,
        batch.request,
        fitted,
        ranking,
        judged.line,
        batch.found,
        explanation=add_findings(as_told, raised, by_row),
        evidence=collect_evidence(
            told[tested],
            fitted.known_score,
            fitted.background(),
            second_opinions=batch.request.second_opinions,
        ),
        causes=causes,
        normal=_find_normal_values(fitted, ranking, causes, segments),
        typical=typical,
        segments=segments,
    )


def _find_normal_values(
    fitted: FittedTable, ranking: Ranking, causes: Sequence[Cause], segments: InSegments | None
) -> Sequence[Mapping[str, Any] | None]:
    """What would make each row look normal, in the row's own segment."""
    normal = find_nearest_normals(fitted, ranking, causes)
    if segments is None:
        return normal
    donors = np.array([max(cause.donor, 0) for cause in causes], dtype=np.int64)
    return segments.normal_values(normal, fitted.decoded_rows(donors))


def _describe_segments(
    fitted: FittedTable, ranking: Ranking, typical: Mapping[str, Typical]
) -> InSegments | None:
    """What is usual in the segments of the ranked rows; None where rows are not segmented."""
    selection = fitted.selection
    if selection.context is None:
        return None
    return InSegments(selection.context, ranking.positions, selection.reference, typical)


def _find_judged(ranking: Ranking, by_row: Sequence[Sequence[Any]], level: float) -> Integers:
    """Explained rows whose scores the detector gave; one that only a finding raised tells nothing of it.

    Beside a few alarms, rows that are none have only noise to be explained.
    """
    scores = ranking.model_scores[ranking.positions]
    judged = np.array([not found or score > level for found, score in zip(by_row, scores, strict=True)])
    above = judged & (ranking.scores[ranking.positions] > ranking.threshold)
    return np.flatnonzero(above if above.sum() >= LEAST_EVIDENCE_ROWS else judged)


def _find_ordinary_level(judged: Judged) -> float:
    """Score up to which a row counts as ordinary: below the line, and where one row in a hundred is."""
    return min(judged.line, judged.calibration.score_of(ORDINARY))


def _run(found: _Findings) -> Result:
    anomalies = _make_anomalies(found)
    ranking = found.ranking
    drawn = ranking.alarms
    alarms = AlarmRule(drawn.rule, ranking.n_above, drawn.expected_false, drawn.over)
    return Result(
        source=found.table.source,
        settings=_list_settings(found),
        done=written(_write_summary(found)),
        notices=_collect_notices(found),
        columns=list(found.fitted.encoder.columns_),
        scores=found.ranking.scores,
        rows=found.fitted.selection.rows,
        threshold=found.ranking.threshold,
        anomalies=anomalies,
        explanation=found.explanation,
        usual=found.typical,
        column_shares=average_shares(found.explanation),
        groups=group_anomalies(anomalies),
        evidence=found.evidence,
        detection=measure_detection(
            found.table,
            found.request.label,
            found.fitted.selection.rows,
            found.ranking.scores,
            found.ranking.threshold,
        ),
        versions=versions(),
        fingerprint=found.table.fingerprint,
        created=clock.stamp(),
        findings=add_lines(
            tell_findings(found.found, found.fitted.selection.rows, anomalies, found.typical),
            found.table.frame,
        ),
        alarms=alarms,
        opening=make_headline(len(ranking.scores), alarms, anomalies, found.typical),
        roles={name: role.words for name, role in found.fitted.selection.roles.items()},
        table_rows=write_rows(found.table.frame.iloc[[anomaly.row for anomaly in anomalies]]),
    )


def _make_anomalies(found: _Findings) -> list[Anomaly]:
    """One entry per explained row, in the order of the ranking."""
    ranking = found.ranking
    selection = found.fitted.selection
    name = found.request.id_column or find_title_column(found.table.frame, selection.roles)
    ids = None if name is None else found.table.frame[name]
    verdicts = _find_verdicts(found)
    segments = found.segments
    unattributed = measure_unattributed(found.explanation)
    told = []
    for i, position in enumerate(ranking.positions):
        row = int(found.fitted.selection.rows[position])
        score = float(ranking.scores[position])
        told.append(
            Anomaly(
                Part(
                    "row",
                    row=row,
                    name=None if ids is None else write_cell(ids.iloc[row]),
                    file=find_file(found.table.frame, row),
                    line=find_line(found.table.frame, row),
                ),
                score=score,
                percentile=float(ranking.percentiles[i]),
                is_alarm=score > ranking.threshold,
                reasons=verdicts[i].reasons,
                nearest_normal=found.normal[i],
                p_value=ranking.p_value(int(position)),
                unattributed=float(unattributed[i]),
                doubt=verdicts[i].doubt,
                **({} if segments is None else segments.told(i, verdicts[i].reasons)),
            )
        )
    return told


class _Verdict(NamedTuple):
    """Why a row is odd, and what is not sure about it."""

    reasons: list[Reason]
    doubt: Notice | None


def _find_verdicts(found: _Findings) -> list[_Verdict]:
    """Reasons from findings come first; the detector's are told where the row is odd without them too."""
    ranking = found.ranking
    read = replace(found.explanation, data=found.fitted.read_rows(ranking.positions))
    segments = found.segments
    if segments is None:
        by_model = list_verified_reasons(read, found.typical, found.causes, found.fitted.selection.reference)
    else:
        by_model = segments.reasons(read, found.causes)
    numbers = found.fitted.selection.rows[ranking.positions]
    pairs = zip(by_model, numbers.tolist(), strict=True)
    by_model = [_without_uncompared(reasons, found.fitted.selection, row) for reasons, row in pairs]
    by_row = found.found.by_row(ranking.positions)
    written = found.table.frame.iloc[numbers]
    told = []
    for i, position in enumerate(ranking.positions):
        if not by_row[i]:
            told.append(_Verdict(by_model[i], find_doubt(found.causes[i])))
            continue
        raised = float(1.0 - ranking.model_scores[position] / ranking.scores[position])
        known = make_finding_reasons(by_row[i], written.iloc[i], found.typical, raised, int(position))
        if ranking.model_scores[position] <= found.line:
            told.append(_Verdict(known, None))
            continue
        # A finding about several columns tells the cells of all of them: their parts are not told again.
        named = {name for finding in by_row[i] for name in finding.columns}
        others = [reason for reason in by_model[i] if reason.feature not in named]
        told.append(_Verdict(known + others, find_doubt(found.causes[i])))
    return told


def _without_uncompared(reasons: list[Reason], selection: Selection, row: int) -> list[Reason]:
    """Reasons without those about a cell that was not compared; it is as usual, and tells nothing."""
    kept = [each for each in reasons if row not in selection.uncompared.get(each.feature, ())]
    return kept or reasons


def average_shares(explanation: Explanation) -> dict[str, float]:
    """Mean share of each column over the explained rows, largest first, summing to 1."""
    mean = explanation.shares().mean(axis=0)
    total = mean.sum()
    order = np.argsort(-mean, kind="stable")
    return {explanation.names()[c]: float(mean[c] / total) if total > 0 else 0.0 for c in order}


def _list_settings(found: _Findings) -> dict[str, Any]:
    asked = asdict(found.request)
    seed = asked.pop("random_state")
    return {
        **asked,
        "detector": found.fitted.words,
        "method": found.explanation.method,
        "reference": found.fitted.selection.words,
        "rows_learned_from": len(found.fitted.sample),
        "threshold_rule": found.ranking.alarms.rule,
        "seed": seed,
    }


def _write_summary(found: _Findings) -> str:
    fitted = found.fitted
    ranking = found.ranking
    explanation = found.explanation
    learned = len(fitted.sample)
    sampled = f" (a random {learned:,} of them)" if learned < len(fitted.selection.reference) else ""
    return (
        f"{len(ranking.scores):,} rows of {Path(found.table.source).name} were compared with "
        f"{fitted.selection.words}{sampled} in {_count_columns(len(fitted.encoder.columns_))} by a "
        f"{fitted.words}; explained by {explanation.method}.{_tell_form(explanation)}"
    )


def _count_columns(n: int) -> str:
    return f"{n} column{'' if n == 1 else 's'}"


def _tell_form(explanation: Explanation) -> str:
    """Which of two forms of an explanation is shown and why, where the method had to choose."""
    words = explanation.params.get("form")
    return f" Shown is {words}." if words else ""


def _collect_notices(found: _Findings) -> list[Notice]:
    of_encoder = as_notices(found.fitted.encoder.said_)
    return [*found.table.said, *of_encoder, *_tell_sampling(found.fitted)]


def _tell_sampling(fitted: FittedTable) -> list[Notice]:
    n = len(fitted.selection.reference)
    if len(fitted.sample) == n:
        return []
    return [Notice("learned_from_sample", {"n": len(fitted.sample), "of": n})]


# A label by one of these names means what is odd, even if it is the more common of two.
POSITIVE_WORDS = frozenset(
    {"1", "true", "yes", "anomaly", "anomalous", "outlier", "abnormal", "fraud", "attack"}
)


def measure_detection(
    table: Table, label: str | None, rows: Integers, scores: Floats, threshold: float
) -> Detection | None:
    """Compare scores with the label 'COLUMN', 'COLUMN=VALUE' or 'COLUMN!=VALUE'; None without a label."""
    if label is None:
        return None
    from sklearn.metrics import average_precision_score, roc_auc_score

    marker = split_label(table, label)
    column = table.frame[marker.column].iloc[rows]
    if marker.negated:  # a row without a label is not known to be odd
        scores = scores[column.notna().to_numpy()]
        column = column.dropna()
    cells = column.map(write_cell).to_numpy()
    positive = _choose_positive(marker.column, cells) if marker.value is None else marker.value
    truth = (cells == positive) != marker.negated
    if truth.all() or not truth.any():
        sign = "!=" if marker.negated else "="
        raise InvalidInput(
            f"The label {marker.column} {sign} {positive!r} marks {int(truth.sum())} of {len(truth)} rows; "
            "both kinds are needed."
        )
    alarms = scores > threshold
    n_alarms = int(alarms.sum())
    return Detection(
        label=marker.column,
        positive=positive,
        n_positive=int(truth.sum()),
        auroc=float(roc_auc_score(truth, scores)),
        average_precision=float(average_precision_score(truth, scores)),
        n_alarms=n_alarms,
        precision=float(truth[alarms].mean()) if n_alarms else None,
        recall=float(alarms[truth].mean()),
        negated=marker.negated,
    )


def _choose_positive(column: str, cells: NDArray[np.object_]) -> str:
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


LEAST_TOGETHER = 0.6  # mean of |Spearman's correlation| between two columns of a group
LEAST_COLUMNS = 3
MOST_COLUMNS = 300  # of a table; the correlations of more take too long
LEAST_ROWS = 30

Groups = tuple[tuple[int, ...], ...]


def group_columns(encoded: Floats, owner: Integers) -> Groups:
    """Find groups of at least three columns that rise and fall together, in either direction.

    Columns are joined while the mean of |Spearman's correlation| between two groups is at least .6 (average
    linkage).

    Parameters
    ----------
    encoded
        Ordinary rows.
    owner
        The user's column that each encoded column belongs to; only columns that are one number are grouped.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> size = rng.normal(size=(200, 1))
    >>> X = np.hstack([size + 0.1 * rng.normal(size=(200, 3)), rng.normal(size=(200, 2))])
    >>> group_columns(X, np.arange(5))
    ((0, 1, 2),)
    """
    columns, counts = np.unique(owner, return_counts=True)
    columns = columns[counts == 1]
    columns = columns[[bool(np.ptp(encoded[:, np.argmax(owner == c)]) > 0) for c in columns]]
    if not LEAST_COLUMNS <= len(columns) <= MOST_COLUMNS or len(encoded) < LEAST_ROWS:
        return ()
    ranks = rankdata(encoded[:, [int(np.argmax(owner == c)) for c in columns]], axis=0)
    apart = 1.0 - np.abs(np.corrcoef(ranks, rowvar=False))
    np.fill_diagonal(apart, 0.0)
    tree = linkage(squareform((apart + apart.T) / 2, checks=False), "average")
    labels = fcluster(tree, 1.0 - LEAST_TOGETHER, "distance")
    found = [tuple(int(c) for c in columns[labels == label]) for label in np.unique(labels)]
    return tuple(sorted(group for group in found if len(group) >= LEAST_COLUMNS))
