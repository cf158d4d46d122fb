"""Where relevance went: the ledger of what operations absorbed, and what arrived inside the network.

Relevance that was found behind a network is carried back through it, too; `coverage` lists operations and
their rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import Module

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats
from tellwhy.explainers.propagation.batches import forwards
from tellwhy.explainers.propagation.engine.calls import Operation
from tellwhy.explainers.propagation.engine.passes import (
    Forward,
    choose_rules,
    run_backward,
    run_forward,
    values_of,
)
from tellwhy.scoring.network_passes import untouched

if TYPE_CHECKING:
    import pandas as pd

    from tellwhy.explainers.propagation.base import NetworkExplainer, Pass


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
    way = _only_way(explainer)
    total: list[Operation] = []
    for forward, pick, _ in forwards(explainer, X, way, f"the ledger of {_name(explainer)}", ledger=True):
        run_backward(forward, way.method, pick, way.seed)
        # A layer that was merged with a batch norm has handed its relevance to that one's line.
        counted = [operation for operation in forward.capture.operations if not operation.merged]
        for before, now in zip(total, counted, strict=False):
            before.arrived += now.arrived
            before.handed_on += now.handed_on
        total = total or counted
    return total


def _name(explainer: NetworkExplainer) -> str:
    return type(explainer).__name__


def _only_way(explainer: NetworkExplainer) -> Pass:
    """The one way down of an attribution, on which relevance can be told from what travels."""
    (way,) = explainer.passes()
    is_known = way.method.carries == "relevance" or way.method.multiply
    if not is_known:
        raise InvalidInput(
            f"{type(explainer).__name__} hands down shares of its own, of which nothing tells the relevance "
            "inside the network. Use LRP."
        )
    return way


def latent_relevance(explainer: NetworkExplainer, X: Any, at: Sequence[str]) -> dict[str, np.ndarray]:
    """Relevance of the outputs of modules, or of operations in them, shaped like those outputs."""
    _check_names(explainer.model, at)
    way = _only_way(explainer)
    found: dict[str, list[np.ndarray]] = {name: [] for name in at}
    label = f"latent relevance by {_name(explainer)}"
    n_rows = 0
    for forward, pick, _ in forwards(explainer, X, way, label, places=at):
        n_rows += len(forward.inputs)
        run_backward(forward, way.method, pick, way.seed)
        _check_places(forward, at)
        for name, tensors in forward.capture.places.found.items():
            found[name].append(_one_output(name, tensors))
    return {name: _joined(name, parts, n_rows) for name, parts in found.items()}


def _check_names(model: Module, wanted: Sequence[str]) -> None:
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


def relevance_from_outputs(explainer: NetworkExplainer, X: Any, relevance: Floats) -> Floats:
    """Relevance of the inputs, from that of all outputs, shaped like what the network gives.

    Relevance itself travels, never its quotient by the activation: an output that is 0 may be relevant
    because it should not be.
    """
    (way,) = explainer.passes()
    method = replace(way.method, carries="relevance", multiply=False)
    found = []
    label = "relevance through the network"
    for forward, _, part in forwards(explainer, X, replace(way, method=method), label):
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
