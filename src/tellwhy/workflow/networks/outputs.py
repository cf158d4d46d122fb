"""Outputs of a network for all inputs, the classes they stand for, and which of them is explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.params import nearest
from tellwhy.core.progress import stage
from tellwhy.core.score_function import Floats
from tellwhy.workflow.networks.network_run import ClassOutput

TOP = 5  # classes that are listed


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs of a network for all inputs, before a softmax at its end.

    Attributes
    ----------
    model
        The network, with one tensor of outputs.
    values
        Shape (inputs, classes).
    names
        Of the classes.
    words
        Which of several tensors it is, where the network gives several.
    """

    model: Any
    values: Floats
    names: Sequence[str]
    words: str

    @property
    def probabilities(self) -> Floats | None:
        """Softmax of the outputs; None of a single one."""
        if self.values.shape[1] == 1:
            return None
        powers = np.exp(self.values - self.values.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def target(self, asked: str | None) -> Any:
        """The output to explain: by its number, by its name, or the largest of each input."""
        if asked is None:
            return "max"
        if asked in self.names:
            return list(self.names).index(asked)
        if not asked.lstrip("-").isdigit():
            raise InvalidParameter(
                f"There is no class {asked!r}{nearest(asked, self.names)} Classes have numbers "
                f"from 0 to {len(self.names) - 1}, and the names of --labels."
            )
        if not 0 <= int(asked) < len(self.names):
            raise InvalidParameter(
                f"--target {asked} is out of range: the network has {len(self.names)} outputs, numbered "
                f"from 0 to {len(self.names) - 1}."
            )
        return int(asked)

    def top(self, row: int) -> list[ClassOutput]:
        """The likeliest classes of an input."""
        shares = self.probabilities
        order = np.argsort(-self.values[row], kind="stable")[:TOP]
        return [
            ClassOutput(
                self.names[j], float(self.values[row, j]), None if shares is None else float(shares[row, j])
            )
            for j in order
        ]


def _applied(model: Any, X: np.ndarray, size: int) -> Floats:
    """Outputs of a network that gives one tensor, before a softmax at its end, in two dimensions."""
    import torch

    from tellwhy.scoring.scores.network_passes import outputs_of

    with torch.no_grad():
        rows = torch.from_numpy(X)
        parts = [outputs_of(model, rows[i : i + size])[0] for i in range(0, len(X), size)]
    values = np.asarray(torch.cat(parts).double())
    return values[:, None] if values.ndim == 1 else values


def outputs_of_all(model: Any, X: np.ndarray, size: int, labels: Sequence[str]) -> Outputs:
    """Apply a network to all inputs, and name its classes."""
    from tellwhy.scoring.networks.outputs import read_network

    stage("applying the network")
    read = read_network(model, X[:1], None)
    values = _applied(read.model, X, size)
    if values.ndim != 2:
        raise InvalidInput(
            f"The network gives outputs of shape {values.shape[1:]} for each input; expected one number per "
            "class. Wrap it in a module that gives the numbers to explain."
        )
    if not np.isfinite(values).all():
        raise InvalidInput(
            "The network gives outputs that are not finite. Check its weights, --mean and --std."
        )
    k = values.shape[1]
    if labels and len(labels) != k:
        raise InvalidInput(f"There are {len(labels)} labels; the network has {k} outputs. Name each of them.")
    return Outputs(read.model, values, labels or [str(j) for j in range(k)], read.words)
