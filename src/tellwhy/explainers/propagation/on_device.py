"""Explanations that stay on the device they were computed on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tellwhy.core.errors import InvalidInput

if TYPE_CHECKING:
    from tellwhy.core.explanation import Explanation
    from tellwhy.explainers.propagation.base import NetworkExplainer
    from tellwhy.explainers.propagation.batches import Explained


@dataclass(frozen=True, eq=False)
class TensorExplanation:
    """Values of one input as a tensor, in the network's own type and on its device.

    `explain(x, output="torch")` gives one; `numpy()` makes the `Explanation` of it that all views read.

    Attributes
    ----------
    values
        Shaped like the input.
    scores
        The explained number of each row.
    outputs
        Which output of the network that number is.
    base_values
        What the other inputs of the network got; zeros where there is one input.
    kind, method
        As in `Explanation`.
    """

    values: Tensor
    scores: Tensor
    outputs: Tensor
    base_values: Tensor
    kind: str
    method: str
    _made_by: Any = field(repr=False, default=None)

    @property
    def residual(self) -> Tensor:
        """What was not attributed to any input."""
        if self.kind != "attribution":
            raise InvalidInput(f"{self.method} has no residual: its values are not shares of the output.")
        return self.scores - self.base_values - self.values.flatten(1).sum(dim=1)

    def numpy(self) -> Explanation:
        """Return the same in the main memory, in double precision."""
        explainer = self._made_by[0]
        here = [t.detach().double().cpu().numpy() for t in (self.values, self.scores, self.base_values)]
        given = {"others": here[2], "what": self._made_by[2]}
        made: Explanation = explainer.assemble(self._made_by[1], here[0], here[1], **given)
        return made


def on_device(
    explainer: NetworkExplainer, data: Any, values: list[Tensor], k: int, *, result: Any, what: Explained
) -> TensorExplanation:
    """Explanation of the input of number k; scores are the sum over all inputs."""
    others = result.scores.new_zeros(result.scores.shape)
    if explainer.kind == "attribution":
        for number, part in enumerate(values):
            others = others if number == k else others + part.flatten(1).sum(dim=1)
    method = type(explainer).__name__
    made_by = (explainer, data, what)
    return TensorExplanation(
        values[k], result.scores, result.outputs, others, explainer.kind, method, made_by
    )
