"""--time, grid, edges: nodes explained, and how they are drawn.

What the pictures of a run on nodes show, computed once for report and terminal.

From a grid, a sequence or a graph to nodes that are odd in their context, ranked and explained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from tellwhy import checks as quality
from tellwhy.core.arrays import evenly_spread
from tellwhy.core.explanation import Explanation
from tellwhy.core.optional import versions
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats, Integers
from tellwhy.data import describe_column
from tellwhy.data.graphs import Grid
from tellwhy.data.table import TableLike
from tellwhy.detectors import LCCAD, ClusterSVDD
from tellwhy.explainers import LatentClassDTD
from tellwhy.kinds.graph_input import GraphRequest, NodeData, fit_latent_classes, nodes_of, without_visits
from tellwhy.kinds.table_result import column_shares
from tellwhy.results.node_picture import NodePicture
from tellwhy.results.result import AlarmRule, Anomaly, Evidence, Part, Reason, Result, Typical, written
from tellwhy.storage import clock
from tellwhy.verdicts.alarms import FALSE_DISCOVERIES, Calibration, Ranking, ranking_of
from tellwhy.verdicts.findings import finding_reasons, told_findings, with_findings
from tellwhy.verdicts.reasons import groups_of, reasons_of, shares_of_score, typical_of

MOST_TRAINED_ON = 200_000  # rows that the isolation forest learns from


def picture_of(nodes: NodeData, model: LCCAD, scores: Floats, run: Result) -> NodePicture:
    """Return what is drawn: the slice of a volume that holds the oddest node, or all nodes."""
    plane = _plane(nodes, int(run.explanation.extras["row"][0]))
    shown = plane.nodes
    there = model.labels_[shown] >= 0
    # Every node that is drawn is explained; how its neighbours pull at it is not drawn.
    told = LatentClassDTD(model, neighbour_pull=False).explain(nodes=shown[there])
    values = np.full((len(shown), nodes.frame.shape[1]), np.nan)
    values[there] = by_owner(told.values, nodes)
    context = np.full(len(shown), np.nan)
    context[there] = told.extras["context"]
    return NodePicture(
        kind=nodes.kind,
        shape=plane.shape,
        at=plane.at,
        names=tuple(nodes.frame.columns),
        data=_numbers(nodes.frame.iloc[shown]),
        classes=model.labels_[shown].astype(np.int64),
        scores=scores[shown],
        context=context,
        values=values,
        others=_others(nodes.X[shown], there, model.n_classes),
        places=tuple(nodes.names(int(node)) for node in shown) if nodes.kind == "time" else (),
        all_classes=model.labels_.astype(np.int8),
        threshold=run.line,
    )


class _Plane(NamedTuple):
    """What can be drawn at once."""

    nodes: Integers
    shape: tuple[int, ...]
    at: int | None  # the slice of a volume


def _plane(nodes: NodeData, oddest: int) -> _Plane:
    everyone = np.arange(len(nodes.X))
    if not isinstance(nodes.graph, Grid) or len(nodes.graph.shape) == 1:
        return _Plane(everyone, (len(everyone),), None)
    shape = nodes.graph.shape[-2:]
    if len(nodes.graph.shape) == 2:
        return _Plane(everyone, shape, None)
    size = int(np.prod(shape))
    at = oddest // size
    return _Plane(everyone[at * size : (at + 1) * size], shape, at)


def by_owner(values: Floats, nodes: NodeData) -> Floats:
    """Sum values per encoded column over the user's columns."""
    summed = np.zeros((len(values), nodes.frame.shape[1]))
    for column, owner in enumerate(nodes.owner):
        summed[:, owner] += values[:, column]
    return summed


def _numbers(frame: pd.DataFrame) -> Floats:
    """Columns as numbers to draw; NaN where they are none."""
    return np.column_stack(
        [pd.to_numeric(frame[c], errors="coerce").to_numpy(np.float64) for c in frame.columns]
    )


def _others(X: NDArray[Any], there: NDArray[np.bool_], n_classes: int) -> dict[str, Floats]:
    """Scores of detectors that do not see the graph, to compare with."""
    rows = X[there].astype(np.float64)
    if len(rows) <= n_classes:
        return {}
    forest = -IsolationForest(random_state=0).fit(rows[:MOST_TRAINED_ON]).score_samples(rows)
    clusters = ClusterSVDD(n_classes, n_init=2).fit(rows).outlierness(rows)
    found = {}
    for name, scores in (("isolation forest", forest), ("ClusterSVDD", clusters)):
        found[name] = np.full(len(X), np.nan)
        found[name][there] = scores
    return found


SUMMARY_ROWS = 200_000
NODES = {"grid": "nodes of the grid", "time": "rows in the order of time", "edges": "nodes of the graph"}


@dataclass(frozen=True, eq=False)
class GraphRun:
    """What was found: the run, as for a table, and what its pictures show."""

    run: Result
    picture: NodePicture


def explain_graph(data: str | Path | TableLike, **settings: Any) -> GraphRun:
    """Find nodes that are odd for the class their neighbours are in, and tell why.

    Parameters
    ----------
    data
        An .npz file with one array per feature for a grid; else a table, with `time` or `edges`.
    settings
        See `GraphRequest`.

    Examples
    --------
    >>> import pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> level = np.repeat([0.0, 3.0, 0.0], 100) + rng.normal(size=300)
    >>> level[30] = 3.5
    >>> frame = pd.DataFrame({"second": np.arange(300), "level": level})
    >>> found = explain_graph(frame, time="second", n_classes=2)
    >>> found.run.anomalies[0].row, bool(found.run.explanation.extras["context_share"][0] > 0.9)
    (30, True)
    """
    request = GraphRequest(**settings)
    stage("reading nodes")
    nodes = nodes_of(data, request)
    stage("fitting latent classes")
    nodes, model = fit_latent_classes(nodes, request)
    nodes = without_visits(nodes, model.labels_)
    scores = model.outlierness()
    stage("explaining nodes")
    return _run(nodes, request, model, scores)


def _run(nodes: NodeData, request: GraphRequest, model: LCCAD, scores: Floats) -> GraphRun:
    present = np.flatnonzero(model.labels_ >= 0)  # nodes of a grid may be missing
    own = scores[present]
    calibration = Calibration.learn(own, is_clean=False)
    added = added_surprise(own, calibration, nodes.found.added[present], request.fdr)
    ranking = ranking_of(own, calibration, own, request, added)
    # What neighbours pull is told for every explained node, but costs a pass over all nodes.
    explainer = LatentClassDTD(model, neighbour_pull=len(nodes.X) <= SUMMARY_ROWS)
    told = explainer.explain(nodes=present[ranking.positions])
    by_row = nodes.found.by_row(present[ranking.positions])
    raised = (ranking.scores - ranking.model_scores)[ranking.positions]
    explanation = with_findings(_in_users_columns(told, nodes), raised, by_row)
    reasons = _reasons(explanation, nodes, model)
    for i, node in enumerate(present[ranking.positions]):
        if by_row[i]:
            cells = nodes.written.iloc[int(node)]
            share = _share_of(explanation[i], by_row[i], float(raised[i]))
            reasons[i] = finding_reasons(by_row[i], cells, {}, share)
    anomalies = _anomalies(nodes, present[ranking.positions], ranking, reasons)
    run = Result(
        kind="graph",
        source=nodes.source,
        settings=_settings(request, model, ranking.alarms.rule),
        done=written(_summary(nodes, model, explanation, ranking)),
        notices=[written(text) for text in (*nodes.notices, *_notices(model))],
        columns=list(nodes.frame.columns),
        scores=ranking.scores,
        rows=nodes.rows[present],
        threshold=ranking.threshold,
        anomalies=anomalies,
        explanation=explanation,
        usual=_typical(nodes, present),
        column_shares=column_shares(explanation),
        groups=groups_of(anomalies),
        evidence=Evidence(str(explanation.params["explains"]), 0.0, {}, {}, []),
        detection=None,
        versions=versions(),
        fingerprint=nodes.fingerprint,
        created=clock.stamp(),
        findings=told_findings(nodes.found, nodes.rows, anomalies, _typical(nodes, present)),
        alarms=AlarmRule(ranking.alarms.rule, ranking.n_above, ranking.alarms.expected_false),
    )
    return GraphRun(run, picture_of(nodes, model, scores, run))


def added_surprise(scores: Floats, calibration: Calibration, added: Floats, fdr: float | None) -> Floats:
    """What findings add to the surprise of nodes, so that their scores stay in sight of the others.

    Squared distances have long tails: so much more surprise as a finding has may mean a score a million
    times higher. Nodes with findings are put above the others and above every alarm, in the order of what was
    added.
    """
    found = np.flatnonzero(added > 0)
    if not len(found):
        return added
    sure = calibration.score_of(float(np.log(len(scores) / (fdr or FALSE_DISCOVERIES))) + 1.0)
    highest = max(float(np.delete(scores, found).max(initial=0.0)), sure)
    raised = np.maximum(scores[found], highest) * (1 + added[found] / 100)
    more = np.zeros(len(scores))
    more[found] = calibration.surprises(raised) - calibration.surprises(scores[found])
    return more


def _anomalies(
    nodes: NodeData, chosen: Integers, ranking: Ranking, reasons: Sequence[Sequence[Reason]]
) -> list[Anomaly]:
    """One entry per explained node, in the order of the ranking."""
    told = []
    for i, node in enumerate(chosen):
        score = float(ranking.scores[ranking.positions[i]])
        told.append(
            Anomaly(
                Part("node", row=int(nodes.rows[node]), name=nodes.names(int(node))),
                score=score,
                percentile=float(ranking.percentiles[i]),
                is_alarm=score > ranking.threshold,
                reasons=reasons[i],
                p_value=ranking.p_value(int(ranking.positions[i])),
            )
        )
    return told


def _share_of(explanation: Explanation, found: Sequence[quality.Finding], raised: float) -> float:
    """Part of a node's score that findings stand for: what they added, and what their columns had."""
    columns = {name for finding in found for name in finding.columns}
    named = [place for place, name in enumerate(explanation.names()) if name in columns]
    share = float(shares_of_score(explanation)[0, named].sum())
    return min(max(share, raised / float(explanation.scores[0])), 1.0)


def _in_users_columns(explanation: Explanation, nodes: NodeData) -> Explanation:
    """Sum relevance over what each column was encoded as, and give the rows as the user had them."""
    columns = list(nodes.frame.columns)
    extras = dict(explanation.extras)
    extras["feature_contrast"] = by_owner(extras["feature_contrast"], nodes)
    return replace(
        explanation,
        values=by_owner(explanation.values, nodes),
        feature_names=columns,
        data=nodes.frame.iloc[np.asarray(extras["row"])],
        extras=type(explanation.extras)(extras),
    )


def _reasons(explanation: Explanation, nodes: NodeData, model: LCCAD) -> list[list[Reason]]:
    """Reasons of each explained node, beside what is usual in its class."""
    found: list[list[Reason]] = [[] for _ in range(len(explanation))]
    classes = np.asarray(explanation.extras["class"])
    for k in np.unique(classes):
        usual = _typical(nodes, np.flatnonzero(model.labels_ == k))
        places = np.flatnonzero(classes == k)
        for place, told in zip(places, reasons_of(explanation[places], usual), strict=True):
            found[place] = [_in_class(reason) for reason in told]
    return found


def _in_class(reason: Reason) -> Reason:
    return replace(reason, facts={**reason.facts, "in_class": True})


def _typical(nodes: NodeData, members: Integers) -> dict[str, Typical]:
    """What is usual in each column, among some of the nodes."""
    some = nodes.frame.iloc[members[evenly_spread(len(members), SUMMARY_ROWS)]]
    return {name: typical_of(name, describe_column(some[name], _kind(some[name]))) for name in some.columns}


def _kind(series: pd.Series) -> str:
    from pandas.api import types

    if types.is_bool_dtype(series):
        return "boolean"
    if types.is_datetime64_any_dtype(series):
        return "date"
    return "number" if types.is_numeric_dtype(series) else "category"


def _settings(request: GraphRequest, model: LCCAD, rule: str) -> dict[str, Any]:
    asked = asdict(request)
    seed = asked.pop("random_state")
    used = {
        "detector": "LCCAD",
        "method": "LatentClassDTD",
        "n_classes": model.n_classes,
        "theta": float(model.theta_),
    }
    return {**asked, **used, "gap": float(model.gap_), "threshold_rule": rule, "seed": seed}


def _summary(nodes: NodeData, model: LCCAD, explanation: Explanation, ranking: Ranking) -> str:
    sizes = np.bincount(model.labels_[model.labels_ >= 0], minlength=model.n_classes)
    total = int(sizes.sum())
    parts = ", ".join(f"class {k}: {size / total:.0%}" for k, size in enumerate(sizes))
    classes = "class" if model.n_classes == 1 else "classes"
    share = float(np.mean(explanation.extras["context_share"])) if len(explanation) else 0.0
    verb = "node is" if ranking.n_above == 1 else "nodes are"
    return (
        f"{total:,} {NODES[nodes.kind]} of {Path(nodes.source).name} fall into {model.n_classes} latent "
        f"{classes} that neighbours tend to share ({parts}). {ranking.n_above:,} {verb} above the threshold "
        f"({ranking.alarms.rule}) for the class they are in. The {len(explanation)} highest scores were "
        f"explained by LatentClassDTD; {share:.0%} of them is there only because of the context: in another "
        "class, the same values would be ordinary."
    )


def _notices(model: LCCAD) -> list[str]:
    if model.n_classes > 1:
        return []
    return ["No classes that neighbours share were found: every node is judged by its values alone."]
