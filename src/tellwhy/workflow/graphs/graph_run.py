"""From a grid, a sequence or a graph to nodes that are odd in their context, ranked and explained."""

from __future__ import annotations

import datetime
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest

from tellwhy.core.explanation import Explanation
from tellwhy.core.params import generator
from tellwhy.core.progress import stage
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import evenly_spread
from tellwhy.data import describe_column
from tellwhy.data.graphs import Grid, chain, grid
from tellwhy.detectors import LCCAD, ClusterSVDD, suggest_lccad
from tellwhy.explainers import LatentClassDTD
from tellwhy.workflow.graphs.graph_input import GraphRequest, NodeData, nodes_of
from tellwhy.workflow.graphs.node_picture import NodePicture
from tellwhy.workflow.run import Anomaly, Evidence, Run
from tellwhy.workflow.tables.ranking import EXPLAINED_ROWS, draw_threshold
from tellwhy.workflow.tables.reasons import groups_of, reasons_of, typical_of
from tellwhy.workflow.tables.table_run import column_shares, versions

MOST_NODES_TO_SUGGEST_FROM = 20_000
MOST_CLASSES = 5
WITHIN_ONE_DEVIATION = 0.6827  # share of a normal variable; a few odd values do not move this quantile
SUMMARY_ROWS = 200_000


@dataclass(frozen=True, eq=False)
class GraphRun:
    """What was found: the run, as for a table, and what its pictures show."""

    run: Run
    picture: NodePicture


def explain_graph(data: Any, **settings: Any) -> GraphRun:
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
    nodes, model = _comparable(nodes, request)
    scores = model.outlierness()
    stage("explaining nodes")
    return _run(nodes, request, model, scores)


def _comparable(nodes: NodeData, request: GraphRequest) -> tuple[NodeData, LCCAD]:
    """Fit twice: with columns of equal spread, then of equal spread within the classes that were found.

    A column that tells the classes apart has most of its spread between them: what is odd within a class
    would hardly count.
    """
    first = _fitted(nodes, request)
    there = first.labels_ >= 0
    deviations = np.abs(nodes.X[there] - first.centres_[first.labels_[there]])
    spread = np.quantile(deviations, WITHIN_ONE_DEVIATION, axis=0)
    X = nodes.X / np.where(spread > 0, spread, 1.0).astype(nodes.X.dtype)
    nodes = replace(nodes, X=X)
    return nodes, _fitted(nodes, request)


def _fitted(nodes: NodeData, request: GraphRequest) -> LCCAD:
    """Fit with distances at half the weight of a Gaussian model, or an odd node would be a class change of its own."""
    rng = generator(request.random_state)
    parameters: dict[str, Any] = {"model": "mrf", "gamma": 1.0, "random_state": int(rng.integers(2**31 - 1))}
    if request.n_classes is None or request.theta is None:
        X, graph = _sample(nodes)
        found = suggest_lccad(
            X, graph, max_classes=MOST_CLASSES, n_classes=request.n_classes, random_state=request.random_state
        )
        parameters |= found.parameters | {"theta": found.theta / (2 - found.theta)}
    given = {"n_classes": request.n_classes, "theta": request.theta}
    parameters |= {name: value for name, value in given.items() if value is not None}
    return LCCAD(**parameters).fit(nodes.X, nodes.graph)


def _sample(nodes: NodeData) -> tuple[Any, Any]:
    """The middle of a large grid or chain; a graph whole."""
    graph = nodes.graph
    if not isinstance(graph, Grid) or graph.n_nodes <= MOST_NODES_TO_SUGGEST_FROM:
        return nodes.X, graph
    axes = len(graph.shape)
    side = int(MOST_NODES_TO_SUGGEST_FROM ** (1 / axes))
    block = tuple(slice(max(0, (n - side) // 2), max(0, (n - side) // 2) + min(n, side)) for n in graph.shape)
    inside = np.arange(graph.n_nodes).reshape(graph.shape)[block]
    mask = None if graph.mask is None else graph.mask[inside.ravel()]
    if mask is not None and not mask.any():
        return nodes.X, graph
    smaller = chain(inside.size, mask=mask) if axes == 1 else grid(inside.shape, graph.neighbours, mask=mask)
    return nodes.X[inside.ravel()], smaller


def _run(nodes: NodeData, request: GraphRequest, model: LCCAD, scores: Floats) -> GraphRun:
    present = np.flatnonzero(model.labels_ >= 0)
    own = scores[present]
    threshold, rule = draw_threshold(own, own, request.contamination, is_clean=False)
    n_explained = max(min(request.top, len(own)), min(int((own > threshold).sum()), EXPLAINED_ROWS))
    chosen = present[np.argsort(-own, kind="stable")[:n_explained]]
    explainer = LatentClassDTD(model, neighbour_pull=len(nodes.X) <= SUMMARY_ROWS)
    explanation = _in_users_columns(explainer.explain(nodes=chosen), nodes)
    reasons, typical = _reasons(explanation, nodes, model)
    percentiles = 100.0 * np.searchsorted(np.sort(own), scores[chosen], "left") / len(own)
    anomalies = [
        Anomaly(
            row=int(nodes.rows[node]),
            id=nodes.names(int(node)),
            score=float(scores[node]),
            percentile=float(percentile),
            above_threshold=bool(scores[node] > threshold),
            reasons=why,
        )
        for node, percentile, why in zip(chosen, percentiles, reasons, strict=True)
    ]
    run = Run(
        source=nodes.source,
        settings=_settings(request, model, rule),
        summary=_summary(nodes, model, explanation, int((own > threshold).sum()), rule),
        notices=[*nodes.notices, *_notices(model)],
        columns=list(nodes.frame.columns),
        scores=own,
        rows=nodes.rows[present],
        threshold=threshold,
        anomalies=anomalies,
        explanation=explanation,
        typical=typical,
        column_shares=column_shares(explanation),
        groups=groups_of(anomalies),
        evidence=Evidence(str(explanation.params["explains"]), 0.0, {}, {}, []),
        detection=None,
        versions=versions(),
        fingerprint=nodes.fingerprint,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
    return GraphRun(run, _picture(nodes, model, scores, explainer, run))


def _in_users_columns(explanation: Explanation, nodes: NodeData) -> Explanation:
    """Sum relevance over what each column was encoded as, and give the rows as the user had them."""
    columns = list(nodes.frame.columns)
    extras = dict(explanation.extras)
    extras["feature_contrast"] = _by_owner(extras["feature_contrast"], nodes)
    return replace(
        explanation,
        values=_by_owner(explanation.values, nodes),
        feature_names=columns,
        data=nodes.frame.iloc[np.asarray(extras["row"])],
        extras=type(explanation.extras)(extras),
    )


def _by_owner(values: Floats, nodes: NodeData) -> Floats:
    summed = np.zeros((len(values), nodes.frame.shape[1]))
    for column, owner in enumerate(nodes.owner):
        summed[:, owner] += values[:, column]
    return summed


def _reasons(explanation: Explanation, nodes: NodeData, model: LCCAD) -> tuple[list[Any], dict[str, Any]]:
    """Reasons of each explained node beside what is usual in its class; also what is usual over all classes."""
    found: list[Any] = [[]] * len(explanation)
    classes = np.asarray(explanation.extras["class"])
    for k in np.unique(classes):
        usual = _typical(nodes, np.flatnonzero(model.labels_ == k))
        places = np.flatnonzero(classes == k)
        for place, told in zip(places, reasons_of(explanation[places], usual), strict=True):
            found[place] = [
                replace(r, text=r.text.replace("(usually ", "(usually in its class ")) for r in told
            ]
    return found, _typical(nodes, np.flatnonzero(model.labels_ >= 0))


def _typical(nodes: NodeData, members: Integers) -> dict[str, Any]:
    some = nodes.frame.iloc[members[evenly_spread(len(members), SUMMARY_ROWS)]]
    return {name: typical_of(name, describe_column(some[name], _kind(some[name]))) for name in some.columns}


def _kind(series: Any) -> str:
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
        "theta": float(model.theta),
    }
    return {**asked, **used, "gap": float(model.gap_), "threshold_rule": rule, "seed": seed}


def _summary(nodes: NodeData, model: LCCAD, explanation: Explanation, n_above: int, rule: str) -> str:
    sizes = np.bincount(model.labels_[model.labels_ >= 0], minlength=model.n_classes)
    total = int(sizes.sum())
    parts = ", ".join(f"class {k}: {size / total:.0%}" for k, size in enumerate(sizes))
    what = {"grid": "nodes of the grid", "time": "rows in the order of time", "edges": "nodes of the graph"}[
        nodes.kind
    ]
    share = float(np.mean(explanation.extras["context_share"])) if len(explanation) else 0.0
    verb = "node is" if n_above == 1 else "nodes are"
    return (
        f"{total:,} {what} of {Path(nodes.source).name} fall into {model.n_classes} latent "
        f"{'class' if model.n_classes == 1 else 'classes'} that neighbours tend to share ({parts}). {n_above:,} {verb} "
        f"above the threshold ({rule}) for the class they are in. The {len(explanation)} highest scores were explained "
        f"by LatentClassDTD; {share:.0%} of them is there only because of the context: in another class, the same "
        "values would be ordinary."
    )


def _notices(model: LCCAD) -> list[str]:
    if model.n_classes > 1:
        return []
    return ["No classes that neighbours share were found: every node is judged by its values alone."]


def _picture(
    nodes: NodeData, model: LCCAD, scores: Floats, explainer: LatentClassDTD, run: Run
) -> NodePicture:
    """What is drawn: the slice of a volume that holds the oddest node, or all nodes."""
    shape: tuple[int, ...] = (len(nodes.X),)
    shown, at = np.arange(len(nodes.X)), None
    if isinstance(nodes.graph, Grid) and len(nodes.graph.shape) > 1:
        shape = nodes.graph.shape[-2:]
        if len(nodes.graph.shape) == 3:
            size = int(np.prod(shape))
            at = int(run.explanation.extras["row"][0]) // size
            shown = shown[at * size : (at + 1) * size]
    there = model.labels_[shown] >= 0
    told = LatentClassDTD(explainer.model, neighbour_pull=False).explain(nodes=shown[there])
    values, context = np.full((len(shown), nodes.frame.shape[1]), np.nan), np.full(len(shown), np.nan)
    values[there], context[there] = _by_owner(told.values, nodes), told.extras["context"]
    return NodePicture(
        kind=nodes.kind,
        shape=shape,
        at=at,
        names=tuple(nodes.frame.columns),
        data=_numbers(nodes.frame.iloc[shown]),
        classes=model.labels_[shown].astype(np.int64),
        scores=scores[shown],
        context=context,
        values=values,
        others=_others(nodes.X[shown], there, model.n_classes),
        places=tuple(nodes.names(int(node)) for node in shown) if nodes.kind == "time" else (),
        all_classes=model.labels_.astype(np.int8),
        threshold=run.threshold,
    )


def _numbers(frame: Any) -> Floats:
    """Columns as numbers to draw; NaN where they are none."""
    import pandas as pd

    return np.column_stack(
        [pd.to_numeric(frame[c], errors="coerce").to_numpy(np.float64) for c in frame.columns]
    )


def _others(X: Any, there: Any, n_classes: int) -> dict[str, Floats]:
    """Scores of detectors that do not see the graph, to compare with."""
    rows = X[there].astype(np.float64)
    if len(rows) <= n_classes:
        return {}
    forest = -IsolationForest(random_state=0).fit(rows[:SUMMARY_ROWS]).score_samples(rows)
    clusters = ClusterSVDD(n_classes, n_init=2).fit(rows).outlierness(rows)
    found = {}
    for name, scores in (("isolation forest", forest), ("ClusterSVDD", clusters)):
        found[name] = np.full(len(X), np.nan)
        found[name][there] = scores
    return found
