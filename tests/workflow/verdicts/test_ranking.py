"""Which rows are listed, in which order, and how high they stand among the reference rows."""

import numpy as np
import pytest

from tellwhy.kinds.request import Request
from tellwhy.verdicts.alarms import EXPLAINED_ROWS, Calibration, _find_threshold, draw_alarms, rank_rows
from tellwhy.workflow import explain_table


def ranked(scores, reference=None, *, top=10, **rule):
    """Rank scores that are surprises already."""
    scores = np.asarray(scores, dtype=float)
    reference = scores if reference is None else np.asarray(reference, dtype=float)
    return rank_rows(scores, Calibration(), reference, Request(top=top, **rule))


def test_the_highest_scores_come_first_and_equal_ones_in_the_order_of_the_table():
    found = ranked([1.0, 7.0, 3.0, 7.0, 5.0], np.arange(10.0), top=4)
    assert found.positions.tolist() == [1, 3, 4, 2]


def test_a_percentile_is_the_share_of_reference_rows_that_score_lower():
    found = ranked([3.0, 1.0, 9.0, 0.5], [0.0, 1.0, 2.0, 3.0], top=4)
    assert found.positions.tolist() == [2, 0, 1, 3]
    assert found.percentiles.tolist() == [100.0, 75.0, 25.0, 25.0]


def test_no_row_stands_above_itself():
    """Compared with its own table, the highest of n rows is above n − 1 of them, not above all."""
    rows = np.random.default_rng(0).normal(size=(40, 2))
    rows[3] = [3.2, 3.2]
    run = explain_table(rows, top=40)
    assert run.anomalies[0].row == 3
    np.testing.assert_allclose([a.percentile for a in run.anomalies], 100.0 * np.arange(39, -1, -1) / 40)
    copies = explain_table(np.vstack([rows, rows[3] + [1e-3, -1e-3]]), top=2)
    assert {a.row for a in copies.anomalies} == {3, 40}
    assert [a.percentile for a in copies.anomalies] == pytest.approx([100.0 * 40 / 41, 100.0 * 39 / 41])


def test_against_a_separate_reference_a_row_can_be_above_all():
    rng = np.random.default_rng(0)
    run = explain_table(np.array([[9.0, 9.0], [0.0, 0.0]]), reference=rng.normal(size=(50, 2)), top=2)
    assert [a.percentile == 100.0 for a in run.anomalies] == [True, False]
    assert [a.above_threshold for a in run.anomalies] == [True, False]


@pytest.mark.parametrize(
    ("n_above", "top", "expected"), [(0, 3, 3), (2, 3, 3), (5, 3, 5), (900, 3, EXPLAINED_ROWS)]
)
def test_all_rows_above_the_threshold_are_listed_up_to_200_and_never_fewer_than_asked(n_above, top, expected):
    scores = np.concatenate([np.linspace(0.0, 1.0, 4_000), 100.0 + np.arange(n_above)])
    found = ranked(scores, top=top)
    assert found.n_above == n_above
    assert len(found.positions) == expected
    assert EXPLAINED_ROWS == 200


def test_more_rows_than_200_where_more_are_asked_for():
    assert len(ranked(np.arange(500.0), top=300).positions) == 300


def test_a_p_value_is_the_exponential_of_minus_the_surprise():
    found = ranked([0.1, 3.0, -0.5], top=3)
    assert found.p_value(1) == pytest.approx(np.exp(-3.0))
    assert found.p_value(2) == 1.0


def test_findings_stand_beside_a_p_value():
    found = rank_rows(
        np.array([0.1, 2.0]), Calibration(), np.arange(5.0), Request(top=2), np.array([12.0, 0.0])
    )
    assert found.positions.tolist() == [0, 1]
    assert found.n_above == 1
    assert found.p_value(0) == pytest.approx(np.exp(-0.1))
    assert found.p_value(1) == pytest.approx(np.exp(-2.0))


def test_the_threshold_separates_alarms_of_any_score():
    """Scores in other units, many of them equal: what is above the threshold are the alarms, no others."""
    rng = np.random.default_rng(0)
    scores = np.round(rng.lognormal(size=2_000), 1) ** 2
    calibration = Calibration.learn(scores, is_clean=False)
    surprises = calibration.surprises(scores)
    for rule in ({"alarms": 7}, {"contamination": 0.03}, {"fdr": 0.5}):
        found = rank_rows(scores, calibration, scores, Request(top=5, **rule))
        assert ((scores > found.threshold) == (surprises > draw_alarms(surprises, **rule).level)).all()


def test_what_findings_add_makes_alarms_and_lets_no_other_row_pass():
    """Two hundred rows with findings: the line for the others is where it would be without them."""
    surprises = -np.log(np.random.default_rng(0).uniform(size=2_000))
    added = np.zeros(2_000)
    added[:200] = 15.0
    without = rank_rows(surprises, Calibration(), surprises, Request())
    found = rank_rows(surprises, Calibration(), surprises, Request(), added)
    assert found.threshold == pytest.approx(without.threshold)
    assert (found.scores > found.threshold)[:200].all()
    assert not (found.scores > found.threshold)[200:].any()
    assert (found.model_scores == surprises).all()
    budget = rank_rows(surprises, Calibration(), surprises, Request(alarms=50), added)
    assert budget.n_above == 50


def test_the_line_is_not_below_a_row_that_is_no_alarm():
    scores = np.array([1.0, 3.0, 2.0, 9.0])
    is_alarm = np.array([False, False, False, True])
    assert _find_threshold(scores, is_alarm, 0.5) == 3.0
    assert _find_threshold(scores, is_alarm, 5.0) == 5.0
    assert _find_threshold(scores, is_alarm, 12.0) == pytest.approx(9.0)
    assert _find_threshold(scores, is_alarm, 12.0) < 9.0
