"""Explanation: the identity, slicing, tables, and the folder on disk."""

import json

import numpy as np
import pandas as pd
import pytest

from tellwhy import Explanation
from tellwhy.core.errors import CannotWrite, InvalidInput, UnreadableFile


def example(**changes):
    rng = np.random.default_rng(0)
    values = rng.normal(size=(5, 3))
    given = {
        "values": values,
        "scores": values.sum(axis=1) + 1.5,
        "base_values": np.full(5, 1.0),
        "stderr": np.abs(values) / 10,
        "data": pd.DataFrame(values, columns=["a", "b", "c"], index=list("vwxyz")),
        "feature_names": ["a", "b", "c"],
        "method": "Example",
        "params": {"explains": "a made-up score", "gamma": np.float64(0.5)},
        "extras": {"left_out": np.arange(5), "note": "kept as it is"},
    }
    return Explanation(**{**given, **changes})


def test_scores_are_base_plus_values_plus_residual():
    e = example()
    np.testing.assert_allclose(e.residual, 0.5)
    np.testing.assert_allclose(e.base_values + e.values.sum(axis=1) + e.residual, e.scores)
    assert example(kind="sensitivity").residual is None


def test_slicing_keeps_everything_in_step():
    e = example()
    part = e[[3, 1]]
    np.testing.assert_array_equal(part.values, e.values[[3, 1]])
    np.testing.assert_array_equal(part.stderr, e.stderr[[3, 1]])
    np.testing.assert_array_equal(part.extras["left_out"], [3, 1])
    assert part.extras["note"] == "kept as it is"
    assert list(part.data.index) == ["y", "w"]
    assert len(e[2]) == 1
    assert len(e[e.scores > 100]) == 0
    assert [len(one) for one in e] == [1] * 5
    with pytest.raises(IndexError, match="row 5 of an explanation of 5 rows"):
        e[5]
    assert isinstance(example(data=np.ones((5, 3)))[1:3].data, np.ndarray)
    assert example(data=None)[0].data is None


def test_rows_with_equal_scores_stay_in_their_order():
    found = Explanation(values=np.ones((4, 1)), scores=[1.0, 3.0, 1.0, 3.0], method="Example").top(3)
    assert found.extras["row"].tolist() == [1, 3, 0]


def test_top_ranks_rows_and_remembers_where_they_were():
    e = example()
    top = e.top(2)
    np.testing.assert_array_equal(top.scores, np.sort(e.scores)[::-1][:2])
    np.testing.assert_array_equal(top.extras["row"], np.argsort(-e.scores)[:2])
    np.testing.assert_array_equal(e[1:].top(4).top(1).extras["row"], [np.argmax(e.scores[1:])])


def test_shares_are_parts_of_the_positive_relevance():
    shares = example(values=[[2.0, -1.0, 6.0]] * 5).shares()
    np.testing.assert_allclose(shares[0], [0.25, 0, 0.75])
    assert example(values=np.zeros((5, 3))).shares().sum() == 0
    np.testing.assert_allclose(example(values=np.full((5, 3), 1e308)).shares(), 1 / 3)


def test_frame_and_names():
    frame = example().to_frame()
    assert list(frame.columns) == ["(score)", "(base)", "(residual)", "a", "b", "c"]
    assert list(frame.index) == list("vwxyz")
    assert "(residual)" not in example(kind="ranking").to_frame()
    image = Explanation(values=np.ones((2, 2, 3)), scores=np.ones(2), method="Image")
    assert image.names() == ["x0_0", "x0_1", "x0_2", "x1_0", "x1_1", "x1_2"]
    assert image.feature_shape == (2, 3)


def test_html_is_escaped():
    page = example(feature_names=["<script>", "b", "c"], method="<b>")._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<b>" not in page


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "guess"}, "kind must be one of"),
        ({"scores": np.ones(4)}, "scores of shape"),
        ({"values": np.ones(5)}, "values of shape"),
        ({"stderr": np.ones((5, 2))}, "stderr has shape"),
        ({"feature_names": ["a"]}, "1 feature names for 3 features"),
        ({"extras": {"left_out": np.ones(2)}}, "array of length 2 for 5 rows"),
    ],
)
def test_shapes_are_checked(changes, message):
    with pytest.raises(InvalidInput, match=message):
        example(**changes)


@pytest.mark.parametrize("data", ["frame", "array", "polars", None])
def test_round_trip(tmp_path, data):
    frame = example().data
    if data == "polars":
        given = pytest.importorskip("polars").from_pandas(frame)
    else:
        given = {"frame": frame, "array": frame.to_numpy(), None: None}[data]
    e = example(data=given)
    folder = e.save(tmp_path / "explanation")
    loaded = Explanation.load(folder)
    for name in ("values", "scores", "base_values", "stderr"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(e, name))
    assert loaded.feature_names == e.feature_names
    assert loaded.params == {"explains": "a made-up score", "gamma": 0.5}
    assert loaded.extras["note"] == "kept as it is"
    np.testing.assert_array_equal(loaded.extras["left_out"], e.extras["left_out"])
    if data == "frame":
        pd.testing.assert_frame_equal(loaded.data, frame)
    elif data is not None:
        np.testing.assert_array_equal(np.asarray(loaded.data), frame.to_numpy())
    assert {p.suffix for p in folder.iterdir()} <= {".json", ".npz", ".parquet"}


def test_saving_replaces_our_own_folder_and_nobody_elses(tmp_path):
    target = tmp_path / "explanation"
    example().save(target)
    example(method="Second").save(target)
    assert Explanation.load(target).method == "Second"
    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter1.txt").write_text("years of work")
    with pytest.raises(CannotWrite, match="not written by tellwhy"):
        example().save(foreign)
    assert (foreign / "chapter1.txt").read_text() == "years of work"


def test_a_failed_save_leaves_the_old_one_and_no_litter(tmp_path):
    target = tmp_path / "explanation"
    example().save(target)

    class Unwritable(pd.DataFrame):
        def to_parquet(self, path, **_):
            raise OSError(28, "No space left on device")

    with pytest.raises(CannotWrite, match=r"No space left on device\. Nothing was written"):
        example(data=Unwritable(example().data)).save(target)
    assert Explanation.load(target).method == "Example"
    assert [p.name for p in tmp_path.iterdir()] == ["explanation"]


def test_damaged_folders_are_named(tmp_path):
    with pytest.raises(UnreadableFile, match=r"nothing is not there; expected the folder of an explanation"):
        Explanation.load(tmp_path / "nothing")
    folder = example().save(tmp_path / "explanation")
    (folder / "arrays.npz").write_bytes((folder / "arrays.npz").read_bytes()[:50])
    with pytest.raises(UnreadableFile, match=r"arrays\.npz is missing or damaged"):
        Explanation.load(folder)
    folder = example().save(tmp_path / "second")
    (folder / "data.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(UnreadableFile, match=r"data\.parquet is missing or damaged"):
        Explanation.load(folder)
    head = folder / "explanation.json"
    head.write_text(json.dumps({**json.loads(head.read_text()), "schema": 99}))
    with pytest.raises(UnreadableFile, match="schema 99; this version of tellwhy reads schema 1"):
        Explanation.load(folder)
    head.write_text("[]")
    with pytest.raises(UnreadableFile, match="schema 'list'"):
        Explanation.load(folder)
    head.write_text("{")
    with pytest.raises(UnreadableFile, match=r"explanation\.json cannot be read as an explanation"):
        Explanation.load(folder)


@pytest.mark.parametrize("key", ["method", "kind", "params", "feature_names", "extras"])
@pytest.mark.parametrize("value", ["absent", 7])
def test_heads_without_a_key_name_it(key, value, tmp_path):
    folder = example().save(tmp_path / "explanation")
    head = json.loads((folder / "explanation.json").read_text())
    del head[key]
    if value != "absent":
        head[key] = value
    (folder / "explanation.json").write_text(json.dumps(head))
    with pytest.raises(UnreadableFile, match=rf"explanation\.json lacks '{key}'"):
        Explanation.load(folder)


@pytest.mark.parametrize("name", ["values", "scores", "base_values"])
def test_arrays_that_are_missing_or_do_not_fit_are_told(name, tmp_path):
    folder = example().save(tmp_path / "explanation")
    with np.load(folder / "arrays.npz") as stored:
        arrays = dict(stored)
    rest = {key: array for key, array in arrays.items() if key != name}
    np.savez(folder / "arrays.npz", **rest)
    with pytest.raises(UnreadableFile, match=rf"arrays\.npz lacks '{name}'"):
        Explanation.load(folder)
    for wrong in (arrays[name][:-1], np.full(arrays[name].shape, "text")):
        np.savez(folder / "arrays.npz", **{**arrays, name: wrong})
        with pytest.raises(UnreadableFile, match="explanation does not hold a whole explanation"):
            Explanation.load(folder)


@pytest.mark.parametrize(
    "tables", [[], {"frame": 3}, {"frame": "../secret.parquet"}, {"frame": "/etc/passwd"}]
)
def test_tables_outside_of_the_folder_are_never_opened(tables, tmp_path):
    folder = example().save(tmp_path / "explanation")
    pd.DataFrame({"a": [1.0]}).to_parquet(tmp_path / "secret.parquet")
    head = json.loads((folder / "explanation.json").read_text())
    (folder / "explanation.json").write_text(json.dumps({**head, "tables": tables}))
    with pytest.raises(UnreadableFile, match=r"explanation\.json does not name the files of its 'tables'"):
        Explanation.load(folder)


def test_no_pickle_is_ever_loaded(tmp_path):
    folder = example().save(tmp_path / "explanation")
    np.savez(folder / "arrays.npz", values=np.array([{"evil": 1}], dtype=object), scores=np.ones(1))
    with pytest.raises(UnreadableFile, match="missing or damaged"):
        Explanation.load(folder)
