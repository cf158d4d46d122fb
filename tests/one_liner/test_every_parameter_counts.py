"""A parameter that is set is read, or refused: of every explainer, one parameter after the other."""

import inspect
import re
import sys
import warnings
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import OneClassSVM
from testing.own_cases import OWN_CASES

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.registry import list_explainers
from tellwhy.explainers import AnomalyShapley, Lime
from tellwhy.testing.cases import CASES

BOOKKEEPING = {"validate_parameters", "_settings", "refuse_idle", "__init__", "<dictcomp>"}
VALUES = [2, 3, 8, 0.3, True, False, [[0, 1]], "cpu", (0.5, 0.9), [0, 1, 2, 3], 20]
WHERE_ROWS_HAVE_MORE_AXES = {"patch_size", "stride", "axes"}  # tested on pictures, with their methods
EXPLAINERS = [c for c in list_explainers() if c.role != "network explainer" or find_spec("torch")]


def watched(cls):
    """A subclass that notes which of its attributes the method itself asks for."""

    class Watched(cls):
        def __getattribute__(self, name):
            frame = sys._getframe(1)
            if frame.f_code.co_name not in BOOKKEEPING:
                object.__getattribute__(self, "__dict__").setdefault("asked_for", set()).add(name)
            return object.__getattribute__(self, name)

    Watched.__name__ = Watched.__qualname__ = cls.__name__
    return Watched


def another_value(cls, parameter):
    """A value that the parameter may have, and does not have by default; None where none was found."""
    rules = cls._parameters[parameter.name]
    rules = rules if isinstance(rules, tuple) else (rules,)
    named = [option for rule in rules for option in re.findall(r"'([^']+)'", rule.words)]
    for value in [*named, *VALUES]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                is_usual = type(value) is type(parameter.default) and value == parameter.default
                if not is_usual and any(rule.accepts(value) for rule in rules):
                    return value
            except (TypeError, ValueError, Warning):
                continue
    return None


def settings_to_try():
    for card in EXPLAINERS:
        declared = getattr(card.cls, "_parameters", {})
        for parameter in list(inspect.signature(card.cls.__init__).parameters.values())[2:]:
            if parameter.name in declared and parameter.name not in WHERE_ROWS_HAVE_MORE_AXES:
                marks = pytest.mark.slow if card.family == "surrogate" else ()
                yield pytest.param(card, parameter, id=f"{card.name}-{parameter.name}", marks=marks)


@pytest.mark.parametrize(("card", "parameter"), list(settings_to_try()))
@pytest.mark.filterwarnings("ignore")
def test_a_parameter_is_asked_for_or_refused(card, parameter):
    value = another_value(card.cls, parameter)
    if value is None:
        pytest.skip("takes no value that this test knows")
    case = OWN_CASES.get(card.name) or CASES[card.role]
    ordinary = case.ordinary()
    settings = {k: v for k, v in case.settings.items() if k in inspect.signature(card.cls).parameters}
    model = case.given(case.fit(ordinary))
    explainer = watched(card.cls)(model, **{**settings, parameter.name: value})
    try:
        if hasattr(explainer, "fit"):
            explainer.fit(ordinary[:60])
        case.explain(explainer, case.odd()[:3])
    except (InvalidInput, InvalidParameter, UnsupportedModel):
        return
    assert parameter.name in explainer.asked_for


X = np.random.default_rng(0).normal(size=(120, 3))
CLASSES = X[:, 0] + X[:, 1] > 0
ONE_NUMBER = {
    "linear regression": LinearRegression().fit(X, X[:, 0]),
    "forest": RandomForestRegressor(4, random_state=0).fit(X, X[:, 0]),
    "isolation forest": IsolationForest(n_estimators=8, random_state=0).fit(X),
    "one-class SVM": OneClassSVM().fit(X),
    "function": lambda rows: np.asarray(rows).sum(axis=1),
}


@pytest.mark.parametrize("name", ONE_NUMBER)
@pytest.mark.parametrize("method", ["auto", "KernelShap", "Occlusion", "Lime"])
@pytest.mark.parametrize("output", ["probability", "margin"])
def test_what_gives_one_number_has_no_margin_and_no_probability(name, method, output):
    with pytest.raises(InvalidParameter, match=f"output='{output}' "):
        tellwhy.explain(ONE_NUMBER[name], X[:2], method, background=X, output=output)


@pytest.mark.parametrize("classifier", [LogisticRegression(), RandomForestClassifier(4, random_state=0)])
@pytest.mark.parametrize("method", ["auto", "KernelShap", "Occlusion", "Lime"])
@pytest.mark.parametrize("target", [True, False])
def test_the_probability_of_a_class_is_explained_where_it_is_asked_for(classifier, method, target):
    model = classifier.fit(X, CLASSES)
    found = tellwhy.explain(model, X[:3], method, background=X, output="probability", target=target)
    np.testing.assert_allclose(found.scores, model.predict_proba(X[:3])[:, int(target)])


def test_trees_add_up_on_one_scale_alone():
    model = RandomForestClassifier(4, random_state=0).fit(X, CLASSES)
    with pytest.raises(InvalidParameter, match="scale on which trees add up"):
        tellwhy.explain(model, X[:2], "TreeShapley", output="margin")
    with pytest.raises(InvalidParameter, match="target=0 chooses"):
        tellwhy.explain(ONE_NUMBER["isolation forest"], X[:2], target=0)


def test_a_slope_has_no_use_for_ordinary_rows():
    with pytest.raises(InvalidParameter, match="a background would be ignored"):
        tellwhy.explain(ONE_NUMBER["one-class SVM"], X[:2], "Sensitivity", background=X)


@pytest.mark.parametrize(
    ("explainer", "words"),
    [
        (AnomalyShapley(len, radius=3.0), "radius=3.0 would change nothing"),
        (AnomalyShapley(len, characteristic="ball", gamma=0.5), "gamma=0.5 would change nothing"),
        (Lime(len, pieces="columns", n_segments=7), "n_segments=7 would change nothing"),
    ],
)
def test_a_parameter_that_counts_beside_another_one_is_refused_alone(explainer, words):
    with pytest.raises(InvalidParameter, match=words):
        explainer.fit(X)
