"""Which input column each output column of a fitted scikit-learn transformer was made from."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from tellwhy.core.score_function import Integers
from tellwhy.scoring.adapters.class_names import lookup


def owners(step: Any, n_in: int, n_out: int | None = None) -> Integers | None:
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
    >>> owners(OneHotEncoder().fit([["red", "S"], ["blue", "S"]]), n_in=2)
    array([0, 0, 1])
    """
    if is_passthrough(step):
        return np.arange(n_in)
    rule = lookup(RULES, step)
    owner = None if rule is None else rule(step, n_in)
    return _settled(owner, n_in, _n_made(step) if n_out is None and owner is None else n_out)


def owners_of_chain(steps: Iterable[Any], n_in: int, n_out: int | None = None) -> Integers | None:
    """Return the input column that each column was made from by transformers in turn; None if mixed."""
    owner: Integers | None = np.arange(n_in)
    for step in steps:
        made_from = None if owner is None else owners(step, len(owner))
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


def _n_made(step: Any) -> int | None:
    """How many columns a transformer makes, where it says so."""
    try:
        return len(step.get_feature_names_out())
    except (AttributeError, ValueError):
        return None


def _one_to_one(_step: Any, n_in: int) -> Integers:
    return np.arange(n_in)


def _mixed(_step: Any, _n_in: int) -> None:
    return None


def _function(step: Any, n_in: int) -> Integers | None:
    """Only the user knows what a function does to the columns, and may say so by `feature_names_out`."""
    return np.arange(n_in) if step.func is None or step.feature_names_out == "one-to-one" else None


def _selected(step: Any, _n_in: int) -> Integers:
    return np.flatnonzero(step.get_support())


def _indicated(step: Any, _n_in: int) -> Integers:
    return np.asarray(step.features_)


def _with_indicator(step: Any, kept: Integers) -> Integers:
    """Owners of imputed columns and, behind them, of the columns that tell where values were missing."""
    indicator = getattr(step, "indicator_", None)
    return kept if indicator is None else np.concatenate([kept, indicator.features_])


def _simple_imputer(step: Any, _n_in: int) -> Integers:
    """Columns without a single value are left out: their statistic is NaN."""
    empty = [isinstance(statistic, numbers.Real) and math.isnan(statistic) for statistic in step.statistics_]
    return _with_indicator(step, np.flatnonzero(np.logical_not(empty)))


def _knn_imputer(step: Any, n_in: int) -> Integers:
    kept = np.arange(n_in) if step.keep_empty_features else np.flatnonzero(step._valid_mask)
    return _with_indicator(step, kept)


def _iterative_imputer(step: Any, n_in: int) -> Integers:
    return _with_indicator(step, _simple_imputer(step.initial_imputer_, n_in))


def _one_hot(step: Any, n_in: int) -> Integers:
    return np.repeat(np.arange(n_in), step._n_features_outs)


def _bins(step: Any, n_in: int) -> Integers:
    return np.arange(n_in) if step.encode == "ordinal" else np.repeat(np.arange(n_in), step.n_bins_)


def _splines(step: Any, n_in: int) -> Integers:
    return np.repeat(np.arange(n_in), step.n_features_out_ // n_in)


def _target_encoder(step: Any, n_in: int) -> Integers:
    return np.repeat(np.arange(n_in), len(step.classes_) if step.target_type_ == "multiclass" else 1)


def _pipeline(step: Any, n_in: int) -> Integers | None:
    return owners_of_chain([part for _, part in step.steps], n_in)


def _column_transformer(step: Any, _n_in: int) -> Integers | None:
    owner = np.empty(max(made.stop for made in step.output_indices_.values()), dtype=np.int64)
    for name, part, _ in step.transformers_:
        made = step.output_indices_[name]
        taken = step._transformer_to_input_indices[name]
        if made.start == made.stop:  # a part that was dropped, or that got no columns
            continue
        made_from = owners(part, len(taken), made.stop - made.start)
        if made_from is None:
            return None
        owner[made] = np.asarray(taken)[made_from]
    return owner


def _union(step: Any, n_in: int) -> Integers | None:
    parts = [owners(part, n_in) for _, part in step.transformer_list if not _is_dropped(part)]
    known = [part for part in parts if part is not None]
    # All or nothing: with the owners of one part unknown, nobody knows where the others' columns start.
    return np.concatenate(known) if known and len(known) == len(parts) else None


def _is_dropped(part: Any) -> bool:
    return isinstance(part, str) and part == "drop"


def _frozen(step: Any, n_in: int) -> Integers | None:
    return owners(step.estimator, n_in)


# From public class names to a function (transformer, number of columns that go in) -> owners. The nearest
# base class counts: the mixin stands for all transformers that are written that way.
RULES: dict[str, Callable[[Any, int], Integers | None]] = {
    "sklearn.preprocessing.Normalizer": _mixed,
    "sklearn.feature_extraction.text.TfidfTransformer": _mixed,
    "sklearn.preprocessing.TargetEncoder": _target_encoder,
    "sklearn.preprocessing.FunctionTransformer": _function,
    "sklearn.preprocessing.OneHotEncoder": _one_hot,
    "sklearn.preprocessing.KBinsDiscretizer": _bins,
    "sklearn.preprocessing.SplineTransformer": _splines,
    "sklearn.impute.SimpleImputer": _simple_imputer,
    "sklearn.impute.KNNImputer": _knn_imputer,
    "sklearn.impute.IterativeImputer": _iterative_imputer,
    "sklearn.impute.MissingIndicator": _indicated,
    "sklearn.feature_selection.SelectorMixin": _selected,
    "sklearn.compose.ColumnTransformer": _column_transformer,
    "sklearn.pipeline.Pipeline": _pipeline,
    "sklearn.pipeline.FeatureUnion": _union,
    "sklearn.frozen.FrozenEstimator": _frozen,
    "sklearn.base.OneToOneFeatureMixin": _one_to_one,
}
