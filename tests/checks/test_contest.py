"""Explanations of a cell are weighed as their odds say, told by their probability, and grouped by cause."""

import itertools

import numpy as np
import pandas as pd
import pytest

from tellwhy.checks.contest import CAP, FALSE, SURE, TOLD, Claim, Support, choose, decide, weigh
from tellwhy.checks.facts import facts_of
from tellwhy.checks.mistakes import DECIMAL_SLIP, MISSPELLING, ODD_CELL, PLACEHOLDER

KINDS = (DECIMAL_SLIP, MISSPELLING, PLACEHOLDER)


@pytest.fixture
def seen():
    return facts_of(pd.DataFrame({"a": list("uvwxyz"), "b": [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]}), None)


def claim(mistake, column, rows, log_odds, **more):
    return Claim(mistake, (column,), np.array(rows), np.array(log_odds, dtype=float), **more)


def enumerated(claims, supports, column, row):
    """P(wrong) of one cell, by adding up the odds of every explanation of it."""
    best = {}
    for one in claims:
        for its, odds in zip(one.rows, one.log_odds, strict=True):
            if (one.columns[0], its) == (column, row):
                best[one.mistake.kind] = max(best.get(one.mistake.kind, -np.inf), min(odds, CAP))
    speaks = [
        odds
        for one in supports
        for its, odds in zip(one.rows, one.log_odds, strict=True)
        if (one.column, its) == (column, row)
    ]
    odds = {kind: np.exp(each) for kind, each in best.items()}
    wrong = sum(odds.values())
    return wrong / (wrong + np.exp(max([0.0, *speaks]))), max(odds, key=odds.get), max(odds.values()) / wrong


@pytest.mark.parametrize("seed", range(5))
def test_posteriors_are_those_of_adding_up_all_explanations(seen, seed):
    rng = np.random.default_rng(seed)
    claims = [
        claim(KINDS[k % 3], "ab"[k % 2], rng.choice(6, 3, replace=False), rng.normal(0, 6, 3))
        for k in range(9)
    ]
    supports = [Support("ab"[k], rng.choice(6, 2, replace=False), rng.normal(1, 3, 2)) for k in range(2)]
    found = weigh(seen, claims, supports)
    assert len(found.wrong) == len({(c.columns[0], r) for c in claims for r in c.rows})
    for at in range(len(found.wrong)):
        wrong, kind, part = enumerated(claims, supports, "ab"[found.column[at]], found.row[at])
        assert found.wrong[at] == pytest.approx(wrong, rel=1e-12)
        assert claims[found.claim[at]].mistake.kind == kind
        assert claims[found.claim[at]].rows[found.place[at]] == found.row[at]
        assert found.part[at] == pytest.approx(part, rel=1e-12)


def test_told_are_the_most_probable_while_their_mean_allows():
    rng = np.random.default_rng(3)
    for _ in range(20):
        wrong = rng.uniform(0.3, 1, 8)
        told = choose(wrong, np.zeros(8, bool), np.arange(8))
        sizes = [k for k in range(9) for some in [np.sort(wrong)[::-1][:k]] if (1 - some).sum() <= FALSE * k]
        largest = max(k for k in sizes if k == 0 or np.sort(wrong)[::-1][k - 1] >= TOLD)
        assert told.sum() == largest
        assert not told.any() or wrong[told].min() >= wrong[~told].max(initial=0)


def test_a_mistake_of_a_whole_column_counts_once():
    wrong = np.array([*[0.99] * 50, *[0.7] * 9])
    alone = np.arange(59)
    assert choose(wrong, np.zeros(59, bool), alone).sum() == 59
    one = np.array([*[0] * 50, *alone[1:10]])
    assert choose(wrong, one == 0, one).sum() == 50


def test_what_is_sure_is_treated_as_missing_and_suspects_are_told(seen):
    claims = [
        claim(MISSPELLING, "a", [0, 1], [8, 1.5], facts={"level": "u", "meant": "x"}, expected=["x", "y"])
    ]
    sure, suspect = decide(seen, [*claims, *padding()])[:2]
    assert (sure.rows, sure.action, sure.expected) == ((0,), "treated as missing", ("x",))
    assert (suspect.rows, suspect.action, suspect.expected) == ((1,), "told only", ("y",))
    assert sure.probabilities[0] > SURE > suspect.probabilities[0] > TOLD


def padding():
    """Sure claims elsewhere, beside which a suspect may be told."""
    return [
        claim(PLACEHOLDER, "b", range(6), [12] * 6, facts={"value": 9.0}, usual={"low": 1.0, "high": 2.0})
    ]


def test_a_cell_that_several_mistakes_explain_equally_is_odd_without_a_story(seen):
    claims = [claim(kind, "a", [2], [4.0], facts={}) for kind in KINDS]
    (found,) = decide(seen, claims)
    assert (found.kind, found.rows, found.expected) == (ODD_CELL.kind, (2,), ())


def test_what_speaks_for_a_cell_wins_against_a_weaker_claim(seen):
    claims = [claim(MISSPELLING, "a", [2], [4.0])]
    assert decide(seen, claims)
    assert not decide(seen, claims, [Support("a", np.array([2]), np.array([4.5]))])


def test_no_rule_is_surer_than_its_cap(seen):
    found = weigh(seen, [claim(MISSPELLING, "a", [2], [400.0])])
    assert found.wrong[0] == pytest.approx(1 / (1 + np.exp(-CAP)))


def test_cells_with_one_cause_are_told_together_each_with_its_own_facts(seen):
    parts = [
        claim(
            MISSPELLING,
            "a",
            [row],
            [9.0],
            facts={"level": "u", "meant": "x"},
            expected=["x"],
            own=[{"n": row}],
        )
        for row in (4, 1)
    ]
    (found,) = decide(seen, parts)
    assert (found.rows, found.own) == ((1, 4), ({"n": 1}, {"n": 4}))
    assert found.of_rows([1]).own == ({"n": 4},)


def test_the_order_of_claims_changes_nothing(seen):
    claims = [
        claim(MISSPELLING, "a", [2, 3], [6.0, 2.5]),
        claim(DECIMAL_SLIP, "a", [3], [2.0]),
        claim(PLACEHOLDER, "b", [1], [3.5]),
    ]
    told = [
        {(f.kind, f.columns, f.rows, f.probabilities) for f in decide(seen, order)}
        for order in itertools.permutations(claims)
    ]
    assert all(each == told[0] for each in told)
