"""Several explanations of the same rows from one pass through the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import validate_parameters
from tellwhy.explainers.propagation.base import NetworkExplainer, explain_together


def explain_all(explainers: Sequence[Any] | Mapping[str, Any], x: Any) -> Any:
    """Explain x by several explainers; those of the same model share its forward pass.

    Gradients and relevance methods of one model, device, batch size and treatment of batch norm go down one
    recorded pass, one after the other, so that memory does not grow with their number. Methods that look at
    other rows than x (SmoothGrad, IntegratedGradients) run on their own.

    Parameters
    ----------
    explainers
        A list of explainers, or a dict of them by any names.
    x
        What each explainer's `explain` takes.

    Returns
    -------
    A list of explanations in the same order, or a dict by the same names.

    Examples
    --------
    >>> import torch
    >>> from tellwhy.explainers import LRP, Gradient, explain_all
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()
    >>> found = explain_all({"gradient": Gradient(model), "LRP": LRP(model, rule="z_plus")}, torch.ones(5, 3))
    >>> found["LRP"].method, found["gradient"].values.shape
    ('LRP', (5, 3))
    """
    listed = list(explainers.values()) if isinstance(explainers, Mapping) else list(explainers)
    for explainer in listed:
        if not hasattr(explainer, "explain"):
            raise InvalidInput(f"explain_all takes explainers. Got {explainer!r}, which has no `explain`.")
        if isinstance(explainer, NetworkExplainer):
            validate_parameters(explainer)
    found: dict[int, Any] = {}
    for group in _groups(listed):
        if isinstance(listed[group[0]], NetworkExplainer):
            found.update(zip(group, explain_together([listed[k] for k in group], x), strict=True))
        else:
            found[group[0]] = listed[group[0]].explain(x)
    results = [found[k] for k in range(len(listed))]
    return dict(zip(explainers, results, strict=True)) if isinstance(explainers, Mapping) else results


def _groups(explainers: list[Any]) -> list[list[int]]:
    """Places of the explainers that can share a forward pass; gradients go with any treatment of batch norm."""
    groups: list[tuple[tuple[Any, ...], set[str], list[int]]] = []
    for k, explainer in enumerate(explainers):
        if not isinstance(explainer, NetworkExplainer) or not explainer.shares_forward:
            groups.append(((), set(), [k]))
            continue
        key = (id(explainer.model), str(explainer.device), explainer.batch_size)
        wanted = {way.method.batch_norm for way in explainer.passes() if way.method.carries != "gradient"}
        for other, treatments, members in groups:
            if other == key and len(treatments | wanted) <= 1:
                treatments.update(wanted)
                members.append(k)
                break
        else:
            groups.append((key, wanted, [k]))
    return [members for _, _, members in groups]
