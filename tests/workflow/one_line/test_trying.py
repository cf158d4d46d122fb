"""Methods for any score, tried on the user's ordinary rows where that is asked for: which is taken, what is said."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial import KDTree
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.mixture import GaussianMixture

import tellwhy
from tellwhy.core.errors import InvalidInput, InvalidParameter
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


def test_nothing_is_tried_that_was_not_asked_for(monkeypatch):
    monkeypatch.setattr(tellwhy.evaluation, "choose_by_injection", None)
    found = tellwhy.explain(nearest, NEW[:1], background=TRAIN)
    assert found.method == "AnomalyShapley"
    assert found.params["chosen"] == "automatically: the cheapest that applies"


def test_another_method_is_taken_where_it_names_moved_cells_better():
    model = PCA(3).fit(TRAIN)
    odd = inject_anomalies(NEW, 1, random_state=5, scale=TRAIN.std(axis=0))
    found = tellwhy.explain(model, odd.X, "tried", background=TRAIN)
    assert found.method == "KernelShap"
    assert found.params["baseline"] == "neighbours"
    assert found.params["chosen"].startswith(f"by trial: {NEIGHBOURS}, of the three. One cell was moved")
    by_name = tellwhy.explain(model, odd.X, "KernelShap", background=TRAIN, baseline="neighbours")
    np.testing.assert_array_equal(found.values, by_name.values)
    first = tellwhy.explain(model, odd.X, "AnomalyShapley", background=TRAIN)
    assert localisation(found, odd.truth).mrr > localisation(first, odd.truth).mrr + 0.05


def test_anomaly_shapley_stays_in_doubt_and_the_result_says_what_was_found():
    model = GaussianMixture(1, random_state=0).fit(np.random.default_rng(0).normal(size=(300, 5)))
    X = np.random.default_rng(1).normal(size=(200, 5))
    found = tellwhy.explain(model, X[:2], "tried", background=X)
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
    first, again = (tellwhy.explain(model, NEW[:3], "tried", background=TRAIN) for _ in range(2))
    assert first.params["chosen"] == again.params["chosen"]
    np.testing.assert_array_equal(first.values, again.values)


def test_moved_rows_are_not_among_the_rows_that_methods_learn_from(monkeypatch):
    seen = []
    own = tellwhy.evaluation.choose_by_injection

    def spy(made, moved, *others, **options):
        seen.append((np.asarray(made[NEIGHBOURS].rows_), np.asarray(moved)))
        return own(made, moved, *others, **options)

    monkeypatch.setattr(tellwhy.evaluation, "choose_by_injection", spy)
    tellwhy.explain(nearest, NEW[:1], "tried", background=TRAIN)
    learned, moved = seen[0]
    assert len(moved) == trying.N_MOVED
    assert len(learned) == len(TRAIN) - trying.N_MOVED
    assert not {row.tobytes() for row in moved} & {row.tobytes() for row in learned}


def test_few_rows_cannot_be_tried():
    with pytest.raises(InvalidInput, match=r"needs 100 ordinary rows, 50 of which it changes\. Got 99"):
        tellwhy.explain(nearest, NEW[:1], "tried", background=TRAIN[:99])
    assert "by trial" in tellwhy.explain(nearest, NEW[:1], "tried", background=TRAIN[:100]).params["chosen"]


def test_parameters_that_one_of_the_methods_lacks_are_refused():
    with pytest.raises(InvalidParameter, match="not all have the parameter 'gamma'"):
        tellwhy.explain(nearest, NEW[:1], "tried", background=TRAIN, gamma=0.5)
    assert tellwhy.explain(nearest, NEW[:1], background=TRAIN, gamma=0.5).params["gamma"] == 0.5
    shared = tellwhy.explain(nearest, NEW[:1], "tried", background=TRAIN, random_state=3)
    assert shared.params["random_state"] == 3
    with pytest.raises(InvalidParameter, match="no parameter 'gama'"):
        tellwhy.explain(nearest, NEW[:1], "tried", background=TRAIN, gama=0.5)


def test_predictions_and_networks_are_not_tried():
    line = LinearRegression().fit(TRAIN, TRAIN[:, 0])
    with pytest.raises(InvalidParameter, match="is a prediction, not an anomaly score"):
        tellwhy.explain(line, NEW[:1], "tried", background=TRAIN)
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidParameter, match="the model is a network"):
        tellwhy.explain(torch.nn.Linear(4, 2).eval(), NEW[:1], "tried", background=TRAIN)


def test_frames_are_tried_in_their_own_columns():
    frame = pd.DataFrame(TRAIN, columns=list("abcd"))

    def of_frames(rows):
        return nearest(rows[list("abcd")].to_numpy())

    found = tellwhy.explain(of_frames, frame.iloc[:2], "tried", background=frame)
    assert "by trial" in found.params["chosen"]
    assert found.feature_names == list("abcd")


def test_a_constant_table_has_no_cell_to_move():
    rows = np.ones((150, 3))
    with pytest.raises(InvalidInput, match="Methods cannot be tried on these ordinary rows"):
        tellwhy.explain(lambda X: np.abs(np.asarray(X)).sum(axis=1), rows[:1] * 5, "tried", background=rows)
