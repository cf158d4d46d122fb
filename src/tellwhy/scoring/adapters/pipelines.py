"""Scores of pipelines, told in the raw columns that go into them.

A fitted transformer is asked, or tried out, from which input column each of its output columns was made.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from tellwhy.core.arrays import as_floats
from tellwhy.core.errors import InvalidInput
from tellwhy.core.score import Floats, Integers, ScoreFunction
from tellwhy.scoring.function_scores import EncodedScore, FunctionScore, make_private_rows
from tellwhy.scoring.model_rows import (
    ensure_fitted,
    look_up,
    read_fitted_names,
    read_fitted_width,
    read_raw_rows,
)


def trace_owners(step: Any, n_in: int, n_out: int | None = None) -> Integers | None:
    """Return the input column that each output column was made from; None where columns are mixed, or may be.

    Parameters
    ----------
    step
        A fitted transformer, or 'passthrough'.
    n_in
        How many columns go in.
    n_out
        How many come out, where known.

    Examples
    --------
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> trace_owners(OneHotEncoder().fit([["red", "S"], ["blue", "S"]]), n_in=2)
    array([0, 0, 1])
    """
    if is_passthrough(step):
        return np.arange(n_in)
    rule = look_up(RULES, step)
    owner = None if rule is None else rule(step, n_in)
    return _settled(owner, n_in, _count_made(step) if n_out is None and owner is None else n_out)


def trace_owners_of_chain(steps: Iterable[Any], n_in: int, n_out: int | None = None) -> Integers | None:
    """Return the input column that each column was made from by transformers in turn; None if mixed."""
    owner: Integers | None = np.arange(n_in)
    for step in steps:
        made_from = None if owner is None else trace_owners(step, len(owner))
        owner = None if owner is None or made_from is None else owner[made_from]
    return _settled(owner, n_in, n_out)


def _settled(owner: Integers | None, n_in: int, n_out: int | None) -> Integers | None:
    """Return owners that can be relied on: whatever is made of a single column belongs to it."""
    if owner is None and n_in == 1 and n_out is not None:
        return np.zeros(n_out, dtype=np.int64)
    if owner is None or n_out not in (None, len(owner)):
        return None  # also where a rule miscounts: another version of scikit-learn may do things differently
    return np.asarray(owner, dtype=np.int64)


def is_passthrough(step: Any) -> bool:
    """Whether a step of a pipeline leaves its input alone."""
    return step is None or (isinstance(step, str) and step == "passthrough")


def _count_made(step: Any) -> int | None:
    """How many columns a transformer makes, where it says so."""
    try:
        return len(step.get_feature_names_out())
    except (AttributeError, ValueError):
        return None


def _trace_one_to_one(_step: Any, n_in: int) -> Integers:
    return np.arange(n_in)


def _mixed(_step: Any, _n_in: int) -> None:
    return None


def _function(step: Any, n_in: int) -> Integers | None:
    """Only the user knows what a function does to the columns, and may say so by `feature_names_out`."""
    return np.arange(n_in) if step.func is None or step.feature_names_out == "one-to-one" else None


def _trace_selected(step: Any, _n_in: int) -> Integers:
    return np.flatnonzero(step.get_support())


def _trace_indicated(step: Any, _n_in: int) -> Integers:
    return np.asarray(step.features_)


def _add_indicator(step: Any, kept: Integers) -> Integers:
    """Owners of imputed columns and, behind them, of the columns that tell where values were missing."""
    indicator = getattr(step, "indicator_", None)
    return kept if indicator is None else np.concatenate([kept, indicator.features_])


def _trace_simple_imputer(step: Any, _n_in: int) -> Integers:
    """Columns without a single value are left out: their statistic is NaN."""
    empty = [isinstance(statistic, numbers.Real) and math.isnan(statistic) for statistic in step.statistics_]
    return _add_indicator(step, np.flatnonzero(np.logical_not(empty)))


def _trace_knn_imputer(step: Any, n_in: int) -> Integers:
    kept = np.arange(n_in) if step.keep_empty_features else np.flatnonzero(step._valid_mask)
    return _add_indicator(step, kept)


def _trace_iterative_imputer(step: Any, n_in: int) -> Integers:
    return _add_indicator(step, _trace_simple_imputer(step.initial_imputer_, n_in))


def _trace_one_hot(step: Any, n_in: int) -> Integers:
    return np.repeat(np.arange(n_in), step._n_features_outs)


def _trace_bins(step: Any, n_in: int) -> Integers:
    return np.arange(n_in) if step.encode == "ordinal" else np.repeat(np.arange(n_in), step.n_bins_)


def _trace_splines(step: Any, n_in: int) -> Integers:
    return np.repeat(np.arange(n_in), step.n_features_out_ // n_in)


def _trace_target_encoder(step: Any, n_in: int) -> Integers:
    return np.repeat(np.arange(n_in), len(step.classes_) if step.target_type_ == "multiclass" else 1)


def _trace_pipeline(step: Any, n_in: int) -> Integers | None:
    return trace_owners_of_chain([part for _, part in step.steps], n_in)


def _trace_column_transformer(step: Any, _n_in: int) -> Integers | None:
    owner = np.empty(max(made.stop for made in step.output_indices_.values()), dtype=np.int64)
    for name, part, _ in step.transformers_:
        made = step.output_indices_[name]
        taken = step._transformer_to_input_indices[name]
        if made.start == made.stop:  # a part that was dropped, or that got no columns
            continue
        made_from = trace_owners(part, len(taken), made.stop - made.start)
        if made_from is None:
            return None
        owner[made] = np.asarray(taken)[made_from]
    return owner


def _union(step: Any, n_in: int) -> Integers | None:
    parts = [trace_owners(part, n_in) for _, part in step.transformer_list if not _is_dropped(part)]
    known = [part for part in parts if part is not None]
    # All or nothing: with the owners of one part unknown, nobody knows where the others' columns start.
    return np.concatenate(known) if known and len(known) == len(parts) else None


def _is_dropped(part: Any) -> bool:
    return isinstance(part, str) and part == "drop"


def _frozen(step: Any, n_in: int) -> Integers | None:
    return trace_owners(step.estimator, n_in)


# From public class names to a function (transformer, number of columns that go in) -> owners. The nearest
# base class counts: the mixin stands for all transformers that are written that way.
RULES: dict[str, Callable[[Any, int], Integers | None]] = {
    "sklearn.preprocessing.Normalizer": _mixed,
    "sklearn.feature_extraction.text.TfidfTransformer": _mixed,
    "sklearn.preprocessing.TargetEncoder": _trace_target_encoder,
    "sklearn.preprocessing.FunctionTransformer": _function,
    "sklearn.preprocessing.OneHotEncoder": _trace_one_hot,
    "sklearn.preprocessing.KBinsDiscretizer": _trace_bins,
    "sklearn.preprocessing.SplineTransformer": _trace_splines,
    "sklearn.impute.SimpleImputer": _trace_simple_imputer,
    "sklearn.impute.KNNImputer": _trace_knn_imputer,
    "sklearn.impute.IterativeImputer": _trace_iterative_imputer,
    "sklearn.impute.MissingIndicator": _trace_indicated,
    "sklearn.feature_selection.SelectorMixin": _trace_selected,
    "sklearn.compose.ColumnTransformer": _trace_column_transformer,
    "sklearn.pipeline.Pipeline": _trace_pipeline,
    "sklearn.pipeline.FeatureUnion": _union,
    "sklearn.frozen.FrozenEstimator": _frozen,
    "sklearn.base.OneToOneFeatureMixin": _trace_one_to_one,
}


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
        return read_fitted_width(self.transforms[0])

    @property
    def names(self) -> list[str] | None:
        """Names of the raw columns, where the first transform saw any."""
        return read_fitted_names(self.transforms[0])

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
        rows = X if self.n_columns is None else read_raw_rows(X, self.n_columns, self.names)
        rows = make_private_rows(rows)  # transforms may write into what they are given (`copy=False`)
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
        rows: Any = make_private_rows(Z)
        for transform in reversed(self.transforms):
            rows = transform.inverse_transform(rows)
        return rows

    def owner(self, n_made: int | None) -> Integers | None:
        """Raw column that each of the `n_made` columns of the result was made from; None if mixed."""
        return (
            None if self.n_columns is None else trace_owners_of_chain(self.transforms, self.n_columns, n_made)
        )


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

    return encode_by(model, as_score(model.steps[-1][1]))


def read_encoding(model: Any, read: Callable[[Any], Floats] | None = None) -> Encoding | None:
    """Return the transforms of a pipeline as one function; None where it has none."""
    transforms = tuple(step for _, step in model.steps[:-1] if not _is_skipped(step))
    label = f"{type(model).__name__}({', '.join(type(step).__name__ for step in transforms)})"
    return Encoding(transforms, label, read) if transforms else None


def flatten_steps(model: Any) -> list[tuple[str, Any]]:
    """Return the steps of a pipeline; where the last of them is a pipeline, its steps in its place.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler, StandardScaler
    >>> inside = make_pipeline(MinMaxScaler(), StandardScaler())
    >>> [name for name, _ in flatten_steps(make_pipeline(StandardScaler(), inside))]
    ['standardscaler', 'minmaxscaler', 'standardscaler']
    """
    *first, last = model.steps
    return [*first, *flatten_steps(last[1])] if hasattr(last[1], "steps") else [*first, last]


def encode_by(model: Any, inner: ScoreFunction, encode: Encoding | None = None) -> ScoreFunction:
    """Return a score of a pipeline's last step as a function of the columns that enter the first."""
    encode = encode or read_encoding(model)
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


def read_best_of_search(model: Any) -> ScoreFunction:
    """Return the score of the estimator that a search settled on."""
    from tellwhy.scoring.as_score import as_score

    ensure_fitted(model, ["best_estimator_"])
    return as_score(model.best_estimator_)


def frozen(model: Any) -> ScoreFunction:
    """Return the score of the estimator inside a `FrozenEstimator`."""
    from tellwhy.scoring.as_score import as_score

    return as_score(model.estimator)
