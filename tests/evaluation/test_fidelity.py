"""Fidelity of insights: what happens to decisions when the named features change, against random ones."""

from importlib.util import find_spec

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.evaluation import adversarial, fidelity, keep_top
from tellwhy.evaluation.fidelity import InputSample, _decision
from tellwhy.explainers import DMMMEN
from tellwhy.scoring import FunctionScore


def model(X):
    """The class 1 is where the first two of ten columns are large."""
    p = 1 / (1 + np.exp(-6 * (X[:, 0] + X[:, 1] - 1)))
    return np.column_stack([1 - p, p])


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).random((400, 10))


@pytest.fixture(scope="module")
def insight(rows):
    explainer = DMMMEN(model, n_components=2, n_sweeps=200, n_burn=100).fit(rows)
    return next(i for i in explainer.insights(per="target") if i.target == "1")


def test_named_features_decide_and_random_ones_do_not(insight, rows):
    found = fidelity(insight, model, rows, counts=[1, 2, 4], n_bootstraps=20)
    assert set(insight.ranking()[:2]) == {0, 1}
    assert (found.rates["nullified"][:, 1] == 0).all(), "without both columns nothing is left of the class"
    assert (found.rates["replaced"][:, 1] == 1).all()
    assert (found.rates["crafted"][:, 1] == 1).all()
    assert (found.rates["alone"][:, 1] == 1).all()
    assert found.random_rates["nullified"][:, 1].mean() > 0.5
    assert found.random_rates["replaced"][:, 1].mean() < 0.5
    assert found.random_rates["crafted"][:, 1].mean() < 0.9


def test_rates_by_hand(insight, rows):
    """One bootstrap of all rows, made again step by step."""
    found = fidelity(insight, model, rows, counts=[1], n_bootstraps=2, share=1.0, random_state=3)
    rng = np.random.default_rng(3)
    drawn = rows[rng.choice(400, size=400, replace=True)]
    positive = drawn[model(drawn)[:, 1] > 0.5].copy()
    negative = drawn[model(drawn)[:, 1] <= 0.5].copy()
    first = insight.ranking()[0]
    negative[:, first] = positive[:, first].mean()
    alone = np.zeros_like(positive)
    alone[:, first] = positive[:, first]
    positive[:, first] = 0.0
    assert found.rates["nullified"][0, 0] == (model(positive)[:, 1] > 0.5).mean()
    assert found.rates["replaced"][0, 0] == (model(negative)[:, 1] > 0.5).mean()
    assert found.rates["alone"][0, 0] == (model(alone)[:, 1] > 0.5).mean()


def test_ranking_counts_from_the_baseline(insight):
    from_zero, from_high = insight.ranking(), insight.ranking(2.0)
    assert set(from_zero[:2]) == {0, 1}
    assert set(from_high[-2:]) == {0, 1}, "below the baseline, raising columns take away"


def test_table_has_limits(insight, rows):
    table = fidelity(insight, model, rows, counts=[1, 2, 99], n_bootstraps=10).to_frame()
    assert sorted(table["features"].unique()) == [1, 2], "more features than there are"
    assert ((table["low"] <= table["rate"] + 1e-12) & (table["rate"] <= table["high"] + 1e-12)).all()
    assert set(table["chosen"]) == {"top", "random"}
    assert len(table) == 4 * 2 * 2


def test_same_seed_same_rates(insight, rows):
    first, second, third = (
        fidelity(insight, model, rows, counts=[1], n_bootstraps=5, random_state=s).rates["replaced"]
        for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)


def test_scores_are_decided_at_their_median():
    X = np.random.default_rng(0).normal(size=(200, 3)) + 1.0

    def score(rows):
        return 5 * rows[:, 1]

    insight = DMMMEN(score, n_components=1, n_sweeps=60, n_burn=30).fit(X).insights(per="target")[0]
    found = fidelity(insight, score, X, counts=[1], n_bootstraps=4)
    assert (found.rates["nullified"] == 0).all()


def test_scores_with_a_threshold_are_decided_there():
    X = np.random.default_rng(0).normal(size=(200, 3))
    limited = FunctionScore(lambda rows: 5 * rows[:, 1], threshold=4.0)
    np.testing.assert_array_equal(_decision(limited, "score", X)(X), 5 * X[:, 1] > 4.0)
    free = _decision(FunctionScore(lambda rows: 5 * rows[:, 1]), "score", X)
    assert free(X).sum() == 100, "without a threshold, half of the rows are above"


def test_cells_of_mixed_rows_are_drawn_one_by_one():
    everyone = np.arange(40.0).reshape(10, 4)
    sample = InputSample.of(
        everyone, np.ones(10, dtype=bool), everyone, baseline=0.0, rng=np.random.default_rng(0)
    )
    columns = sample.mixed % 4
    np.testing.assert_array_equal(columns, np.tile(np.arange(4.0), (10, 1)), err_msg="each in its own column")
    assert (np.ptp(sample.mixed // 4, axis=1) > 0).mean() > 0.8, "cells of one row come from several"


def test_keep_top_features(rows):
    X = rows[model(rows)[:, 1] > 0.6][:20]
    good = Explanation(values=X * [1, 1, *[0] * 8], scores=np.ones(20), method="good", data=X)
    bad = Explanation(values=X * [0, 0, *[1] * 8], scores=np.ones(20), method="bad", data=X)
    kept = keep_top(good, model, k=2)
    np.testing.assert_allclose(kept.probability, model(X)[:, 1])
    assert (kept.accuracy == 1).all()
    lost = keep_top(bad, model, k=8)
    assert (lost.accuracy == 0).all()
    np.testing.assert_allclose(lost.probability, 1 / (1 + np.exp(6)))
    low, high = kept.interval()
    assert low <= kept.probability.mean() <= high
    assert kept.interval("accuracy") == (1.0, 1.0)
    with pytest.raises(InvalidParameter, match="of"):
        kept.interval("method")


def test_keep_top_judges_the_explained_class():
    """The class that was explained is recorded; it need not be the one that the model prefers."""
    X = np.full((2, 10), 0.9)
    extras = {"target": np.array([0, 1])}
    explanation = Explanation(values=X, scores=np.ones(2), method="m", data=X, extras=extras)
    kept = keep_top(explanation, model, k=10)
    np.testing.assert_array_equal(kept.accuracy, [0.0, 1.0])
    np.testing.assert_allclose(kept.probability, model(X)[[0, 1], [0, 1]])


def test_keep_top_segments():
    X = np.ones((1, 4)) * 2.0
    segments = np.array([[0, 0, 1, 1]])
    values = np.array([[0.4, 0.4, 0.7, 0.0]])  # the first segment is worth more, though its cells are not
    explanation = Explanation(
        values=values,
        scores=[1.0],
        method="m",
        data=X,
        extras={"segments": segments, "target": np.array([1])},
    )

    def two(rows):
        p = 1 / (1 + np.exp(-rows[:, 0]))
        return np.column_stack([1 - p, p])

    assert keep_top(explanation, two, k=1).probability[0] == pytest.approx(1 / (1 + np.exp(-2)))
    assert keep_top(explanation, two, k=1, segments=np.array([[1, 1, 0, 0]])).probability[0] == pytest.approx(
        1 / (1 + np.exp(-2))
    )
    uneven = np.array([[0, 0, 0, 1]])  # 0.9 in three cells outweighs 0.5 in one
    sums = Explanation(values=np.array([[0.3, 0.3, 0.3, 0.5]]), scores=[1.0], method="m", data=X)
    assert keep_top(sums, two, k=1, segments=uneven).probability[0] == pytest.approx(1 / (1 + np.exp(-2)))
    other = np.array([[0.1, 0.1, 0.7, 0.0]])
    moved = Explanation(values=other, scores=[1.0], method="m", data=X, extras=explanation.extras)
    assert keep_top(moved, two, k=1).probability[0] == pytest.approx(0.5)


def test_vulnerabilities(insight):
    found = adversarial(insight, k=2)
    assert set(found.features) == {0, 1}
    assert (model(found.hidden)[:, 1] < 0.5).all()
    assert (model(found.planted)[:, 1] > 0.5).all()
    assert (model(found.crafted)[:, 1] > 0.5).all()
    untouched = np.setdiff1d(np.arange(10), found.features)
    np.testing.assert_array_equal(found.hidden[:, untouched], insight.examples[:, untouched])
    np.testing.assert_array_equal(found.planted[:, untouched], insight.others[:, untouched])


def test_refusals(insight, rows):
    with pytest.raises(InvalidInput, match="shape"):
        fidelity(insight, model, rows[:, :3])
    with pytest.raises(InvalidInput, match="inside and outside"):
        fidelity(insight, model, np.ones((5, 10)))
    with pytest.raises(InvalidParameter, match="share"):
        fidelity(insight, model, rows, share=0.0)
    with pytest.raises(InvalidInput, match="classifier"):
        keep_top(Explanation(values=rows, scores=rows[:, 0], method="m", data=rows), lambda X: X[:, 0])


@pytest.mark.skipif(not find_spec("torch"), reason="needs PyTorch")
def test_network_in_training_mode_is_not_touched(insight, rows):
    import torch
    from oracles.network_state import network_state, same_state

    network = torch.nn.Sequential(
        torch.nn.Linear(10, 2), torch.nn.BatchNorm1d(2, affine=False), torch.nn.Dropout(0.9)
    )
    network[0].weight.data[:] = torch.tensor([[-6.0, -6.0, *[0.0] * 8], [6.0, 6.0, *[0.0] * 8]])
    network[0].bias.data[:] = torch.tensor([6.0, -6.0])
    network[0](torch.tensor(rows, dtype=torch.float32)).sum().backward()
    network[0].register_forward_hook(lambda *_: modes.append(network.training))
    modes = []
    before = network_state(network)
    found = fidelity(insight, network, rows, counts=[2], n_bootstraps=4)
    explanation = Explanation(values=rows[:5], scores=np.ones(5), method="m", data=rows[:5])
    kept = keep_top(explanation, network, k=10)
    assert same_state(network_state(network), before)
    assert modes
    assert all(modes)
    assert (found.rates["nullified"] == 0).all(), "with dropout at work, some rows would be decided by chance"
    np.testing.assert_array_equal(kept.accuracy, 1.0)
