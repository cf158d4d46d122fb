"""What explainers of scores share: reading the model, the columns and the rows, and assembling the result.

Numbers that left the range of floating-point numbers, unknown parameters, and a model that was fitted again
since it was read are errors here, not results.
"""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import as_floats, check_columns, list_columns, refuse_sparse
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Deferred, Extras, complement_of, plain
from tellwhy.core.old_names import TakesOldNames
from tellwhy.core.params import Rules, nearest, validate_parameters
from tellwhy.core.progress import shown
from tellwhy.core.score import (
    Floats,
    HasNoMinimum,
    HasReferenceRows,
    Integers,
    IsPrediction,
    KeepsOutput,
    LeavesRowsOut,
    ScoreFunction,
    support_points,
)
from tellwhy.explainers.rows import Attribution, Rows, in_batches
from tellwhy.scoring import as_score
from tellwhy.scoring.function_scores import EncodedScore, FlatScore, read_array_rows, takes_arrays
from tellwhy.scoring.reference_rows import some_rows


def check_finite(method: str, names: Sequence[str] | None, **found: Floats | float | None) -> None:
    """Raise with the first number that is infinite or none; `found` is told by its names.

    Examples
    --------
    >>> check_finite("Occlusion", ["a", "b"], values=np.array([[1.0, np.inf]]))
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidInput: Occlusion gives inf in its values for row 0, column 'b': ...
    """
    for what, numbers in found.items():
        if numbers is None or np.isfinite(numbers).all():
            continue
        array = np.atleast_1d(np.asarray(numbers))
        at = np.argwhere(~np.isfinite(array))[0]
        raise InvalidInput(
            f"{method} gives {array[tuple(at)]} in its {what} for row {at[0]}{_column(at[1:], names)}: "
            "numbers so large or so small, or so far from the others, leave the range of floating-point "
            "numbers. Scale the columns, say by their standard deviations, and leave out rows that are out "
            "of all proportion."
        )


def _column(place: Any, names: Sequence[str] | None) -> str:
    if len(place) != 1:
        return f", cell {tuple(map(int, place))}" if len(place) else ""
    column = int(place[0])
    return (
        f", column {names[column]!r}" if names is not None and column < len(names) else f", column {column}"
    )


def refuse_unknown(cls: type, given: Iterable[str]) -> None:
    """Raise for the name of a parameter that the constructor of an explainer does not take.

    Examples
    --------
    >>> from tellwhy.explainers import Occlusion
    >>> Occlusion(len, n_backgrounds=5)
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: Occlusion has no parameter 'n_backgrounds'; did you mean ...
    >>> Occlusion(len, background=[[1.0]])
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: Occlusion takes ordinary rows by fit: ..., background=rows).
    """
    parameters = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    taken = list(parameters)[2:]  # after the explainer and the model
    for name in given:
        if name not in parameters:
            raise InvalidParameter(_write_answer(cls, name, taken))


def _write_answer(cls: type, name: str, taken: list[str]) -> str:
    owner = cls.__name__
    if name == "background" and hasattr(cls, "fit"):
        return (
            f"{owner} takes ordinary rows by fit: {owner}(model).fit(rows), or "
            f"tellwhy.explain(model, X, {owner!r}, background=rows)."
        )
    if name == "background":
        return f"{owner} compares with no other rows, so that a background would be ignored. Leave it out."
    if name == "progress":
        return f"{owner} shows how far it is while it explains: {owner}(model).explain(X, progress=True)."
    listed = ", ".join(taken) if taken else "none but the model"
    return f"{owner} has no parameter {name!r}{nearest(name, taken)} It takes: {listed}."


Condition = tuple[str, Callable[[Any], bool]]
"""When a parameter counts: in words, and asked of the explainer."""


def refuse_idle(explainer: Any) -> None:
    """Raise for a parameter that was set and would change nothing beside the others.

    Examples
    --------
    >>> from tellwhy.explainers import AnomalyShapley
    >>> AnomalyShapley(len, radius=3.0).fit([[0.0], [1.0]])
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: radius=3.0 would change nothing: AnomalyShapley uses it with ...
    """
    for name, (words, holds) in type(explainer)._counts_with.items():
        if not holds(explainer):
            refuse_set(explainer, name, words)


def refuse_set(explainer: Any, name: str, words: str) -> None:
    """Raise where a parameter is not what it is by default: `words` say with what it would count."""
    usual: Any = inspect.signature(type(explainer).__init__).parameters[name].default
    given: Any = getattr(explainer, name)
    if type(given) is not type(usual) or given != usual:
        raise InvalidParameter(
            f"{name}={given!r} would change nothing: {type(explainer).__name__} uses it with {words}. Leave "
            "it out."
        )


State = dict[str, Any]
_MOVED = ("threshold_",)  # set without a new fit


def read_fitted_state(model: Any) -> State:
    """What a model has learned, by name: of a pipeline, of each of its parts. Nothing is copied."""
    found = {}
    for prefix, part in _parts(model):
        for name, value in getattr(part, "__dict__", {}).items():
            if name.endswith("_") and not name.endswith("__"):
                found[prefix + name] = value
    return found


def find_changed_names(before: State, model: Any) -> list[str]:
    """Names of what a model learned that is not what it was; a fit that found the same changes nothing."""
    now = read_fitted_state(model)
    return [name for name, value in before.items() if name not in now or not _is_same(value, now[name])]


def was_fitted_again(changed: list[str]) -> bool:
    """Whether more than a threshold has changed."""
    return any(name.rsplit(".", 1)[-1] not in _MOVED for name in changed)


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """A model, and the estimators that are its parameters (steps of a pipeline, what a wrapper wraps)."""
    yield "", model
    if isinstance(model, type) or not hasattr(model, "get_params"):
        return
    try:
        params = model.get_params(deep=True)
    except Exception:  # somebody else's estimator: without its parameters, it is looked at as a whole
        return
    for name, value in params.items():
        if hasattr(value, "fit") and not isinstance(value, type):
            yield f"{name}.", value


def _is_same(one: Any, other: Any) -> bool:
    if one is other or type(one) is not type(other):
        return one is other
    if isinstance(one, np.ndarray):
        return bool(one.dtype != object and np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    if dataclasses.is_dataclass(one):
        return _is_same(_fields(one), _fields(other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(isinstance(one, (str, bool, int, float, type(None))) and one == other)


def _fields(record: Any) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def notice_fit(explainer: Any, *, learns: bool = False) -> None:
    """Have an explainer read its model again where that has changed.

    `learns` says that the explainer is about to be fitted itself. What it learned from background rows before
    belongs to the model of that time: then this is an error.
    """
    seen = vars(explainer)
    changed = find_changed_names(seen.get("_model_state", {}), explainer.model) if "score" in seen else []
    if was_fitted_again(changed) and seen.get("_has_learned") and not learns:
        raise InvalidInput(
            f"The {type(explainer.model).__name__} was fitted again after the fit of this "
            f"{type(explainer).__name__}, whose background belongs to the model as it was. Call fit(X) of "
            "the explainer again, or make a new one."
        )
    if changed or learns:
        seen.pop("score", None)
    if "score" not in seen:
        explainer._model_state = read_fitted_state(explainer.model)
    explainer._has_learned = learns or bool(seen.get("_has_learned"))


class ScoreExplainer(TakesOldNames, ABC):
    """Base of the explainers of scores: `explain(X)` gives an `Explanation` of the model's score of each row.

    A subclass implements `_attribute(rows)`. One that learns from ordinary rows first is a
    `BackgroundExplainer`.
    """

    kind: ClassVar[str] = "attribution"
    reads_rows: ClassVar[bool] = True  # False for a baseline whose numbers do not depend on the rows
    calls_in_batches: ClassVar[bool] = False  # True: `batch_size` and `n_jobs` say how the score is called
    only_anomalies: ClassVar[bool] = (
        False  # True: it looks for lower scores, which a prediction has no use for
    )
    leaves_rows_out: ClassVar[bool] = (
        False  # True: a row that the model was trained on is judged without itself
    )
    _parameters: ClassVar[dict[str, Rules]] = {}
    _counts_with: ClassVar[dict[str, Condition]] = {}  # of parameters that count only beside others

    def __init__(self, model: object):
        self.model = model

    @classmethod
    def _check_given(cls, given: Mapping[str, Any]) -> None:
        """Answer a slip in the name of a parameter with the nearest one."""
        refuse_unknown(cls, given)

    @cached_property
    def score(self) -> ScoreFunction:
        """The score function that is explained."""
        return as_score(self.model)

    def remember(self, X: ArrayLike) -> Self:
        """Keep some ordinary rows, for models that keep none themselves.

        `extras["nearest_normal"]` then stays within them. `fit` of a `BackgroundExplainer` does this too.
        """
        self.ordinary_rows_ = some_rows(X)
        return self

    def explain(self, X: ArrayLike, *, progress: bool | None = None) -> Explanation:
        """Explain the score of each row of X, in the columns of X.

        `progress` shows how far it is, or does not; None: on a terminal and in notebooks, after two seconds.
        """
        with shown(progress):
            return self._explained(X)

    def _explained(self, X: ArrayLike) -> Explanation:
        validate_parameters(self)
        refuse_idle(self)
        notice_fit(self)
        refuse_sparse(X)
        rows = keep_outputs(self.rows(X))
        if self.only_anomalies and isinstance(rows.score, IsPrediction):
            raise UnsupportedModel(
                f"{type(self).__name__} asks what would make a row less anomalous, and "
                f"{self.score.describes} is a prediction: use method='KernelShap', or leave the method out."
            )
        if self.only_anomalies and isinstance(rows.score, HasNoMinimum):
            raise UnsupportedModel(
                f"{type(self).__name__} asks where a row would score lower, and {self.score.describes} falls "
                "without end. Use method='KernelShap', which compares with ordinary rows."
            )
        found = self._attribute(rows)
        # Columns that were made from one of the user's columns are added up, unless the method did so itself.
        per_owner = found.per_owner or found.values.shape[1] != len(rows.owner)
        values = rows.shaped(found.values if per_owner else rows.by_owner(found.values))
        names = self.score.feature_names or list_columns(X)
        check_finite(type(self).__name__, names, **_numbers(found, values))
        kind = found.kind or self.kind
        return Explanation(
            values=values,
            scores=found.scores,
            base_values=np.broadcast_to(found.base_values, found.scores.shape),
            stderr=None if found.stderr is None else rows.shaped(found.stderr),
            data=X,  # as the user gave them: a reference, in the user's columns
            feature_names=names,
            method=type(self).__name__,
            params={
                "explains": self.score.describes,
                **self._settings(),
                **two_classes(rows),
                **found.params,
            },
            kind=kind,
            extras=self._extras(X, rows, found, values if kind in ("attribution", "relative") else None),
        )

    def _settings(self) -> dict[str, Any]:
        """Parameters and their values."""
        return {name: getattr(self, name) for name in self._parameters}

    def _extras(self, X: ArrayLike, rows: Rows, found: Attribution, shares: Floats | None) -> Extras:
        """What the method found, the rows that were left out, and normal versions where values are shares."""
        recorded = rows.recorded()
        extras = Extras(name_outputs(rows) | dict(found.extras))
        if recorded is not None:
            extras |= {"left_out": recorded}
        if shares is None:
            return extras
        ordinary = self._ordinary_rows()
        return extras | normal_versions(self.score, X, shares, background=ordinary, left_out=recorded)

    def _ordinary_rows(self) -> Any:
        """Rows that `remember` or `fit` kept; None where they were not called."""
        return vars(self).get("ordinary_rows_")

    def rows(self, X: ArrayLike) -> Rows:
        """Bring rows into the columns that the score sees, and find those that the model was trained on."""
        rows = self._read(X)
        if self.calls_in_batches:
            rows = replace(rows, score=self._batched(rows.score))
        if not self.leaves_rows_out or not isinstance(rows.score, LeavesRowsOut):
            return rows
        return replace(rows, left_out=self._left_out(rows.score, rows.X))

    def _batched(self, score: Any) -> Any:
        """Return a score that is called as `batch_size` and `n_jobs` say."""
        settings: Any = self
        return in_batches(score, settings.batch_size, settings.n_jobs)

    def _read(self, X: ArrayLike) -> Rows:
        score = self.score
        # where an encoding mixes columns (PCA), adding up does not undo it: then the score is one of raw rows
        if isinstance(score, EncodedScore) and score.owner is not None:
            return Rows(score.inner, score.encode(X), score.owner, score.n_columns)
        if takes_arrays(score):
            return _flat_rows(score, X)
        check_columns(X, score.feature_names)
        shape = score.feature_shape
        array = as_floats(X, n_columns=shape[0] if shape else None)
        return Rows(score, array, np.arange(array.shape[1]), array.shape[1])

    def _left_out(self, score: LeavesRowsOut, X: Floats) -> Integers:
        """Support point that each row does without, or −1: its own, where the model was trained on it."""
        return score.match(X)

    @abstractmethod
    def _attribute(self, rows: Rows) -> Attribution:
        """Attribute the score of each row to the columns that the score sees."""


class BackgroundExplainer(ScoreExplainer):
    """Base of the explainers that learn from ordinary rows: `fit(X)` first, then `explain(X)`.

    A subclass implements `_fit(X)`, which gets the rows as they were given and sets attributes that end in
    `_`, and calls `_check_fitted` before it uses them.
    """

    least_rows: ClassVar[int] = 1  # 2 where spreads of columns are learned, which one row does not have
    needs_rows: ClassVar[bool] = True  # False: it explains without them too, and something else with them

    def fit(self, X: ArrayLike) -> Self:
        """Learn from ordinary rows."""
        validate_parameters(self)
        refuse_idle(self)
        notice_fit(self, learns=True)
        refuse_sparse(X, "the background")
        n_rows = np.shape(X)[0] if np.ndim(X) else 0
        if 0 < n_rows < self.least_rows:  # none at all is told with the shape, where rows are read
            raise InvalidInput(
                f"{type(self).__name__} learns from ordinary rows what is usual in each column, and was "
                f"given {n_rows}. Pass at least {self.least_rows}, better 100 or more."
            )
        self._fit(X)
        return self.remember(X)

    def learns_from(self, background: object) -> bool:
        """Whether `fit` is to be called before it explains: with a background, or where it needs rows."""
        return background is not None or self.needs_rows

    @abstractmethod
    def _fit(self, X: ArrayLike) -> None:
        """Learn what the method needs; parameters have been checked."""

    def _check_fitted(self, learned: str) -> None:
        """Raise unless `fit` has set the attribute of that name."""
        if learned not in vars(self):
            raise InvalidInput(
                f"{type(self).__name__} is not fitted: call fit(X) with ordinary rows before explain(X), or "
                "pass background=X to tellwhy.explain."
            )


def _numbers(found: Attribution, values: Floats) -> dict[str, Floats | float | None]:
    """What a method found, with the words that errors call it by."""
    told = {"scores": found.scores, "values": values, "base values": found.base_values}
    return {**told, "standard errors": found.stderr}


def _flat_rows(score: ScoreFunction, X: ArrayLike) -> Rows:
    """Rows that are images or other arrays, laid flat."""
    array = read_array_rows(X, score.feature_shape)
    n_cells = array[0].size
    flat = array.reshape(len(array), n_cells)
    return Rows(FlatScore(score, array.shape[1:]), flat, np.arange(n_cells), n_cells, array.shape[1:])


def lacks(score: ScoreFunction, explainer: str, what: str) -> UnsupportedModel:
    """Return the error for a score that cannot do what a method needs."""
    return UnsupportedModel(f"{explainer} needs a score with {what}; {score.describes} has none.")


_TRIED = 20  # rows whose outputs tell whether those of two classes add up to a constant


def keep_outputs(rows: Rows) -> Rows:
    """Rows that know which output of the model they have, where it has several."""
    kept = rows.score.fixed(rows.X) if isinstance(rows.score, KeepsOutput) else ()
    return replace(rows, output=kept[0]) if kept else rows


def name_outputs(rows: Rows) -> dict[str, Any]:
    """The output of each row by its number, and by its name where outputs have names, as extras hold them."""
    if rows.output is None:
        return {}
    names = rows.score.output_names(rows.output) if isinstance(rows.score, IsPrediction) else None
    return {"output": rows.output} if names is None else {"output": rows.output, "explained": names}


def two_classes(rows: Rows) -> dict[str, Any]:
    """The classes of a classifier of two, and what their outputs add up to, as parameters tell them."""
    score: Any = rows.score
    names = getattr(score, "names", None)
    if not isinstance(score, IsPrediction) or names is None or len(names) != 2:
        return {}
    sums = complement_of(score.outputs(rows.X[:_TRIED])) if hasattr(score, "outputs") else None
    return {"classes": [plain(name) for name in names], "classes_sum": sums}


def normal_versions(
    score: ScoreFunction,
    data: Any,
    values: Floats,
    *,
    background: Any = None,
    left_out: Integers | None = None,
) -> dict[str, Deferred]:
    """Return the entry "nearest_normal" of the extras of an explanation, to be computed when it is asked for.

    Nothing, where the score has no threshold, or neither its model nor `background` tells what rows were
    observed.
    """
    threshold = score.threshold
    if threshold is None or values.ndim != 2 or len(np.shape(data)) != 2:
        return {}
    if _knows_rows(score):
        background = background if isinstance(score, EncodedScore) else None
    elif background is None:
        return {}
    # Here, for few methods look for normal versions, and the search loads what is compiled.
    from tellwhy.counterfactuals.normal_versions import ExplainedRows, NormalVersions

    explained = ExplainedRows(score, data, values, background, float(threshold), left_out)
    return NormalVersions(explained).entry()


def _knows_rows(score: ScoreFunction) -> bool:
    """Whether the model keeps rows that it learned from, and they can be told in the user's columns."""
    if isinstance(score, EncodedScore):
        return score.decode is not None and _knows_rows(score.inner)
    return isinstance(score, HasReferenceRows) or support_points(score) is not None
