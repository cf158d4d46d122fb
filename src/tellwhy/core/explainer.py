"""What every explainer is, whether it explains rows, networks, labels, nodes or patches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from numpy.typing import ArrayLike

from tellwhy.core.arrays import Capability
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import Rules


@runtime_checkable
class Explains(Protocol, metaclass=Capability):
    """The least that `Ensemble` and `compare` ask of an explainer."""

    def explain(self, X: ArrayLike, /) -> Explanation:
        """Explain each row of X."""
        ...


@runtime_checkable
class Explainer(Explains, Protocol, metaclass=Capability):
    """An explainer of the catalogue (`tellwhy.methods()`).

    It is made from a model and named parameters, which it stores and does not change; `explain(X)` gives an
    `Explanation`. One that learns from ordinary rows first is a `LearnsFromRows` too.
    """

    kind: ClassVar[str]
    """One of `tellwhy.core.explanation.KINDS`: what its values are."""

    _parameters: ClassVar[Mapping[str, Rules]]
    """What each parameter of the constructor, except the model, may be."""

    @property
    def model(self) -> Any:
        """What is explained."""
        ...


@runtime_checkable
class LearnsFromRows(Explains, Protocol, metaclass=Capability):
    """An explainer that is given ordinary rows before it explains."""

    def fit(self, X: ArrayLike, /) -> Self:
        """Learn from ordinary rows, and return the explainer."""
        ...


@runtime_checkable
class RemembersRows(Protocol, metaclass=Capability):
    """An explainer that can use ordinary rows, without needing them, to say what would be normal."""

    def remember(self, X: ArrayLike, /) -> Self:
        """Keep some ordinary rows, and return the explainer."""
        ...
