"""Which operations a model consists of, and which rule each one gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import Module

from tellwhy.explainers.propagation.base import NetworkExplainer
from tellwhy.explainers.propagation.engine.passes import run_forward
from tellwhy.explainers.propagation.lrp import LRP
from tellwhy.explainers.propagation.operations.operation import Operation
from tellwhy.scoring.scores.network_passes import untouched

if TYPE_CHECKING:
    import pandas as pd

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
