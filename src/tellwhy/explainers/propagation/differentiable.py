"""Explanations that can be differentiated, with respect to the input and to the network's parameters.

All that is done for a batch, up the network and down again, is written down as one graph of operators
(`engine.program`). The graph is a function of the rows and of the parameters like any other, and autograd
knows its derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import InvalidInput
from tellwhy.explainers.propagation.batches import batches, finish_on_device, share_forward
from tellwhy.explainers.propagation.engine.program import with_derivatives
from tellwhy.explainers.propagation.programs import key_of
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_passes import CheckedTarget, check_target, of_rows, untouched

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.base import NetworkExplainer


def explain_differentiably(explainer: NetworkExplainer, X: Any) -> Any:
    """Explain X; values and scores are tensors whose history goes back to X and to the parameters."""
    model, rows = explainer.prepare(X)
    _check(explainer, model)
    rows = _attached(rows, X)
    target = check_target(explainer.target, len(rows))
    parts = []
    label = f"explaining with {type(explainer).__name__}"
    with untouched(rows.tensors[0].device), torch.enable_grad():
        for batch, part in batches(rows, explainer.rows_at_once, label):
            parts.append(_written(explainer, model, batch, of_rows(target, part)).result(batch))
            if not all(bool(v.detach().isfinite().all()) for v in (*parts[-1].values, parts[-1].scores)):
                explainer.raise_not_finite(model, batch)
    return finish_on_device(explainer, X, rows, _joined(parts), target)


def _check(explainer: NetworkExplainer, model: Module) -> None:
    """Refuse what has no derivative, or one that would not reach the parameters."""
    name = type(explainer).__name__
    if not explainer.goes_down_only:
        raise InvalidInput(
            f"An explanation by {name} cannot be differentiated. Gradient, InputTimesGradient, LRP, "
            "DeepTaylor and ExcitationBackprop can be."
        )
    if any(way.method.own for way in explainer.passes()):
        raise InvalidInput(
            f"{name} with functions of your own (own=...) cannot be differentiated: leave them out, or write "
            "a Rule."
        )
    if not {id(p) for p in explainer.model.parameters()} <= {id(p) for p in model.parameters()}:
        raise InvalidInput(
            f"{name}(device={str(explainer.device)!r}) works on a copy of the model, whose parameters are "
            "other ones: move the model there yourself (model.to(...)) to differentiate the explanation."
        )


def _attached(rows: Inputs, X: Any) -> Inputs:
    """The inputs with the histories that they were given with."""
    given = [
        g.to(t.device) if isinstance(g, Tensor) and g.requires_grad else t
        for g, t in zip(rows.given(X), rows.tensors, strict=True)
    ]
    return replace(rows, tensors=tuple(given))


@dataclass(frozen=True)
class _Written:
    """All that is done for a batch as a graph; `like` says what its tensors are.

    `settings` are those of the explainer: they are known by which objects they are, which are kept here.
    """

    graph: Module
    like: Result
    settings: tuple[Any, ...]

    def result(self, rows: Inputs) -> Result:
        """What the graph gives for some rows."""
        found = list(self.graph(*rows.tensors))
        return replace(self.like, values=found[:-2], scores=found[-2], outputs=found[-1])


_known: WeakKeyDictionary[Module, dict[Any, _Written]] = WeakKeyDictionary()


def _written(explainer: NetworkExplainer, model: Module, rows: Inputs, target: CheckedTarget) -> _Written:
    """The graph of a batch, which is kept for others of its shape as long as the model lives."""
    key = type(explainer), key_of(explainer, model, rows, [target], len(rows))
    kept = _known.setdefault(model, {})
    if key in kept:
        return kept[key]
    told: list[Result] = []

    def explained(*tensors: Tensor) -> list[Tensor]:
        told.append(share_forward([explainer], model, replace(rows, tensors=tensors), [target])[0])
        return told[-1].tensors

    given = [t.detach() for t in rows.tensors]
    graph, serves_others = with_derivatives(explained, given)
    settings = tuple(value for value in vars(explainer).values() if value is not explainer.model)
    nothing = given[0][:0]
    made = _Written(graph, replace(told[-1], values=[], scores=nothing, outputs=nothing), settings)
    if serves_others and key[1] is not None:
        kept[key] = made
    return made


def _joined(parts: Sequence[Result]) -> Result:
    """Results of all batches as one."""
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.followed_by(part)
    return whole
