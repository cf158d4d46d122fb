"""Yes and no, as people write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tellwhy.core.score_function import Floats

_PAIRS = (
    *(("yes", "no"), ("true", "false"), ("y", "n"), ("t", "f"), ("ja", "nein"), ("j", "n"), ("oui", "non")),
    *(("sí", "no"), ("si", "no"), ("on", "off"), ("wahr", "falsch"), ("vrai", "faux")),
)


@dataclass(frozen=True)
class WrittenBooleans:
    """The word that means yes, and the one that means no."""

    yes: str
    no: str

    @property
    def words(self) -> str:
        """The two for people."""
        return f"{self.yes} or {self.no}"

    def read(self, text: pa.Array) -> Floats:
        """Return 1 and 0, NaN for any other word."""
        lower = pc.utf8_lower(text)
        values = np.full(len(text), np.nan)
        for word, value in ((self.yes, 1.0), (self.no, 0.0)):
            values[np.asarray(pc.fill_null(pc.equal(lower, word), False))] = value
        return values


def find_booleans(cells: Sequence[str]) -> WrittenBooleans | None:
    """Return the two words that all cells consist of, or None; a third word makes a column a category.

    Examples
    --------
    >>> find_booleans(["Yes", "no", "NO"]).words, find_booleans(["yes", "no", "maybe"]) is None
    ('yes or no', True)
    """
    seen = {cell.lower() for cell in cells}
    return next((WrittenBooleans(*pair) for pair in _PAIRS if seen == set(pair)), None)
