"""The score that an explanation was made for, ready to be evaluated at changed inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.core.score_function import Floats, Integers
from tellwhy.scoring import NetworkOutput, as_score
from tellwhy.scoring.scores.flat_score import array_rows

_SAME = 0.02  # of the largest score: half precision has three digits


@dataclass(frozen=True)
class Scores:
    """Explained inputs X (n, *shape) and their score; `outputs` is the output of a network that each one has."""

    score: Any
    X: Floats
    outputs: Integers | None = None

    def value(self, inputs: Floats, row: Integers) -> Floats:
        """Score of changed versions of some rows."""
        further = () if self.outputs is None else (self.outputs[row],)
        return np.asarray(self.score.value(inputs, *further))


def explained_scores(
    explanation: Explanation, model: Any, target: Any, *, batch_size: int, device: Any = None
) -> Scores:
    """Return the score that was explained; of a network, the output that was chosen for each row."""
    if explanation.data is None:
        raise InvalidInput(
            "The explained inputs are needed, and this explanation has none (its data is None)."
        )
    X = array_rows(explanation.data)
    if X.shape != explanation.values.shape:
        raise InvalidInput(
            f"The explanation has values of shape {explanation.values.shape} for data of shape {X.shape}; one value "
            "per cell of the data is needed."
        )
    if not np.isfinite(explanation.values).all():
        row = int(np.argwhere(~np.isfinite(explanation.values))[0][0])
        raise InvalidInput(f"The explanation has a value that is not finite in row {row}: it gives no order.")
    score = as_score(model)
    if not isinstance(score, NetworkOutput):
        if target is not None:
            raise InvalidParameter(
                f"target chooses an output of a network; {score.describes} has one. Leave it out."
            )
        return Scores(score, X)
    if score is not model:
        recorded = explanation.extras.get("output") if target is None else None
        chosen = target if target is not None else "max" if recorded is None else recorded
        score = NetworkOutput(model, chosen, batch_size=batch_size, device=device)
    fixed = score.fixed(X)
    found = Scores(score, X, fixed[0] if fixed else None)
    if target is None:
        _check_same(explanation, found)
    return found


def _check_same(explanation: Explanation, found: Scores) -> None:
    """Refuse to judge an explanation of one output by another one."""
    scores = found.value(found.X, np.arange(len(found.X)))
    apart = np.abs(scores - explanation.scores)
    largest = np.abs(explanation.scores).max(initial=0.0)
    if (apart > _SAME * largest).any():
        row = int(np.argmax(apart))
        raise InvalidInput(
            f"The explanation is of {explanation.params.get('explains', 'a score')}, {explanation.scores[row]:.4g} in "
            f"row {row}, but {found.score.describes} is {scores[row]:.4g} there. Pass the model that was explained, "
            "and target=… as it was explained."
        )
