"""Model files that nobody should trust: refused, without running anything or filling the memory."""

import io
import json
import os
import pickle
import re
import resource
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tellwhy
from storage.changed_files import changed
from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.detectors import KernelDensity
from tellwhy.storage import model_file
from tellwhy.storage.model_file import read_model_file, write_model_file
from tellwhy.workflow import fit_model


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("executed",)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """Bytes of a model of a table."""
    rows = np.random.default_rng(0).normal(size=(60, 3))
    return tellwhy.save(fit_model(rows), tmp_path_factory.mktemp("good") / "m.tellwhy").read_bytes()


MARK = {"cause": "a", "words": "b", "why": "c"}


def members_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members, *, method=zipfile.ZIP_STORED):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target.getvalue()


def npy(array=None, *, header=None, body=b""):
    target = io.BytesIO()
    if header is None:
        np.save(target, array, allow_pickle=True)
        return target.getvalue()
    text = header.encode("latin1")
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + body


def changed_head(members, change):
    head = json.loads(members["model.json"])
    change(head)
    return {**members, "model.json": json.dumps(head).encode()}


def first_array(members, kind="f"):
    for name, content in members.items():
        if name.endswith(".npy") and np.load(io.BytesIO(content)).dtype.kind == kind:
            return name
    raise AssertionError


def with_array(members, array, kind="f"):
    return {**members, first_array(members, kind): npy(array)}


def nan_in(members):
    name = first_array(members)
    array = np.load(io.BytesIO(members[name])).copy()
    array.flat[0] = np.nan
    return {**members, name: npy(array)}


def symbolic_link(members):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return target.getvalue()


def overlapping(members):
    """Many entries that share one content: each is small, together they are many times the file."""
    big = npy(np.zeros(200_000))
    # All of them are named, as those of a real model are: nothing but their sizes gives them away.
    names = json.loads(members["arrays.json"]) | {"big": "99999.npy"}
    names |= {f"copy {k}": f"{k + 10_000}.npy" for k in range(500)}
    content = packed({**members, "arrays.json": json.dumps(names).encode(), "99999.npy": big})
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entry = archive.getinfo("99999.npy")
        target = io.BytesIO(content[: archive.start_dir])
        archive.fp = None
        infos = archive.infolist()
    target.seek(0, 2)
    writer = zipfile.ZipFile(target, "a")
    for k in range(500):
        copy = zipfile.ZipInfo(f"{k + 10_000}.npy")
        copy.header_offset = entry.header_offset
        copy.file_size = copy.compress_size = entry.file_size
        copy.CRC = entry.CRC
        infos.append(copy)
    writer.filelist = infos
    writer.NameToInfo = {info.filename: info for info in infos}
    writer._didModify = True
    writer.close()
    return target.getvalue()


def corpus(good):
    """Name → bytes of a file that must be refused."""
    members = members_of(good)
    heads = {
        "future version": lambda head: head.update(schema=99),
        "version zero": lambda head: head.update(schema=0),
        "version of another type": lambda head: head.update(schema="1"),
        "version that is true": lambda head: head.update(schema=True),
        "no version": lambda head: head.pop("schema"),
        "unknown kind": lambda head: head["is"].update(type="os.system"),
        "kind of another type": lambda head: head["is"].update(type=["TableModel"]),
        "another kind": lambda head: head["is"].update(type="KernelDensity"),
        "a part that is no model": lambda head: head.update({"is": {"type": "Mark", "is": MARK}}),
        "a kind of the first version": lambda head: head.update(detector="os.system") or head.pop("is"),
        "scikit-learn without its version": lambda head: head["is"]["is"]["detector"].update(
            type="sklearn.OneClassSVM"
        ),
        "nothing inside": lambda head: head.pop("is"),
        "a class of Python": lambda head: head.update({"is": {"type": "Popen", "is": {"args": "ls"}}}),
        "a list": lambda head: head.update({"is": {"type": "list", "is": []}}),
        "a model without parts": lambda head: head["is"].update({"is": {}}),
        "an unknown detector": lambda head: head["is"]["is"]["detector"].update(type="Exec"),
        "a private attribute": lambda head: head["is"]["is"]["detector"]["is"]["learned"]["is"].update(
            {"__class__": 1}
        ),
        "an overwritten method": lambda head: head["is"]["is"]["detector"]["is"]["learned"]["is"].update(
            {"predict": 1}
        ),
        "an array that is not there": lambda head: head["is"]["is"].update(
            {"sample": {"type": "array", "is": "nowhere"}}
        ),
        "a threshold that is text": lambda head: head["is"]["is"].update({"threshold": "high"}),
        "a threshold that is no number": lambda head: head["is"]["is"].update(
            {"threshold": {"type": "number", "is": "nan"}}
        ),
        "roles of nothing": lambda head: head["is"]["is"].update({"roles": {"type": "mapping", "is": {}}}),
        "a scale of zero": lambda head: head["is"]["is"]["encoder"]["is"]["learned"]["is"]["codes_"]["is"][
            "x0"
        ]["is"].update({"scale": 0.0}),
        "a scale below zero": lambda head: head["is"]["is"]["encoder"]["is"]["learned"]["is"]["codes_"]["is"][
            "x0"
        ]["is"].update({"scale": -1.0}),
    }
    made = {name: packed(changed_head(members, change)) for name, change in heads.items()}
    floats = first_array(members)
    integers = first_array(members, "i")
    huge = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000), }"
    objects = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    negative = "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"
    made |= {
        "nothing": b"",
        "text": b"hello",
        "a pickle": pickle.dumps(Trap()),
        "an array": npy(np.zeros(3)),
        "a pickled array": npy(np.array([Trap()], dtype=object)),
        "a pickle behind the name of the head": packed({**members, "model.json": pickle.dumps(Trap())}),
        "a pickle behind the name of an array": packed({**members, floats: pickle.dumps(Trap())}),
        "an array of objects": packed({**members, floats: npy(np.array([Trap()], dtype=object))}),
        "an array that says it is one of objects": packed(
            {**members, floats: npy(header=objects, body=pickle.dumps(Trap()))}
        ),
        "a huge shape": packed({**members, floats: npy(header=huge, body=b"\0" * 80)}),
        "a negative shape": packed({**members, floats: npy(header=negative, body=b"\0" * 8)}),
        "an array of text": packed(with_array(members, np.array(["a", "b"]))),
        "an array of complex numbers": packed(with_array(members, np.array([1j]))),
        "an array of dates": packed(with_array(members, np.array(["2020-01-01"], dtype="datetime64[D]"))),
        "an array of another shape": packed(with_array(members, np.zeros((2, 2, 2)))),
        "integers that are floats": packed(with_array(members, np.array([0.5]), "i")),
        "row numbers beyond the rows": packed(
            {**members, integers: npy(np.load(io.BytesIO(members[integers])) + 10**6)}
        ),
        "not a number": packed(nan_in(members)),
        "packed": packed(members, method=zipfile.ZIP_DEFLATED),
        "a bomb": packed({**members, "00099.npy": npy(np.zeros(30_000_000))}, method=zipfile.ZIP_DEFLATED),
        "parts that share their bytes": overlapping(members),
        "a way out": packed({**members, "../../evil.npy": npy(np.zeros(1))}),
        "an absolute way": packed({**members, "/evil.npy": npy(np.zeros(1))}),
        "a way out, the other way": packed({**members, "..\\evil.npy": npy(np.zeros(1))}),
        "a script": packed({**members, "run.py": b"import os"}),
        "a symbolic link": symbolic_link(members),
        "an array nobody names": packed({**members, "77777.npy": npy(np.zeros(1))}),
        "no head": packed({k: v for k, v in members.items() if k != "model.json"}),
        "no names": packed({k: v for k, v in members.items() if k != "arrays.json"}),
        "names of nothing": packed({**members, "arrays.json": b"[]"}),
        "names of numbers": packed({**members, "arrays.json": b'{"a": 3}'}),
        "a head of brackets": packed({**members, "model.json": b"[" * 200_000}),
        "a head of NaN": packed({**members, "model.json": b'{"schema": NaN}'}),
        "a head of bytes": packed({**members, "model.json": b"\xff\xfe\x00"}),
        "a head that is a list": packed({**members, "model.json": b"[1]"}),
    }
    return made


# Why these are refused: without the check that says so, another one, or the memory, would refuse them later.
REASONS = {
    "packed": "is packed or locked",
    "a bomb": "is packed or locked",
    "parts that share their bytes": "its parts say that they are larger than the file",
    "a huge shape": "says that it takes 8,000,000,000,000 bytes, but holds 80",
    "a negative shape": "says that it takes",
    "an array of objects": "holds Python objects, which are never loaded",
    "an array that says it is one of objects": "holds Python objects, which are never loaded",
    "an array of text": "expected numbers of this machine",
    "not a number": "something else than finite numbers",
    "a way out": "which no model has",
    "an absolute way": "which no model has",
    "a way out, the other way": "which no model has",
    "a script": "which no model has",
    "a symbolic link": "which no model has",
    "an array nobody names": "names other arrays than the file holds",
    "a head of brackets": "nested too deeply",
    "a head of NaN": "which JSON does not have",
    "a class of Python": "names 'Popen', which is nothing that",
    "future version": "Upgrade tellwhy",
    "version zero": "Fit the model again",
    "a part that is no model": "it is no model of its own",
    "scikit-learn without its version": "names 'sklearn.OneClassSVM', which is nothing",
}


@pytest.fixture(scope="module")
def refused(good):
    return corpus(good)


def names():
    """Of the corpus, without making a model first."""
    return sorted(set(re.findall(r'^        "([^"]+)": ', Path(__file__).read_text("utf-8"), re.MULTILINE)))


def test_every_reason_is_one_of_a_file():
    assert set(REASONS) <= set(names())


def test_no_more_parts_and_no_longer_head_than_a_model_has(good, tmp_path, monkeypatch):
    path = tmp_path / "m.tellwhy"
    path.write_bytes(good)
    monkeypatch.setattr(model_file, "MOST_MEMBERS", 5)
    with pytest.raises(UnreadableFile, match=r"it has \d+ parts"):
        tellwhy.load(path)
    monkeypatch.undo()
    monkeypatch.setattr(model_file, "LARGEST_HEAD", 1000)
    with pytest.raises(UnreadableFile, match=r"model\.json takes [\d,]+ bytes"):
        tellwhy.load(path)


def test_every_file_of_the_corpus_is_tried(refused):
    assert set(names()) == set(refused)


@pytest.mark.parametrize("name", names())
def test_refused(name, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.tellwhy"
    path.write_bytes(refused[name])
    with pytest.raises(UnreadableFile, match=r"m\.tellwhy") as told:
        tellwhy.load(path)
    assert REASONS.get(name, "") in str(told.value)
    assert [p.name for p in tmp_path.iterdir()] == ["m.tellwhy"]  # nothing was unpacked, nothing ran


def test_truncated_anywhere(good, tmp_path):
    path = tmp_path / "m.tellwhy"
    for end in np.linspace(0, len(good) - 1, 40).astype(int):
        path.write_bytes(good[:end])
        with pytest.raises(UnreadableFile):
            tellwhy.load(path)


def test_a_flipped_bit_is_noticed_or_harmless(good, tmp_path):
    """Every member has a checksum; a flipped bit of the archive's own tables is no content."""
    path = tmp_path / "m.tellwhy"
    rng = np.random.default_rng(0)
    before = members_of(good)
    for _ in range(60):
        content = bytearray(good)
        content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(content))
        try:
            tellwhy.load(path)
        except UnreadableFile:
            continue
        assert members_of(bytes(content)) == before


def test_no_more_memory_than_the_file_takes(refused, tmp_path):
    """In a process that may have 300 MB more than it needs to start."""
    names = ["a bomb", "a huge shape", "parts that share their bytes", "a head of brackets"]
    for name in names:
        (tmp_path / name).write_bytes(refused[name])
    code = (
        "import resource, sys, tellwhy, tellwhy.storage.model_file\n"
        "from tellwhy.core.errors import UnreadableFile\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 3 * 10**8, used + 3 * 10**8))\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        tellwhy.load(name)\n"
        "    except UnreadableFile as error:\n"
        "        assert 'memory' not in str(error), error\n"
        "        print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *names], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["refused"] * len(names), done.stderr


def test_pipes_and_folders_are_no_models(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", ".", "nothing"):
        with pytest.raises(UnreadableFile):
            tellwhy.load(tmp_path / name)


def test_a_link_is_not_written_through(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "m.tellwhy").symlink_to(tmp_path / "precious")
    with pytest.raises(CannotWrite, match="symbolic link"):
        write_model_file(tmp_path / "m.tellwhy", {}, {})
    assert (tmp_path / "precious").read_text() == "mine"


def test_a_full_disk_leaves_the_old_file(tmp_path):
    model = KernelDensity().fit(np.random.default_rng(0).normal(size=(30, 2)))
    path = tellwhy.save(model, tmp_path / "m.tellwhy")
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(CannotWrite, match="Nothing was written"):
            tellwhy.save(model, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.tellwhy"]


def test_versions_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "SCHEMA", 3)
    path = write_model_file(tmp_path / "new", {}, {})
    monkeypatch.setattr(model_file, "SCHEMA", 2)
    with pytest.raises(UnreadableFile, match="has schema 3; this version of tellwhy reads schema 2 and earl"):
        read_model_file(path)


def test_arrays_come_back_in_their_own_order(tmp_path):
    arrays = {"a b/c": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "i": np.arange(3)}
    head, found = read_model_file(write_model_file(tmp_path / "m", {"x": "ü"}, arrays))
    assert head == {"schema": 2, "x": "ü"}
    assert found["a b/c"].flags.f_contiguous
    assert np.array_equal(found["a b/c"], arrays["a b/c"])


def test_a_file_that_is_not_there_is_told_plainly(tmp_path):
    with pytest.raises(UnreadableFile, match=r"There is no file .*none\.tellwhy\. Check"):
        tellwhy.load(tmp_path / "none.tellwhy")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold", 1e300),
        ("threshold", -1e300),
        ("level", 1e300),
        ("n_rows", "many"),
        ("n_rows", 3),
        ("n_rows", True),
        ("hours", {"type": "tuple", "is": ["nope"]}),
        ("versions", {"type": "mapping", "is": {"tellwhy": "99.0"}}),
        ("versions", {"type": "mapping", "is": {"tellwhy": 3}}),
    ],
)
def test_figures_that_cannot_be_right_are_refused(tmp_path, name, value):
    rows = np.random.default_rng(0).normal(size=(60, 2))
    path = tellwhy.save(tellwhy.fit(rows), tmp_path / "m")

    def lie(head):
        head["is"]["is"][name] = value

    changed(path, lie)
    with pytest.raises(UnreadableFile, match="cannot be right"):
        tellwhy.load(path)
