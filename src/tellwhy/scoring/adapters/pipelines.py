"""Scores of pipelines, told in the raw columns that go into them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats, Integers, ScoreFunction
from tellwhy.core.tables import as_floats
from tellwhy.scoring.adapters.column_owners import is_passthrough, owners_of_chain
from tellwhy.scoring.model_rows import ensure_fitted, fitted_names, fitted_width, raw_rows
from tellwhy.scoring.scores.encoded import EncodedScore
from tellwhy.scoring.scores.function_score import FunctionScore, private_rows


@dataclass(frozen=True)
class Encoding:
    """The transforms of a fitted pipeline as one function from raw rows to the numbers its last step sees.

    `read` makes numbers of what the transforms give, where the last step takes more than finite numbers:
    empty cells, categories.
    """

    transforms: tuple[Any, ...]
    label: str
    read: Callable[[Any], Floats] | None = None

    @property
    def n_columns(self) -> int | None:
        """How many raw columns go in, where the first transform recorded it."""
        return fitted_width(self.transforms[0])

    @property
    def names(self) -> list[str] | None:
        """Names of the raw columns, where the first transform saw any."""
        return fitted_names(self.transforms[0])

    def __call__(self, X: Any) -> Floats:
        """Transform raw rows to a float64 array, finite unless the last step takes empty cells."""
        rows = self.transformed(X)
        if self.read is None:
            dense = rows.toarray() if issparse(rows) else rows
            return as_floats(np.asarray(dense), what=f"X after {self.label}")
        try:
            return self.read(rows)
        except InvalidInput as error:
            raise InvalidInput(f"After {self.label}: {error}") from error

    def transformed(self, X: Any) -> Any:
        """Return what the transforms make of raw rows: what the last step gets."""
        # Vectorisers of text, say, record no number of columns: they get their input as it is.
        rows = X if self.n_columns is None else raw_rows(X, self.n_columns, self.names)
        rows = private_rows(rows)  # transforms may write into what they are given (`copy=False`)
        try:
            for transform in self.transforms:
                rows = transform.transform(rows)
        except ValueError as error:
            raise InvalidInput(f"{self.label} could not transform X: {error}") from error
        return rows

    @property
    def can_undo(self) -> bool:
        """Whether every transform has an inverse."""
        return all(hasattr(transform, "inverse_transform") for transform in self.transforms)

    def undo(self, Z: Floats) -> Any:
        """Return raw rows that are transformed to, or nearest to, the given numbers."""
        rows: Any = private_rows(Z)
        for transform in reversed(self.transforms):
            rows = transform.inverse_transform(rows)
        return rows

    def owner(self, n_made: int | None) -> Integers | None:
        """Raw column that each of the `n_made` columns of the result was made from; None if mixed."""
        return None if self.n_columns is None else owners_of_chain(self.transforms, self.n_columns, n_made)


@dataclass(frozen=True)
class _Composed:
    """second(first(X)), as an object with fields: unlike a lambda it can be sent to other processes."""

    first: Callable[[Any], Any]
    second: Callable[[Any], Floats]

    def __call__(self, X: Any) -> Floats:
        return self.second(self.first(X))


def pipeline(model: Any) -> ScoreFunction:
    """Return the score of the last step as a function of the columns that enter the first."""
    from tellwhy.scoring.as_score import as_score

    return encoded_by(model, as_score(model.steps[-1][1]))


def encoding_of(model: Any, read: Callable[[Any], Floats] | None = None) -> Encoding | None:
    """Return the transforms of a pipeline as one function; None where it has none."""
    transforms = tuple(step for _, step in model.steps[:-1] if not _is_skipped(step))
    label = f"{type(model).__name__}({', '.join(type(step).__name__ for step in transforms)})"
    return Encoding(transforms, label, read) if transforms else None


def flat_steps(model: Any) -> list[tuple[str, Any]]:
    """Return the steps of a pipeline; where the last of them is a pipeline, its steps in its place.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler, StandardScaler
    >>> inside = make_pipeline(MinMaxScaler(), StandardScaler())
    >>> [name for name, _ in flat_steps(make_pipeline(StandardScaler(), inside))]
    ['standardscaler', 'minmaxscaler', 'standardscaler']
    """
    *first, last = model.steps
    return [*first, *flat_steps(last[1])] if hasattr(last[1], "steps") else [*first, last]


def encoded_by(model: Any, inner: ScoreFunction, encode: Encoding | None = None) -> ScoreFunction:
    """Return a score of a pipeline's last step as a function of the columns that enter the first."""
    encode = encode or encoding_of(model)
    if encode is None:
        return inner
    describes = f"{inner.describes}, after {encode.label}"
    if encode.n_columns is None:  # without columns there is nothing to tell attributions in
        return FunctionScore(_Composed(encode, inner.value), describes=describes, threshold=inner.threshold)
    return _encoded(inner, encode, encode.n_columns, describes)


def _is_skipped(step: Any) -> bool:
    """Whether scoring passes over a step: 'passthrough', or a resampler, which acts on training rows only."""
    return is_passthrough(step) or (hasattr(step, "fit_resample") and not hasattr(step, "transform"))


def _encoded(inner: ScoreFunction, encode: Encoding, n_columns: int, describes: str) -> EncodedScore:
    """Return one encoded score, also where the last step was a pipeline itself."""
    function: Callable[[Any], Floats] = encode
    decode: Callable[[Floats], Any] | None = encode.undo if encode.can_undo else None
    owner = encode.owner(inner.feature_shape[0] if inner.feature_shape else None)
    if isinstance(inner, EncodedScore):
        # Two encodings in a row become one: everything that reads a score knows one level only.
        function = _Composed(encode, inner.encode)
        decode = None if decode is None or inner.decode is None else _Composed(inner.decode, decode)
        owner = None if owner is None or inner.owner is None else owner[inner.owner]
        inner = inner.inner
    return EncodedScore(
        inner=inner,
        encode=function,
        owner=owner,
        n_columns=n_columns,
        feature_names=encode.names,
        describes=describes,
        decode=decode,
    )


def best_of_search(model: Any) -> ScoreFunction:
    """Return the score of the estimator that a search settled on."""
    from tellwhy.scoring.as_score import as_score

    ensure_fitted(model, ["best_estimator_"])
    return as_score(model.best_estimator_)


def frozen(model: Any) -> ScoreFunction:
    """Return the score of the estimator inside a `FrozenEstimator`."""
    from tellwhy.scoring.as_score import as_score

    return as_score(model.estimator)
