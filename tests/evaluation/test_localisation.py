"""Cells that were moved: which explainer names them, and the choice of one by it."""

import numpy as np
import pytest
from oracles.evaluation_oracles import expected_localisation, pairwise_auroc

from tellwhy import Explanation
from tellwhy.evaluation import choose_by_injection, localisation
from tellwhy.explainers import KernelShap, RandomAttribution


def explanation_of(values):
    values = np.asarray(values, dtype=float)
    return Explanation(values=values, scores=np.zeros(len(values)), method="M", kind="ranking")


@pytest.mark.parametrize("levels", [2, 3, 1000])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_equals_the_average_over_all_orders_of_ties(levels, k):
    rng = np.random.default_rng(levels)
    values = rng.integers(levels, size=(30, 5)) - 1.0
    truth = rng.random((30, 5)) < 0.4
    truth[truth.sum(axis=1) == 0, 2] = True
    truth[truth.all(axis=1), 0] = False
    found = localisation(explanation_of(values), truth, k=k)
    expected = [expected_localisation(v, t, k) for v, t in zip(values, truth, strict=True)]
    np.testing.assert_allclose(found.reciprocal_ranks, [e[0] for e in expected], rtol=1e-12)
    np.testing.assert_allclose(found.hit, [e[1] for e in expected], rtol=1e-12)
    aurocs = [pairwise_auroc(v, t) for v, t in zip(values, truth, strict=True)]
    np.testing.assert_allclose(found.aurocs, aurocs, rtol=1e-12)
    assert found.mrr == pytest.approx(np.mean(found.reciprocal_ranks))
    assert found.hits == pytest.approx(np.mean(found.hit))
    assert found.auroc == pytest.approx(np.mean(aurocs))


def test_a_perfect_and_a_reversed_explanation():
    truth = np.eye(4, dtype=bool)
    perfect = localisation(explanation_of(truth), truth, k=1)
    assert (perfect.mrr, perfect.hits, perfect.auroc) == (1.0, 1.0, 1.0)
    worst = localisation(explanation_of(-truth.astype(float)), truth, k=3)
    assert (worst.mrr, worst.hits, worst.auroc) == (0.25, 0.0, 0.0)


def test_a_constant_explanation_scores_what_chance_scores():
    truth = np.zeros((1, 10), dtype=bool)
    truth[0, 0] = True
    constant = localisation(explanation_of(np.ones((1, 10))), truth)
    harmonic = sum(1 / r for r in range(1, 11)) / 10
    assert constant.mrr == pytest.approx(harmonic)
    assert constant.hits == pytest.approx(0.3)
    assert constant.auroc == 0.5
    values = np.random.default_rng(0).random((20_000, 10))
    chance = localisation(explanation_of(values), np.repeat(truth, len(values), axis=0))
    assert chance.mrr == pytest.approx(harmonic, abs=0.01)
    assert chance.hits == pytest.approx(0.3, abs=0.01)


def test_rows_without_or_full_of_true_features():
    values = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    found = localisation(explanation_of(values), [[False, False], [True, True], [True, False]], k=1)
    np.testing.assert_array_equal(found.reciprocal_ranks, [np.nan, 1.0, 0.5])
    np.testing.assert_array_equal(found.hit, [np.nan, 1.0, 0.0])
    np.testing.assert_array_equal(found.aurocs, [np.nan, np.nan, 0.0])
    assert (found.mrr, found.hits, found.auroc) == (0.75, 0.5, 0.0)
    everything = localisation(explanation_of(values), np.ones((3, 2)))
    assert everything.mrr == 1.0
    assert np.isnan(everything.auroc)


def test_negative_values_rank_last():
    found = localisation(explanation_of([[-5.0, 0.0, 1.0]]), [[True, False, False]])
    assert found.mrr == pytest.approx(1 / 3)


def test_images_are_flattened():
    values = np.arange(8.0).reshape(2, 2, 2)
    truth = np.zeros((2, 2, 2), dtype=bool)
    truth[:, 1, 1] = True
    assert localisation(explanation_of(values), truth).mrr == 1.0
    assert localisation(explanation_of(values), truth.reshape(2, 4)).mrr == 1.0


def test_many_features_with_many_ties():
    values = np.zeros((3, 5_000))
    values[:, 7] = 1.0
    truth = np.zeros((3, 5_000), dtype=bool)
    truth[:, 100:200] = True
    found = localisation(explanation_of(values), truth)
    assert np.isfinite(found.reciprocal_ranks).all()
    assert 0 < found.mrr < 0.5
    assert found.hits == pytest.approx(1 - (4899 / 4999) * (4898 / 4998))


X = np.random.default_rng(0).normal(size=(200, 8))


def distance(rows):
    return (rows**2).sum(axis=1)


def shap():
    return KernelShap(distance).fit(X)


def test_the_better_one_is_taken_whatever_its_place():
    for names in (("random", "shap"), ("shap", "random")):
        made = {"random": RandomAttribution(distance), "shap": shap()}
        found = choose_by_injection({name: made[name] for name in names}, X)
        assert found.best == "shap"
        assert found.means["shap"] > found.means["random"] + 0.1


def test_the_first_stays_in_doubt():
    first, second = RandomAttribution(distance, random_state=1), RandomAttribution(distance, random_state=2)
    for made in ({"one": first, "two": second}, {"two": second, "one": first}):
        assert choose_by_injection(made, X).best == next(iter(made))


def test_it_says_what_was_tried():
    found = choose_by_injection({"shap": shap()}, X, n_rows=20)
    assert len(found.reciprocal_ranks["shap"]) == 20
    assert found.words == (
        f"shap: mean reciprocal rank of one cell moved in each of 20 rows: shap {found.means['shap']:.2f}"
    )


def test_seeds():
    same, again, other = (
        choose_by_injection({"shap": shap()}, X, seed).reciprocal_ranks["shap"] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(same, again)
    assert (same != other).any()
