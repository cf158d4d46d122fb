"""The committee: conserved shares, right columns, and next to no alarms on clean tables."""

import numpy as np
import pytest

import tellwhy
from tellwhy.core.errors import InvalidParameter
from tellwhy.detectors import Committee
from tellwhy.detectors.committee.members import Tails
from tellwhy.explainers import CommitteeShares

CLEAN = ("normal", "correlated", "lognormal", "heavy", "clusters", "counts", "labels")


def table(kind, seed, n=1500, d=6):
    rng = np.random.default_rng(seed)
    if kind == "correlated":
        return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.3 * rng.normal(size=(n, d))
    if kind == "lognormal":
        return np.exp(rng.normal(size=(n, d)) * rng.uniform(0.3, 1.2, d))
    if kind == "heavy":
        return rng.standard_t(3, size=(n, d))
    if kind == "clusters":
        return 5 * rng.normal(size=(4, d))[rng.integers(4, size=n)] + rng.normal(size=(n, d))
    if kind == "counts":
        return rng.poisson(rng.uniform(0.5, 20, d), size=(n, d)).astype(float)
    if kind == "labels":
        blocks = [np.eye(5)[rng.choice(5, n, p=rng.dirichlet(np.ones(5)))] for _ in range(3)]
        return np.column_stack([*blocks, rng.normal(size=(n, 3))])
    return rng.normal(size=(n, d))


def alarms(scores, share=0.1):
    """Number of rows that Benjamini and Hochberg's rule flags at this false discovery rate."""
    p = np.sort(np.exp(-scores))
    below = np.flatnonzero(p <= share * np.arange(1, len(p) + 1) / len(p))
    return 0 if not len(below) else int(below[-1]) + 1


@pytest.mark.parametrize("kind", CLEAN)
def test_a_clean_table_raises_next_to_no_alarms(kind):
    found = [alarms(Committee().fit(table(kind, seed)).training_scores_) for seed in (11, 12)]
    assert sum(found) <= 2


def test_far_out_the_last_tail_is_a_little_heavier_than_exponential():
    together = Committee().fit(table("normal", 3)).panel_.together
    start, level = together.knots[-1], together.levels[-1]
    assert together.value(np.array([start + 10.0]))[0] - level == pytest.approx(np.log1p(0.3) / 0.03, rel=0.1)
    assert together.scale >= 1.0


@pytest.mark.parametrize("kind", ["normal", "correlated", "clusters", "counts", "labels"])
def test_values_eight_deviations_off_are_found_and_named(kind):
    rng = np.random.default_rng(5)
    X = table(kind, 21)
    rows = rng.choice(len(X), 8, replace=False)
    columns = rng.choice([j for j in range(X.shape[1]) if len(np.unique(X[:, j])) > 2], 8)
    X[rows, columns] = X.mean(axis=0)[columns] + 8 * X.std(axis=0)[columns]
    committee = Committee().fit(X)
    assert set(rows) <= set(np.argsort(-committee.training_scores_)[:16])
    explanation = CommitteeShares(committee).explain(X)[rows]
    assert (explanation.values.argmax(axis=1) == columns).mean() >= 7 / 8


@pytest.mark.parametrize("kind", ["normal", "correlated", "lognormal", "clusters"])
def test_placeholders_are_all_found_flagged_and_named(kind):
    X = table(kind, 31, n=1000)
    X[100:130, 2] = -999.0
    committee = Committee().fit(X)
    order = np.argsort(-committee.training_scores_)
    assert set(order[:30]) == set(range(100, 130))
    assert 30 <= alarms(committee.training_scores_) <= 33
    explanation = CommitteeShares(committee).explain(X)[100:130]
    assert (explanation.values.argmax(axis=1) == 2).all()


def test_an_explanation_does_not_depend_on_equal_anomalies():
    X = table("correlated", 41, n=1000)
    alone, together = X.copy(), X.copy()
    alone[0, 2] = -999.0
    together[:30, 2] = -999.0
    shares = [CommitteeShares(Committee().fit(rows)).explain(rows).shares()[0] for rows in (alone, together)]
    assert shares[0].argmax() == shares[1].argmax() == 2
    np.testing.assert_allclose(*shares, atol=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_a_cluster_of_anomalies_does_not_vouch_for_itself(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, 6))
    X[:40] = 3 * rng.choice([-1, 1], 6) + 0.2 * rng.normal(size=(40, 6))
    scores = Committee().fit(X).training_scores_
    assert np.quantile(scores[:40], 0.1) > np.quantile(scores[40:], 0.98)


def test_shares_and_residual_add_up_to_the_score():
    X = table("labels", 51)
    explanation = CommitteeShares(Committee().fit(X)).explain(X)
    total = explanation.base_values + explanation.values.sum(axis=1) + explanation.residual
    np.testing.assert_allclose(total, explanation.scores, rtol=1e-12)
    odd = np.argsort(-explanation.scores)[:50]
    assert np.abs(explanation.residual[odd] / explanation.scores[odd]).max() < 0.25


def test_rare_pairs_of_common_labels_are_found_and_both_named():
    rng = np.random.default_rng(0)
    country = rng.choice(3, 3000, p=[0.5, 0.3, 0.2])
    payment = rng.choice(3, 3000, p=[0.4, 0.4, 0.2])
    payment[(country == 0) & (payment == 1)] = 0
    country[:3], payment[:3] = 0, 1
    X = np.column_stack([np.eye(3)[country], np.eye(3)[payment], rng.normal(size=3000)])
    committee = Committee().fit(X)
    assert {0, 1, 2} <= set(np.argsort(-committee.training_scores_)[:6])
    values = CommitteeShares(committee).explain(X).values[:3]
    by_column = np.column_stack([values[:, :3].sum(axis=1), values[:, 3:6].sum(axis=1), values[:, 6]])
    assert (by_column[:, :2].min(axis=1) > 2 * by_column[:, 2]).all()


def test_broken_dependence_is_found_and_named():
    rng = np.random.default_rng(0)
    a = rng.normal(size=2000)
    X = np.column_stack([a, a + 0.05 * rng.normal(size=2000), rng.normal(size=(2000, 3))])
    X[7, :2] = [1.2, -1.2]  # each value is ordinary
    committee = Committee().fit(X)
    assert committee.training_scores_.argmax() == 7
    assert set(np.argsort(-CommitteeShares(committee).explain(X).values[7])[:2]) == {0, 1}


def test_the_one_liner_chooses_the_shares():
    X = table("normal", 61, n=200)
    explanation = tellwhy.explain(Committee().fit(X), X[:3] + np.eye(6)[1] * 9)
    assert explanation.method == "CommitteeShares"
    assert (explanation.values.argmax(axis=1) == 1).all()


def test_members_are_chosen_and_added():
    X = table("normal", 71, n=300)
    only = Committee({"tails": 2.0}).fit(X)
    assert len(only.panel_.members) == 1
    added = Committee(extra={"tails again": lambda rows: Tails.learn(rows.X)}).fit(X)
    assert len(added.panel_.members) == len(Committee().fit(X).panel_.members) + 1
    with pytest.raises(InvalidParameter, match=r"no member 'magic'\. There are: tails, near"):
        Committee({"magic": 1.0}).fit(X)


def test_trimming_keeps_equal_anomalies_from_vouching_for_each_other():
    X = table("normal", 81, n=400)
    X[:12] = X[0] + 6.0
    trimmed = Committee().fit(X).training_scores_[:12].min()
    assert trimmed > 2 * Committee(trim=0.0).fit(X).training_scores_[:12].max()


def test_more_rows_than_are_remembered():
    X = table("normal", 91, n=600)
    X[3, 1] = 12.0
    committee = Committee(max_points=50).fit(X)
    assert committee.points_.shape == (50, 6)
    assert committee.training_scores_.argmax() == 3
