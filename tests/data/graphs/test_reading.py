"""Grids and edges in files: which arrays are used, and which cell is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.data.graph_files import read_edges, read_grid


def save(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez(folder / "cube.npz", **arrays)
    return folder / "cube.npz"


def test_arrays_of_the_most_common_shape_are_the_grid(tmp_path: Path) -> None:
    big, small = np.zeros((9, 9)), np.ones((2, 3))
    found = read_grid(save(tmp_path, big=big, a=small, b=small))
    assert (list(found.arrays), found.shape) == (["a", "b"], (2, 3))
    assert found.notices == ("Left out 'big': its shape is (9, 9), the grid's is (2, 3).",)
    np.testing.assert_array_equal(found.arrays["b"], small)
    for drawn in ({"big": big, "a": small}, {"a": small, "big": big}):
        assert read_grid(save(tmp_path, **drawn)).shape == (9, 9)  # on a draw, the larger one


def test_what_is_no_grid_is_left_out_with_a_reason(tmp_path: Path) -> None:
    path = save(tmp_path, a=np.ones((2, 3)), line=np.arange(6), name=np.full((2, 3), "x"))
    assert read_grid(path).notices == (
        "Left out 'line': its shape is (6,), the grid's is (2, 3).",
        "Left out 'name': it holds <U1, not numbers.",
    )


def test_only_asked_arrays_are_read(tmp_path: Path) -> None:
    path = save(tmp_path, a=np.ones((2, 3)), b=np.ones((2, 3)), c=np.ones((2, 3)))
    found = read_grid(path, columns=["c", "a"])
    assert (list(found.arrays), found.notices) == (["c", "a"], ())
    with pytest.raises(InvalidInput, match=r"no array 'd'\. Its arrays are: 'a', 'b', 'c'"):
        read_grid(path, columns=["d"])


def test_files_without_a_grid_say_what_they_hold(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"two or three axes; expected a grid\. Got: line \(6,\) int64\."):
        read_grid(save(tmp_path, line=np.arange(6)))
    with pytest.raises(UnreadableFile, match="There is no file"):
        read_grid(tmp_path / "absent.npz")
    (tmp_path / "text.npz").write_text("a,b")
    with pytest.raises(UnreadableFile, match=r"as numpy\.savez writes it"):
        read_grid(tmp_path / "text.npz")


def edges(folder: Path, text: str) -> Path:
    (folder / "edges.csv").write_text(text, encoding="utf-8")
    return folder / "edges.csv"


def test_edges_by_row_number(tmp_path: Path) -> None:
    found = read_edges(edges(tmp_path, "from,to,note\n0,2,x\n2,1,y\n"), None, 3)
    assert found.tolist() == [[0, 2], [2, 1]]


def test_edges_by_name(tmp_path: Path) -> None:
    assert read_edges(edges(tmp_path, "from,to\nb,a\nb,c\n"), ["a", "b", "c"], 3).tolist() == [[1, 0], [1, 2]]
    numbered = edges(tmp_path, "from,to\n30,10\n30,20.0\n")  # names that look like numbers
    assert read_edges(numbered, ["10", "20", "30"], 3).tolist() == [[2, 0], [2, 1]]


@pytest.mark.parametrize(
    ("text", "ids", "message"),
    [
        (
            "a,b\n0,1\n1,3\n",
            None,
            r"Row 1 of .*edges\.csv names 3 in column 'b'; expected a row number .* 0 to 2\.",
        ),
        ("a,b\n0,1\n-1,2\n", None, "Row 1 of .* names -1 in column 'a'"),
        ("a,b\n0,1\n0.5,2\n", None, "Row 1 of .* names 0.5 in column 'a'"),
        ("a,b\n0,x\n1,y\n", None, "Column 'b' of .* holds text; expected 0-based row numbers.*--id"),
        ("a\n0\n1\n", None, "has 1 column; expected two"),
        ("a,b\nu,v\nu,z\n", ["u", "v", "w"], "Row 1 of .* names 'z', which no row of the data has as its id"),
        ("a,b\nu,v\n", ["u", "v", "u"], "Two rows have the same id"),
    ],
)
def test_wrong_edges_are_named(tmp_path: Path, text: str, ids: list[str] | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_edges(edges(tmp_path, text), ids, 3)
