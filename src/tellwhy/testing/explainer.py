"""The contract of an explainer, as a generator of checks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tellwhy.core.explanation import KINDS, Explanation
from tellwhy.core.score_function import Floats
from tellwhy.detectors import OneClassSVM
from tellwhy.testing.bad_input import assert_refused, bad_rows
from tellwhy.testing.detector import Check

Factory = Callable[[Any], Any]


def check_explainer(explainer: Factory, *, generate_only: bool = False) -> Iterator[Check] | None:
    """Run the contract of an explainer, or give its checks as (name, function) pairs.

    `explainer` is a class, or a function, that takes a model: the checks give it one-class models. Raises
    `AssertionError` at the first promise it breaks.

    Examples
    --------
    >>> from tellwhy.explainers import OneClassDTD
    >>> check_explainer(OneClassDTD)
    """
    checks = ((name, lambda check=check: check(explainer)) for name, check in _CHECKS.items())
    if generate_only:
        return checks
    for _, run in checks:
        run()
    return None


def _training_rows() -> Floats:
    return np.random.default_rng(0).normal(size=(150, 4)) * np.array([1.0, 2.0, 3.0, 0.5])


def _new_rows() -> Floats:
    return np.random.default_rng(1).normal(size=(12, 4)) * np.array([4.0, 2.0, 9.0, 0.5])


def _ready(factory: Factory, X: Floats, model: Any = None) -> Any:
    """Return an explainer of a model of X, fitted on X where it needs background."""
    explainer = factory(OneClassSVM(nu=0.2).fit(X) if model is None else model)
    return explainer.fit(X) if hasattr(explainer, "fit") else explainer


def _reads_rows(explainer: Any) -> bool:
    return bool(getattr(explainer, "reads_rows", True))


def _result_is_an_explanation_of_the_rows(factory: Factory) -> None:
    X = _new_rows()
    explainer = _ready(factory, _training_rows())
    explanation = explainer.explain(X)
    assert isinstance(explanation, Explanation)
    assert explanation.values.shape == X.shape
    assert explanation.kind in KINDS
    assert explanation.method == type(explainer).__name__
    assert explanation.params["explains"]
    assert explanation.data is X, "data must be the rows as they were given"
    np.testing.assert_allclose(explanation.scores, explainer.score.value(X), rtol=1e-12)


def _attributions_are_additive(factory: Factory) -> None:
    explanation = _ready(factory, _training_rows()).explain(_new_rows())
    if explanation.kind != "attribution":
        assert explanation.residual is None, "only attributions have a residual"
        return
    total = explanation.base_values + explanation.values.sum(axis=1) + explanation.residual
    np.testing.assert_allclose(total, explanation.scores, rtol=1e-12)


def _rows_are_explained_one_by_one(factory: Factory) -> None:
    explainer = _ready(factory, _training_rows())
    if not _reads_rows(explainer):
        return
    X = _new_rows()
    together = explainer.explain(X).values
    for i in (0, 5):
        np.testing.assert_allclose(
            explainer.explain(X[i : i + 1]).values[0], together[i], rtol=1e-7, atol=1e-9
        )


def _columns_are_interchangeable(factory: Factory) -> None:
    X, new, order = _training_rows(), _new_rows(), [2, 0, 3, 1]
    plain = _ready(factory, X)
    if not _reads_rows(plain):
        return
    permuted = _ready(factory, X[:, order]).explain(new[:, order])
    expected = plain.explain(new).values[:, order]
    np.testing.assert_allclose(permuted.values, expected, rtol=1e-2, atol=1e-3 * np.abs(expected).max())


def _same_input_gives_same_bits(factory: Factory) -> None:
    first, second = (_ready(factory, _training_rows()).explain(_new_rows()) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)


def _far_rows_stay_finite(factory: Factory) -> None:
    far = _new_rows() * np.array([[1e6], [1e3]] * 6)
    explanation = _ready(factory, _training_rows()).explain(far)
    assert np.isfinite(explanation.values).all()
    assert np.isfinite(explanation.scores).all()


def _nothing_of_the_users_is_modified(factory: Factory) -> None:
    X, new = _training_rows(), _new_rows()
    model = OneClassSVM(nu=0.2).fit(X)
    kept, state = new.copy(), {k: repr(v) for k, v in vars(model).items()}
    _ready(factory, X, model).explain(new)
    np.testing.assert_array_equal(new, kept)
    assert {k: repr(v) for k, v in vars(model).items()} == state, "the model was changed"


def _frames_keep_their_names(factory: Factory) -> None:
    import pandas as pd

    names = ["a", "b", "c", "d"]
    frame, new = pd.DataFrame(_training_rows(), columns=names), pd.DataFrame(_new_rows(), columns=names)
    explanation = _ready(factory, frame, OneClassSVM(nu=0.2).fit(frame)).explain(new)
    assert explanation.feature_names == names
    assert list(explanation.to_frame().columns[-4:]) == names


def _pipelines_are_explained_in_raw_columns(factory: Factory) -> None:
    import pandas as pd

    frame = pd.DataFrame(_training_rows(), columns=["a", "b", "c", "d"])
    pipeline = make_pipeline(StandardScaler(), OneClassSVM(nu=0.2)).fit(frame)
    new = pd.DataFrame(_new_rows(), columns=frame.columns)
    explanation = _ready(factory, frame, pipeline).explain(new)
    assert explanation.values.shape == new.shape
    assert explanation.feature_names == list(frame.columns)


def _bad_rows_are_refused(factory: Factory) -> None:
    explainer = _ready(factory, _training_rows())
    for name, rows in bad_rows(_new_rows()):
        assert_refused(explainer.explain, rows, f"explain with {name}")
    assert_refused(explainer.explain, _new_rows()[:, :3], "one column too few", mentions="column")


def _explanations_survive_a_round_trip(factory: Factory) -> None:
    explanation = _ready(factory, _training_rows()).explain(_new_rows())
    with tempfile.TemporaryDirectory() as folder:
        explanation.save(Path(folder) / "saved")
        loaded = Explanation.load(Path(folder) / "saved")
    np.testing.assert_array_equal(loaded.values, explanation.values)
    np.testing.assert_array_equal(loaded.scores, explanation.scores)
    assert (loaded.method, loaded.kind) == (explanation.method, explanation.kind)
    assert set(loaded.extras) == set(explanation.extras.computed())


_CHECKS: dict[str, Callable[[Factory], None]] = {
    function.__name__.lstrip("_"): function
    for function in (
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
        _explanations_survive_a_round_trip,
    )
}
