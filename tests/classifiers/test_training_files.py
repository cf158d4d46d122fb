import gzip

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tellwhy.classifiers.svm.threads.row_batches import deal_out_features
from tellwhy.classifiers.svm.training import files as libsvm_format
from tellwhy.classifiers.svm.training.files import ColumnScaling, read_rows, survey
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.kinds.label_columns import read_text_columns


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:0.5 3:2\n-1\n# a comment\n\n1 2:1e-3 # at the end\n7 4:1\n")
    return path


def test_libsvm_rows(rows):
    found = read_rows(rows)
    expected = [[0.5, 0, 2, 0], [0, 0, 0, 0], [0, 1e-3, 0, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(found.X.toarray(), expected)
    assert found.y.tolist() == [1, -1, 1, 7]
    assert survey(rows).n_features == 4


def test_a_process_keeps_only_its_features(rows):
    whole = read_rows(rows, n_features=6)
    found = read_rows(rows, columns=np.array([1, 3, 5]), n_features=6)
    np.testing.assert_array_equal(found.X.toarray(), whole.X.toarray()[:, [1, 3, 5]])
    np.testing.assert_array_equal(found.squares, (whole.X.toarray() ** 2).sum(axis=1))
    assert found.y.tolist() == whole.y.tolist()
    assert survey(rows).often.tolist() == np.count_nonzero(whole.X.toarray()[:, :4], axis=0).tolist()


def rows_before(path, line):
    """The same file without the lines after one."""
    cut = path.with_name("cut.svm")
    cut.write_bytes(b"\n".join(gzip.decompress(path.read_bytes()).split(b"\n")[:line]))
    return cut


def test_chunks_fit_together(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = sparse.random_array((50, 9), density=0.3, rng=rng, format="csr")
    lines = [
        " ".join(
            [str(i % 4), *(f"{j + 1}:{float(v)!r}" for j, v in zip(X[[i]].indices, X[[i]].data, strict=True))]
        )
        for i in range(50)
    ]
    path = tmp_path / "many.svm.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    monkeypatch.setattr("tellwhy.classifiers.svm.training.files.LINES", 7)
    found = read_rows(path, n_features=9)
    np.testing.assert_array_equal(found.X.toarray(), X.toarray())
    assert survey(path).often.tolist() == np.bincount(X.indices, minlength=9).tolist()
    assert survey(path).dealt.tolist() == deal_out_features(X.indptr, X.indices, 9).tolist()
    part = read_rows(path, n_features=9, columns=np.array([0, 8]))
    np.testing.assert_array_equal(part.X.toarray(), X.toarray()[:, [0, 8]])
    path.write_bytes(gzip.compress("\n".join([*lines[:20], "# none", *lines[20:40], "4 oops"]).encode()))
    assert read_rows(rows_before(path, 41), n_features=9).X.shape == (40, 9)
    with pytest.raises(UnreadableFile, match="line 42: 'oops'"):
        read_rows(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("one 1:2", "the label 'one' is not a number"),
        ("1 1:2 x:3", "'x:3' is not of the form"),
        ("1 1:2 3", "'3' is not of the form"),
        ("1 1:nan", "'1:nan' is not of the form"),
        ("1 2:1 2:1", "feature 2 follows feature 2"),
        (
            "1 0:1",
            "there is a feature 0; features are counted from 1 (in dump_svmlight_file: zero_based=False)",
        ),
        ("1 3:1 2:1", "feature 2 follows feature 3"),
        ("nan 1:1", "the label 'nan'"),
        ("1: 1:1", "the label '1:'"),
        ("1 1:2:3 4", "'1:2:3' is not of the form"),
        ("1 1: 2", "'1:' is not of the form"),
        ("1 1 :2", "'1' is not of the form"),
        ("1 1.0:2", "'1.0:2' is not of the form"),
        ("1 qid:7 1:2", "'qid:7' is not of the form"),
        ("1 2147483648:1", "feature '2147483648' is too large a number; at most 2147483647"),
        ("1 " + "9" * 5000 + ":1", "is too large a number"),
        ("?" * 99 + " 1:1", "the label '" + "?" * 40 + "…' is not a number"),
    ],
)
def test_malformed_lines_are_named(tmp_path, line, words):
    path = tmp_path / "bad.svm"
    path.write_text(f"1 1:1\n# comment\n{line}\n2 1:1\n")
    with pytest.raises(UnreadableFile, match="line 3") as error:
        read_rows(path)
    assert words in str(error.value)


def test_marks_of_other_systems_are_read(tmp_path):
    path = tmp_path / "windows.svm"
    path.write_bytes(b"\xef\xbb\xbf+1 1:3\t2:1\r\n-1 1:2 \r\n")
    found = read_rows(path)
    assert found.y.tolist() == [1, -1]
    np.testing.assert_array_equal(found.X.toarray(), [[3, 1], [2, 0]])


def test_nothing_to_read(tmp_path):
    (tmp_path / "empty.svm").write_text("\n# nothing\n")
    with pytest.raises(UnreadableFile, match="no rows"):
        survey(tmp_path / "empty.svm")
    with pytest.raises(UnreadableFile, match="no file"):
        read_rows(tmp_path / "none.svm")


def test_npz_and_tables_hold_the_same(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, 3)), np.arange(10) % 3
    np.savez(tmp_path / "dense.npz", X=X, y=y)
    table = sparse.csr_array(X)
    np.savez(
        tmp_path / "sparse.npz",
        data=table.data,
        indices=table.indices,
        indptr=table.indptr,
        shape=table.shape,
        y=y,
    )
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=y)
    table.to_parquet(tmp_path / "table.parquet")
    table.to_csv(tmp_path / "table.csv.gz", index=False)
    files = (("dense.npz", None), ("sparse.npz", None), ("table.parquet", "kind"), ("table.csv.gz", "kind"))
    for name, label in files:
        found = read_rows(tmp_path / name, label=label)
        np.testing.assert_array_equal(found.X.toarray(), X)
        np.testing.assert_array_equal(found.y, y)
    assert survey(tmp_path / "table.parquet", "kind").names == ["a", "b", "c"]


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "odd.npz", Z=np.zeros(3))
    with pytest.raises(UnreadableFile, match=r"lacks y, data, .*; expected arrays y and X.* It holds Z\."):
        read_rows(tmp_path / "odd.npz")
    pd.DataFrame({"a": [1.0], "t": ["x"], "y": [1]}).to_parquet(tmp_path / "text.parquet")
    with pytest.raises(InvalidInput, match="not numbers: t"):
        read_rows(tmp_path / "text.parquet", label="y")
    with pytest.raises(InvalidInput, match=r"--label must name a column of .*: a, t, y. Got 'z'"):
        read_rows(tmp_path / "text.parquet", label="z")


def test_matrices_that_point_outside_are_refused(tmp_path):
    parts = {
        "data": np.ones(2),
        "indptr": np.array([0, 1, 2]),
        "shape": np.array([2, 3]),
        "y": np.array([0, 1]),
    }
    np.savez(tmp_path / "outside.npz", indices=np.array([0, 7]), **parts)
    with pytest.raises(UnreadableFile, match=r"outside.npz cannot be read as labelled rows"):
        read_rows(tmp_path / "outside.npz")
    np.save(tmp_path / "single.npy", np.ones(3))
    (tmp_path / "single.npy").rename(tmp_path / "single.npz")
    with pytest.raises(UnreadableFile, match=r"single.npz"):
        read_rows(tmp_path / "single.npz")
    (tmp_path / "text.npz").write_text("1 1:1")
    with pytest.raises(UnreadableFile, match=r"it is no \.npz file"):
        read_rows(tmp_path / "text.npz")


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"X": np.ones(3)}, r"an array X of shape \(3,\) .* rows × features"),
        ({"X": np.ones((3, 2)) * 1j}, "type complex128; expected real numbers"),
        ({"X": np.array([["1"]] * 3)}, "type <U1; expected real numbers"),
        ({"X": np.array([[1.0], [np.nan], [2.0]])}, r"odd\.npz contains NaN in row 1, column 0"),
        ({"X": np.array([[1.0], [2.0], [-np.inf]])}, r"infinity \(-inf\) in row 2, column 0"),
        ({"X": np.ones((4, 2))}, "holds 4 rows, but 3 labels"),
        ({"y": np.eye(3)}, r"labels of shape \(3, 3\); expected one label per row"),
        ({"y": np.array([0.0, np.nan, np.nan])}, r"no label in row 1 \(2 such rows in all\)"),
    ],
)
def test_arrays_that_are_no_labelled_rows_are_told(tmp_path, arrays, words):
    np.savez(tmp_path / "odd.npz", **({"X": np.ones((3, 2)), "y": np.arange(3)} | arrays))
    with pytest.raises(InvalidInput, match=words):
        survey(tmp_path / "odd.npz")


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (np.array([1.0, 2.0]), [1, 2]),
        (np.array([1.5, 2.0]), [1.5, 2.0]),
        (np.array([True, False]), [True, False]),
        (np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"), ["2020-01-01", "2021-01-01"]),
    ],
    ids=["whole", "broken", "truths", "dates"],
)
def test_labels_are_whole_numbers_or_text(tmp_path, y, expected):
    np.savez(tmp_path / "rows.npz", X=np.ones((2, 2)), y=y)
    found = read_rows(tmp_path / "rows.npz").y.tolist()
    assert found == expected
    assert [type(label) for label in found] == [type(label) for label in expected]


def test_labels_of_tables_are_checked(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": ["u", None, None]}).to_csv(tmp_path / "holes.csv", index=False)
    with pytest.raises(InvalidInput, match=r"no label in row 1 \(2 such rows in all\)"):
        read_rows(tmp_path / "holes.csv", label="y")
    pd.DataFrame({"a": [1.0, 2.0], "y": ["u", "v"]}).to_csv(tmp_path / "fine.csv", index=False)
    assert read_rows(tmp_path / "fine.csv", label="y").y.tolist() == ["u", "v"]
    with pytest.raises(UnreadableFile, match="is a folder"):
        survey(tmp_path)
    pd.DataFrame({"a": [1.0, None], "y": ["u", "v"]}).to_csv(tmp_path / "gap.csv", index=False)
    with pytest.raises(InvalidInput, match="NaN in row 1, column 'a'"):
        read_rows(tmp_path / "gap.csv", label="y")


def test_columns_of_equal_numbers_are_not_scaled():
    X = np.column_stack([np.full(50, 0.1), np.arange(50.0)])
    assert X[:, 0].std() > 0  # by a rounding error
    found = ColumnScaling.of(X, constant=1.0)
    assert (found.centre[0], found.scale[0]) == (0.1, 1.0)
    np.testing.assert_array_equal(found.applied(X, centred=True)[:, 0], 0)
    assert found.scale[1] == pytest.approx(np.arange(50.0).std())


@pytest.mark.parametrize("how", ["centred", "plain"])
def test_columns_are_scaled_over_all_rows_and_weights_scaled_back(tmp_path, how):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3)) * [1.0, 100.0, 0.0] + [5.0, -300.0, 7.0]
    pd.DataFrame(X, columns=list("abc")).assign(y=np.arange(30) % 2).to_csv(tmp_path / "t.csv", index=False)
    found = read_rows(tmp_path / "t.csv", label="y", scale=how)
    mean = X.mean(axis=0) if how == "centred" else 0.0
    spread = np.where(X.std(axis=0) > 1e-9, X.std(axis=0), 1.0)
    np.testing.assert_allclose(found.X.toarray(), (X - mean) / spread, atol=1e-9)
    part = read_rows(tmp_path / "t.csv", label="y", columns=np.array([0, 2]), scale=how)
    np.testing.assert_array_equal(part.X.toarray(), found.X.toarray()[:, [0, 2]])
    np.testing.assert_array_equal(part.squares, found.squares)
    weights = rng.normal(size=(4, 4 if how == "centred" else 3))
    ones = np.ones((30, 1)) if how == "centred" else np.empty((30, 0))
    raw = found.scaling.undone(weights, centred=how == "centred").toarray()
    expected = np.hstack([found.X.toarray(), ones]) @ weights.T
    np.testing.assert_allclose(np.hstack([X, ones]) @ raw.T, expected, atol=1e-9)


def test_labels_that_floats_cannot_tell_apart_are_refused(tmp_path):
    path = tmp_path / "t.svm"
    path.write_text(f"{2**63} 1:1\n{2**63 + 5} 1:2\n")
    with pytest.raises(UnreadableFile, match="'9223372036854775808'; labels of more than"):
        survey(path)


def test_a_line_that_never_ends_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(libsvm_format, "LONGEST_LINE", 1000)
    path = tmp_path / "t.svm.gz"
    path.write_bytes(gzip.compress(b"1 1:0.5\n" + b"1 " * 5000))
    with pytest.raises(UnreadableFile, match="a line of more than 1,000 bytes"):
        survey(path)


def test_packed_files_that_are_damaged_are_refused(tmp_path):
    path = tmp_path / "t.svm.gz"
    content = bytearray(gzip.compress(b"1 1:0.5\n" * 500))
    content[20:24] = b"junk"
    path.write_bytes(content)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        survey(path)


def test_labels_that_differ_by_zeros_stay_apart(tmp_path):
    """01 and 1 are two names, also beside a cell without one."""
    names = ["01", "1", "2", "01"] * 5
    path = tmp_path / "codes.csv"
    path.write_text("code,a\n" + "".join(f"{label},{i}\n" for i, label in enumerate(names)))
    assert read_rows(path, label="code").y.tolist() == names
    texts = tmp_path / "texts.csv"
    rows = [f"{label},word {i} of" for i, label in enumerate(names)]
    texts.write_text("\n".join(["code,body", *rows, "NA,a word"]) + "\n")
    found = read_text_columns(texts, "body", "code")
    assert found.rows.tolist() == list(range(20))
    assert found.labels.tolist() == names
    plain = tmp_path / "plain.csv"
    plain.write_text("code,a\n" + "".join(f"{i % 3},{i}\n" for i in range(9)))
    assert read_rows(plain, label="code").y.dtype.kind == "i"
