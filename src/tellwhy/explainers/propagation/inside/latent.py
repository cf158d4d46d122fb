"""Latent relevance: what arrives at the outputs of modules and operations inside the network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tellwhy.core.errors import InvalidInput
from tellwhy.explainers.propagation.batches import batches
from tellwhy.explainers.propagation.engine.passes import Forward, run_backward, run_forward
from tellwhy.scoring.scores.network_passes import untouched
from tellwhy.scoring.scores.network_targets import check_target, of_rows, pick_scores

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.base import NetworkExplainer


def latent_relevance(explainer: NetworkExplainer, X: Any, at: Sequence[str]) -> dict[str, np.ndarray]:
    """Relevance of the outputs of modules, or of operations in them, shaped like those outputs."""
    wanted = [at] if isinstance(at, str) else list(at)
    model, rows = explainer.prepare(X)
    _check_names(model, wanted)
    target = check_target(explainer.target, len(rows))
    (way,) = explainer.passes()
    found: dict[str, list[np.ndarray]] = {name: [] for name in wanted}
    with untouched(rows.tensors[0].device), torch.enable_grad():
        label = f"latent relevance by {type(explainer).__name__}"
        for batch, part in batches(rows, explainer.batch_size, label):
            forward = run_forward(model, batch, [way.method], places=wanted)
            run_backward(forward, way.method, partial(pick_scores, target=of_rows(target, part)), way.seed)
            _check_places(forward, wanted)
            for name, tensors in forward.capture.places.found.items():
                found[name].append(_one_output(name, tensors))
    return {name: _joined(name, parts, len(rows)) for name, parts in found.items()}


def _check_names(model: torch.nn.Module, wanted: Sequence[str]) -> None:
    modules = dict(model.named_modules())
    for name in wanted:
        path = name.partition(":")[0]
        if path not in modules:
            near = [known for known in modules if known][:8]
            raise InvalidInput(f"The network has no module {path!r}; some of its modules are {near}.")


def _check_places(forward: Forward, wanted: Sequence[str]) -> None:
    """Refuse places that relevance goes past, or that the model does not come to."""
    for name in wanted:
        if any(o.merged for o in forward.capture.operations if o.path == name):
            raise InvalidInput(
                f"The layer {name!r} is one with the batch norm or bias after it, and has no relevance of "
                "its own: ask for the module after it."
            )
        if not forward.capture.places.found[name]:
            raise InvalidInput(
                f"Nothing that depends on the input comes out of {name!r}. `coverage(model, x)` lists paths "
                "and operations; an operation is asked for as 'path:operation'."
            )


def _one_output(name: str, tensors: list[Any]) -> np.ndarray:
    """Relevance of one call; the sum where a module is used several times and its outputs have one shape."""
    if len({tuple(t.shape) for t in tensors}) > 1:
        shapes = [tuple(t.shape) for t in tensors]
        raise InvalidInput(f"{name!r} has several outputs of different shapes: {shapes}.")
    return sum(t.double() for t in tensors).cpu().numpy()


def _joined(name: str, parts: list[np.ndarray], n_rows: int) -> np.ndarray:
    if len(parts) == 1:
        return parts[0]
    whole = np.concatenate(parts)
    if len(whole) != n_rows:
        raise InvalidInput(
            f"The output of {name!r} does not have rows first: explain all rows in one batch "
            f"(batch_size={n_rows})."
        )
    return whole
