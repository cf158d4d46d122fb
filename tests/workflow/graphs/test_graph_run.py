"""Runs on grids, sequences and graphs: what is found, what is kept, what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.data.generated import latent_classes
from tellwhy.data.graph_files import read_edges, read_grid
from tellwhy.data.graphs import chain, grid
from tellwhy.kinds.graph_input import GraphRequest, read_nodes
from tellwhy.results.node_picture import load_picture, read_picture
from tellwhy.workflow import explain_graph, load_run, save_run


@pytest.fixture(scope="module")
def cube(tmp_path_factory):
    """A grid in units of its own, with a node that only its context gives away and nodes that are missing."""
    toy = latent_classes(grid((30, 40)), 4.0, random_state=0)
    X = toy.X.reshape(30, 40, 2) * [300.0, 5.0] + [4000.0, 10.0]
    classes = toy.classes.reshape(30, 40)
    place = _inside(classes)
    X[place] = [4000 + 300 * 2.83 * (1 - classes[place]), 10 + 5 * 2.83 * (1 - classes[place])]
    X[0, :3] = np.nan
    path = tmp_path_factory.mktemp("grid") / "cube.npz"
    np.savez(path, AI=X[..., 0], SI=X[..., 1], note=np.arange(3))
    return path, place


def _inside(classes):
    """A node all of whose surroundings are of its class."""
    for i in range(4, 26):
        for j in range(4, 36):
            if len(set(classes[i - 3 : i + 4, j - 3 : j + 4].ravel())) == 1:
                return i, j
    raise AssertionError("no such node")


def test_a_grid_of_equal_numbers_is_not_scaled_by_a_rounding_error(tmp_path):
    values = np.random.default_rng(0).normal(size=(6, 50))
    values[0, 0] = np.nan
    np.savez(tmp_path / "flat.npz", a=values, b=np.full((6, 50), 0.1))
    found = read_nodes(tmp_path / "flat.npz", GraphRequest())
    there = np.isfinite(found.X).all(axis=1)
    np.testing.assert_array_equal(found.X[there, 1], 0.0)
    np.testing.assert_allclose(found.X[there, 0].mean(), 0.0, atol=1e-12)
    np.testing.assert_allclose(found.X[there, 0].std(), 1.0, rtol=1e-12)


def test_grid(cube, tmp_path):
    path, place = cube
    found = explain_graph(path, n_classes=2, top=5)
    run, picture = found.run, found.picture
    names = [a.id for a in run.anomalies]
    k = names.index(f"({place[0]}, {place[1]})")
    assert run.explanation.extras["context_share"][k] > 0.8
    assert " in its class)" in run.anomalies[k].reasons[0].text
    assert run.columns == ["AI", "SI"]
    assert len(run.scores) == 1200 - 3
    assert any("3 nodes have missing values" in text for text in run.notes)
    assert any("'note'" in text for text in run.notes)
    assert picture.shape == (30, 40)
    assert (picture.classes.reshape(30, 40)[0, :3] == -1).all()
    np.testing.assert_allclose(np.nansum(picture.values, axis=1)[5:], picture.scores[5:])
    folder = save_run(run, tmp_path / "run")
    again = load_run(folder)
    kept = read_picture(again)
    assert again.summary == run.summary
    np.testing.assert_array_equal(kept.values, picture.values)
    np.testing.assert_array_equal(kept.all_classes, picture.all_classes)
    assert (kept.names, kept.shape, kept.at, kept.kind) == (picture.names, picture.shape, None, "grid")
    without = {name: array for name, array in again.arrays.items() if name != "scores"}
    with pytest.raises(UnreadableFile, match="lack scores"):
        read_picture(replace(again, arrays=without))
    with pytest.raises(UnreadableFile, match="are damaged"):
        read_picture(replace(again, own={"nodes": {"kind": "grid"}}))
    assert read_picture(replace(again, own={})) is None


def test_pictures_beside_runs_of_earlier_versions_are_read(tmp_path):
    assert load_picture(tmp_path) is None
    names = ("data", "values")
    stored = {name: np.ones((4, 2)) for name in names}
    stored |= {name: np.arange(4.0) for name in ("classes", "scores", "context", "all_classes")}
    stored |= {"other.isolation forest": np.arange(4.0), "schema": 1, "kind": "grid", "shape": (2, 2)}
    stored |= {"at": -1, "names": np.array(["a", "b"]), "places": np.array([], str), "threshold": 2.0}
    np.savez(tmp_path / "nodes.npz", **stored)
    kept = load_picture(tmp_path)
    assert (kept.names, kept.shape, kept.at, kept.threshold) == (("a", "b"), (2, 2), None, 2.0)
    np.testing.assert_array_equal(kept.others["isolation forest"], np.arange(4.0))
    for changes, words in (
        ({"schema": 99}, r"nodes\.npz has schema 99; this version of tellwhy reads schema 1"),
        ({"scores": None}, r"nodes\.npz lacks 'scores'"),
        ({"names": None}, r"nodes\.npz lacks 'names'"),
        ({"threshold": "high"}, r"nodes\.npz is damaged"),
    ):
        changed = {name: array for name, array in {**stored, **changes}.items() if array is not None}
        np.savez(tmp_path / "nodes.npz", **changed)
        with pytest.raises(UnreadableFile, match=words):
            load_picture(tmp_path)
    (tmp_path / "nodes.npz").write_bytes(b"PK broken")
    with pytest.raises(UnreadableFile, match=r"nodes\.npz is missing or damaged"):
        load_picture(tmp_path)


def test_volume_shows_the_slice_of_the_oddest_node(tmp_path):
    toy = latent_classes(grid((4, 10, 12), 6), 4.0, random_state=0)
    X = toy.X.reshape(4, 10, 12, 2).astype(np.float32)
    X[2, 5, 5] = 30.0
    np.savez(tmp_path / "volume.npz", a=X[..., 0], b=X[..., 1])
    found = explain_graph(tmp_path / "volume.npz", n_classes=2)
    assert found.picture.at == 2
    assert found.run.anomalies[0].id == "(2, 5, 5)"
    assert found.picture.shape == (10, 12)
    assert len(found.picture.all_classes) == 480


def sequence(n=300, seed=0):
    toy = latent_classes(chain(n), 4.0, random_state=seed)
    return pd.DataFrame(
        {
            "when": pd.date_range("2024-01-01", periods=n, freq="h"),
            "flow": toy.X[:, 0],
            "heat": toy.X[:, 1],
            "x": "c",
        }
    )


def test_rows_are_put_in_the_order_of_time():
    frame = sequence()
    shuffled = frame.sample(frac=1, random_state=0)
    a = explain_graph(frame, time="when", n_classes=2).run
    b = explain_graph(shuffled.reset_index(drop=True), time="when", n_classes=2).run
    assert [x.id for x in a.anomalies] == [x.id for x in b.anomalies]
    assert frame["when"][a.anomalies[0].row] == pd.Timestamp(a.anomalies[0].id)
    assert shuffled["when"].iloc[b.anomalies[0].row] == pd.Timestamp(b.anomalies[0].id)
    text = shuffled.assign(when=shuffled["when"].astype(str))
    assert [x.id for x in explain_graph(text, time="when", n_classes=2).run.anomalies] == [
        x.id for x in a.anomalies
    ]
    assert a.columns == ["flow", "heat"]


def test_edges_by_number_and_by_name(tmp_path):
    frame = sequence().drop(columns=["when", "x"])
    frame.insert(0, "name", [f"n{i}" for i in range(300)])
    pairs = chain(300).edges()
    pd.DataFrame(pairs, columns=["a", "b"]).to_csv(tmp_path / "numbers.csv", index=False)
    pd.DataFrame(
        {"a": frame["name"].to_numpy()[pairs[:, 0]], "b": frame["name"].to_numpy()[pairs[:, 1]]}
    ).to_csv(tmp_path / "names.csv", index=False)
    for name, ids in (("numbers", None), ("names", list(frame["name"]))):
        np.testing.assert_array_equal(read_edges(tmp_path / f"{name}.csv", ids, 300), pairs)
    a = explain_graph(frame.drop(columns="name"), edges=tmp_path / "numbers.csv", n_classes=2).run
    b = explain_graph(frame, edges=tmp_path / "names.csv", id_column="name", n_classes=2).run
    assert [x.row for x in a.anomalies] == [x.row for x in b.anomalies]
    assert b.anomalies[0].id == f"n{b.anomalies[0].row}"
    np.testing.assert_allclose(a.scores, b.scores)


def test_noise_has_one_class():
    rng = np.random.default_rng(0)
    found = explain_graph(
        pd.DataFrame({"t": np.arange(200.0), "a": rng.normal(size=200)}), time="t", contamination=0.1
    )
    assert found.run.settings["n_classes"] == 1
    assert any("by its values alone" in text for text in found.run.notes)
    assert (np.asarray(found.run.explanation.extras["context_share"]) == 0).all()
    assert sum(a.above_threshold for a in found.run.anomalies) == 20


def test_grid_files(tmp_path):
    np.savez(tmp_path / "text.npz", a=np.array(["x"]))
    np.savez(tmp_path / "empty.npz", a=np.full((3, 3), np.nan))
    (tmp_path / "no.npz").write_text("nothing")
    np.savez(tmp_path / "two.npz", a=np.ones((3, 3)), b=np.ones((4, 4)), c=np.ones((3, 3)))
    assert list(read_grid(tmp_path / "two.npz").arrays) == ["a", "c"]
    assert list(read_grid(tmp_path / "two.npz", columns=["b"]).arrays) == ["b"]
    for call, words in (
        (lambda: read_grid(tmp_path / "text.npz"), "no array of numbers"),
        (lambda: read_grid(tmp_path / "missing.npz"), "There is no file"),
        (lambda: read_grid(tmp_path / "no.npz"), "cannot be read as arrays"),
        (lambda: read_grid(tmp_path / "two.npz", columns=["z"]), "no array 'z'"),
        (lambda: explain_graph(tmp_path / "empty.npz"), "Every node"),
        (lambda: explain_graph(tmp_path / "two.npz", exclude=["a", "c"]), "No array"),
        (lambda: explain_graph(tmp_path / "two.npz", neighbours=6), "need three axes"),
    ):
        with pytest.raises(InvalidInput, match=words):
            call()


def test_tables_that_cannot_be_used(tmp_path):
    frame = sequence(60)
    for name, text in (
        ("far", "a,b\n0,99\n"),
        ("text", "a,b\n0,x\n"),
        ("one", "a\n0\n1\n"),
        ("loop", "a,b\n1,1\n"),
    ):
        (tmp_path / f"{name}.csv").write_text(text)
    for settings, words in (
        ({"time": "when", "edges": "e.csv"}, "either time or edges"),
        ({"time": "flaw"}, "Did you mean 'flow'"),
        ({"time": "x"}, "cannot be read as times"),
        ({"edges": tmp_path / "far.csv"}, "names 99 in column 'b'"),
        ({"edges": tmp_path / "text.csv"}, "holds text"),
        ({"edges": tmp_path / "one.csv"}, "expected two"),
        ({"edges": tmp_path / "loop.csv"}, "with itself"),
        ({"edges": tmp_path / "far.csv", "id_column": "when"}, "which no row of the data has"),
        ({"time": "when", "n_classes": 0}, "n_classes"),
    ):
        with pytest.raises(InvalidInput, match=words):
            explain_graph(frame, **settings)
    gap = frame.assign(when=frame["when"].where(frame.index != 7))
    with pytest.raises(InvalidInput, match="no time in row 7"):
        explain_graph(gap, time="when")
    with pytest.raises(InvalidInput, match="same id"):
        read_edges(tmp_path / "far.csv", ["a", "a"], 2)


def test_a_column_that_tells_the_classes_apart_counts_within_them():
    """Its spread is mostly between the classes; the value of the other class must still stand out."""
    rng = np.random.default_rng(5)
    hot = np.tile(np.repeat([0, 1], 100), 2)
    temperature = rng.normal(size=400) + 4.0 * hot
    temperature[250] = 4.1
    frame = pd.DataFrame({"hour": np.arange(400), "temperature": temperature, "load": rng.normal(size=400)})
    found = explain_graph(frame, time="hour").run
    assert found.anomalies[0].row == 250
    assert found.explanation.extras["context_share"][0] > 0.9


def test_a_placeholder_is_found_and_named_in_a_sequence_and_makes_no_class():
    rng = np.random.default_rng(0)
    wave = 20 + 3 * np.sin(np.arange(400) / 20)
    frame = pd.DataFrame(
        {"hour": np.arange(400), "temp": wave + rng.normal(0, 0.5, 400), "load": rng.gamma(2, 5, 400)}
    )
    frame.loc[100:119, "temp"] = -999.0
    run = explain_graph(frame, time="hour", top=5).run
    assert {a.row for a in run.anomalies if a.above_threshold} >= set(range(100, 120))
    assert run.n_flagged == run.alarms.n_flagged == sum(a.above_threshold for a in run.anomalies)
    for anomaly in run.anomalies[:20]:
        assert anomaly.reasons[0].feature == "temp"
        assert anomaly.reasons[0].text.startswith("temp = −999, a placeholder")
        assert 0.5 < anomaly.reasons[0].share <= 1
    assert run.findings[0].kind == "placeholder"
    assert run.findings[0].rows == list(range(100, 120))
    told = run.explanation
    np.testing.assert_allclose(told.base_values + told.values.sum(axis=1) + told.residual, told.scores)


def test_a_placeholder_is_found_and_named_in_a_grid(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 30))
    values[4:6, 7:9] = -999.0
    np.savez(tmp_path / "cube.npz", a=values, b=rng.normal(size=(30, 30)))
    run = explain_graph(tmp_path / "cube.npz", top=4).run
    assert {a.id for a in run.anomalies[:4]} == {"(4, 7)", "(4, 8)", "(5, 7)", "(5, 8)"}
    assert all(a.above_threshold and a.reasons[0].feature == "a" for a in run.anomalies[:4])
