"""The ledger: where the relevance that did not reach the input was absorbed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from tellwhy.core.errors import InvalidInput
from tellwhy.explainers.propagation.batches import batches
from tellwhy.explainers.propagation.engine.passes import run_backward, run_forward
from tellwhy.explainers.propagation.operations.operation import Operation
from tellwhy.scoring.scores.network_passes import untouched
from tellwhy.scoring.scores.network_targets import check_target, of_rows, pick_scores

if TYPE_CHECKING:
    import pandas as pd

    from tellwhy.explainers.propagation.base import NetworkExplainer


def ledger(explainer: NetworkExplainer, X: Any) -> pd.DataFrame:
    """One line per operation: the relevance that arrived there, was handed on, and was absorbed."""
    import pandas as pd

    if explainer.kind != "attribution":
        raise InvalidInput(
            f"{type(explainer).__name__} has no ledger: its values are not shares of the output."
        )
    lines = [
        (o.index, o.path, o.name, str(o.rule or o.kind), o.arrived, o.handed_on, o.arrived - o.handed_on)
        for o in _counted(explainer, X)
    ]
    columns = ["index", "path", "operation", "rule", "arrived", "handed_on", "absorbed"]
    return pd.DataFrame(lines, columns=columns)


def _counted(explainer: NetworkExplainer, X: Any) -> list[Operation]:
    """Operations of the first batch, with what arrived and was handed on in all batches."""
    model, rows = explainer.prepare(X)
    target = check_target(explainer.target, len(rows))
    (way,) = explainer.passes()  # attributions have one way down
    total: list[Operation] = []
    with untouched(rows.tensors[0].device), torch.enable_grad():
        for batch, part in batches(rows, explainer.batch_size, f"the ledger of {type(explainer).__name__}"):
            forward = run_forward(model, batch, [way.method], ledger=True)
            pick = partial(pick_scores, target=of_rows(target, part))
            run_backward(forward, way.method, pick, way.seed)
            # A layer that was merged with a batch norm has handed its relevance to that one's line.
            counted = [operation for operation in forward.capture.operations if not operation.merged]
            if not total:
                total = counted
                continue
            for before, now in zip(total, counted, strict=True):
                before.arrived += now.arrived
                before.handed_on += now.handed_on
    return total
