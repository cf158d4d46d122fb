"""Detectors fitted to tables: what they learn from, how rows they have seen are scored, what they are called."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import generator
from tellwhy.data import TableEncoder, as_table
from tellwhy.detectors import KernelDensity, NearestNeighbours
from tellwhy.kinds.request import Request
from tellwhy.kinds.table_cells import TRAINING_ROWS, draw_training_sample, fit_table, make_detector
from tellwhy.kinds.table_rows import select
from tellwhy.scoring.distance_scores import points_of
from tellwhy.workflow import explain_new, explain_table, fit_model

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(80, 2)), columns=["a", "b"]).assign(kind=np.repeat(["x", "y"], 40))


def fitted(detector="KernelDensity", reference=None, **settings):
    selection = select(as_table(FRAME), Request(**settings))
    if reference is not None:
        theirs = reference[list(selection.frame.columns)]
        selection = replace(selection, reference=theirs, own=None, is_clean=True)
    return fit_table(selection, TableEncoder().fit(selection.reference), detector, generator(0))


def density(found, learned):
    """The fitted density, with the same bandwidth, of other rows."""
    width = found.score.inner.expansion.kernel.bandwidth
    return KernelDensity(bandwidth=width).fit(learned)


def test_rows_learned_from_are_scored_as_if_they_were_new():
    found = fitted(columns=["a", "b"])
    Z = found.known.encoded
    for i in (0, 33):
        others = density(found, np.delete(Z, i, axis=0))
        assert found.scores()[i] == pytest.approx(others.outlierness(Z[[i]])[0])
    np.testing.assert_array_equal(found.reference_scores(found.scores()), found.scores())


def test_rows_outside_the_reference_leave_nothing_out():
    found = fitted(normal="kind=y")
    Z = found.known.encoded
    learned = Z[40:]
    np.testing.assert_allclose(found.scores()[:40], density(found, learned).outlierness(Z[:40]))
    others = density(found, learned[1:])
    assert found.scores()[40] == pytest.approx(others.outlierness(Z[[40]])[0])
    np.testing.assert_array_equal(found.reference_scores(found.scores()), found.scores()[40:])
    seen = found.training_rows(np.array([0, 40, 79]))
    assert seen[0] == -1
    assert found.sample[seen[1:]].tolist() == [0, 39]


def test_a_separate_reference_is_scored_as_if_new_and_the_table_as_it_is():
    """A row that is in both is no row of the reference: it has not been learned from under its own name."""
    reference = FRAME.iloc[:60].reset_index(drop=True)
    found = fitted(reference=reference, columns=["a", "b"])
    Z = TableEncoder().fit(reference[["a", "b"]]).transform(reference[["a", "b"]])
    scores = found.reference_scores(found.scores())
    assert len(scores) == 60
    for i in (0, 59):
        others = density(found, np.delete(Z, i, axis=0))
        assert scores[found.sample == i] == pytest.approx(others.outlierness(Z[[i]])[0])
    np.testing.assert_allclose(found.scores(), density(found, Z).outlierness(found.known.encoded[:80]))


def test_the_committee_judges_rows_without_themselves():
    found = fitted("auto", columns=["a", "b"])
    inner = found.score.inner
    Z = found.known.encoded
    kept = inner.remembered.training_rows
    assert len(kept) == 72  # the oddest tenth is set aside
    row = found.sample[kept[5]]  # the detector sees rows in an order of their content
    without = inner.value(Z[[row]], np.array([5]))[0]
    assert found.scores()[row] == pytest.approx(without)
    aside = np.setdiff1d(np.arange(80), found.sample[kept])
    np.testing.assert_allclose(found.scores()[aside], inner.value(Z[aside]))


def test_cells_of_several_rows_are_scored_together():
    found = fitted("auto", columns=["a", "b"])
    cells = np.array([[3, 9], [3, 3]])
    rows = np.array([3, 3])
    Z = found.known.encoded
    mixed = np.array([[Z[3, 0], Z[9, 1]], Z[3]])
    points = points_of(found.training_rows(rows), found.score.inner.remembered)
    np.testing.assert_allclose(found.score_cells(cells, rows), found.score.inner.value(mixed, points))


def test_usual_values_come_from_ordinary_rows_that_are_not_judged():
    found = fitted("auto", columns=["a", "b"])
    judged = np.arange(0, 80, 2)
    trials = found.trials(judged)
    assert not np.isin(trials.donors, judged).any()
    scores = found.scores()
    others = np.setdiff1d(np.arange(80), judged)
    assert scores[trials.donors].max() <= np.quantile(scores[others], 0.8)
    assert len(found.trials(np.arange(80)).donors) > 0


def test_neighbours_are_left_out_too_and_mixtures_have_none_to_leave_out():
    found = fitted("NearestNeighbours", columns=["a", "b"])
    Z = found.known.encoded
    k = NearestNeighbours().n_neighbors
    distances = np.sort(np.linalg.norm(Z - Z[7], axis=1))[1 : k + 1]
    assert found.scores()[7] == pytest.approx(distances.mean())
    mixture = fitted("GaussianMixture", columns=["a", "b"])
    np.testing.assert_array_equal(mixture.scores(), mixture.score.inner.value(mixture.known.encoded))


def test_the_rows_explained_are_the_rows_scored():
    found = fitted(columns=["a", "b"])
    explanation = found.explain(np.array([50, 3]), "auto")
    np.testing.assert_allclose(explanation.scores, found.scores()[[50, 3]])
    assert found.sample[explanation.extras["left_out"]].tolist() == [50, 3]
    assert explanation.feature_names == ["a", "b"]


@pytest.mark.parametrize("way", ["explain", "reference", "model"])
def test_no_score_and_no_alarm_depends_on_the_order_of_the_rows(way):
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"a": rng.gamma(2, 3, 150), "b": rng.normal(size=150)})
    frame["c"] = np.where(frame["b"] > 0, "x", "y")
    frame["number"] = np.arange(1, 151)  # counts rows, in whatever order they stand
    frame.loc[[7, 60], ["a", "b"]] = [[90.0, 1.0], [0.1, 6.0]]
    order = rng.permutation(150)
    scores = []
    for rows in (frame, frame.iloc[order]):
        table = rows.reset_index(drop=True)
        if way == "explain":
            run = explain_table(table)
        elif way == "reference":
            run = explain_table(frame.head(60), reference=table)
        else:
            run = explain_new(fit_model(table), frame.head(60))
        scores.append(np.asarray(run.scores))
    again = scores[1]
    if way == "explain":
        again = np.empty(150)
        again[order] = scores[1]
    np.testing.assert_allclose(again, scores[0], rtol=1e-9)


def test_the_default_detector_and_its_words():
    Z = RNG.normal(size=(50, 3))
    for is_clean, trim in ((True, 0.0), (False, 0.1)):
        model, told = make_detector("auto", Z, is_clean=is_clean)
        assert (type(model).__name__, model.trim) == ("Committee", trim)
        assert told == f"committee of {len(model.panel_.members)} simple detectors".replace("6", "six")
    model, told = make_detector("one-class-svm", Z, is_clean=True)
    assert (type(model).__name__, told) == ("OneClassSVM", "OneClassSVM")
    assert make_detector("GaussianMixture", Z, is_clean=True)[0].contamination == 0.01
    with pytest.raises(InvalidInput, match="only 9 rows to learn from; at least 10"):
        make_detector("auto", Z[:9], is_clean=True)
    make_detector("auto", Z[:10], is_clean=True)


def test_many_rows_are_learned_from_a_random_sample():
    assert draw_training_sample(TRAINING_ROWS, generator(0)).tolist() == list(range(TRAINING_ROWS))
    some = draw_training_sample(3 * TRAINING_ROWS, generator(0))
    assert len(np.unique(some)) == TRAINING_ROWS == 5_000
    assert (np.diff(some) > 0).all()
    assert abs(some.mean() / (1.5 * TRAINING_ROWS) - 1) < 0.02  # from all over the table
    assert (some != draw_training_sample(3 * TRAINING_ROWS, generator(1))).any()


def test_rows_outside_the_sample_are_new_to_the_detector():
    rows = np.random.default_rng(2).normal(size=(TRAINING_ROWS + 500, 2))
    run = explain_table(rows, top=1, random_state=3)
    assert run.settings["rows_learned_from"] == TRAINING_ROWS
    assert len(run.scores) == len(rows)
    source = as_table(rows)
    selection = select(source, Request())
    encoder = TableEncoder(compress=False).fit(source.frame)
    found = fit_table(selection, encoder, "auto", generator(3))
    np.testing.assert_array_equal(found.scores(), run.scores)
    outside = np.setdiff1d(np.arange(len(rows)), found.sample)[:20]
    np.testing.assert_allclose(found.scores()[outside], found.score.inner.value(found.known.encoded[outside]))


def test_text_that_holds_numbers_or_dates_is_read_and_gaps_stay_gaps():
    table = pd.DataFrame(
        {
            "n": [str(v) for v in range(30)],
            "day": [f"{d:02d}.05.2024" for d in range(1, 31)],
            "wait": pd.to_timedelta(RNG.integers(1, 90, 30), unit="s"),
        }
    )
    table.loc[3, "day"] = None
    selection = select(as_table(table), Request(columns=list(table.columns)))
    encoder = TableEncoder(columns=list(table.columns)).fit(selection.reference)
    read = fit_table(selection, encoder, "auto", generator(0)).read_rows(np.array([3, 7]))
    assert read["n"].tolist() == [3.0, 7.0]
    assert pd.isna(read["day"].iloc[0])
    assert read["day"].iloc[1] == pd.Timestamp("2024-05-08")
    assert read["wait"].tolist() == table["wait"].dt.total_seconds()[[3, 7]].tolist()
    assert table["n"][3] == "3"  # the user's table is left alone


def test_no_method_is_tried_on_numbers_of_rows(monkeypatch):
    """Tables of row numbers stand for the rows: a number that was moved would be another row, or none."""
    from tellwhy.one_liner import method as trying

    def refuse(*_):
        raise AssertionError("row numbers were moved")

    monkeypatch.setattr(trying, "_choose_by_trial", refuse)
    frame = pd.DataFrame(np.random.default_rng(1).normal(size=(120, 3)), columns=["a", "b", "c"])
    run = explain_table(frame, detector="GaussianMixture", method="auto", top=2)
    assert run.explanation.method == "AnomalyShapley"


def test_methods_that_compare_with_no_rows_are_given_none():
    explanation = fitted(columns=["a", "b"]).explain(np.array([3]), "RandomAttribution")
    assert explanation.values.shape == (1, 2)
