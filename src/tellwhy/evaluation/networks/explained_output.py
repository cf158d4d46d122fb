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

# Two scores count as the same if they differ by less than this share of the largest one. An explanation may
# have been made in half precision, which has three digits.
_SAME = 0.02


@dataclass(frozen=True)
class Scores:
    """Explained inputs X (n, *shape) and their score.

    Of a network, `outputs` holds the number of the output that was explained for each input.
    """

    score: Any  # a ScoreFunction; that of a network takes the outputs as a further argument
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
    X = _explained_inputs(explanation)
    score = as_score(model)
    if not isinstance(score, NetworkOutput):
        if target is not None:
            raise InvalidParameter(
                f"target chooses an output of a network; {score.describes} has one. Leave it out."
            )
        return Scores(score, X)
    if score is not model:  # a bare network: which of its outputs is left to the target, or to the record
        chosen = explanation.extras.get("output", "max") if target is None else target
        score = NetworkOutput(model, chosen, batch_size=batch_size, device=device)
    fixed = score.fixed(X)
    found = Scores(score, X, fixed[0] if fixed else None)
    if target is None:
        _check_same(explanation, found)
    return found


def _explained_inputs(explanation: Explanation) -> Floats:
    """Return the inputs (n, *shape) that the values belong to, or say what is missing."""
    if explanation.data is None:
        raise InvalidInput(
            "The explained inputs are needed, and this explanation has none (its data is None)."
        )
    X = array_rows(explanation.data)
    if X.shape != explanation.values.shape:
        raise InvalidInput(
            f"The explanation has values of shape {explanation.values.shape} for data of shape {X.shape}; "
            "one value per cell of the data is needed."
        )
    if not np.isfinite(explanation.values).all():
        row = int(np.argwhere(~np.isfinite(explanation.values))[0][0])
        raise InvalidInput(f"The explanation has a value that is not finite in row {row}: it gives no order.")
    return X


def _check_same(explanation: Explanation, found: Scores) -> None:
    """Refuse to judge an explanation of one output by another one."""
    scores = found.value(found.X, np.arange(len(found.X)))
    apart = np.abs(scores - explanation.scores)
    largest = np.abs(explanation.scores).max(initial=0.0)
    if (apart > _SAME * largest).any():
        row = int(np.argmax(apart))
        raise InvalidInput(
            f"The explanation is of {explanation.params.get('explains', 'a score')}, "
            f"{explanation.scores[row]:.4g} in row {row}, but {found.score.describes} is {scores[row]:.4g} "
            "there. Pass the model that was explained, and target=… as it was explained."
        )
