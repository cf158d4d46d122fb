"""What a run on a grid, a sequence or a graph tells: counts, names, classes, ranges, pictures."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tellwhy.data.graphs import grid
from tellwhy.detectors.lccad.theta import take_middle_part
from tellwhy.kinds.graph_input import GraphRequest, read_nodes
from tellwhy.kinds.node_reasons import find_kind_of_cells
from tellwhy.results.node_picture import as_arrays, read_picture
from tellwhy.results.store import load_result, save_result
from tellwhy.workflow import explain_graph


def two_levels(n=300, seed=0):
    """A sequence with a low and a high level; hour 40 has a value of the other level, hour 200 is extreme."""
    rng = np.random.default_rng(seed)
    level = np.where((np.arange(n) // 100) % 2 == 0, 0.0, 4.0)
    frame = pd.DataFrame(
        {"hour": np.arange(n), "flow": level + rng.normal(size=n), "load": rng.normal(size=n)}
    )
    frame.loc[40, "flow"] = 4.2
    frame.loc[200 % n, "load"] = 30.0
    return frame


@pytest.fixture(scope="module")
def frame():
    return two_levels()


@pytest.fixture(scope="module")
def found(frame):
    return explain_graph(frame, time="hour", n_classes=2, top=5)


def test_the_summary_counts_nodes_classes_and_rows_above(found):
    run = found.run
    assert int((run.scores > run.threshold).sum()) == 1
    sizes = np.bincount(found.picture.classes) / 300
    share = np.mean(run.explanation.extras["context_share"])
    assert run.summary == (
        "300 rows in the order of time of pandas.DataFrame fall into 2 latent classes that neighbours tend to share "
        f"(class 0: {sizes[0]:.0%}, class 1: {sizes[1]:.0%}). 1 node is above the threshold (at most "
        "10 % false alarms expected) for the class they are in. "
        f"The {len(run.explanation)} highest scores were explained by LatentClassDTD; {share:.0%} of them is there "
        "only because of the context: elsewhere, the same values would be ordinary."
    )
    assert sorted(np.round(sizes, 1)) == [0.3, 0.7]


def test_nodes_are_ranked_with_their_own_scores_names_and_percentiles(frame, found):
    run = found.run
    scores = [a.score for a in run.anomalies]
    assert scores == sorted(scores, reverse=True)
    assert run.anomalies[0].row == 200
    assert 40 in [a.row for a in run.anomalies[:3]]
    everyone = np.sort(found.picture.scores)  # without what findings added
    for anomaly in run.anomalies:
        assert anomaly.id == str(anomaly.row)  # named by the hour, which counts the rows here
        assert anomaly.score == run.scores[anomaly.row]
        assert anomaly.percentile == pytest.approx(100.0 * (everyone < anomaly.score).mean())
        assert anomaly.above_threshold == (anomaly.score > run.threshold)
        for reason in anomaly.reasons:
            assert reason.value == frame.loc[anomaly.row, reason.feature]


def test_rows_keep_their_numbers_whatever_their_order(frame, found):
    shuffled = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    again = explain_graph(shuffled, time="hour", n_classes=2, top=5).run
    assert [shuffled["hour"][a.row] for a in again.anomalies] == [a.row for a in found.run.anomalies]
    assert [a.id for a in again.anomalies] == [a.id for a in found.run.anomalies]


def test_what_is_usual_is_told_of_the_class_of_the_node(frame, found):
    by_row = {a.row: a.reasons[0] for a in found.run.anomalies}
    assert by_row[40].feature == "flow"
    assert by_row[40].text.startswith("flow = 4.2 (usually -")
    low, high = by_row[40].typical
    assert -2.5 < low < -1.0 < 1.0 < high < 2.5  # the low level, though 4.2 is usual over all rows
    assert by_row[200].feature == "load"
    assert by_row[200].text.startswith("load = 30: at 200: load is 29.7")  # a spike, told as such
    assert by_row[200].share > 0.95
    np.testing.assert_allclose(
        found.run.typical["flow"].quantiles, np.quantile(frame["flow"], [0, 0.05, 0.25, 0.5, 0.75, 0.95, 1])
    )


def test_context_is_told_apart_from_values(found):
    rows = [a.row for a in found.run.anomalies]
    context = found.run.explanation.extras["context_share"]
    assert context[rows.index(40)] > 0.9
    assert context[rows.index(200)] < 0.1


def test_what_neighbours_prefer_is_told_of_every_node(found):
    pull = found.run.explanation.extras["neighbour_pull"]
    assert pull.shape == (len(found.run.anomalies),)
    row = [a.row for a in found.run.anomalies].index(40)
    assert pull[row] > 1  # the value of hour 40 is of the other class: its neighbours hold it in theirs


def test_settings_are_as_used(found):
    assert (found.run.settings["n_classes"], found.run.settings["detector"]) == (2, "LCCAD")
    assert found.run.settings["method"] == "LatentClassDTD"
    assert found.run.settings["time"] == "hour"
    assert found.run.settings["seed"] == 0
    assert not any("values alone" in text for text in found.run.notes)


def test_the_picture_shows_every_row_where_it_is(frame, found):
    picture = found.picture
    assert picture.kind == "time"
    assert picture.names == ("flow", "load")
    np.testing.assert_array_equal(picture.data, frame[["flow", "load"]])
    raised = np.flatnonzero(picture.scores != found.run.scores)
    assert raised.tolist() == [200]  # by a finding; the picture shows what latent classes say
    assert picture.places[:3] == ("0", "1", "2")
    assert picture.threshold == found.run.threshold
    np.testing.assert_allclose(picture.values.sum(axis=1), picture.scores)
    context = found.run.explanation.extras["context"]
    rows = [a.row for a in found.run.anomalies]
    np.testing.assert_allclose(picture.context[rows], context)


def test_detectors_that_do_not_see_neighbours_are_drawn_beside(found):
    """High is odd: the extreme value of hour 200 stands out, what is odd only in its context does not."""
    others = found.picture.others
    assert list(others) == ["isolation forest", "ClusterSVDD"]
    for scores in others.values():
        assert scores.argmax() == 200
        assert (scores > scores[40]).mean() > 0.05


def test_a_column_of_words_has_one_value_and_parts_still_make_up_the_score():
    frame = two_levels(120).assign(state=np.where(np.arange(120) % 3 == 0, "open", "shut"))
    frame.loc[70, "state"] = "broken"
    found = explain_graph(frame, time="hour", n_classes=2, top=120)
    assert found.run.columns == ["flow", "load", "state"]
    for values, scores in (
        (found.run.explanation.values, found.run.explanation.scores),
        (found.picture.values, found.picture.scores),
    ):
        assert values.shape == (120, 3)
        np.testing.assert_allclose(values.sum(axis=1), scores)


@pytest.mark.parametrize("at", [None, 0, 7])
def test_the_slice_that_is_drawn_comes_back_from_its_file(found, tmp_path, at):
    drawn = as_arrays(replace(found.picture, at=at))
    folder = save_result(replace(found.run, arrays=drawn.arrays, own=drawn.facts), tmp_path / "run")
    assert read_picture(load_result(folder)).at == at


@pytest.mark.parametrize("n_levels", [3, 5])
def test_as_many_classes_are_found_as_there_are_levels(n_levels):
    level = np.repeat(np.arange(n_levels) * 8.0, 100)
    flow = level + np.random.default_rng(0).normal(size=len(level))
    run = explain_graph(pd.DataFrame({"hour": np.arange(len(level)), "flow": flow}), time="hour").run
    assert run.settings["n_classes"] == n_levels
    assert f"fall into {n_levels} latent classes" in run.summary


def test_rows_are_listed_up_to_200_above_the_threshold_and_at_least_as_asked(frame):
    many = explain_graph(frame, time="hour", n_classes=2, top=5, contamination=0.2).run
    assert len(many.anomalies) == 60
    assert sum(a.above_threshold for a in many.anomalies) == 60
    few = explain_graph(frame, time="hour", n_classes=2, top=9, contamination=0.01).run
    assert len(few.anomalies) == 9
    assert sum(a.above_threshold for a in few.anomalies) == 3


def test_one_node_above_is_one_node():
    frame = two_levels()
    told = explain_graph(frame, time="hour", n_classes=2, contamination=1 / 300).run.summary
    assert " 1 node is above the threshold" in told


class TestNodes:
    def test_neighbours_of_planes_and_volumes(self, tmp_path):
        rng = np.random.default_rng(0)
        np.savez(tmp_path / "plane.npz", a=rng.normal(size=(3, 4)))
        np.savez(tmp_path / "volume.npz", a=rng.normal(size=(3, 4, 5)))
        for name, asked, expected in (
            ("plane", None, 4),
            ("plane", 8, 8),
            ("volume", None, 6),
            ("volume", 26, 26),
        ):
            nodes = read_nodes(tmp_path / f"{name}.npz", GraphRequest(neighbours=asked))
            assert nodes.graph.neighbours == expected
        assert [read_nodes(tmp_path / "plane.npz", GraphRequest()).names(i) for i in (0, 5, 11)] == [
            "(0, 0)",
            "(1, 1)",
            "(2, 3)",
        ]

    def test_columns_of_rows_and_what_to_call_them(self):
        frame = two_levels(50).assign(name=[f"n{i}" for i in range(50)], sort=["a", "b"] * 25)
        nodes = read_nodes(frame, GraphRequest(time="hour", id_column="name", exclude=["load"]))
        assert list(nodes.frame.columns) == ["flow", "sort"]
        assert nodes.owner.tolist() == [0, 1, 1, 1]
        assert nodes.names(7) == "n7"
        backwards = read_nodes(
            frame.iloc[::-1].reset_index(drop=True), GraphRequest(time="hour", id_column="name")
        )
        assert backwards.names(7) == "n7"
        assert backwards.rows[7] == 42
        np.testing.assert_array_equal(backwards.frame["flow"], frame["flow"])

    def test_days_before_months_are_read_as_such(self):
        days = pd.date_range("2024-01-20", periods=40)
        written = pd.DataFrame(
            {"day": days.strftime("%d.%m.%Y"), "x": np.random.default_rng(0).normal(size=40)}
        )
        nodes = read_nodes(written.sample(frac=1, random_state=0), GraphRequest(time="day"))
        assert [nodes.names(i) for i in range(40)] == written["day"].tolist()

    def test_the_middle_of_a_large_grid_suggests_the_classes(self):
        shape = (200, 300)
        X = np.arange(60_000.0)[:, None]
        some, smaller = take_middle_part(X, grid(shape))
        assert smaller.shape == (141, 141)
        at = some[:, 0].astype(int).reshape(141, 141)
        assert (at[0, 0] // 300, at[0, 0] % 300) == (29, 79)  # as far from one edge as from the other
        assert (at[-1, -1] // 300, at[-1, -1] % 300) == (169, 219)

    def test_kinds_of_columns(self):
        kinds = {
            "boolean": pd.Series([True, False]),
            "date": pd.Series(pd.to_datetime(["2024-01-01", "2024-01-02"])),
            "number": pd.Series([1.5, 2.0]),
            "category": pd.Series(["a", "b"]),
        }
        assert {name: find_kind_of_cells(series) for name, series in kinds.items()} == {
            name: name for name in kinds
        }
