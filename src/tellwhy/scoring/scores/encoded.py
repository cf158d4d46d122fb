"""A score of raw rows that a model sees through an encoding of their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tellwhy.core.score_function import Floats, Integers, ScoreFunction


@dataclass(frozen=True, kw_only=True)
class EncodedScore:
    """score(x) = inner(encode(x)).

    Parameters
    ----------
    inner
        The score in the model's own columns.
    encode
        Raw rows to the model's columns.
    owner
        The raw column that each model column was made from, when each was made from exactly one: attributions
        in model columns are then summed over their owner. None where columns are mixed (PCA inside a
        pipeline).
    n_columns
        Number of raw columns.
    feature_names
        Names of the raw columns.
    describes
        One sentence: which scalar this is, and after which encoding.
    decode
        The model's columns to raw rows, where the encoding can be undone.
    level
        Threshold, where it is another than that of the inner score.
    decodes_any
        Whether `decode` finds a sensible cell for any number, not only for those that were encoded: what to
        change in a row can then be looked for in the model's columns, without encoding every trial.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> from tellwhy.scoring import as_score
    >>> shirts = [["red", "S"], ["blue", "S"], ["blue", "M"]]
    >>> score = as_score(make_pipeline(OneHotEncoder(), KMeans(1)).fit(shirts))
    >>> score.owner
    array([0, 0, 1, 1])
    >>> score.describes
    'squared distance to the nearest centre of KMeans, after Pipeline(OneHotEncoder)'
    """

    inner: ScoreFunction
    encode: Callable[[Any], Floats]
    owner: Integers | None
    n_columns: int
    feature_names: Sequence[str] | None
    describes: str
    decode: Callable[[Floats], Any] | None = None
    level: float | None = None
    decodes_any: bool = False

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one raw row."""
        return (self.n_columns,)

    @property
    def threshold(self) -> float | None:
        """Threshold of the inner score, unless another was set."""
        # Encoding does not change the score of a row, so that the inner threshold holds as it is.
        return self.inner.threshold if self.level is None else self.level

    def value(self, X: Any) -> Floats:
        """Score of each raw row."""
        return self.inner.value(self.encode(X))
