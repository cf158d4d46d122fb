"""Only what tellwhy wrote is ever removed; what else is in a folder stays."""

import json
import os

import pytest

from tellwhy.core.errors import CannotWrite, DataNotice
from tellwhy.storage.folders import check_new_folder, new_folder, remove_folder
from tellwhy.storage.manifest import MANIFEST, is_ours, list_file_names, read_manifest

HEAD = "run.json"


def write(target, **files):
    with new_folder(target, marker=HEAD) as work:
        for name, text in {HEAD: "{}", **files}.items():
            (work / name).parent.mkdir(exist_ok=True)
            (work / name).write_text(text)


def held(folder):
    """Everything below a folder, with what it holds."""
    return {
        name: (folder / name).read_text()
        for name in list_file_names(folder)
        if name[-1] != "/" and name != MANIFEST
    }


FOREIGN = {
    "a head alone": {HEAD: "{}"},
    "a head with a schema": {HEAD: '{"schema": 2}'},
    "no list of ours": {HEAD: "{}", MANIFEST: "{}"},
    "a list of something else": {HEAD: "{}", MANIFEST: '{"manifest_version": 3, "files": {"run.json": 1}}'},
    "a list that is damaged": {HEAD: "{}", MANIFEST: '{"schema": 1, "written_by": "tellwhy", "head"'},
    "a list of another schema": {HEAD: "{}", MANIFEST: '{"schema": 9, "written_by": "tellwhy"}'},
    "a list nested without end": {HEAD: "{}", MANIFEST: "[" * 100_000},
    "a list that is no text": {HEAD: "{}", MANIFEST: "\udc80"},
}


@pytest.mark.parametrize("files", FOREIGN.values(), ids=FOREIGN)
def test_folders_of_others_are_refused(files, tmp_path):
    place = tmp_path / "p"
    place.mkdir()
    for name, text in {**files, "precious.txt": "x"}.items():
        (place / name).write_text(text, errors="surrogateescape")
    for attempt in (lambda: write(place), lambda: check_new_folder(place, marker=HEAD)):
        with pytest.raises(CannotWrite, match="was not written by tellwhy"):
            attempt()
    remove_folder(place, marker=HEAD)
    assert (place / "precious.txt").read_text() == "x"
    assert (place / HEAD).exists()
    assert os.listdir(tmp_path) == ["p"]


def test_a_model_does_not_take_the_place_of_a_run(tmp_path):
    write(tmp_path / "p")
    with (
        pytest.raises(CannotWrite, match=r"names detector\.json"),
        new_folder(tmp_path / "p", marker="detector.json"),
    ):
        pass


def test_what_is_not_ours_is_kept(tmp_path):
    place = tmp_path / "p"
    write(place, **{"ours.csv": "1", "sub/ours.csv": "1"})
    (place / "precious.txt").write_text("x")
    (place / "sub" / "deep").mkdir()
    (place / "sub" / "deep" / "notes.txt").write_text("y")
    (place / "empty").mkdir()
    (place / "link").symlink_to(tmp_path / "elsewhere")
    before = (place / "precious.txt").stat()
    write(place, **{"other.csv": "2"})
    assert (place / "link").readlink() == tmp_path / "elsewhere"
    (place / "link").unlink()
    kept = {"precious.txt": "x", "sub/deep/notes.txt": "y"}
    assert {name: held(place)[name] for name in kept} == kept
    assert (place / "empty").is_dir()
    assert set(list_file_names(place)) == {HEAD, MANIFEST, "other.csv", "empty/", *kept}
    assert (place / "precious.txt").stat().st_mtime_ns == before.st_mtime_ns
    assert os.listdir(tmp_path) == ["p"]


@pytest.mark.parametrize("has_links", [True, False])
def test_what_was_changed_or_is_in_the_way_is_kept_under_another_name(has_links, tmp_path, monkeypatch):
    if not has_links:
        monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(1, "no links here")))
    place = tmp_path / "p"
    write(place, **{"table.csv": "1", "same.csv": "1"})
    (place / "table.csv").write_text("1, with remarks")
    (place / "new.csv").write_text("mine")
    with pytest.warns(DataNotice, match="is not as tellwhy wrote it: it is kept as") as told:
        write(place, **{"table.csv": "2", "same.csv": "2", "new.csv": "2"})
    assert {str(each.message).rsplit(" ", 1)[1] for each in told} == {"table.kept.csv.", "new.kept.csv."}
    assert held(place) == {
        HEAD: "{}",
        "table.csv": "2",
        "table.kept.csv": "1, with remarks",
        "same.csv": "2",
        "new.csv": "2",
        "new.kept.csv": "mine",
    }
    (place / "table.csv").write_text("3")  # as long as what was written, but not the same
    with pytest.warns(DataNotice, match=r"table\.kept-2\.csv"):
        write(place, **{"table.csv": "2"})
    (place / "table.csv").write_text("more remarks")
    with pytest.warns(DataNotice, match=r"table\.kept-3\.csv"):
        write(place, **{"table.csv": "4"})
    assert held(place)["table.kept.csv"] == "1, with remarks"
    assert held(place)["table.kept-2.csv"] == "3"
    assert held(place)["table.kept-3.csv"] == "more remarks"


def test_a_page_that_a_later_command_wrote_is_ours(tmp_path):
    write(tmp_path / "p")
    (tmp_path / "p" / "report.html").write_text("old")
    write(tmp_path / "p")
    assert set(held(tmp_path / "p")) == {HEAD}


def test_a_folder_that_is_private_stays_so(tmp_path):
    write(tmp_path / "p")
    (tmp_path / "p").chmod(0o700)
    write(tmp_path / "p")
    assert (tmp_path / "p").stat().st_mode & 0o777 == 0o700


def test_removing_leaves_what_is_not_ours(tmp_path):
    place = tmp_path / "p"
    write(place, **{"ours.csv": "1"})
    (place / "precious.txt").write_text("x")
    remove_folder(place, marker=HEAD)
    assert held(place) == {"precious.txt": "x"}
    write(tmp_path / "q")
    remove_folder(tmp_path / "q", marker=HEAD)
    assert os.listdir(tmp_path) == ["p"]


def test_a_list_names_every_file(tmp_path):
    write(tmp_path / "p", **{"a.csv": "12345", "sub/b.csv": ""})
    told = json.loads((tmp_path / "p" / MANIFEST).read_text())
    assert (told["schema"], told["written_by"], told["head"]) == (1, "tellwhy", HEAD)
    assert {name: of["bytes"] for name, of in told["files"].items()} == {HEAD: 2, "a.csv": 5, "sub/b.csv": 0}
    assert is_ours(tmp_path / "p", HEAD)
    assert not is_ours(tmp_path / "p", "other.json")
    assert not is_ours(tmp_path / "p" / HEAD, HEAD)


def test_a_list_does_not_reach_outside(tmp_path):
    """A manifest that was made up names files elsewhere: nothing is followed."""
    (tmp_path / "outside.txt").write_text("x")
    place = tmp_path / "p"
    write(place)
    told = json.loads((place / MANIFEST).read_text())
    told["files"]["../outside.txt"] = told["files"][HEAD]
    told["reserved"] = ["../outside.txt", "linked"]
    (place / MANIFEST).write_text(json.dumps(told))
    (place / "linked").symlink_to(tmp_path / "outside.txt")
    write(place)
    assert (tmp_path / "outside.txt").read_text() == "x"
    assert read_manifest(place).files.keys() == {HEAD}
