"""Folders on disk: written whole or not at all; whatever is wrong with one is told with file and key."""

import json

import numpy as np
import pytest

from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.storage.documents import Format, Misfit, at_key, read_arrays, write_arrays

FORMAT = Format(
    "a saved thing",
    "thing.json",
    keys={
        "name": (str,),
        "count": (int,),
        "size": (float,),
        "parts": (list, type(None)),
        "more": (dict,),
        "is_new": (bool,),
    },
    arrays=("a", "b"),
    schema=3,
)
HEAD = {"name": "ç", "count": 2, "size": 1.5, "parts": None, "more": {}, "is_new": True}
ARRAYS = {"a": np.arange(3), "b": np.ones((2, 2)), "words": np.array(["x"])}


@pytest.fixture
def saved(tmp_path):
    return FORMAT.write(tmp_path / "thing", HEAD, ARRAYS)


def edited(folder, **changes):
    head = {**json.loads((folder / "thing.json").read_text()), **changes}
    (folder / "thing.json").write_text(json.dumps(head))


def test_what_was_written_is_read(saved):
    head, arrays = FORMAT.read(saved)
    assert head == {"schema": 3, **HEAD}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    assert sorted(path.name for path in saved.iterdir()) == ["arrays.npz", "manifest.json", "thing.json"]
    assert FORMAT.is_in(saved)


@pytest.mark.parametrize("is_compressed", [True, False])
def test_arrays_are_compressed_where_asked_for(is_compressed, tmp_path):
    write_arrays(tmp_path / "zeros.npz", {"zeros": np.zeros(10_000)}, is_compressed=is_compressed)
    assert ((tmp_path / "zeros.npz").stat().st_size < 80_000) == is_compressed


def test_numbers_that_are_whole_count_as_numbers(saved):
    edited(saved, size=2)
    assert FORMAT.read_head(saved)["size"] == 2


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("name", 3, "text"),
        ("count", "3", "a whole number"),
        ("count", 2.5, "a whole number"),
        ("count", True, "a whole number"),
        ("size", True, "a number"),
        ("parts", {}, "a list or null"),
        ("more", None, "an object"),
        ("is_new", 1, "true or false"),
    ],
)
def test_a_key_of_another_type_is_named(saved, key, value, expected):
    edited(saved, **{key: value})
    with pytest.raises(UnreadableFile, match=rf"thing\.json lacks '{key}' as {expected}: it holds"):
        FORMAT.read(saved)


@pytest.mark.parametrize("key", HEAD)
def test_a_key_that_is_missing_is_named(saved, key):
    (saved / "thing.json").write_text(json.dumps({"schema": 3, **{k: HEAD[k] for k in HEAD if k != key}}))
    with pytest.raises(UnreadableFile, match=rf"thing\.json lacks '{key}'; expected"):
        FORMAT.read(saved)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cannot be read as a saved thing"),
        ("{", "cannot be read as a saved thing"),
        ("[" * 100_000, "nested too deeply"),
        ("\udcff", "cannot be read as a saved thing"),
        ("[1]", "has schema 'list'; this version of tellwhy reads schema 3"),
        ("null", "has schema 'NoneType'"),
        ("{}", "has schema None"),
        ('{"schema": 2}', "has schema 2"),
        ('{"schema": 4}', "has schema 4"),
    ],
    ids=range(9),
)
def test_heads_that_are_none_are_told(saved, text, told):
    (saved / "thing.json").write_text(text, encoding="utf-8", errors="surrogateescape")
    with pytest.raises(UnreadableFile, match=rf"thing\.json .*{told}"):
        FORMAT.read(saved)


def test_arrays_that_are_missing_are_named(saved):
    write_arrays(saved / "arrays.npz", {"a": np.ones(3)})
    with pytest.raises(UnreadableFile, match=r"arrays\.npz lacks 'b'; it holds \['a'\]"):
        FORMAT.read(saved)
    (saved / "arrays.npz").unlink()
    with pytest.raises(UnreadableFile, match=r"arrays\.npz is missing or damaged"):
        FORMAT.read(saved)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.95])
def test_cut_arrays_are_damaged(saved, share):
    whole = (saved / "arrays.npz").read_bytes()
    (saved / "arrays.npz").write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(UnreadableFile, match=r"arrays\.npz is missing or damaged"):
        read_arrays(saved / "arrays.npz")


def test_pickled_objects_are_neither_written_nor_read(tmp_path):
    objects = np.array([{"a": 1}], dtype=object)
    with pytest.raises(ValueError, match="allow_pickle"):
        write_arrays(tmp_path / "new.npz", {"a": objects})
    np.savez(tmp_path / "old.npz", a=objects)
    with pytest.raises(UnreadableFile, match=r"old\.npz is missing or damaged"):
        read_arrays(tmp_path / "old.npz")
    (tmp_path / "pickle.npz").write_bytes(b"\x80\x04N.")
    with pytest.raises(UnreadableFile, match=r"it is no \.npz file"):
        read_arrays(tmp_path / "pickle.npz")


def test_places_that_hold_something_else_are_told(tmp_path):
    with pytest.raises(UnreadableFile, match="gone is not there; expected the folder of a saved thing"):
        FORMAT.read(tmp_path / "gone")
    (tmp_path / "note").write_text("keep")
    with pytest.raises(UnreadableFile, match="note is a file; expected the folder"):
        FORMAT.read(tmp_path / "note")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UnreadableFile, match=r"thing\.json is missing\. It holds nothing"):
        FORMAT.read(tmp_path / "folder")
    assert not FORMAT.is_in(tmp_path / "folder")


def test_folders_of_others_are_left_alone_and_ours_replaced(saved, tmp_path):
    FORMAT.write(saved, {**HEAD, "count": 9}, ARRAYS)
    assert FORMAT.read(saved)[0]["count"] == 9
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("keep")
    for attempt in (FORMAT.check_place, lambda place: FORMAT.write(place, HEAD, ARRAYS)):
        with pytest.raises(
            CannotWrite, match=r"was not written by tellwhy \(it has no manifest.json that names thing.json\)"
        ):
            attempt(tmp_path / "mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "thing"]
    FORMAT.check_place(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_write_that_fails_leaves_what_was_there(saved, tmp_path):
    def fail(work):
        assert (work / "thing.json").is_file()
        raise OSError(28, "No space left on device")

    with pytest.raises(CannotWrite, match=r"No space left on device\. Nothing was written"):
        FORMAT.write(saved, {**HEAD, "count": 9}, ARRAYS, add=fail)
    with pytest.raises(ValueError, match="allow_pickle"):
        FORMAT.write(saved, {**HEAD, "count": 9}, {"a": np.array([{}], dtype=object)})
    assert FORMAT.read(saved)[0]["count"] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thing"]


def test_what_goes_wrong_later_names_file_and_key(saved):
    told = r"thing\.json \(with arrays.npz beside it\) is damaged: key 'parts.3', 'x' is missing"
    with pytest.raises(UnreadableFile, match=told), FORMAT.reading(saved, "parts.3"):
        raise KeyError("x")
    with pytest.raises(UnreadableFile, match="too deep") as found, FORMAT.reading(saved, "parts.3"):
        raise RecursionError("too deep")
    assert isinstance(found.value.__cause__, Misfit)


def test_the_innermost_key_is_kept_and_interrupts_pass():
    with pytest.raises(Misfit, match="too far in") as found, at_key("outside"):
        raise Misfit("too far in", "outside.inside")
    assert found.value.key == "outside.inside"
    with pytest.raises(KeyboardInterrupt), at_key("number"):
        raise KeyboardInterrupt
