"""Whether reasons hold: usual values in the named columns, and usual values everywhere else."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tellwhy.kinds.table_result import _find_ordinary_level, group_columns
from tellwhy.results.notice import Notice
from tellwhy.verdicts.alarms import Calibration
from tellwhy.verdicts.causes import Cause, Trials, find_causes
from tellwhy.verdicts.headline import find_doubt
from tellwhy.verdicts.repair import find_nearest_normals
from tellwhy.workflow import explain_table


def trials_of(X, judged, score):
    """Rows of numbers, one encoded column per column."""
    owner = np.arange(X.shape[1])
    donors = np.setdiff1d(np.arange(len(X)), judged)

    def score_cells(cells, _):
        return score(np.take_along_axis(X, cells, axis=0))

    return Trials.of(np.asarray(judged), donors, X, owner, score_cells)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X[:, 1] = X[:, 0] + 0.05 * rng.normal(size=200)  # the second column follows the first
    return X


def oddness(X):
    """Far out in a column, or the second not following the first."""
    return np.maximum(np.abs(X).max(axis=1), 10.0 * np.abs(X[:, 1] - X[:, 0]))


def test_one_column_far_out_is_the_cause_even_if_the_shares_name_another(rows):
    rows[0, 2] = 9.0
    wrong = np.array([[3.0, 2.0, 1.0, 0.0]])
    for values in (np.array([[0.0, 0.0, 9.0, 0.0]]), wrong):
        found = find_causes(trials_of(rows, [0], oddness), values, np.array([4.0]))[0]
        assert found.columns == (2,)
        assert found.holds


def test_a_column_that_contradicts_another_is_named_with_it(rows):
    rows[0] = [1.0, -1.0, 0.0, 0.0]  # each value is usual
    values = np.array([[2.0, 3.0, 0.1, 0.1]])
    found = find_causes(trials_of(rows, [0], oddness), values, np.array([4.0]))[0]
    assert set(found.columns) == {0, 1}
    assert found.holds


def test_two_columns_that_are_far_out_independently_are_both_named(rows):
    rows[0, 2:] = [9.0, -9.0]
    values = np.array([[0.0, 0.0, 5.0, 4.0]])
    found = find_causes(trials_of(rows, [0], oddness), values, np.array([4.0]))[0]
    assert found.columns == (2, 3)
    assert found.holds


def test_nothing_holds_where_no_three_columns_are_enough():
    X = np.random.default_rng(0).normal(size=(100, 6))
    X[0] = 9.0
    found = find_causes(trials_of(X, [0], lambda Z: np.abs(Z).max(axis=1)), np.ones((1, 6)), np.array([4.0]))[
        0
    ]
    assert not found.is_sufficient
    assert not found.holds
    assert set(found.changed) == set(range(6))  # what would make it ordinary is told all the same
    assert find_doubt(found) == Notice("odd_in_many", {"n": 6, "most": 3})


def test_columns_that_move_together_are_one_cause():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 9))
    X[:, :5] = X[:, :1] + 0.1 * rng.normal(size=(300, 5))  # five columns that say the same
    X[0, :5] = 7.0
    groups = group_columns(X[1:], np.arange(9))
    assert groups == ((0, 1, 2, 3, 4),)

    def score(Z):
        return np.abs(Z[:, :5]).max(axis=1)

    trials = trials_of(X, [0], score)
    assert not find_causes(trials, np.ones((1, 9)), np.array([4.0]))[0].holds
    found = find_causes(trials, np.ones((1, 9)), np.array([4.0]), groups)[0]
    assert found.holds
    assert (found.groups, set(found.columns)) == (groups, set(range(5)))


def test_a_row_that_one_column_explains_names_no_group():
    X = np.random.default_rng(0).normal(size=(100, 6))
    X[0, 2] = 9.0
    trials = trials_of(X, [0], lambda Z: np.abs(Z).max(axis=1))
    found = find_causes(trials, np.ones((1, 6)), np.array([4.0]), ((0, 1, 2), (3, 4, 5)))[0]
    assert (found.columns, found.groups) == ((2,), ())


def test_groups_are_found_whatever_the_direction_and_not_by_chance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    X[:, 1] = -np.exp(X[:, 0])  # falls as the first rises
    X[:, 2] = X[:, 0] ** 3
    X[:, 3] = 5.0  # does not move
    assert group_columns(X, np.arange(8)) == ((0, 1, 2),)
    assert group_columns(X, np.array([0, 0, 1, 2, 3, 4, 5, 6])) == ()  # two of them are one column
    assert group_columns(rng.normal(size=(40, 30)), np.arange(30)) == ()


def test_a_large_thing_is_told_as_large_in_all_its_measures():
    rng = np.random.default_rng(0)
    size = rng.normal(10, 1, size=500)
    table = pd.DataFrame({f"width {k}": size * (1 + k) + rng.normal(0, 0.2, 500) for k in range(6)})
    table["colour"] = rng.normal(size=500)
    table.loc[3, [f"width {k}" for k in range(6)]] = [20.0 * (1 + k) for k in range(6)]
    run = explain_table(table, top=1)
    first = run.anomalies[0]
    assert (first.row, first.known_by) == (3, "verified")
    assert first.reasons[0].text.startswith(
        "6 columns that move together, from width 0 to width 5, all large; width"
    )


def test_what_is_changed_is_taken_from_an_ordinary_row_and_makes_the_row_ordinary(rows):
    rows[0, 2] = 9.0
    rows[1] = [1.0, -1.0, 0.0, 0.0]
    values = np.array([[0.0, 0.0, 9.0, 0.0], [2.0, 3.0, 0.1, 0.1]])
    levels = np.array([4.0, 4.0])
    for row, found in enumerate(find_causes(trials_of(rows, [0, 1], oddness), values, levels)):
        assert found.donor > 1
        changed = rows[row].copy()
        changed[list(found.changed)] = rows[found.donor, list(found.changed)]
        assert oddness(changed[None])[0] <= 4.0


def test_the_nearest_of_the_rows_that_would_do_is_taken():
    X = np.column_stack([np.zeros(9), np.linspace(-1.0, 1.0, 9)])
    X[0] = [0.0, 9.0]
    trials = trials_of(X, [0], lambda Z: np.abs(Z[:, 1]))
    donor = trials.nearest_donor(np.array([0]), np.array([[False, True]]), np.array([0.8]))
    assert X[donor[0], 1] == 0.75  # 1.0 is nearer, but not ordinary
    none = trials.nearest_donor(np.array([0]), np.array([[False, True]]), np.array([-1.0]))
    assert none.tolist() == [-1]


@pytest.mark.parametrize(
    ("cause", "doubt"),
    [
        (Cause((0,), is_sufficient=True, is_necessary=True), None),
        (Cause((0,), is_sufficient=True, is_necessary=False), Notice("odd_together")),
        (Cause((0,), is_sufficient=False, is_necessary=True), Notice("not_enough")),
    ],
)
def test_a_doubt_has_its_reason(cause, doubt):
    assert find_doubt(cause) == doubt


def test_a_table_names_a_repeated_placeholder():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    X[:25, 1] = -999.0
    run = explain_table(X, top=25)
    flagged = [a for a in run.anomalies if a.above_threshold]
    assert {a.row for a in flagged} >= set(range(25))
    assert all(a.reasons[0].feature == "x1" and a.known_by == "rule" for a in flagged if a.row < 25)


def test_the_headline_counts_alarms_and_says_what_was_verified():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 6))
    X[3, 2] = 40.0
    X[5] = 25.0
    run = explain_table(X)
    assert run.headline[0].startswith(
        f"{run.n_flagged} of 800 rows are alarms, with 2 different causes (at most 10 % false alarms"
    )
    assert run.headline[1].startswith("The oddest is row 5: ")
    assert run.headline[1].endswith((".", "?"))
    assert " · " not in run.headline[1]
    assert "were verified" in run.headline[2]
    assert run.headline[2].endswith("not be verified: 1 is odd in more than 3 columns at once.")
    by_row = {a.row: a for a in run.anomalies}
    assert by_row[3].holds
    assert by_row[3].note == ""
    assert not by_row[5].holds
    assert by_row[5].note.startswith("odd in more than 3 columns at once")


def test_alarms_that_rest_on_a_finding_are_not_said_to_be_verified():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(800, 4))
    X[:30, 1] = -999.0
    alone = explain_table(X).headline[2]
    assert alone == "All 30 alarms were found by rules about the data."
    X[40, 2] = 40.0
    both = explain_table(X).headline[2]
    assert both.startswith(
        "30 of 31 alarms were found by rules about the data. The reasons for the other one were"
    )


def test_a_calm_table_says_so():
    run = explain_table(np.random.default_rng(1).normal(size=(300, 3)))
    assert run.n_flagged == 0
    assert run.headline == [
        "None of the 300 rows stands out: no alarm with at most 10 % false alarms expected."
    ]


@pytest.mark.parametrize(("line", "level"), [(3.0, 3.0), (9.0, -np.log(0.01))])
def test_a_row_is_ordinary_below_the_line_and_where_one_ordinary_row_in_a_hundred_is(line, level):
    judged = SimpleNamespace(line=line, calibration=Calibration())
    assert _find_ordinary_level(judged) == pytest.approx(level)


def test_the_first_row_may_say_what_would_look_normal():
    X = np.array([[0.0, 0.5], [9.0, 0.5]])
    found = find_causes(trials_of(X, [1], lambda Z: np.abs(Z).max(axis=1)), np.ones((1, 2)), np.array([4.0]))[
        0
    ]
    assert (found.donor, found.changed) == (0, (0,))
    known = SimpleNamespace(known_rows=lambda numbers: pd.DataFrame(X[numbers], columns=["a", "b"]))
    ranking = SimpleNamespace(scores=np.abs(X).max(axis=1), positions=np.array([1]), threshold=4.0)
    assert find_nearest_normals(known, ranking, [found]) == [{"a": 0.0}]
