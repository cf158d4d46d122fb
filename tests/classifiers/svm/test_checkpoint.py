"""Checkpoints of SVMs: written whole, read by other numbers of ranks; damaged ones are told with file and key."""

import json

import numpy as np
import pytest
from scipy import sparse

from tellwhy.classifiers.svm import solver as checkpoint
from tellwhy.classifiers.svm.solver import Progress
from tellwhy.core.errors import InvalidInput, UnreadableFile

ROWS = np.array([2, 5, 7])
DUALS = sparse.csr_array(np.array([[0.0, 0.5, -0.5], [1.0, 0.0, -1.0], [0.0, 0.0, 0.0]]))
SETTINGS = {"labels": "abc", "C": 1.0}
TRIPLES = {"row": ROWS, "cls": np.array([0, 1, 2]), "val": np.ones(3)}


class OneRank:
    """What the ranks of a training say to each other where there is only one."""

    rank = 0
    size = 1

    def bcast(self, value):
        return value

    def Barrier(self):
        pass


@pytest.fixture
def saved(tmp_path):
    progress = Progress(3, 1.5, [{"violation": 0.1}])
    checkpoint.write(tmp_path / "c", OneRank(), rows=ROWS, duals=DUALS, progress=progress, settings=SETTINGS)
    return tmp_path / "c"


def test_what_was_written_is_read_by_whoever_holds_the_rows(saved):
    table, progress = checkpoint.read(saved, ROWS, 3, SETTINGS)
    np.testing.assert_array_equal(table.toarray(), DUALS.toarray())
    assert (progress.epochs, progress.seconds, progress.history) == (3, 1.5, [{"violation": 0.1}])
    some, _ = checkpoint.read(saved, np.array([1, 5]), 3, SETTINGS)
    np.testing.assert_array_equal(some.toarray(), [[0, 0, 0], [1.0, 0, -1.0]])


def test_other_rows_and_settings_are_refused(saved):
    with pytest.raises(InvalidInput, match="rows with other labels"):
        checkpoint.read(saved, ROWS, 3, {**SETTINGS, "labels": "abd"})
    with pytest.raises(InvalidInput, match=r"C = 1.0, this training has 2.0"):
        checkpoint.read(saved, ROWS, 3, {**SETTINGS, "C": 2.0})


@pytest.mark.parametrize("key", ["settings", "ranks", "epochs", "seconds", "history"])
@pytest.mark.parametrize("value", ["absent", "text"])
def test_a_damaged_head_names_its_key(saved, key, value):
    head = json.loads((saved / "checkpoint.json").read_text())
    del head[key]
    if value != "absent":
        head[key] = value
    (saved / "checkpoint.json").write_text(json.dumps(head))
    with pytest.raises(UnreadableFile, match=rf"checkpoint\.json lacks '{key}'"):
        checkpoint.read(saved, ROWS, 3, SETTINGS)


@pytest.mark.parametrize("ranks", [0, -1])
def test_a_training_without_ranks_is_none(saved, ranks):
    head = json.loads((saved / "checkpoint.json").read_text())
    (saved / "checkpoint.json").write_text(json.dumps({**head, "ranks": ranks}))
    with pytest.raises(UnreadableFile, match=r"checkpoint\.json names no 'ranks'"):
        checkpoint.read(saved, ROWS, 3, SETTINGS)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"val": None}, r"rank-0\.npz lacks 'val'"),
        ({"row": ROWS[:2]}, r"rank-0\.npz does not hold one row, class and value"),
        ({"row": ROWS[:, None]}, r"rank-0\.npz does not hold one row"),
        ({"row": ROWS.astype(float)}, r"rank-0\.npz does not hold one row"),
        ({"val": np.array(["a", "b", "c"])}, r"rank-0\.npz does not hold one row"),
        ({"cls": np.array([0, 1, 3])}, r"rank-0\.npz holds classes that there are not in 'cls'"),
        ({"cls": np.array([0, 1, -1])}, r"rank-0\.npz holds classes that there are not in 'cls'"),
        ({"val": np.array([0.0, np.nan, 1.0])}, r"rank-0\.npz holds .* no numbers in 'val'"),
    ],
    ids=range(8),
)
def test_damaged_variables_are_told(saved, changes, told):
    arrays = {name: array for name, array in {**TRIPLES, **changes}.items() if array is not None}
    np.savez(saved / "rank-0.npz", **arrays)
    with pytest.raises(UnreadableFile, match=told):
        checkpoint.read(saved, ROWS, 3, SETTINGS)


def test_only_checkpoints_are_removed(saved, tmp_path):
    (tmp_path / "mine").mkdir()
    for folder in (saved, tmp_path / "mine"):
        checkpoint.remove(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
