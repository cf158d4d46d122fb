"""What suffices and what is necessary: both questions on inputs with known answers, and mixtures of single rows."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import IsolationForest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from tellwhy.core.explanation import Explanation
from tellwhy.explainers import DMMMEN, LocalInsight

BRIEF = {"baseline": 0.0, "n_questions": 256, "n_sweeps": 80, "n_burn": 40, "n_jobs": 1}


def probabilities(p):
    return np.column_stack([1 - p, p])


def both(rows):
    """The second class needs cells 1 and 3 together."""
    return probabilities(np.where((rows[:, 1] > 0) & (rows[:, 3] > 0), 0.9, 0.1))


def either(rows):
    """The second class needs cell 1 or cell 3."""
    return probabilities(np.where((rows[:, 1] > 0) | (rows[:, 3] > 0), 0.9, 0.1))


def chosen(model, question, row, **further):
    explainer = LocalInsight(model, question, **{**BRIEF, **further}).fit(row)
    return explainer.explain(row)


@pytest.mark.parametrize(
    ("model", "question", "expected"),
    [(both, "sufficiency", 2), (both, "necessity", 1), (either, "sufficiency", 1), (either, "necessity", 2)],
)
def test_smallest_sets_of_and_and_or(model, question, expected):
    found = chosen(model, question, np.ones((1, 6)))
    cells = set(np.flatnonzero(found.extras["chosen"][0]).tolist())
    assert len(cells) == expected
    assert cells <= {1, 3}
    assert found.extras["chosen_holds"][0] == 1
    output = found.extras["chosen_output"][0]
    assert output == pytest.approx(np.log(9) if question == "sufficiency" else -np.log(9), rel=1e-6)


def test_the_model_decides_as_the_chosen_cells_say():
    """Asked again by hand: kept alone they leave the decision, the rest alone does not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 8))
    model = LogisticRegression().fit(X, X @ [3, -2, 1, 0, 0, 0, 0, 1] > 0)
    rows = X[:6]
    for question in ("sufficiency", "necessity"):
        found = chosen(model, question, rows, baseline="mean")
        taken = found.extras["chosen"].astype(bool)
        keep = taken if question == "sufficiency" else ~taken
        left = np.where(keep, rows, rows.mean(axis=0))
        stays = model.predict(left) == model.predict(rows)
        np.testing.assert_array_equal(stays == (question == "sufficiency"), found.extras["chosen_holds"] == 1)


def test_all_are_needed_where_nothing_changes_the_decision():
    found = chosen(lambda rows: probabilities(np.full(len(rows), 0.8)), "necessity", np.ones((1, 5)))
    assert found.extras["chosen_holds"][0] == 0


def test_scores_without_classes():
    """Of 10 = 6 + 3.5 + 0.5, nine tenths are the first two."""

    def score(rows):
        return rows @ np.array([6.0, 0.0, 3.5, 0.5, 0.0])

    for question in ("sufficiency", "necessity"):
        found = chosen(score, question, np.ones((1, 5)))
        np.testing.assert_array_equal(found.extras["chosen"][0], [1, 0, 1, 0, 0])


def test_scores_with_a_threshold():
    """What suffices for an alarm of a detector keeps its score above the threshold."""
    X = np.random.default_rng(0).normal(size=(300, 4))
    forest = IsolationForest(random_state=0).fit(X)
    row = np.array([[9.0, 0.1, -9.0, 0.2]])
    found = LocalInsight(forest, n_questions=64, n_sweeps=60, n_burn=30).fit(X).explain(row)
    assert set(np.flatnonzero(found.extras["chosen"][0])) <= {0, 2}
    assert found.extras["chosen_holds"][0] == 1


def test_no_more_questions_than_said_and_each_is_counted():
    asked = []

    def model(rows):
        asked.append(len(rows))
        return both(rows)

    row = np.ones((1, 6))
    explainer = LocalInsight(model, **BRIEF).fit(row)
    asked.clear()
    found = explainer.explain(row)
    assert found.extras["n_questions"][0] <= 256
    assert sum(asked) - 1 == found.extras["n_questions"][0], "and one for the row's own output"


@pytest.mark.parametrize("n_questions", [100, 128, 256, 1024])
def test_few_questions_are_not_spent_on_the_order(n_questions):
    """Of 40 cells two are decisive: values find them however few questions there are."""

    def model(rows):
        return probabilities(1 / (1 + np.exp(4.0 - 3.0 * rows[:, 7] - 3.0 * rows[:, 30])))

    found = chosen(model, "sufficiency", np.ones((1, 40)), n_questions=n_questions)
    assert set(np.argsort(-found.values[0])[:2]) == {7, 30}
    assert set(np.flatnonzero(found.extras["chosen"][0])) == {7, 30}
    assert found.extras["n_questions"][0] <= n_questions


def test_images_in_groups_and_segments():
    image = np.zeros((1, 8, 8))
    image[0, 2:4, 2:4] = 1.0
    image[0, 6:, 6:] = 0.4

    def model(images):
        return probabilities(np.where(images[:, 2:4, 2:4].sum(axis=(1, 2)) > 2, 0.95, 0.05))

    found = chosen(model, "sufficiency", image, n_segments=16)
    assert found.values.shape == found.extras["chosen"].shape == image.shape
    assert found.extras["chosen"][0, 6, 6] == 0
    rows = np.ones((1, 6))
    grouped = chosen(both, "sufficiency", rows, groups=[[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(grouped.extras["chosen"][0], [1, 1, 1, 1, 0, 0])


def test_standard_errors_tell_what_other_seeds_would_give():
    """Other seeds ask other questions: values differ by about their standard errors."""

    def model(rows):
        return (
            rows[:, 0] * rows[:, 1]
            + 2 * rows[:, 2]
            + np.maximum(rows[:, 3], rows[:, 4])
            + rows[:, 5] * rows[:, 6]
        )

    row = np.ones((1, 10))
    runs = [
        chosen(model, "sufficiency", row, random_state=seed, n_questions=320, design="drawn")
        for seed in range(24)
    ]
    values = np.array([run.values[0] for run in runs])
    stderr = np.array([run.stderr[0] for run in runs]).mean(axis=0)
    ratio = values.std(axis=0, ddof=1) / stderr
    assert 0.4 < np.median(ratio) < 1.6


def test_saved_and_loaded(tmp_path):
    found = chosen(both, "sufficiency", np.ones((1, 6)))
    loaded = Explanation.load(found.save(tmp_path / "e"))
    np.testing.assert_array_equal(loaded.extras["chosen"], found.extras["chosen"])


def test_columns_that_a_pipeline_made_from_one_column_are_one_segment():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(3, size=300).astype(float), rng.normal(size=300)])
    encode = ColumnTransformer([("t", OneHotEncoder(), [0]), ("s", StandardScaler(), [1])])
    model = make_pipeline(encode, IsolationForest(random_state=0)).fit(X)
    row = np.array([[1.0, 6.0]])
    found = LocalInsight(model, n_questions=64, n_sweeps=60, n_burn=30).fit(X).explain(row)
    assert found.values.shape == found.stderr.shape == found.extras["chosen"].shape == (1, 2)
    low, high = np.moveaxis(found.extras["interval"], -1, 0)
    assert ((low <= found.values) & (found.values <= high)).all()
    assert found.values[0, 1] > abs(found.values[0, 0])


def curved(rows):
    """A score with many interactions, of which no linear fit is exact: its values depend on the questions."""
    return np.sin(rows @ np.arange(1.0, 13.0)) + np.tanh(rows[:, :4].sum(axis=1) - 2.0) + rows[:, 5]


def asked_of(explainer, row, asked):
    asked.clear()
    found = explainer.explain(row)
    return np.concatenate(asked), found


@pytest.mark.parametrize(("design", "same"), [("fixed", True), ("drawn", False)])
def test_the_seed_draws_the_questions_only_where_it_is_told_to(design, same):
    asked = []

    def model(rows):
        asked.append(np.array(rows))
        return curved(rows)

    row = np.ones((1, 12))
    runs = []
    for seed in (1, 2):
        explainer = LocalInsight(model, design=design, random_state=seed, **BRIEF).fit(row)
        runs.append(asked_of(explainer, row, asked))
    (first, one), (second, two) = runs
    assert np.array_equal(first[:60], second[:60]) == same
    assert not np.array_equal(one.values, two.values), "the sampler's draws differ either way"
    if same:
        np.testing.assert_array_equal(one.extras["place"], two.extras["place"])


@pytest.mark.parametrize("question", ["sufficiency", "necessity"])
def test_the_chosen_segments_are_the_first_in_place(question):
    row = np.ones((1, 12))
    found = chosen(lambda rows: probabilities(1 / (1 + np.exp(-curved(rows)))), question, row)
    place, taken = found.extras["place"][0], found.extras["chosen"][0]
    assert sorted(place) == list(range(12))
    np.testing.assert_array_equal(taken, place < taken.sum())


def test_cells_that_show_the_replacement_come_last():
    row = np.array([[1.0, 0.0, 1.0, 0.0, 1.0]])
    place = chosen(lambda rows: rows.sum(axis=1), "sufficiency", row).extras["place"][0]
    assert sorted(place[[0, 2, 4]]) == [0, 1, 2]
    assert (place[[1, 3]] == 3).all()


SHORT = {"features": "segments", "baseline": 0.0, "n_components": 1, "n_sweeps": 100, "n_burn": 50}


def bright(images):
    """Sum of the left half, and a product of two corners of the right half."""
    flat = images.reshape(len(images), 8, 8)
    return flat[:, :, :4].sum(axis=(1, 2)) + flat[:, 0, 7] * flat[:, 7, 7]


@pytest.fixture(scope="module")
def image():
    x = np.zeros((1, 8, 8))
    x[0, :, :4] = np.random.default_rng(0).uniform(0.5, 1.0, size=(8, 4))
    return x


def test_segments_that_show_the_background_get_nothing_and_cost_no_question(image):
    asked = []

    def model(images):
        asked.append(np.array(images))
        return bright(images)

    explanation = DMMMEN(model, n_segments=16, n_neighbors=64, **SHORT).fit(image).explain(image)
    right = image[0] == 0
    assert (explanation.values[0][right] == 0).all()
    assert (explanation.stderr[0][right] == 0).all()
    assert (explanation.extras["interval"][0][right] == 0).all()
    label = explanation.extras["segments"][0]
    lost = (asked[-1][1:] != image).any(axis=2).any(axis=1)
    assert lost.mean() > 0.9, "neighbours differ from the row although half of its segments cannot"
    truth = np.bincount(label.ravel(), image[0].ravel())
    found = np.bincount(label.ravel(), explanation.values[0].ravel())
    np.testing.assert_allclose(found, truth, atol=0.1)


def test_row_that_is_the_background_itself(image):
    explanation = DMMMEN(bright, n_segments=16, n_neighbors=64, **SHORT).fit(image).explain(0.0 * image)
    assert (explanation.values == 0).all()
    np.testing.assert_allclose(explanation.base_values + explanation.residual, explanation.scores)


def test_few_kept_segments_tell_what_is_enough_by_itself():
    """Each of two segments is enough: near the row neither matters, alone both do."""
    x = np.array([[1.0, 1.0, 1.0, 1.0]])

    def model(rows):
        return np.maximum(rows[:, 0], rows[:, 1])

    near, alone = (
        DMMMEN(model, n_neighbors=256, kept=kept, **SHORT).fit(x).explain(x).values[0] for kept in (0.9, 0.1)
    )
    assert np.abs(near[:2]).max() < 0.2
    assert alone[:2].min() > 0.7
    assert np.abs(alone[2:]).max() < 0.1
