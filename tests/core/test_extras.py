"""Further results: deferred ones are computed once, for the rows that are asked for."""

import pickle

import numpy as np
import pandas as pd
import pytest

from tellwhy import Explanation
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.explanation_parts import Deferred, Extras


class Counted:
    """Squares of row numbers, and which rows were asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, rows):
        self.asked.append(rows.tolist())
        return rows.astype(float) ** 2


def example(extras):
    values = np.arange(12.0).reshape(4, 3)
    return Explanation(values=values, scores=values.sum(axis=1), method="Example", data=values, extras=extras)


def deferred(counted):
    return {"squares": Deferred(counted, np.arange(4)), "left_out": np.arange(4), "note": "as it is"}


def test_nothing_is_computed_until_it_is_asked_for():
    counted = Counted()
    e = example(deferred(counted))
    assert "squares" in e.extras
    assert set(e.extras) == {"squares", "left_out", "note"}
    assert len(e.extras) == 3
    assert "computed when asked for" in repr(e.extras)
    _ = e[1:3], e.top(2), repr(e), e._repr_html_(), e.extras | {"more": 1}
    assert counted.asked == []
    assert set(e.extras.computed()) == {"left_out", "note"}
    for _ in range(2):
        np.testing.assert_array_equal(e.extras["squares"], [0.0, 1.0, 4.0, 9.0])
    assert counted.asked == [[0, 1, 2, 3]]
    assert set(e.extras.computed()) == {"squares", "left_out", "note"}


def test_a_slice_is_computed_for_its_rows_only():
    counted = Counted()
    e = example(deferred(counted))
    np.testing.assert_array_equal(e[[3, 1]][:1].extras["squares"], [9.0])
    np.testing.assert_array_equal(e.top(2).extras["squares"], [9.0, 4.0])
    assert counted.asked == [[3], [3, 2]]


def test_a_slice_of_what_was_computed_computes_nothing():
    counted = Counted()
    e = example(deferred(counted))
    e.extras["squares"]
    np.testing.assert_array_equal(e[2:].extras["squares"], [4.0, 9.0])
    assert counted.asked == [[0, 1, 2, 3]]


def test_joining_keeps_both_sides():
    counted = Counted()
    joined = Extras(deferred(counted)) | Extras(
        {"note": "newer", "other": Deferred(np.negative, np.arange(4))}
    )
    assert joined["note"] == "newer"
    np.testing.assert_array_equal(joined["other"], [0, -1, -2, -3])
    assert counted.asked == []
    only = joined.only("squares", "absent")
    assert list(only) == ["squares"]
    np.testing.assert_array_equal(only["squares"], [0.0, 1.0, 4.0, 9.0])


def test_files_and_pickles_hold_what_was_computed(tmp_path):
    e = example(deferred(Counted()))
    loaded = Explanation.load(e.save(tmp_path / "before"))
    assert set(loaded.extras) == {"left_out", "note"}
    assert set(pickle.loads(pickle.dumps(e.extras))) == {"left_out", "note"}
    e.extras["squares"]
    loaded = Explanation.load(e.save(tmp_path / "after"))
    np.testing.assert_array_equal(loaded.extras["squares"], e.extras["squares"])
    assert set(pickle.loads(pickle.dumps(e.extras))) == {"squares", "left_out", "note"}


def test_frames_follow_slicing_and_survive_a_round_trip(tmp_path):
    frame = pd.DataFrame({"a": ["x", "y", "z", None], "b": [1.0, 2.0, np.nan, 4.0]})
    e = example({"nearest": frame, "other": frame.rename(columns=str.upper)})
    pd.testing.assert_frame_equal(e[[2, 0]].extras["nearest"], frame.iloc[[2, 0]])
    folder = e.save(tmp_path / "frames")
    loaded = Explanation.load(folder)
    pd.testing.assert_frame_equal(loaded.extras["nearest"], frame)
    assert list(loaded.extras["other"].columns) == ["A", "B"]
    (folder / "extra_0.parquet").write_bytes(b"nonsense")
    with pytest.raises(UnreadableFile, match="extra_0"):
        Explanation.load(folder)
    head = (folder / "explanation.json").read_text()
    (folder / "explanation.json").write_text(head.replace("extra_0.parquet", "../extra_0.parquet"))
    with pytest.raises(UnreadableFile, match="tables"):
        Explanation.load(folder)


def test_frames_of_another_length_are_refused():
    with pytest.raises(InvalidInput, match="length 2 for 4 rows"):
        example({"nearest": pd.DataFrame({"a": [1, 2]})})
