"""Several explanations of the same rows from one pass; which operations a model has, and their rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Module

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explainer import Explains
from tellwhy.explainers.propagation.base import NetworkExplainer
from tellwhy.explainers.propagation.batches import explain_together
from tellwhy.explainers.propagation.engine.calls import Operation
from tellwhy.explainers.propagation.engine.passes import run_forward
from tellwhy.scoring.network_passes import untouched

if TYPE_CHECKING:
    import pandas as pd


def explain_all(explainers: Sequence[Explains] | Mapping[str, Explains], X: Any) -> Any:
    """Explain X by several explainers; those of the same model share its forward pass.

    Gradients of one model, device and batch size go down one pass, one after the other, so that memory does
    not grow with their number; so do relevance methods, of one treatment of batch norm. Methods that look at
    other rows than X (SmoothGrad, IntegratedGradients) run on their own.

    Parameters
    ----------
    explainers
        A list of explainers, or a dict of them by any names.
    X
        What each explainer's `explain` takes.

    Returns
    -------
    A list of explanations in the same order, or a dict by the same names.

    Examples
    --------
    >>> import torch
    >>> from tellwhy.explainers import LRP, Gradient, explain_all
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()
    >>> found = explain_all({"gradient": Gradient(model), "LRP": LRP(model)}, torch.ones(5, 3))
    >>> found["LRP"].method, found["gradient"].values.shape
    ('LRP', (5, 3))
    """
    listed = list(explainers.values()) if isinstance(explainers, Mapping) else list(explainers)
    for explainer in listed:
        if not isinstance(explainer, Explains):
            raise InvalidInput(f"explain_all takes explainers. Got {explainer!r}, which has no `explain`.")
        if isinstance(explainer, NetworkExplainer):
            explainer.check()
    found: dict[int, Any] = {}
    for places in _groups(listed):
        together = [e for e in (listed[k] for k in places) if isinstance(e, NetworkExplainer)]
        explained = explain_together(together, X) if together else [listed[places[0]].explain(X)]
        found.update(zip(places, explained, strict=True))
    results = [found[k] for k in range(len(listed))]
    return dict(zip(explainers, results, strict=True)) if isinstance(explainers, Mapping) else results


def _groups(explainers: list[Any]) -> list[list[int]]:
    """Places in the list of explainers that share a forward pass."""
    groups: dict[Any, list[int]] = {}
    for k, explainer in enumerate(explainers):
        key: Any = k
        if isinstance(explainer, NetworkExplainer) and explainer.goes_down_only:
            asked = explainer.passes()[0].method.forward_choices
            key = (id(explainer.model), str(explainer.device), explainer.rows_at_once, asked)
        groups.setdefault(key, []).append(k)
    return list(groups.values())


_WORDS = {
    "mixing": "shares in proportion (derivative)",
    "addition": "shares in proportion (derivative)",
    "pooling": "shares in proportion (derivative)",
    "normalisation": "standard deviation as a constant",
    "copying": "to the copied element",
    "rectifier": "passes on",
    "elementwise": "passes on: c·f(z)/z",
    "product": "the same share to each factor",
    "softmax": "by its derivative",
    "attention": "softmax by its derivative, halves to the factors of both products",
    "unknown": "unknown",
    "layer": "derivative",
    "own": "by a function of your own",
}


def coverage(model: Module, x: Any, *, explainer: NetworkExplainer | None = None) -> pd.DataFrame:
    """List every operation that the model does on x, its kind and its rule ("unknown" where there is none).

    Parameters
    ----------
    model
        A `torch.nn.Module` in evaluation mode.
    x
        Rows to run the model on; one is enough.
    explainer
        An explainer of the model whose rules are listed; by default `LRP(model)`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)).eval()
    >>> coverage(model, torch.zeros(1, 2))[["path", "operation", "kind"]]
      path operation         kind
    0    0    linear        layer
    1    1      tanh  elementwise
    2    2    linear        layer
    """
    import pandas as pd

    from tellwhy.explainers.propagation.lrp import LRP

    explainer = explainer or LRP(model)
    network, rows = explainer.prepare(x)
    # Operations without a rule are listed here, where explaining would stop at the first of them.
    with untouched(rows.tensors[0].device), torch.enable_grad():
        forward = run_forward(network, rows, [way.method for way in explainer.passes()], tolerant=True)
    lines = [(o.index, o.path, o.name, o.kind, _rule(o), o.shape) for o in forward.capture.operations]
    return pd.DataFrame(lines, columns=["index", "path", "operation", "kind", "rule", "shape"])


def _rule(operation: Operation) -> str:
    if operation.merged:
        return "merged with the batch norm after it"
    return _WORDS[operation.kind] if operation.rule is None else str(operation.rule)
