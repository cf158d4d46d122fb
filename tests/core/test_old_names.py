"""Words that parameters and calls had before warn, say what to write, and do what the new ones do."""

import re
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import tellwhy
from tellwhy.bases import KernelBasis
from tellwhy.classifiers import WestonWatkinsSVM
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.core.old_names import (
    GONE_IN,
    OLD_NAMES,
    OLD_ORDERS,
    TakesOldNames,
    takes_old_names,
    update_names,
)
from tellwhy.detectors import (
    LCCAD,
    SVDD,
    GaussianMixture,
    KernelDensity,
    NearestNeighbours,
    OneClassSVM,
    PatchModel,
)
from tellwhy.evaluation import irof, patch_flipping, region_flipping
from tellwhy.explainers import (
    DMMMEN,
    IntegratedGradients,
    KernelShap,
    LinearRelevance,
    LocalInsight,
    Occlusion,
    PatchDTD,
    PatchRelevance,
    PredictionDifference,
)
from tellwhy.scoring import FunctionScore

X = np.random.default_rng(0).normal(size=(60, 3))


def renamed(old, new):
    """Expect the warning of a name that has changed."""
    return pytest.warns(DeprecationWarning, match=rf"(?s){old!r}.*{new!r} now.*tellwhy {re.escape(GONE_IN)}")


def test_an_old_name_warns_at_the_line_that_uses_it_and_does_the_same():
    with renamed("false_alarms", "contamination") as told:
        old = KernelDensity(false_alarms=0.05)
    assert [warning.filename for warning in told] == [__file__]
    assert old.get_params() == KernelDensity(contamination=0.05).get_params()
    assert old.fit(X).threshold_ == KernelDensity(contamination=0.05).fit(X).threshold_


def test_set_params_takes_old_names():
    with renamed("false_alarms", "contamination"):
        detector = NearestNeighbours().set_params(false_alarms=0.2)
    assert detector.get_params() == {"n_neighbors": 10, "contamination": 0.2}
    with pytest.raises(ValueError, match="Invalid parameter 'false_alarm'"):
        detector.set_params(false_alarm=0.2)


def test_estimators_know_nothing_of_old_names():
    assert "false_alarms" not in GaussianMixture().get_params()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clone(GaussianMixture(contamination=0.2)).contamination == 0.2


def test_both_names_at_once_are_refused():
    with pytest.raises(InvalidParameter, match="the same parameter twice"):
        KernelDensity(false_alarms=0.1, contamination=0.1)


def test_files_are_read_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert update_names(KernelDensity, {"false_alarms": 0.1, "q": 2}) == {"contamination": 0.1, "q": 2}


class Drawn(TakesOldNames):
    def __init__(self, model, *, size=1, colour="red"):
        self.held = (model, size, colour)


class Child(Drawn):
    def __init__(self, model, *, hue="blue"):
        super().__init__(model, colour=hue)


class Trained(TakesOldNames):
    def __init__(self, size=1):
        self.size = size

    @takes_old_names
    def fit(self, background, *, n_rows=1):
        return background, n_rows


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setitem(OLD_NAMES, "Drawn", {"color": "colour"})
    monkeypatch.setitem(OLD_NAMES, "Trained.fit", {"X": "background"})
    monkeypatch.setitem(OLD_ORDERS, "Drawn", ("model", "size", "colour"))
    monkeypatch.setitem(OLD_ORDERS, "Trained.fit", ("background", "n_rows"))


@pytest.mark.usefixtures("table")
def test_what_went_by_place_is_taken_by_name():
    with pytest.warns(
        DeprecationWarning, match=r"Drawn takes size, colour by name now: write size=…, colour="
    ):
        assert Drawn(1, 2, "green").held == (1, 2, "green")
    with pytest.raises(TypeError, match="multiple values for argument 'size'"):
        Drawn(1, 2, size=3)
    with pytest.raises(TypeError, match="positional arguments"):
        Drawn(1, 2, 3, 4)


@pytest.mark.usefixtures("table")
def test_a_subclass_calls_its_base_class_with_new_names():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Child(1, hue="grey").held == (1, 1, "grey")


def test_lccad_takes_the_old_name_of_its_prior():
    with pytest.warns(DeprecationWarning, match="'model' parameter of LCCAD is called 'prior'"):
        assert LCCAD(2, model="crf").prior == "crf"
    with pytest.warns(DeprecationWarning, match="'model' parameter of LCCAD is called 'prior'"):
        assert LCCAD(2).set_params(model="crf").prior == "crf"


@pytest.mark.usefixtures("table")
def test_methods_take_old_names():
    with renamed("X", "background"):
        assert Trained().fit(X=3) == (3, 1)
    with pytest.warns(DeprecationWarning, match="n_rows by name"):
        assert Trained().fit(3, 4) == (3, 4)
    assert Trained().fit(3, n_rows=4) == (3, 4)


def explained(cls, n=2, **given):
    explainer = cls(KernelDensity().fit(X), **given)
    return (explainer.fit(X) if hasattr(explainer, "fit") else explainer).explain(X[:n]).values


def flipped(metric, **given):
    pictures = np.arange(32.0).reshape(2, 4, 4)
    explanation = Explanation(values=pictures, scores=pictures.sum(axis=(1, 2)), method="own", data=pictures)
    return metric(explanation, lambda Z: Z.sum(axis=(1, 2)), **given).curves


OLD = {
    "Occlusion, patches": (explained, Occlusion, {"patch": 1}, {"patch_size": 1}),
    "Occlusion, rows": (explained, Occlusion, {"n_background": 3}, {"max_background": 3}),
    "IntegratedGradients": (
        explained,
        IntegratedGradients,
        {"reference": np.zeros(3), "tolerance": 0.1, "max_steps": 4},
        {"baseline": np.zeros(3), "tol": 0.1, "max_iter": 4},
    ),
    "KernelShap": (explained, KernelShap, {"references": X[:4]}, {"baseline": X[:4]}),
    "region_flipping": (
        flipped,
        region_flipping,
        {"region": 2, "fill": "zero"},
        {"patch_size": 2, "baseline": "zero"},
    ),
    "irof": (flipped, irof, {"n_segments": 4, "fill": "zero"}, {"n_segments": 4, "baseline": "zero"}),
}


@pytest.mark.parametrize(("call", "what", "old", "new"), OLD.values(), ids=OLD)
def test_old_names_give_the_same_numbers(call, what, old, new):
    with pytest.warns(DeprecationWarning, match="now; the old name") as told:
        before = call(what, **old)
    changed = set(old) - set(new)
    assert len(told) == len(changed)
    assert all(
        any(f"{name!r} parameter of {what.__name__}" in str(w.message) for w in told) for name in changed
    )
    np.testing.assert_array_equal(before, call(what, **new))


@pytest.mark.parametrize(
    ("cls", "old", "new"),
    [
        (PatchDTD, {"patch": (4,)}, {"patch_size": (4,)}),
        (PredictionDifference, {"patch": 2}, {"patch_size": 2}),
        (DMMMEN, {"replacement": 1.0, "n_neighbours": 20}, {"baseline": 1.0, "n_neighbors": 20}),
        (LocalInsight, {"replacement": 1.0}, {"baseline": 1.0}),
    ],
)
def test_old_names_are_stored_under_the_new_ones(cls, old, new):
    with pytest.warns(DeprecationWarning, match="now; the old name"):
        explainer = cls(len, **old)
    assert {name: getattr(explainer, name) for name in new} == new


BY_PLACE = {
    "OneClassSVM": (OneClassSVM, ("student_t", 2, 1.5, 2.0, 0.2), {"a": 2.0, "nu": 0.2}),
    "SVDD": (SVDD, ("student_t", 2, 1.5, 2.0, 0.2), {"a": 2.0, "nu": 0.2}),
    "KernelDensity": (KernelDensity, ("student_t", 2, 1.5, 2.0), {"a": 2.0}),
    "KernelBasis": (KernelBasis, ("gaussian", "random", 5, 1.0), {"bandwidth": 1.0}),
    "PatchModel": (PatchModel, (None, 3, 1, 50), {"n_train_patches": 50}),
}


@pytest.mark.parametrize(("cls", "args", "named"), BY_PLACE.values(), ids=BY_PLACE)
def test_a_fourth_parameter_by_place_warns_and_is_taken(cls, args, named):
    with pytest.warns(DeprecationWarning, match=f"{cls.__name__} takes {', '.join(named)} by name now"):
        old = cls(*args)
    assert old.get_params() == cls(*args[:3], **named).get_params()


def test_the_explained_output_is_taken_by_name():
    score = FunctionScore(lambda Z: Z.sum(axis=1), gradient=np.ones_like)
    with pytest.warns(DeprecationWarning, match="IntegratedGradients takes target by name now"):
        assert IntegratedGradients(score, 2).target == 2


def test_the_background_of_the_one_liner_is_taken_by_name():
    def score(Z):
        return np.abs(Z).sum(axis=1)

    with pytest.warns(DeprecationWarning, match="explain takes background by name now"):
        found = tellwhy.explain(score, X[:2], "Occlusion", X)
    np.testing.assert_array_equal(
        found.values, tellwhy.explain(score, X[:2], "Occlusion", background=X).values
    )


def test_the_explained_class_and_its_rival_belong_to_the_explainer():
    model = WestonWatkinsSVM(random_state=0).fit(X, X.argmax(axis=1))
    expected = LinearRelevance(model, target=1, against=2).explain(X).values
    explainer = LinearRelevance(model)
    with pytest.warns(DeprecationWarning, match=r"LinearRelevance.explain takes .* until tellwhy") as told:
        found = explainer.explain(X, of=1, against=2)
    assert len(told) == 2
    assert (explainer.target, explainer.against) == (None, "runner_up")
    np.testing.assert_array_equal(found.values, expected)
    with renamed("of", "target"):
        np.testing.assert_array_equal(model.explain(X, of=1, against=2).values, expected)


def test_the_one_liner_takes_old_names():
    def score(Z):
        return np.abs(Z).sum(axis=1)

    with renamed("references", "baseline"):
        found = tellwhy.explain(score, X[:2], "KernelShap", references=X[:4])
    again = tellwhy.explain(score, X[:2], "KernelShap", baseline=X[:4])
    np.testing.assert_array_equal(found.values, again.values)


def test_metrics_take_the_explanation_first():
    rows = np.random.default_rng(0).normal(size=(4, 9))
    model = PatchModel(KernelDensity(), 3).fit(rows)
    explanation = PatchRelevance(model).explain(rows)
    with pytest.warns(DeprecationWarning, match="patch_flipping takes the explanation first"):
        old = patch_flipping(model, explanation)
    np.testing.assert_array_equal(old.curves, patch_flipping(explanation, model).curves)
    np.testing.assert_array_equal(old.curves, patch_flipping(explanation=explanation, model=model).curves)
