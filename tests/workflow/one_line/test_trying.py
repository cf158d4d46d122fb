"""Methods for any score, tried on the user's ordinary rows: which is taken, when none is tried, what is said."""

import time

import numpy as np
import pandas as pd
import pytest
from scipy.spatial import KDTree
from sklearn.decomposition import PCA
from sklearn.mixture import GaussianMixture

import tellwhy
from tellwhy.core.errors import InvalidParameter
from tellwhy.evaluation import inject_anomalies, localisation
from tellwhy.one_liner import method as trying

NEIGHBOURS = "KernelShap(baseline='neighbours')"


def bent_rows(n: int = 400) -> np.ndarray:
    """Rows on a curve: what is ordinary of a column depends on the others."""
    rng = np.random.default_rng(3)
    t = rng.uniform(-3, 3, size=n)
    columns = [t, t**2 / 3, np.sin(2 * t), np.cos(2 * t)]
    return np.column_stack(columns) + 0.05 * rng.normal(size=(n, 4))


ROWS = bent_rows()
TRAIN, NEW = ROWS[:300], ROWS[300:]


TREE = KDTree(TRAIN)


def nearest(rows):
    """Distance to the second nearest training row, for which no method has a formula."""
    return TREE.query(np.asarray(rows), k=2)[0][:, 1]


@pytest.fixture(autouse=True)
def enough_time(monkeypatch):
    """No test depends on how busy the machine is; those about time set their own limit."""
    monkeypatch.setattr(trying, "SECONDS", 1e9)


def test_another_method_is_taken_where_it_names_moved_cells_better():
    model = PCA(3).fit(TRAIN)
    odd = inject_anomalies(NEW, 1, random_state=5, scale=TRAIN.std(axis=0))
    found = tellwhy.explain(model, odd.X, background=TRAIN)
    assert found.method == "KernelShap"
    assert found.params["baseline"] == "neighbours"
    assert found.params["chosen"].startswith(f"automatically: {NEIGHBOURS}, of the three. One cell was moved")
    by_name = tellwhy.explain(model, odd.X, "KernelShap", background=TRAIN, baseline="neighbours")
    np.testing.assert_array_equal(found.values, by_name.values)
    first = tellwhy.explain(model, odd.X, "AnomalyShapley", background=TRAIN)
    assert localisation(found, odd.truth).mrr > localisation(first, odd.truth).mrr + 0.05


def test_anomaly_shapley_stays_in_doubt_and_the_result_says_what_was_found():
    model = GaussianMixture(1, random_state=0).fit(np.random.default_rng(0).normal(size=(300, 5)))
    X = np.random.default_rng(1).normal(size=(200, 5))
    found = tellwhy.explain(model, X[:2], background=X)
    assert found.method == "AnomalyShapley"
    words = found.params["chosen"]
    assert "AnomalyShapley, for no other is better beyond doubt" in words
    assert all(f"{name} 0." in words for name in trying.CANDIDATES)
    assert words in found._repr_html_().replace("&#x27;", "'")
    by_name = tellwhy.explain(model, X[:2], "AnomalyShapley", background=X)
    np.testing.assert_array_equal(found.values, by_name.values)
    assert "chosen" not in by_name.params


def test_the_choice_is_the_same_each_time():
    model = PCA(2).fit(TRAIN)
    first, again = (tellwhy.explain(model, NEW[:3], background=TRAIN) for _ in range(2))
    assert first.params["chosen"] == again.params["chosen"]
    np.testing.assert_array_equal(first.values, again.values)


def test_moved_rows_are_not_among_the_rows_that_methods_learn_from(monkeypatch):
    seen = []
    own = tellwhy.evaluation.choose_by_injection

    def spy(made, moved, *others, **options):
        seen.append((np.asarray(made[NEIGHBOURS].rows_), np.asarray(moved)))
        return own(made, moved, *others, **options)

    monkeypatch.setattr(tellwhy.evaluation, "choose_by_injection", spy)
    tellwhy.explain(nearest, NEW[:1], background=TRAIN)
    learned, moved = seen[0]
    assert len(moved) == trying.N_MOVED
    assert len(learned) == len(TRAIN) - trying.N_MOVED
    assert not {row.tobytes() for row in moved} & {row.tobytes() for row in learned}


def test_few_rows_are_not_tried():
    found = tellwhy.explain(nearest, NEW[:1], background=TRAIN[:99])
    assert found.method == "AnomalyShapley"
    assert found.params["chosen"].endswith("99 ordinary rows are fewer than the 100 that it takes")
    assert "not tried" not in tellwhy.explain(nearest, NEW[:1], background=TRAIN[:100]).params["chosen"]


def test_a_slow_score_is_not_tried(monkeypatch):
    monkeypatch.setattr(trying, "SECONDS", 3.0)
    calls = []

    def slow(rows):
        calls.append(len(rows))
        time.sleep(0.002 * len(rows))
        return nearest(rows)

    expected = trying._seconds_expected(tellwhy.scoring.as_score(slow), TRAIN)
    assert expected > trying.SECONDS
    assert sum(calls) <= 2 * trying._FEW_SCORED
    why = trying._why_not(tellwhy.scoring.as_score(slow), trying.Kept(TRAIN, ""), {})
    assert "s are allowed" in why


def test_work_that_two_rows_show_to_be_long_is_not_done(monkeypatch):
    monkeypatch.setattr(trying, "_seconds_expected", lambda *_: 0.0)
    monkeypatch.setattr(trying, "SECONDS", 1e-6)
    found = tellwhy.explain(nearest, NEW[:1], background=TRAIN)
    assert found.method == "AnomalyShapley"
    assert "others were not tried: that would take about" in found.params["chosen"]


def test_parameters_of_anomaly_shapley_alone_keep_it():
    found = tellwhy.explain(nearest, NEW[:1], background=TRAIN, gamma=0.5)
    assert found.method == "AnomalyShapley"
    assert found.params["gamma"] == 0.5
    assert found.params["chosen"].endswith("they have no gamma")
    shared = tellwhy.explain(nearest, NEW[:1], background=TRAIN, random_state=3)
    assert "not tried" not in shared.params["chosen"]
    assert shared.params["random_state"] == 3
    with pytest.raises(InvalidParameter, match="no parameter 'gama'"):
        tellwhy.explain(nearest, NEW[:1], background=TRAIN, gama=0.5)


def test_frames_are_tried_in_their_own_columns():
    frame = pd.DataFrame(TRAIN, columns=list("abcd"))

    def of_frames(rows):
        return nearest(rows[list("abcd")].to_numpy())

    found = tellwhy.explain(of_frames, frame.iloc[:2], background=frame)
    assert "not tried" not in found.params["chosen"]
    assert found.feature_names == list("abcd")


def test_a_constant_table_has_no_cell_to_move():
    rows = np.ones((150, 3))
    found = tellwhy.explain(lambda X: np.abs(np.asarray(X)).sum(axis=1), rows[:1] * 5, background=rows)
    assert "ordinary rows could not be changed" in found.params["chosen"]
