"""Further results of an explanation; some are computed when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tellwhy.core.score_function import Integers
from tellwhy.core.tables import Frame, take_rows


@dataclass(frozen=True)
class Deferred:
    """A result to be computed for some rows.

    Attributes
    ----------
    compute
        Takes indices of rows, gives an array or a frame with one entry for each.
    rows
        The rows that are asked for.
    """

    compute: Callable[[Integers], Any]
    rows: Integers

    def taken(self, index: Integers) -> Deferred:
        """Return the result for a part of the rows."""
        return replace(self, rows=self.rows[index])

    def __call__(self) -> Any:
        """Compute it."""
        return self.compute(self.rows)


class Extras(Mapping[str, Any]):
    """Results by name. A `Deferred` one is computed at the first access and then kept.

    Looking whether a name is there, listing names, slicing an explanation and `extras | {...}` compute
    nothing; going through `values()` or `items()` computes everything. Files and pickled copies hold what has
    been computed.

    Examples
    --------
    >>> extras = Extras({"note": "kept", "squares": Deferred(np.square, np.array([2, 3, 4]))})
    >>> "squares" in extras, sorted(extras.computed())
    (True, ['note'])
    >>> extras.taken(np.array([2, 0]))["squares"]
    array([16,  4])
    >>> sorted(extras.computed())
    ['note']
    """

    def __init__(self, given: Mapping[str, Any] | None = None):
        self._held: dict[str, Any] = dict(given._held if isinstance(given, Extras) else given or {})

    def __getitem__(self, name: str) -> Any:
        held = self._held[name]
        if isinstance(held, Deferred):
            held = self._held[name] = held()
        return held

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    def __or__(self, others: Mapping[str, Any]) -> Extras:
        return Extras({**self._held, **Extras(others)._held})

    def __reduce__(self) -> Any:
        # What is still to be computed holds functions, which cannot be copied to another process.
        return Extras, (self.computed(),)

    def __repr__(self) -> str:
        shown = {
            k: "computed when asked for" if isinstance(v, Deferred) else v for k, v in self._held.items()
        }
        return f"Extras({shown})"

    def held(self) -> dict[str, Any]:
        """Return all results as they are held: what is to be computed, as a `Deferred`."""
        return dict(self._held)

    def computed(self) -> dict[str, Any]:
        """Return the results that need no more computing."""
        return {name: held for name, held in self._held.items() if not isinstance(held, Deferred)}

    def only(self, *names: str) -> Extras:
        """Return some of the results, those of these names that there are."""
        return Extras({name: self._held[name] for name in names if name in self._held})

    def taken(self, index: Integers) -> Extras:
        """Return the results of some rows; what does not belong to single rows is kept as it is."""
        return Extras({name: _taken(held, index) for name, held in self._held.items()})


def is_per_row(held: object) -> bool:
    """Whether a result has one entry per row: an array or a frame."""
    return isinstance(held, (np.ndarray, Frame))


def _taken(held: Any, index: Integers) -> Any:
    if isinstance(held, Deferred):
        return held.taken(index)
    return take_rows(held, index) if is_per_row(held) else held
