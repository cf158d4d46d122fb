"""Folders that earlier versions wrote: they are read, and give the numbers that they gave then.

`saved_before.zip` holds one folder per class, saved by the code of November 2025, before reading and writing
became one module, and `expected.json`, what each model gave for the rows `new`. It is never written again:
a format that changes gets a new version and a second file.
"""

import json
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import tellwhy
from storage.changed_files import arrays_of, head_of
from tellwhy import classifiers, detectors
from tellwhy.bases import KernelBasis
from tellwhy.classifiers.svm import solver as svm_checkpoint
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.explanation import Explanation
from tellwhy.core.old_names import update_names
from tellwhy.data.graphs import chain
from tellwhy.explainers.surrogate import sampler as chains_checkpoint
from tellwhy.storage.saved_classes import RENAMED

ARCHIVE = Path(__file__).with_name("saved_before.zip")


def read_expected():
    with zipfile.ZipFile(ARCHIVE) as archive:
        return json.loads(archive.read("expected.json"))


EXPECTED = read_expected()
NEW = np.array(EXPECTED["new"])
FRAME = pd.DataFrame(NEW, columns=["a", "ç 'd'"])
DETECTORS = [name for name, found in EXPECTED.items() if "threshold" in found]
GRAPH_DETECTORS = [name for name in EXPECTED if name.startswith("lccad")]
CLASSIFIERS = [name for name, found in EXPECTED.items() if "decisions" in found and name != "text_classifier"]
BASES = [name for name in EXPECTED if name.startswith("basis")]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved_before")
    with zipfile.ZipFile(ARCHIVE) as archive:
        archive.extractall(folder)
    return folder


def assert_as_before(name, **found):
    for key, value in found.items():
        expected = np.array(EXPECTED[name][key])
        if expected.dtype.kind == "f":  # the last digits of sums depend on the processor
            np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-12)
        else:
            np.testing.assert_array_equal(value, expected)


def test_every_kind_is_there():
    assert (len(DETECTORS), len(GRAPH_DETECTORS), len(CLASSIFIERS), len(BASES)) == (10, 3, 6, 2)


@pytest.mark.parametrize("name", DETECTORS)
def test_detectors(name, place):
    detector = detectors.load(place / name)
    assert detector.to_score().feature_names == list(FRAME.columns)
    threshold = detector.threshold_ if np.isfinite(detector.threshold_) else 1e308
    assert_as_before(name, outlierness=detector.outlierness(FRAME), threshold=threshold)


@pytest.mark.parametrize("name", GRAPH_DETECTORS)
def test_graph_detectors(name, place):
    model = detectors.load(place / name)
    training = model.outlierness()
    assert_as_before(
        name,
        training=training[np.isfinite(training)],
        labels=model.predict(NEW, chain(4)),
        outlierness=model.outlierness(NEW, chain(4)),
    )


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers(name, place):
    model = classifiers.load(place / name)
    assert_as_before(name, decisions=model.decision_function(NEW), labels=model.predict(NEW))


def holds(new, old, rename):
    """Whether all that was written then is written now; classes may have other names, and more parameters."""
    if isinstance(old, dict) and old.get("type") == "array":
        return new == {"type": "array", "is": rename(old["is"])}
    if isinstance(old, dict):
        return isinstance(new, dict) and all(key in new and holds(new[key], old[key], rename) for key in old)
    if isinstance(old, list):
        return len(new) == len(old) and all(map(holds, new, old, [rename] * len(old)))
    if isinstance(old, str):
        return new in (old, RENAMED.get(old))
    return new == old


def in_a_file(name):
    """The name that an array of a folder has in a file."""
    return f"model.{name}" if name.startswith("params.") else f"model.learned.{name}"


@pytest.mark.parametrize("name", [*DETECTORS, *GRAPH_DETECTORS, *CLASSIFIERS, *BASES, "text_classifier"])
def test_what_is_written_now_is_what_was_written_then(name, place, tmp_path):
    model = tellwhy.load(place / name)
    again = model.save(tmp_path / "again.tellwhy")
    new = head_of(again)["is"]
    (path,) = set((place / name).glob("*.json")) - {place / name / "manifest.json"}
    old = json.loads(path.read_text())
    assert new["type"] == old[path.stem]
    assert holds(new["is"]["params"]["is"], update_names(type(model), old["params"]), in_a_file)
    assert holds(new["is"]["learned"]["is"], old["learned"], in_a_file)
    arrays = arrays_of(again)
    with np.load(place / name / "arrays.npz") as stored:
        assert set(arrays) == set(map(in_a_file, stored.files))
        for array in stored.files:
            np.testing.assert_array_equal(arrays[in_a_file(array)], stored[array])
            assert arrays[in_a_file(array)].dtype == stored[array].dtype


@pytest.fixture
def density(place, tmp_path):
    """A folder that may be damaged."""
    return shutil.copytree(place / "kernel_density", tmp_path / "density")


def test_folders_that_are_damaged_are_refused(density):
    whole = (density / "arrays.npz").read_bytes()
    for share in (0.0, 0.1, 0.5, 0.9, 0.999):
        (density / "arrays.npz").write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(UnreadableFile, match=r"arrays\.npz is missing or damaged"):
            detectors.load(density)
    np.savez(density / "arrays.npz", **{"expansion_.points": np.array([["a"]])})
    with pytest.raises(UnreadableFile, match=r"arrays\.npz holds something else than finite numbers"):
        detectors.load(density)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema": 99}, "has schema 99"),
        ({"detector": "os.system"}, "names 'os.system'"),
        ({"detector": ["KernelDensity"]}, "does not hold a working"),
        ({"params": 3}, "does not hold a working"),
        ({"learned": {"fit": 1}}, "'fit' is nothing that it learns"),
        ({"learned": {"expansion_": {"type": "Popen", "is": {"args": "echo"}}}}, "names 'Popen'"),
        ({"learned": {"expansion_": {"type": "array", "is": "nowhere"}}}, "'nowhere' is missing"),
        ({"learned": {}}, "not fitted"),
    ],
    ids=str,
)
def test_folders_that_are_made_up_are_refused(change, told, density):
    head = json.loads((density / "detector.json").read_text())
    (density / "detector.json").write_text(json.dumps(head | change))
    with pytest.raises(UnreadableFile, match=told):
        detectors.load(density)


def test_text_classifier(place):
    model = classifiers.load(place / "text_classifier")
    texts = ["red pie", "green race"]
    assert_as_before("text_classifier", decisions=model.decision_function(texts), labels=model.predict(texts))


@pytest.mark.parametrize("name", BASES)
def test_bases(name, place):
    assert_as_before(name, features=KernelBasis.load(place / name).transform(NEW))


def test_explanation(place):
    explanation = Explanation.load(place / "explanation")
    extras = explanation.extras
    assert_as_before(
        "explanation",
        values=explanation.values,
        residual=explanation.residual,
        row=extras["row"],
        z=extras["frame"]["z"],
    )
    assert (extras["note"], explanation.params["n"]) == ("kept", 3)
    assert explanation.data.columns.tolist() == explanation.feature_names == list(FRAME.columns)


def test_checkpoint_of_an_svm(place):
    settings = {"labels": "abc", "C": 1.0}
    duals, progress = svm_checkpoint.read(place / "svm_checkpoint", np.array([2, 5, 7]), 3, settings)
    assert_as_before(
        "svm_checkpoint", duals=duals.toarray(), epochs=progress.epochs, seconds=progress.seconds
    )
    with pytest.raises(InvalidInput, match=r"C = 1\.0, this training has 2\.0"):
        svm_checkpoint.read(place / "svm_checkpoint", np.array([2]), 3, {**settings, "C": 2.0})


def emptied_chains(place):
    """Chains with room for what the checkpoint holds, but nothing in it yet."""
    with np.load(place / "chains" / "arrays.npz") as stored:
        arrays = dict(stored)
    head = json.loads((place / "chains" / "chains.json").read_text())
    made = []
    for i, origin in enumerate(head["origins"]):
        parts = {}
        for part in ("state", "kept"):
            begin = f"{i}:{part}:"
            empty = {
                k.removeprefix(begin): np.zeros_like(a) for k, a in arrays.items() if k.startswith(begin)
            }
            parts[part] = SimpleNamespace(_asdict=lambda empty=empty: empty)
        made.append(SimpleNamespace(done=0, n_kept=0, origin=origin, rng=np.random.default_rng(5), **parts))
    return head, arrays, made


def test_checkpoint_of_chains(place):
    head, arrays, chains = emptied_chains(place)
    chains_checkpoint.resume(place / "chains", head["data"], chains)
    for i, resumed in enumerate(chains):
        assert (resumed.done, resumed.n_kept) == (head["chains"][i]["done"], head["chains"][i]["kept"])
        assert resumed.rng.bit_generator.state == head["chains"][i]["random"]
        for part in ("state", "kept"):
            for name, array in getattr(resumed, part)._asdict().items():
                np.testing.assert_array_equal(array, arrays[f"{i}:{part}:{name}"])
    kept = np.concatenate([resumed.kept._asdict()["coef"] for resumed in chains])
    assert_as_before("chains", coef=kept[:3], shape=kept.shape)
    with pytest.raises(UnreadableFile, match="checkpoint of other rows"):
        chains_checkpoint.resume(place / "chains", "another mark", chains)
