"""The contract of an explainer, as a generator of checks."""

from __future__ import annotations

import inspect
import tempfile
import warnings
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyWarning
from tellwhy.core.explainer import Explainer, LearnsFromRows
from tellwhy.core.explanation import KINDS, Explanation
from tellwhy.core.params import Rules
from tellwhy.core.registry import card_of
from tellwhy.core.score import Floats
from tellwhy.explainers import ScoreExplainer
from tellwhy.testing.cases import CASES, Case, assert_refused, make_bad_rows
from tellwhy.testing.detector import Check

Factory = Callable[..., Any]


def check_explainer(
    explainer: Factory,
    *,
    role: str | None = None,
    case: Case | None = None,
    generate_only: bool = False,
) -> Iterator[Check] | None:
    """Run the contract of an explainer, or give its checks as (name, function) pairs.

    Raises `AssertionError` at the first promise it breaks.

    Parameters
    ----------
    explainer
        A class, or a function, that makes an explainer from a model.
    role
        What it explains, one of `tellwhy.core.registry.EXPLAINER_ROLES`: the checks give it models and rows
        of that kind. By default the role of a registered class, and scores of rows for all others.
    case
        Models and rows of your own instead (`tellwhy.testing.cases.Case`).
    generate_only
        Return the checks instead of running them.

    Returns
    -------
    iterator or None
        With `generate_only` pairs of a name and a check; else nothing.

    Examples
    --------
    >>> from tellwhy.explainers import OneClassDTD, PatchDTD
    >>> check_explainer(OneClassDTD)
    >>> check_explainer(lambda model: PatchDTD(model, patch_size=(4,)), role="patch explainer")
    """
    trial = Trial(explainer, case or CASES[role or _find_role_of(explainer)])
    checks = ((name, lambda check=check: check(trial)) for name, check in _CHECKS.items())
    if generate_only:
        return checks
    for _, run in checks:
        run()
    return None


def _find_role_of(explainer: Factory) -> str:
    known = card_of(explainer) if isinstance(explainer, type) else None
    return known.role if known else "explainer"


@dataclass(frozen=True)
class Trial:
    """An explainer, and what it is tried on."""

    factory: Factory
    case: Case

    def ready(self, X: Any = None, model: Any = None) -> Any:
        """Return an explainer of a model of X, fitted on X where it learns from rows."""
        X = self.case.ordinary() if X is None else X
        explainer = self.case.make(self.factory, self.case.fit(X) if model is None else model)
        return explainer.fit(X) if isinstance(explainer, LearnsFromRows) else explainer

    def explained(self, X: Any = None) -> Explanation:
        """Return the explanation of X, by default of the odd rows."""
        return self.case.explain(self.ready(), self.case.odd() if X is None else X)


def _reads_rows(explainer: Any) -> bool:
    """Whether values depend on the rows: random ones, a baseline, do not."""
    return not isinstance(explainer, ScoreExplainer) or explainer.reads_rows


def _is_an_explainer(trial: Trial) -> None:
    explainer = trial.ready()
    assert isinstance(explainer, Explainer), "it lacks a member of tellwhy.core.explainer.Explainer"
    assert explainer.kind in KINDS
    taken = [name for name in inspect.signature(type(explainer).__init__).parameters if name != "self"]
    first, *others = taken
    declared = set(type(explainer)._parameters)
    assert declared - {first} == set(others), f"it declares {sorted(declared)} and takes {others}"


def _result_is_an_explanation_of_the_rows(trial: Trial) -> None:
    X = trial.case.odd()
    model = trial.case.fit(trial.case.ordinary())
    explainer = trial.ready(model=model)
    explanation = trial.case.explain(explainer, X)
    assert isinstance(explanation, Explanation)
    assert explanation.values.shape == X.shape
    assert explanation.kind in KINDS
    assert explanation.method == type(explainer).__name__
    assert explanation.params["explains"]
    if trial.case.keeps_rows:
        assert explanation.data is X, "data must be the rows as they were given"
    np.testing.assert_array_equal(explanation.data, X)
    np.testing.assert_allclose(explanation.scores, trial.case.scores(model, X), rtol=1e-12)


def _attributions_are_additive(trial: Trial) -> None:
    explanation = trial.explained()
    if explanation.kind != "attribution":
        assert explanation.residual is None, "only attributions have a residual"
        return
    total = explanation.base_values + explanation.values.sum(axis=1) + explanation.residual
    np.testing.assert_allclose(total, explanation.scores, rtol=1e-12)


def _rows_are_explained_one_by_one(trial: Trial) -> None:
    explainer = trial.ready()
    if not _reads_rows(explainer) or not trial.case.is_by_row:
        return
    X = trial.case.odd()
    together = explainer.explain(X).values
    for i in (0, 5):
        alone = explainer.explain(X[i : i + 1]).values[0]  # products of larger matrices round differently
        np.testing.assert_allclose(alone, together[i], rtol=1e-7, atol=1e-9)


def _columns_are_interchangeable(trial: Trial) -> None:
    plain = trial.ready()
    if not _reads_rows(plain) or not trial.case.has_columns:
        return
    order = [2, 0, 3, 1]
    X = trial.case.ordinary()
    new = trial.case.odd()
    permuted = trial.case.explain(trial.ready(X[:, order]), new[:, order])
    expected = trial.case.explain(plain, new).values[:, order]
    # models that are fitted to columns in another order stop a little elsewhere
    np.testing.assert_allclose(permuted.values, expected, rtol=1e-2, atol=1e-3 * np.abs(expected).max())


def _same_input_gives_same_bits(trial: Trial) -> None:
    np.testing.assert_array_equal(trial.explained().values, trial.explained().values)


def _far_rows_stay_finite(trial: Trial) -> None:
    # two distances in turn, so that rows that need care and rows that do not share a batch
    explanation = trial.explained(trial.case.odd() * np.array([[1e6], [1e3]] * 6))
    assert np.isfinite(explanation.values).all()
    assert np.isfinite(explanation.scores).all()


def _nothing_of_the_users_is_modified(trial: Trial) -> None:
    X = trial.case.ordinary()
    new = trial.case.odd()
    kept = new.copy()
    model = trial.case.fit(X)
    state = _state(model)
    trial.case.explain(trial.ready(X, model), new)
    np.testing.assert_array_equal(new, kept)
    assert _state(model) == state, "the model was changed"


def _state(model: Any) -> Any:
    """What must stay the same about a model: the attributes of an estimator, or of each part of a network."""
    # a network's state is spread over its modules: weights, buffers, hooks, and whether it is training
    parts = model.modules() if callable(getattr(model, "modules", None)) else [model]
    return [{name: repr(held) for name, held in vars(part).items()} for part in parts]


def _frames_keep_their_names(trial: Trial) -> None:
    if not trial.case.takes_frames:
        return
    import pandas as pd

    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(trial.case.ordinary(), columns=names)
    new = pd.DataFrame(trial.case.odd(), columns=names)
    explanation = trial.case.explain(trial.ready(frame), new)
    assert explanation.feature_names == names
    assert list(explanation.to_frame().columns[-4:]) == names


def _pipelines_are_explained_in_raw_columns(trial: Trial) -> None:
    if not trial.case.takes_pipelines:
        return
    import pandas as pd

    def table(X: Floats) -> pd.DataFrame:
        frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
        return frame.assign(d=np.where(X[:, 3] > 0, "left", "right"))

    # the model sees five columns, and the user has four: one of them is text
    encoder = make_column_transformer(
        (StandardScaler(), ["a", "b", "c"]), (OneHotEncoder(sparse_output=False), ["d"])
    )
    frame = table(trial.case.ordinary())
    new = table(trial.case.odd())
    model = clone(trial.case.fit(trial.case.ordinary()))
    pipeline = make_pipeline(encoder, model).fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TellwhyWarning)  # how well a sampler mixes is not asked here
        explanation = trial.case.explain(trial.ready(frame, pipeline), new)
    assert explanation.values.shape == new.shape
    assert explanation.feature_names == list(frame.columns)


def _bad_rows_are_refused(trial: Trial) -> None:
    explainer = trial.ready()

    def explain(rows: Any) -> Explanation:
        return trial.case.explain(explainer, rows)

    for name, rows in make_bad_rows(trial.case.odd()):
        assert_refused(explain, rows, f"explain with {name}")
    if trial.case.has_columns:
        narrow = trial.case.odd()[:, :3]
        assert_refused(explain, narrow, "one column too few", mentions=trial.case.width_word)


def _wrong_parameters_are_refused(trial: Trial) -> None:
    explainer = trial.ready()
    for name, rules in type(explainer)._parameters.items():
        if not _accepts(rules, _NOTHING):
            wrong = copy(explainer)  # set after the constructor, which stores and does not check
            setattr(wrong, name, _NOTHING)
            try:
                trial.case.explain(wrong, trial.case.odd())
            except InvalidParameter as error:
                assert repr(name) in str(error), f"the message does not name the parameter {name!r}: {error}"
            else:
                raise AssertionError(f"{name}={_NOTHING!r} was accepted; expected InvalidParameter")


_NOTHING = object()  # no parameter's value


def _accepts(rules: Rules, value: object) -> bool:
    choices = rules if isinstance(rules, tuple) else (rules,)
    return any(rule.accepts(value) for rule in choices)


def _learning_comes_first(trial: Trial) -> None:
    X = trial.case.ordinary()
    explainer = trial.case.make(trial.factory, trial.case.fit(X))
    if not isinstance(explainer, LearnsFromRows):
        return
    try:
        trial.case.explain(explainer, trial.case.odd())
    except InvalidInput as error:
        assert "fit(X)" in str(error), f"the message does not say to call fit(X): {error}"
    assert explainer.fit(X) is explainer, "fit must return the explainer"


def _explanations_survive_a_round_trip(trial: Trial) -> None:
    explanation = trial.explained()
    with tempfile.TemporaryDirectory() as folder:
        explanation.save(Path(folder) / "saved")
        loaded = Explanation.load(Path(folder) / "saved")
    np.testing.assert_array_equal(loaded.values, explanation.values)
    np.testing.assert_array_equal(loaded.scores, explanation.scores)
    assert (loaded.method, loaded.kind) == (explanation.method, explanation.kind)
    assert set(loaded.extras) == set(explanation.extras.computed())  # deferred ones were not asked for


_CHECKS: dict[str, Callable[[Trial], None]] = {
    function.__name__.lstrip("_"): function
    for function in (
        _is_an_explainer,
        _result_is_an_explanation_of_the_rows,
        _attributions_are_additive,
        _rows_are_explained_one_by_one,
        _columns_are_interchangeable,
        _same_input_gives_same_bits,
        _far_rows_stay_finite,
        _nothing_of_the_users_is_modified,
        _frames_keep_their_names,
        _pipelines_are_explained_in_raw_columns,
        _bad_rows_are_refused,
        _wrong_parameters_are_refused,
        _learning_comes_first,
        _explanations_survive_a_round_trip,
    )
}
