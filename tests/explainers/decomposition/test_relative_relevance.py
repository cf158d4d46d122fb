"""One-Class DTD beside what is usual: against loops, what adds up to what, and which form is shown."""

import gc
import weakref

import numpy as np
import pandas as pd
import pytest
from oracles import one_class as oracle
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import OneClassSVM as SklearnOneClassSVM

import tellwhy
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.detectors import SVDD, KernelDensity, NearestNeighbours, OneClassSVM
from tellwhy.explainers import OneClassDTD
from tellwhy.explainers.decomposition.one_class_dtd import OrdinaryRows


def noisy_columns(n=200, d=12, seed=0):
    """Two groups of rows; the first half of the columns tells them apart, the others are noise."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)[:, None]
    told = 4.0 * group + 0.2 * rng.normal(size=(n, d // 2))
    return np.hstack([told, 3.0 * rng.normal(size=(n, d - d // 2))])


@pytest.mark.parametrize("kind", ["exponential", "student_t"])
def test_values_are_relevance_over_the_loops_of_the_usual_one(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) * [1.0, 2.0, 0.1]
    model = KernelDensity(kernel=kind, bandwidth=0.8).fit(X)
    new = rng.normal(size=(5, 3)) * 3
    found = OneClassDTD(model, relative=True).explain(new)
    kw = {"q": 2, "bandwidth": 0.8, "a": 1.0}
    weights = np.full(30, 1 / 30)
    usual = oracle.usual_relevance(X, weights, kind, **kw)
    R = np.array([oracle.relevance(x, X, weights, kind, **kw) for x in new])
    np.testing.assert_allclose(found.values, R / usual, rtol=1e-8)
    np.testing.assert_allclose(found.params["usual_relevance"], usual, rtol=1e-8)


def models():
    X = noisy_columns()
    return [
        OneClassSVM().fit(X),
        KernelDensity(kernel="student_t").fit(X),
        NearestNeighbours().fit(X),
        SVDD(kernel="linear").fit(X),
    ]


@pytest.mark.parametrize("model", models(), ids=lambda m: f"{type(m).__name__}-{getattr(m, 'kernel', '')}")
def test_what_adds_up_is_said_and_does(model):
    new = np.vstack([noisy_columns(seed=1)[:10], noisy_columns()[:10]])  # new rows, and some trained on
    plain = OneClassDTD(model).explain(new)
    found = OneClassDTD(model, relative=True).explain(new)
    assert (found.kind, found.residual) == ("relative", None)
    usual = np.array(found.params["usual_relevance"])
    np.testing.assert_allclose(found.values * usual, plain.values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.extras["relevance"], plain.values, rtol=1e-12)
    np.testing.assert_array_equal(found.scores, plain.scores)
    total = found.base_values + (found.values * usual).sum(axis=1) + plain.residual
    np.testing.assert_allclose(total, found.scores, rtol=1e-9)


def test_ordinary_rows_have_about_once_their_usual_relevance_and_are_left_out():
    X = noisy_columns(600)
    model = KernelDensity().fit(X)
    found = OneClassDTD(model, relative=True).explain(noisy_columns(600, seed=1))
    # New ordinary rows are like those that the usual relevance comes from only if these are left out: beside
    # themselves, they have next to no relevance, and the new ones many times that.
    assert 0.4 < np.median(found.values.mean(axis=1)) < 1.2


def test_anomalies_among_the_training_rows_do_not_hide_their_column():
    X = noisy_columns(400)
    clean = OneClassDTD(OneClassSVM().fit(X), relative=True).explain([[0.0] * 11 + [60.0]])
    X[::25, 11] = 60.0 + np.arange(16)
    dirty = OneClassDTD(OneClassSVM().fit(X), relative=True).explain([[0.0] * 11 + [60.0]])
    ratio = np.array(dirty.params["usual_relevance"]) / clean.params["usual_relevance"]
    assert ratio[11] < 3 * np.median(ratio)


def test_a_noisy_column_outranks_the_moved_one_unless_beside_what_is_usual():
    X = noisy_columns(400)
    model = KernelDensity().fit(X)
    rows = noisy_columns(60, seed=2)
    moved = np.arange(60) % 6
    rows[np.arange(60), moved] += 2.0
    plain = OneClassDTD(model).explain(rows)
    found = OneClassDTD(model, relative=True).explain(rows)
    assert (plain.values.argmax(axis=1) == moved).mean() < 0.5
    assert (found.values.argmax(axis=1) == moved).mean() > 0.8


def test_the_rule_shows_the_relative_form_where_it_names_columns_better():
    X = noisy_columns(400)
    found = tellwhy.explain(OneClassSVM().fit(X), X[:3])
    assert found.kind == "relative"
    assert "names that column better than the plain one" in found.params["form"]
    assert tellwhy.explain(OneClassSVM().fit(X), X[:3], "OneClassDTD").kind == "attribution"
    assert tellwhy.explain(OneClassSVM().fit(X), X[:3], relative=False).kind == "attribution"


def test_the_rule_keeps_plain_relevance_where_nothing_is_gained():
    # one column only; and columns that are all alike
    one = np.random.default_rng(0).normal(size=(100, 1))
    alike = np.random.default_rng(1).normal(size=(500, 3))
    constant = np.repeat([[1.0, 2.0]], 30, axis=0)
    for X in (one, alike, constant):
        found = tellwhy.explain(OneClassSVM(bandwidth=1.0).fit(X), X[:3] + 5.0)
        assert found.kind == "attribution"
        assert found.params["form"].startswith("plain relevance: ")


def test_the_rule_and_the_values_do_not_depend_on_the_order_of_the_columns():
    X = noisy_columns(150)
    order = np.random.default_rng(3).permutation(X.shape[1])
    one = OneClassDTD(KernelDensity().fit(X), relative="auto").explain(X[:9])
    other = OneClassDTD(KernelDensity().fit(X[:, order]), relative="auto").explain(X[:9, order])
    assert one.params["form"] == other.params["form"]
    np.testing.assert_allclose(one.values[:, order], other.values, rtol=1e-8)


def table(n=300):
    rng = np.random.default_rng(0)
    kind = rng.choice(["red", "green", "blue"], n, p=[0.5, 0.48, 0.02])
    return pd.DataFrame({"size": rng.normal(size=n), "kind": kind, "noise": 9.0 * rng.normal(size=n)})


def encoded(frame, detector):
    columns = make_column_transformer(
        (StandardScaler(), ["size", "noise"]), (OneHotEncoder(sparse_output=False), ["kind"])
    )
    return make_pipeline(columns, detector).fit(frame)


def test_columns_of_an_encoding_are_added_up_before_they_are_compared():
    frame = table()
    model = encoded(frame, KernelDensity())
    plain = OneClassDTD(model).explain(frame.iloc[:20])
    found = OneClassDTD(model, relative=True).explain(frame.iloc[:20])
    assert list(found.feature_names) == ["size", "kind", "noise"]
    usual = np.array(found.params["usual_relevance"])
    assert usual.shape == (3,)
    np.testing.assert_allclose(found.values * usual, plain.values, rtol=1e-12)


def test_a_model_without_ordinary_rows_is_told_them_or_says_so():
    X = noisy_columns(300)
    model = make_pipeline(StandardScaler(), SklearnOneClassSVM(nu=0.1)).fit(X)
    with pytest.raises(InvalidInput, match=r"remember\(X_train\)"):
        OneClassDTD(model, relative=True).explain(X[:2])
    alone = tellwhy.explain(model, X[:2])
    assert alone.kind == "attribution"
    assert "no ordinary rows" in alone.params["form"]
    told = OneClassDTD(model, relative=True).remember(X).explain(X[:2])
    assert told.kind == "relative"
    by_line = tellwhy.explain(model, X[:2], background=X)
    assert by_line.kind == "relative"
    np.testing.assert_allclose(by_line.values, told.values)


def test_a_model_fitted_again_is_read_again():
    X = noisy_columns(100)
    model = OneClassSVM().fit(X)
    explainer = OneClassDTD(model, relative=True)
    before = explainer.explain(X[:2]).params["usual_relevance"]
    model.fit(X * np.r_[np.ones(6), np.full(6, 0.01)])
    after = explainer.explain(X[:2]).params["usual_relevance"]
    assert after[-1] < 0.5 * before[-1]


def test_it_is_saved_and_loaded_with_its_kind(tmp_path):
    X = noisy_columns(100)
    found = OneClassDTD(KernelDensity().fit(X), relative=True).explain(X[:4])
    again = Explanation.load(found.save(tmp_path / "relative"))
    assert again.kind == "relative"
    np.testing.assert_array_equal(again.values, found.values)
    np.testing.assert_array_equal(again.extras["relevance"], found.extras["relevance"])
    assert again.params["usual_relevance"] == found.params["usual_relevance"]


def test_altered_rows_are_judged_without_the_row_they_were_made_from():
    # Beside the row it was made from, an altered row differs in the moved column alone: naming it is no feat.
    X = np.random.default_rng(0).normal(size=(200, 30))
    explainer = OneClassDTD(KernelDensity(bandwidth=1.0).fit(X), relative="auto")
    words = explainer.explain(X[:2]).params["form"]
    ranks = [float(word.strip(")")) for word in words.split() if word.startswith("0.")]
    assert len(ranks) == 2
    assert max(ranks) < 0.6


def test_what_is_usual_is_found_once_for_a_model_and_does_not_keep_it(monkeypatch):
    calls = []
    find = OrdinaryRows._find_usual

    def counted(self):
        calls.append(1)
        return find(self)

    monkeypatch.setattr(OrdinaryRows, "_find_usual", counted)
    X = noisy_columns(100)
    model = OneClassSVM().fit(X)
    first = tellwhy.explain(model, X[:1], relative=True)
    again = tellwhy.explain(model, X[:1], relative=True)
    assert len(calls) == 1
    np.testing.assert_array_equal(first.values, again.values)
    tellwhy.explain(model, X[:1], background=X[:50], relative=True)  # other ordinary rows
    assert len(calls) == 2
    gone = weakref.ref(model.expansion_)
    del model, first, again
    gc.collect()
    assert gone() is None
