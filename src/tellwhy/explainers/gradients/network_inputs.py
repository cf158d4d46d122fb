"""Integrated gradients of networks with tokens or several inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.extras import Extras
from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.gradients.line_integrals import Integrated, Lines
from tellwhy.scoring.networks.inputs import NetworkRows, given_parts
from tellwhy.scoring.networks.moved_inputs import MovedInputs
from tellwhy.scoring.scores.network_targets import describe

if TYPE_CHECKING:
    from tellwhy.explainers.gradients.integrated_gradients import IntegratedGradients


def explain_inputs(explainer: IntegratedGradients, X: Any) -> Any:
    """Explain one output of a network by all its inputs at once: one explanation for each of them."""
    score: Any = explainer.score
    moved = MovedInputs(
        score.model, X, score.target, batch_size=explainer.network_batch, device=explainer.device
    )
    output = moved.fixed()
    found = _integrated(explainer, moved, output)
    parts = moved.split(found.values)
    sums = [part.reshape(len(part), -1).sum(axis=1) for part in parts]
    extras = {"n_gradients": found.n_gradients}
    if not callable(moved.target):
        extras["output"] = output
    settings = {name: getattr(explainer, name) for name in explainer._parameters}
    # Scores are the sum over all inputs: to each of them, what the others got belongs to the base.
    made = [
        Explanation(
            values=part,
            scores=found.scores,
            base_values=found.base + sum(sums) - own_sum,
            data=data,
            method=type(explainer).__name__,
            params={"explains": describe(moved.target, moved.softmax), **settings, **explainer.used()},
            extras=Extras(extras),
        )
        for part, own_sum, data in zip(parts, sums, given_parts(X), strict=True)
    ]
    return moved.rows.like_given(made)


def _integrated(explainer: IntegratedGradients, moved: MovedInputs, output: Integers) -> Integrated:
    together = -(-explainer.network_batch // explainer.n_steps)  # lines whose gradients fill a batch
    own = (output, np.arange(len(output)))
    score = explainer._batched(moved)
    return explainer.integrated(Lines(score, moved.flat, _reference(explainer, moved), own, together))


def _reference(explainer: IntegratedGradients, moved: MovedInputs) -> Floats:
    """Return where lines start, as a flat row: the mean of the background, a given row, or nothing."""
    reference = explainer.reference
    background = vars(explainer).get("inputs_")
    if reference is None:
        reference = "zero" if background is None else "mean"
    if isinstance(reference, str) and reference == "zero":
        return moved.empty()
    if isinstance(reference, str):
        if background is None:
            raise InvalidInput(
                "IntegratedGradients has no reference: call fit(X) with background rows before explain(X)."
            )
        return _numbers(moved, background).mean(axis=0)
    if not moved.rows.alone:
        raise InvalidInput(
            "reference is one row of one input, and the network has several. Pass background=<inputs like X> "
            "instead, whose mean is where lines start."
        )
    return _numbers(moved, np.asarray(reference)[None])[0]


def _numbers(moved: MovedInputs, given: Any) -> Floats:
    """Rows like X as flat rows, or an error that says how they differ."""
    rows = NetworkRows.of(given, moved.dtype).to(moved.device)
    shapes = [tuple(t.shape[1:]) for t in rows.tensors]
    wanted = [tuple(t.shape[1:]) for t in moved.rows.tensors]
    if shapes != wanted:
        raise InvalidInput(f"The background's inputs have rows of shape {shapes}; expected {wanted}, like X.")
    return moved.numbers(rows)
