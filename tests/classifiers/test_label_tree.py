"""Trees of small SVMs over many classes."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import log_softmax

from tellwhy.classifiers import LabelTreeSVM, WestonWatkinsSVM, load
from tellwhy.classifiers.grown_tree import split_classes
from tellwhy.core.errors import InvalidInput, NotConverged


def texts(n_classes=24, n=8, d=120, seed=0):
    """Sparse rows of unit length; classes of one group of six share words."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_classes), n)
    X = np.zeros((len(y), d))
    for i, c in enumerate(y):
        X[i, rng.choice(10, 3) + 10 * (c // 6)] = 1.0
        X[i, 40 + 3 * c + rng.choice(3, 2)] = 1.5
        X[i, rng.choice(d, 2)] = 0.7
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return sparse.csr_array(X), np.array([f"c{c:02d}" for c in y])


@pytest.fixture(scope="module")
def fitted():
    X, y = texts()
    return LabelTreeSVM(max_leaf=4, n_trees=2, random_state=1).fit(X, y)


def slow_chances(model, x):
    """Probability of every class of one row, by following every way of every tree."""
    total = np.zeros(len(model.classes_))
    for root in model.roots_:
        waiting = [(int(root), 0.0)]
        while waiting:
            node, logp = waiting.pop()
            ways = np.arange(model.first_way_[node], model.first_way_[node + 1])
            scores = model.coef_[ways].toarray() @ x + model.intercept_[ways]
            tempered = log_softmax(scores / model.temperatures_[int(model.leads_to_[ways[0]] < 0)])
            for way, gain in zip(ways, tempered, strict=True):
                to = int(model.leads_to_[way])
                if to < 0:
                    total[-1 - to] += np.exp(logp + gain)
                else:
                    waiting.append((to, logp + gain))
    return total / len(model.roots_)


def test_a_wide_beam_is_every_way(fitted):
    X = texts(seed=1)[0][:40]
    wide = fitted.set_params(beam=1000)
    labels, chances = wide.find_top_k(X, 24)
    for i in range(40):
        every = slow_chances(fitted, X[[i]].toarray()[0])
        assert every.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(chances[i], np.sort(every)[::-1], atol=1e-12)
        assert labels[i, 0] == fitted.classes_[every.argmax()]


def test_a_narrow_beam_finds_nearly_the_same_and_fills_up(fitted):
    X, y = texts(seed=2)
    narrow = fitted.set_params(beam=1)
    labels, chances = narrow.find_top_k(X, 24)
    assert (np.sort(labels, axis=1) == fitted.classes_).all()
    assert (chances >= 0).all()
    assert (chances.sum(axis=1) <= 1 + 1e-12).all()
    fitted.set_params(beam=10)
    assert np.mean(fitted.predict(X) == y) > 0.9
    assert np.mean(labels[:, 0] == fitted.predict(X)) > 0.85


def test_one_leaf_is_the_svm_itself():
    X, y = texts(6)
    svm = WestonWatkinsSVM(random_state=0)
    tree = LabelTreeSVM(svm, n_trees=1).fit(X, y)
    flat = svm.fit(X, y)
    np.testing.assert_array_equal(tree.predict(X), flat.predict(X))
    order = tree.classes_[-1 - tree.leads_to_]
    np.testing.assert_allclose(tree.coef_.toarray(), flat.coef_[np.searchsorted(flat.classes_, order)])
    assert tree.dual_gap_ == flat.dual_gap_


def test_every_node_is_the_svm_of_its_rows(fitted):
    """Weights of a branching are those of an SVM on the rows of its classes, halves as labels."""
    X, y = texts()
    root = int(fitted.roots_[0])
    halves = [fitted._list_classes(way) for way in range(*fitted.first_way_[[root, root + 1]])]
    assert sorted(halves[0] + halves[1]) == sorted(set(y))
    svm = WestonWatkinsSVM(tol=1e-2, random_state=0)
    second = np.isin(y, halves[1])
    order = np.concatenate([np.flatnonzero(np.isin(y, half)) for half in halves])  # as the tree has them
    peer = svm.fit(X[order], second[order].astype(int))
    here = peer.decision_function(X)
    weights = fitted.coef_[[0, 1]].toarray()
    tree = X @ (weights[1] - weights[0]) + fitted.intercept_[1] - fitted.intercept_[0]
    assert np.mean((tree > 0) == (here > 0)) > 0.99
    np.testing.assert_allclose(tree, here, atol=0.15)


def test_classes_that_are_alike_stay_together():
    X, y = texts(12)
    sums = np.array([X[y == c].sum(axis=0) for c in np.unique(y)])
    sums /= np.linalg.norm(sums, axis=1, keepdims=True)
    apart = 0
    for seed in range(10):
        halves = split_classes(sparse.csr_array(sums), np.random.default_rng(seed))
        assert halves.sum() == 6
        apart += len(set(halves[:6])) == 1
    assert apart >= 5  # of cuts by chance one in 462; starts within one group may end in a worse one


def test_words_of_the_way_sum_to_its_leads(fitted):
    X = texts(seed=3)[0][:6]
    explanation = fitted.explain(X)
    np.testing.assert_allclose(explanation.scores, explanation.values.sum(axis=1) + explanation.base_values)
    for i in range(6):
        steps = fitted.explain_path(X[[i]], most=200)
        assert sum(step.lead for step in steps) == pytest.approx(float(explanation.scores[i]))
        assert steps[-1].chosen == (fitted.predict(X[[i]])[0],)
        assert len(steps[0].chosen) + len(steps[0].left) == 24
        named = dict(steps[0].words)
        present = {f"x{j}" for j in X[[i]].indices}
        assert set(named) <= present
    assert (explanation.values[np.asarray(X.toarray()) == 0] == 0).all()


def test_saved_and_read_again(fitted, tmp_path):
    X = texts(seed=4)[0]
    again = load(fitted.save(tmp_path / "tree.tellwhy"))
    np.testing.assert_array_equal(again.find_top_k(X, 3)[1], fitted.find_top_k(X, 3)[1])


def test_threads_change_nothing():
    X, y = texts(12)
    one, two = (LabelTreeSVM(max_leaf=4, n_trees=1, n_jobs=n).fit(X, y) for n in (1, 2))
    np.testing.assert_array_equal(one.coef_.toarray(), two.coef_.toarray())


def test_what_is_wrong_is_told():
    X, y = texts(6)
    with pytest.raises(InvalidInput, match="needs at least 2 classes"):
        LabelTreeSVM().fit(X[:4], y[:4])
    with pytest.warns(NotConverged, match="Some nodes of the 1 trees"):
        LabelTreeSVM(WestonWatkinsSVM(tol=1e-9, max_epochs=1), n_trees=1, max_leaf=3).fit(X, y)
    with pytest.raises(InvalidInput):
        LabelTreeSVM(n_trees=1).fit(X, y).predict(X[:, :5])


def test_three_classes_in_leaves_of_two():
    X, y = texts(3)
    tree = LabelTreeSVM(max_leaf=2, n_trees=1).fit(X, y)
    assert np.mean(tree.predict(X) == y) > 0.9
    np.testing.assert_allclose(tree.find_top_k(X, 3)[1].sum(axis=1), 1.0)
