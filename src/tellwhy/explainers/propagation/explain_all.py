"""Several explanations of the same rows from one pass through the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explainer import Explains
from tellwhy.explainers.propagation.base import NetworkExplainer
from tellwhy.explainers.propagation.batches import explain_together


def explain_all(explainers: Sequence[Explains] | Mapping[str, Explains], X: Any) -> Any:
    """Explain X by several explainers; those of the same model share its forward pass.

    Gradients and relevance methods of one model, device, batch size and treatment of batch norm go down one
    recorded pass, one after the other, so that memory does not grow with their number. Methods that look at
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
    for group in _groups(listed):
        together = [e for e in (listed[k] for k in group.members) if isinstance(e, NetworkExplainer)]
        explained = explain_together(together, X) if together else [listed[group.members[0]].explain(X)]
        found.update(zip(group.members, explained, strict=True))
    results = [found[k] for k in range(len(listed))]
    return dict(zip(explainers, results, strict=True)) if isinstance(explainers, Mapping) else results


@dataclass
class _Group:
    """Explainers that share a forward pass.

    `key` is what they have in common (model, device, batch size; None for one that stays alone), `choices`
    what they ask of the pass, and `members` their places in the list.
    """

    key: tuple[Any, ...] | None
    choices: frozenset[object]
    members: list[int]


def _groups(explainers: list[Any]) -> list[_Group]:
    """Explainers that can share a forward pass; gradients go with any treatment of batch norm."""
    groups: list[_Group] = []
    for k, explainer in enumerate(explainers):
        if not isinstance(explainer, NetworkExplainer) or not explainer.shares_forward:
            groups.append(_Group(None, frozenset(), [k]))
            continue
        key = (id(explainer.model), str(explainer.device), explainer.batch_size)
        choices = frozenset().union(*(way.method.forward_choices for way in explainer.passes()))
        for group in groups:
            # The pass can be run in one way only.
            if group.key == key and len(group.choices | choices) <= 1:
                group.choices |= choices
                group.members.append(k)
                break
        else:
            groups.append(_Group(key, choices, [k]))
    return groups
