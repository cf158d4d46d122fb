"""Classifiers on kernel bases: softmax by mini-batches, other heads, new classes, rows from files."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import check_grad
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from tellwhy.bases import KernelBasis
from tellwhy.bases.projections import FeatureMap
from tellwhy.classifiers import KernelBasisClassifier, WestonWatkinsSVM
from tellwhy.classifiers.softmax import (
    SoftmaxPlan,
    SoftmaxState,
    class_scores,
    compute_loss_gradient,
    log_probabilities,
    mean_loss,
    take_adam_step,
    train_softmax,
)
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnreadableFile
from tellwhy.data import parquet_batches

X, Y = load_digits(return_X_y=True)
X = X / 16 - X.mean(axis=0) / 16
BASIS = KernelBasis(n_features=200, random_state=0)


@parametrize_with_checks(
    [
        KernelBasisClassifier(KernelBasis(n_features=60, random_state=0), max_epochs=20, random_state=0),
        KernelBasisClassifier(KernelBasis(n_features=60, random_state=0), LinearSVC(random_state=0)),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(20, 4)), rng.integers(0, 3, 20)

    def loss(w):
        scores = log_probabilities(class_scores(features, w.reshape(5, 3)))
        return -scores[np.arange(20), labels].mean()

    start = rng.normal(size=15)
    assert (
        check_grad(loss, lambda w: compute_loss_gradient(features, labels, w.reshape(5, 3)).ravel(), start)
        < 1e-6
    )
    whole = mean_loss(lambda rows: features[rows], labels, np.arange(20), start.reshape(5, 3))
    assert whole == pytest.approx(loss(start))


def test_steps_are_those_of_adam():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    start, gradients = rng.normal(size=(3, 2)), rng.normal(size=(5, 3, 2))
    weights, state = (
        torch.tensor(start, requires_grad=True),
        SoftmaxState(start, np.zeros((3, 2)), np.zeros((3, 2))),
    )
    optimiser = torch.optim.Adam([weights], lr=0.03)
    for gradient in gradients:
        weights.grad = torch.tensor(gradient)
        optimiser.step()
        state = take_adam_step(state, gradient, 0.03)
    np.testing.assert_allclose(state.weights, weights.detach().numpy(), rtol=1e-6)


def test_two_classes_have_one_score_and_batches_repeat_to_the_bit():
    def grown():
        model = KernelBasisClassifier(BASIS, random_state=0)
        for part in (slice(0, 80), slice(80, 160), slice(160, 240)):
            model.partial_fit(X[part], Y[part] % 2, classes=[0, 1])
        return model

    one, other = grown(), grown()
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    np.testing.assert_array_equal(one.decision_function(X) > 0, one.predict(X) == 1)
    odds = one.predict_log_proba(X)
    np.testing.assert_allclose(one.decision_function(X), odds[:, 1] - odds[:, 0], atol=1e-9)


def test_rows_held_out_do_not_train_the_softmax():
    seen, features = set(), np.random.default_rng(0).normal(size=(40, 3))

    def noted(rows):
        seen.update(rows.tolist())
        return features[rows]

    plan = SoftmaxPlan(0.1, 8, 1, 1)
    labels, held = np.arange(40) % 2, np.arange(10)
    flipped = np.where(np.arange(40) < 10, 1 - labels, labels)
    found = [
        train_softmax(noted, y, held, start=SoftmaxState.zero(3, 2), plan=plan, rng=np.random.default_rng(1))[
            0
        ]
        for y in (labels, flipped)
    ]
    np.testing.assert_array_equal(found[0].weights, found[1].weights)
    assert seen == set(range(40))


def test_training_comes_close_to_the_optimum_and_keeps_the_best_epoch():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(900, 5))
    labels = (features @ rng.normal(size=(5, 3)) + rng.gumbel(size=(900, 3))).argmax(axis=1)
    held = np.arange(300)
    plan = SoftmaxPlan(0.02, 32, 60, 5)
    zero = SoftmaxState.zero(5, 3)
    state, losses = train_softmax(lambda r: features[r], labels, held, start=zero, plan=plan, rng=rng)
    best = LogisticRegression(C=1e6).fit(features[300:], labels[300:])
    assert losses.min() < 1.02 * -best.predict_log_proba(features[held])[np.arange(300), labels[held]].mean()
    assert mean_loss(lambda r: features[r], labels, held, state.weights) == pytest.approx(
        losses.min(), rel=1e-3
    )
    assert len(losses) < 60


def test_digits_are_learned_and_probabilities_sum_to_one():
    model = KernelBasisClassifier(BASIS, max_epochs=20, random_state=0).fit(X[:1200], Y[:1200])
    assert model.score(X[1200:], Y[1200:]) > 0.9
    probabilities = model.predict_proba(X[1200:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)], model.predict(X[1200:]))
    np.testing.assert_allclose(np.log(probabilities), model.predict_log_proba(X[1200:]))
    again = KernelBasisClassifier(BASIS, max_epochs=20, random_state=0).fit(X[:1200], Y[:1200])
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert not hasattr(BASIS, "map_")


@pytest.mark.parametrize(
    "head", [LinearSVC(random_state=0), WestonWatkinsSVM(random_state=0)], ids=["scikit-learn", "ours"]
)
def test_other_heads(head):
    model = KernelBasisClassifier(BASIS, head).fit(X[:600], Y[:600])
    assert model.score(X[1200:], Y[1200:]) > 0.85
    np.testing.assert_array_equal(
        model.head_.decision_function(model.basis_.transform(X)), model.decision_function(X)
    )
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "partial_fit")
    model.set_params(head="softmax", max_epochs=1).fit(X[:100], Y[:100])
    assert not hasattr(model, "head_")


@pytest.mark.parametrize("head", ["softmax", LinearSVC(random_state=0)], ids=["softmax", "svm"])
def test_rows_are_classified_batch_by_batch(head, monkeypatch):
    """Features of all rows are never held at once."""
    model = KernelBasisClassifier(BASIS, head, max_epochs=2, random_state=0).fit(X[:300], Y[:300])
    whole, scores = model.predict(X), model.decision_function(X)
    seen, apply = [], FeatureMap.apply
    monkeypatch.setattr(
        "tellwhy.core.running.cut_batches", lambda n, *_: [slice(i, i + 50) for i in range(0, n, 50)]
    )
    monkeypatch.setattr(FeatureMap, "apply", lambda self, rows: seen.append(len(rows)) or apply(self, rows))
    np.testing.assert_array_equal(model.predict(X), whole)
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-12)
    assert max(seen) == 50
    assert sum(seen) == 2 * len(X)


def test_the_classifier_trained_with_the_basis_is_used():
    pytest.importorskip("torch")
    basis = KernelBasis(
        basis="discriminative", n_features=30, max_epochs=4, learning_rate=0.01, random_state=0
    )
    model = KernelBasisClassifier(basis, max_epochs=20).fit(X[:1000], Y[:1000])
    np.testing.assert_array_equal(model.softmax_.weights[:-1], model.basis_.softmax_.weights)
    assert model.score(X[1000:], Y[1000:]) > 0.7
    few = Y < 5
    transferred = model.transfer(X[few], np.array(list("abcde"))[Y[few]])
    assert transferred.basis_ is model.basis_
    assert transferred.score(X[few], np.array(list("abcde"))[Y[few]]) > 0.9
    assert transferred.softmax_.weights.shape == (31, 5)


def test_what_is_asked_of_the_classifier_holds_for_a_basis_with_its_own_softmax():
    pytest.importorskip("torch")
    basis = KernelBasis(basis="discriminative", n_features=20, max_epochs=2, n_batches=20, random_state=0)
    plain = KernelBasisClassifier(basis).fit(X[:600], Y[:600])
    again = KernelBasisClassifier(basis, refit=True).fit(X[:600], Y[:600])
    expected = KernelBasis(**{**basis.get_params(), "refit": True}).fit(X[:600], Y[:600])
    np.testing.assert_array_equal(again.softmax_.weights[:-1], expected.softmax_.weights)
    assert np.abs(again.softmax_.weights - plain.softmax_.weights).max() > 1e-3
    assert not basis.refit, "the user's basis is left as it is"
    solved = KernelBasisClassifier(basis, solver="convex", ridge=1e-4, random_state=0).fit(X[:600], Y[:600])
    assert solved.gap_ <= 1e-3
    np.testing.assert_array_equal(solved.basis_.transform(X[:9]), plain.basis_.transform(X[:9]))
    assert np.abs(solved.softmax_.weights - plain.softmax_.weights).max() > 1e-3


def test_new_classes_on_an_old_basis():
    low = Y < 5
    model = KernelBasisClassifier(BASIS, max_epochs=20, random_state=0).fit(X[low], Y[low])
    before = model.decision_function(X)
    other = model.transfer(X[~low], y_new=Y[~low])
    assert other.basis_ is model.basis_
    assert other.classes_.tolist() == [5, 6, 7, 8, 9]
    assert other.score(X[~low], Y[~low]) > 0.9
    np.testing.assert_array_equal(model.decision_function(X), before)
    with pytest.raises(InvalidInput, match="expecting 64"):
        model.transfer(X[:, :3], Y)


def test_batches_of_a_parquet_file(tmp_path):
    frame = pd.DataFrame(X, columns=[f"p{i}" for i in range(64)]).assign(digit=Y)
    frame.to_parquet(tmp_path / "digits.parquet", row_group_size=300)
    model = KernelBasisClassifier(BASIS, max_epochs=20, random_state=0)
    for _ in range(8):
        for rows, labels in parquet_batches(tmp_path / "digits.parquet", "digit", n_rows=500):
            model.partial_fit(rows, labels, classes=np.arange(10))
    assert model.score(X, Y) > 0.9
    assert model.softmax_.n_steps == 8 * sum(-(-n // 64) for n in (500, 500, 500, 297))
    columns = [rows for rows, labels in parquet_batches(tmp_path / "digits.parquet")]
    assert columns[0].shape[1] == 65


def test_bad_parquet_files_are_refused(tmp_path):
    pd.DataFrame({"a": [1.0, None], "b": ["x", "y"]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(InvalidInput, match=r"Column 'b' of .* holds .*string; expected numbers"):
        next(parquet_batches(tmp_path / "rows.parquet"))
    with pytest.raises(InvalidInput, match=r"has no column 'c'. It has: a, b"):
        next(parquet_batches(tmp_path / "rows.parquet", "c"))
    rows, labels = next(parquet_batches(tmp_path / "rows.parquet", "b"))
    assert np.isnan(rows[1, 0])
    with pytest.raises(InvalidInput, match="NaN in row 1, column 0"):
        KernelBasisClassifier(BASIS).partial_fit(rows, labels, classes=["x", "y"])
    (tmp_path / "rows.parquet").write_bytes(b"other")
    with pytest.raises(UnreadableFile, match="cannot be read as Parquet"):
        next(parquet_batches(tmp_path / "rows.parquet"))


def test_partial_fit_wants_to_know_all_classes():
    with pytest.raises(InvalidInput, match="needs classes="):
        KernelBasisClassifier(BASIS).partial_fit(X, Y)
    model = KernelBasisClassifier(BASIS).partial_fit(X[Y < 3], Y[Y < 3], classes=[0, 1, 2])
    with pytest.raises(
        InvalidInput, match=r"y holds .*3.* in row 3, which is not among the classes \[0, 1, 2\]"
    ):
        model.partial_fit(X[:10], Y[:10])
    with pytest.raises(InvalidInput, match="expecting 64"):
        model.partial_fit(X[:10, :2], Y[:10] % 3)


@pytest.mark.parametrize(
    "basis", [BASIS, KernelBasis("arccos", n_features=50, random_state=0)], ids=["gaussian", "arccos"]
)
def test_few_rows_one_column_constant_columns(basis):
    rows = np.array([[0.0, 1.0], [1.0, 1.0], [5.0, 1.0], [6.0, 1.0]])
    for some in (rows, rows[:, :1]):
        model = KernelBasisClassifier(basis, random_state=0).fit(some, ["a", "a", "b", "b"])
        assert set(model.predict(some)) <= {"a", "b"}


def test_bad_input_is_refused():
    with pytest.raises(InvalidInput, match="only one class"):
        KernelBasisClassifier(BASIS).fit(X, np.zeros(len(X)))
    hole = X.copy()
    hole[2, 3] = np.inf
    with pytest.raises(InvalidInput, match=r"infinity .* in row 2, column 3"):
        KernelBasisClassifier(BASIS).fit(hole, Y)
    with pytest.raises(InvalidParameter, match="'basis' parameter of KernelBasisClassifier"):
        KernelBasisClassifier("random").fit(X, Y)
    with pytest.raises(InvalidParameter, match="'head' parameter of KernelBasisClassifier"):
        KernelBasisClassifier(BASIS, "svm").fit(X, Y)
