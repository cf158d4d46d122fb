"""Relevance that was found behind a network, carried back through it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats
from tellwhy.explainers.propagation.batches import batches
from tellwhy.explainers.propagation.engine.passes import choose_rules, run_forward, values_of
from tellwhy.scoring.scores.network_passes import untouched

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.base import NetworkExplainer


def relevance_from_outputs(explainer: NetworkExplainer, X: Any, relevance: Floats) -> Floats:
    """Relevance of the inputs, from that of all outputs, shaped like what the network gives.

    Relevance itself travels, never its quotient by the activation: an output that is 0 may be relevant
    because it should not be.
    """
    model, rows = explainer.prepare(X)
    (way,) = explainer.passes()
    method = replace(way.method, carries="relevance", multiply=False)
    found = []
    with untouched(rows.tensors[0].device), torch.enable_grad():
        for batch, part in batches(rows, explainer.batch_size, "relevance through the network"):
            forward = run_forward(model, batch, [method])
            choose_rules(forward.capture, method)
            given = torch.as_tensor(relevance[part]).to(forward.outputs)
            if given.numel() != forward.outputs.numel():
                raise InvalidInput(
                    f"relevance has rows of shape {tuple(given.shape[1:])}; the network gives "
                    f"{tuple(forward.outputs.shape[1:])}."
                )
            given = given.reshape(forward.outputs.shape)  # axes of length 1 may be left out
            leaves = [leaf for leaf, _ in forward.capture.leaves]
            handed = torch.autograd.grad(forward.outputs, leaves, given, allow_unused=True)
            found.append(values_of(forward, method, handed)[0].double().cpu().numpy())
    return np.concatenate(found)
