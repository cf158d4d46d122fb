"""Nodes of a grid, a sequence or a graph that are odd in their context, and why; how they are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tellwhy import checks as quality
from tellwhy.core.arrays import spread_evenly
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.core.optional import versions
from tellwhy.core.params import Fit, are_texts
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats, Integers
from tellwhy.data import Table, describe_column
from tellwhy.data.graph_files import compute_grid_fingerprint
from tellwhy.data.graphs import Graph
from tellwhy.data.table import TableLike
from tellwhy.detectors import LCCAD
from tellwhy.explainers import LatentClassDTD
from tellwhy.kinds.beside_neighbours import NeighbourLaw, learn_law
from tellwhy.kinds.drawn_nodes import choose_plane, make_picture, sum_by_owner
from tellwhy.kinds.graph_input import (
    GraphRequest,
    NodeCode,
    NodeData,
    drop_visits,
    fit_latent_classes,
    name_edges,
    read_nodes,
)
from tellwhy.kinds.model import change_settings, kind
from tellwhy.kinds.node_reasons import find_kind_of_cells, find_reasons, verify_reasons
from tellwhy.kinds.table_result import average_shares
from tellwhy.kinds.table_rows import read_source
from tellwhy.results.evidence import Evidence
from tellwhy.results.node_picture import NodePicture, as_arrays, read_picture
from tellwhy.results.notice import Notice
from tellwhy.results.result import AlarmRule, Anomaly, Part, Reason, Result, Typical
from tellwhy.storage import clock
from tellwhy.storage.model_file import SavedAsFile
from tellwhy.verdicts.alarms import FALSE_DISCOVERIES, Calibration, Ranking, rank_rows
from tellwhy.verdicts.findings import add_findings, make_finding_reasons, tell_findings
from tellwhy.verdicts.reasons import compute_shares, group_anomalies, make_typical

SUMMARY_ROWS = 200_000
CHANGEABLE = ("edges", "id_column", "top", "alarms", "contamination", "fdr")


@dataclass(frozen=True, eq=False)
class GraphModel(SavedAsFile):
    """What is ordinary in nodes: the latent classes that neighbours share, and how far nodes are from them.

    Attributes
    ----------
    source, fingerprint
        The data that it was fitted to, and their SHA-256.
    request
        What was asked.
    code, scale
        How rows become numbers, and what these are divided by: their spread within the classes.
    classes
        The latent classes, with the nodes that they were learned from.
    law
        What nodes should have by their neighbours; None where the classes alone tell.
    usual, usual_in_class
        What is usual in each column: of all nodes, and of those of each class.
    is_clean
        Whether somebody says that all nodes are ordinary.
    versions
        Of the packages that it was fitted with.
    """

    kind: ClassVar[str] = "graph"

    source: str
    fingerprint: str
    request: GraphRequest
    code: NodeCode
    scale: NDArray[Any]
    classes: LCCAD
    usual: Mapping[str, Typical]
    usual_in_class: tuple[Mapping[str, Typical], ...]
    is_clean: bool
    versions: Mapping[str, str]
    law: NeighbourLaw | None = None

    def ordinary(self) -> Floats:
        """Scores of the nodes that it was fitted to."""
        labels = self.classes.labels_
        if self.law is None:
            return np.asarray(self.classes.outlierness()[labels >= 0])
        return self.measure(self.classes.training_X_, self.classes.graph_, labels)[labels >= 0].sum(axis=1)

    def measure(self, X: NDArray[Any], graph: Graph, labels: NDArray[Any]) -> Floats:
        """Return the part of each column in the score of each node."""
        if self.law is None:
            raise AssertionError("the classes alone tell")
        return self.law.measure(X, graph, labels, self.classes.centres_)

    def _require(self) -> Iterator[Fit]:
        yield "request", isinstance(self.request, GraphRequest), True
        yield "code", isinstance(self.code, NodeCode), True
        yield "classes", isinstance(self.classes, LCCAD), True
        yield "scale", self.scale.shape, (self.classes.n_features_in_,)
        yield "scale", bool((self.scale > 0).all()), True
        yield "law", isinstance(self.law, NeighbourLaw | None), True
        yield "law", self.law is None or len(self.law.ways) == len(self.scale), True
        yield "usual_in_class", len(self.usual_in_class), self.classes.n_classes
        told = [typical for usual in (self.usual, *self.usual_in_class) for typical in usual.values()]
        yield "usual", all(isinstance(typical, Typical) for typical in told), True
        yield "source", are_texts(self.source, self.fingerprint), True


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes to be judged, and what a model says of them.

    Attributes
    ----------
    data
        They themselves, their columns divided by the spread within the model's classes.
    request
        What is asked of them.
    labels
        The class of each, −1 where it is missing.
    is_own
        Whether the model was fitted to them.
    """

    data: NodeData
    request: GraphRequest
    labels: NDArray[Any]
    is_own: bool

    @property
    def present(self) -> Integers:
        """Nodes that are there: those of a grid may be missing."""
        return np.flatnonzero(self.labels >= 0)


@dataclass(frozen=True, eq=False)
class GraphRun:
    """What was found: the result, and what its pictures show."""

    run: Result

    @property
    def picture(self) -> NodePicture:
        """What is drawn."""
        found = read_picture(self.run)
        if found is None:
            raise AssertionError("a result of nodes draws them")
        return found


def explain_graph(
    data: str | Path | TableLike, *, reference: str | Path | TableLike | None = None, **settings: Any
) -> GraphRun:
    """Find nodes that are odd for the class their neighbours are in, and tell why.

    Parameters
    ----------
    data
        An .npz file with one array per feature for a grid; else a table, with `time` or `edges`.
    reference
        Another grid or table in time, of ordinary nodes; None: the nodes are compared with each other.
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
    request = GraphRequest.of(settings)
    judging = GraphKind()
    stage("reading nodes")
    if reference is None:
        nodes = read_nodes(data, request, edges=settings.get("edges"))
        model = learn(nodes, request)
        batch = _take_own(model, nodes, request)
    else:
        ordinary = replace(request, id_column=None)
        model = learn(read_nodes(reference, ordinary), ordinary, clean=True)
        batch = judging.read(model, data, {"id_column": request.id_column})
    batch = judging.check(model, batch)
    found = judging.explain(model, batch, judging.score(model, batch))
    given = {} if reference is None else {"reference": str(reference)[:200]}
    return GraphRun(replace(found, settings={**found.settings, **given}))


@kind("graph")
class GraphKind:
    """Nodes beside their neighbours: of a grid, in the order of time, or with edges."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> GraphModel:
        """Learn the classes that neighbours share."""
        request = GraphRequest.of(settings)
        stage("reading nodes")
        return learn(read_nodes(source, request, edges=settings.get("edges")), request, clean=clean)

    def read(self, model: GraphModel, source: Any, settings: Mapping[str, Any]) -> Nodes:
        """Read other nodes as the model's own were, and find the class that each is in."""
        kept = model.request
        asked = change_settings(kept, settings, CHANGEABLE)
        if asked.get("edges") is not None:
            asked["edges"] = name_edges(asked["edges"])
        request = replace(kept, **asked)
        stage("reading nodes")
        is_grid = request.time is None and request.edges is None
        data = source if is_grid else read_source(source)
        fingerprint = data.fingerprint if isinstance(data, Table) else compute_grid_fingerprint(data)
        if fingerprint == model.fingerprint and "edges" not in asked:
            return _take_own(model, read_nodes(data, request, edges=model.classes.graph_), request)
        has_places = str(kept.edges).split(":")[0] == "near"
        if kept.edges is not None and not has_places and settings.get("edges") is None:
            raise InvalidParameter(
                f"The model was fitted to the edges of other rows ({kept.edges}). Name those of these rows: "
                "edges=FILE, --edges FILE."
            )
        nodes = read_nodes(data, request, model, settings.get("edges"))
        nodes = replace(nodes, X=nodes.X / model.scale.astype(nodes.X.dtype))
        return Nodes(nodes, request, model.classes.predict(nodes.X, nodes.graph), is_own=False)

    def check(self, model: GraphModel, batch: Nodes) -> Nodes:  # noqa: ARG002
        """Leave out events that the classes explain; what is wrong as data was found in reading."""
        return replace(batch, data=drop_visits(batch.data, batch.labels))

    def score(self, model: GraphModel, batch: Nodes) -> Floats:
        """Score the nodes that are there by their distance from the class that they are in."""
        if batch.is_own:
            return model.ordinary()
        rows, _ = model.classes.checked(batch.data.X, batch.data.graph)
        if model.law is not None:
            return model.measure(rows, batch.data.graph, batch.labels)[batch.present].sum(axis=1)
        return np.asarray(model.classes.scores_.own(rows, batch.labels, is_training=False)[batch.present])

    def explain(self, model: GraphModel, batch: Nodes, scores: Floats) -> Result:
        """Tell in which columns the oddest nodes are odd, and whether by their values or by their place."""
        stage("explaining nodes")
        ordinary = scores if batch.is_own else model.ordinary()
        calibration = Calibration.learn(ordinary, is_clean=model.is_clean)
        request = batch.request
        added = add_surprise(scores, calibration, batch.data.found.added[batch.present], request.fdr)
        ranking = rank_rows(scores, calibration, ordinary, request, added)
        told = _explain_nodes(model, batch, batch.present[ranking.positions])
        run = _make_result(model, batch, ranking, told)
        everyone = np.full(len(batch.labels), np.nan)
        everyone[batch.present] = scores
        plane = choose_plane(batch.data, int(run.explanation.extras["row"][0]))
        shown = plane.nodes[batch.labels[plane.nodes] >= 0]
        # Every node that is drawn is explained; how its neighbours pull at it is not drawn.
        drawn = _explain_nodes(model, batch, shown, is_drawn=True)
        picture = make_picture(batch.data, batch.labels, everyone, plane, told=drawn, threshold=run.line)
        kept = as_arrays(picture)
        return replace(run, arrays=kept.arrays, own=kept.facts)


def learn(nodes: NodeData, request: GraphRequest, *, clean: bool = False) -> GraphModel:
    """Learn the latent classes, and what is usual in each."""
    stage("fitting latent classes")
    classes, scale = fit_latent_classes(nodes, request)
    labels = classes.labels_
    law = learn_law(classes.training_X_, classes.graph_, classes)
    return GraphModel(
        source=nodes.source,
        fingerprint=nodes.fingerprint,
        request=request,
        code=nodes.code,
        scale=scale,
        classes=classes,
        usual=_describe_typical(nodes, np.flatnonzero(labels >= 0)),
        usual_in_class=tuple(
            _describe_typical(nodes, np.flatnonzero(labels == k)) for k in range(classes.n_classes)
        ),
        is_clean=clean,
        versions=versions(),
        law=law,
    )


def _take_own(model: GraphModel, nodes: NodeData, request: GraphRequest) -> Nodes:
    """The nodes that a model was fitted to, each in the class that it was put into."""
    scaled = replace(nodes, X=nodes.X / model.scale.astype(nodes.X.dtype))
    return Nodes(scaled, request, model.classes.labels_, is_own=True)


def _explain_nodes(
    model: GraphModel, batch: Nodes, chosen: Integers, *, is_drawn: bool = False
) -> Explanation:
    """Relevance of the columns of some nodes."""
    # What neighbours pull is told for every explained node, but costs a pass over all nodes.
    pulls = not is_drawn and len(batch.data.X) <= SUMMARY_ROWS
    explainer = LatentClassDTD(model.classes, neighbour_pull=pulls)
    if batch.is_own:
        found = explainer.explain(nodes=chosen)
    else:
        found = explainer.explain(batch.data.X, batch.data.graph, nodes=chosen)
    return found if model.law is None else _put_law(found, model, batch, chosen)


def _put_law(found: Explanation, model: GraphModel, batch: Nodes, chosen: Integers) -> Explanation:
    """Explain by what nodes are off their class and their neighbours, in place of their class alone."""
    values = model.measure(batch.data.X, batch.data.graph, batch.labels)[chosen]
    scores = values.sum(axis=1)
    # What would be there in any class is the node's own; the rest is there because of its place.
    intrinsic = np.minimum(found.extras["intrinsic"], scores)
    share = np.divide(scores - intrinsic, scores, out=np.zeros(len(scores)), where=scores > 0)
    parts = {"intrinsic": intrinsic, "context": scores - intrinsic, "context_share": share}
    explains = "squared distance from what its class and its neighbours let expect, in spreads"
    return replace(
        found,
        values=values,
        scores=scores,
        extras=found.extras | parts,
        params={**found.params, "explains": explains},
    )


def _make_result(model: GraphModel, batch: Nodes, ranking: Ranking, told: Explanation) -> Result:
    nodes = batch.data
    chosen = batch.present[ranking.positions]
    by_row = nodes.found.by_row(chosen)
    raised = (ranking.scores - ranking.model_scores)[ranking.positions]
    explanation = add_findings(_sum_over_codes(told, nodes), raised, by_row)
    reasons = find_reasons(explanation, model, nodes, chosen)
    plain = [i for i in range(len(chosen)) if not by_row[i]]
    for i in plain:
        reasons[i] = verify_reasons(reasons[i], explanation[i], ranking.threshold)
    for i, node in enumerate(chosen):
        if by_row[i]:
            cells = nodes.written.iloc[int(node)]
            share = _share_of(explanation[i], by_row[i], float(raised[i]))
            reasons[i] = make_finding_reasons(by_row[i], cells, {}, share)
    anomalies = _make_anomalies(nodes, chosen, ranking, reasons)
    return Result(
        kind="graph",
        source=nodes.source,
        settings=_list_settings(model, batch.request, ranking.alarms.rule),
        done=_tell_done(batch, model, explanation, ranking),
        notices=[*nodes.said, *_collect_notices(model, list(nodes.frame.columns), nodes.owner)],
        columns=list(nodes.frame.columns),
        scores=ranking.scores,
        rows=nodes.rows[batch.present],
        threshold=ranking.threshold,
        anomalies=anomalies,
        explanation=explanation,
        usual=model.usual,
        column_shares=average_shares(explanation),
        groups=group_anomalies(anomalies),
        evidence=Evidence(str(explanation.params["explains"]), 0.0, {}, {}, []),
        detection=None,
        versions=versions(),
        fingerprint=nodes.fingerprint,
        created=clock.stamp(),
        findings=tell_findings(nodes.found, nodes.rows, anomalies, model.usual),
        alarms=AlarmRule(ranking.alarms.rule, ranking.n_above, ranking.alarms.expected_false),
    )


def add_surprise(scores: Floats, calibration: Calibration, added: Floats, fdr: float | None) -> Floats:
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


def _make_anomalies(
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
    share = float(compute_shares(explanation)[0, named].sum())
    return min(max(share, raised / float(explanation.scores[0])), 1.0)


def _sum_over_codes(explanation: Explanation, nodes: NodeData) -> Explanation:
    """Sum relevance over what each column was encoded as, and give the rows as the user had them."""
    columns = list(nodes.frame.columns)
    extras = dict(explanation.extras)
    extras["feature_contrast"] = sum_by_owner(extras["feature_contrast"], nodes)
    return replace(
        explanation,
        values=sum_by_owner(explanation.values, nodes),
        feature_names=columns,
        data=nodes.frame.iloc[np.asarray(extras["row"])],
        extras=type(explanation.extras)(extras),
    )


def _describe_typical(nodes: NodeData, members: Integers) -> dict[str, Typical]:
    """What is usual in each column, among some of the nodes."""
    some = nodes.frame.iloc[members[spread_evenly(len(members), SUMMARY_ROWS)]]
    return {
        name: make_typical(name, describe_column(some[name], find_kind_of_cells(some[name])))
        for name in some.columns
    }


def _list_settings(model: GraphModel, request: GraphRequest, rule: str) -> dict[str, Any]:
    asked = asdict(request)
    seed = asked.pop("random_state")
    classes = model.classes
    used = {
        "detector": "LCCAD",
        "method": "LatentClassDTD",
        "n_classes": classes.n_classes,
        "theta": float(classes.theta_),
    }
    return {**asked, **used, "gap": float(classes.gap_), "threshold_rule": rule, "seed": seed}


def _tell_done(batch: Nodes, model: GraphModel, explanation: Explanation, ranking: Ranking) -> Notice:
    """What was done: how many nodes fall into which classes, and how much of the scores is context."""
    sizes = np.bincount(batch.labels[batch.present], minlength=model.classes.n_classes)
    share = float(np.mean(explanation.extras["context_share"])) if len(explanation) else 0.0
    facts = {
        "what": batch.data.kind,
        "source": Path(batch.data.source).name,
        "sizes": sizes.tolist(),
        "n_alarms": ranking.n_above,
        "rule": ranking.alarms.rule,
        "n_explained": len(explanation),
        "context_share": share,
    }
    return Notice("nodes_in_classes", facts)


def _collect_notices(model: GraphModel, columns: Sequence[str], owner: Integers) -> list[Notice]:
    if model.law is not None:
        asked = {int(owner[j]) for j in model.law.list_columns()}
        return [Notice("beside_neighbours", {"columns": [columns[place] for place in sorted(asked)]})]
    return [] if model.classes.n_classes > 1 else [Notice("no_shared_classes")]
