"""Why nodes are odd: beside what is usual in their class, and beside what their neighbours have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tellwhy.core.explanation import Explanation
from tellwhy.core.score import Integers
from tellwhy.kinds.beside_neighbours import find_middle_of_neighbours
from tellwhy.kinds.graph_input import NodeData
from tellwhy.results.result import Reason
from tellwhy.verdicts.reasons import list_reasons

if TYPE_CHECKING:
    from tellwhy.kinds.graph import GraphModel


def find_reasons(
    explanation: Explanation, model: GraphModel, nodes: NodeData, chosen: Integers
) -> list[list[Reason]]:
    """Reasons of each explained node, beside what is usual in its class and what its neighbours have."""
    found: list[list[Reason]] = [[] for _ in range(len(explanation))]
    classes = np.asarray(explanation.extras["class"])
    for k in np.unique(classes):
        usual = model.usual_in_class[k]
        places = np.flatnonzero(classes == k)
        for place, told in zip(places, list_reasons(explanation[places], usual), strict=True):
            found[place] = [_place_in_class(reason) for reason in told]
    if model.law is None:
        return found
    asked = {nodes.frame.columns[nodes.owner[j]] for j in model.law.list_columns()}
    for name in asked & {reason.feature for told in found for reason in told}:
        if find_kind_of_cells(nodes.frame[name]) == "number":
            beside = find_middle_of_neighbours(nodes.frame[name].to_numpy(dtype=np.float64), nodes.graph)
            found = [
                [_put_beside(reason, name, float(beside[node])) for reason in told]
                for told, node in zip(found, chosen, strict=True)
            ]
    return found


def _put_beside(reason: Reason, name: str, middle: float) -> Reason:
    if reason.feature != name or not np.isfinite(middle):
        return reason
    return replace(reason, facts={**reason.facts, "beside": float(middle)})


def verify_reasons(reasons: list[Reason], explanation: Explanation, line: float) -> list[Reason]:
    """Mark the reasons that hold: without them the node is below the line, with them alone it is above.

    The class of the node and its neighbours stay as they are; a column that has what these let expect adds
    nothing to the score.
    """
    values = explanation.values[0]
    order = np.argsort(-values, kind="stable")
    named = np.cumsum(values[order])
    score = float(explanation.scores[0])
    enough = np.flatnonzero((score - named <= line) & (named > line))
    if score <= line or not len(enough):
        return reasons
    cause = {explanation.names()[j] for j in order[: enough[0] + 1]}
    if not cause <= {reason.feature for reason in reasons}:
        return reasons
    return [replace(reason, holds=reason.feature in cause) for reason in reasons]


def _place_in_class(reason: Reason) -> Reason:
    return replace(reason, facts={**reason.facts, "in_class": True})


def find_kind_of_cells(series: pd.Series) -> str:
    """The kind of column that cells are: "boolean", "date", "number" or "category"."""
    from pandas.api import types

    if types.is_bool_dtype(series):
        return "boolean"
    if types.is_datetime64_any_dtype(series):
        return "date"
    return "number" if types.is_numeric_dtype(series) else "category"
