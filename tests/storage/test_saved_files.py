"""Model files that earlier versions wrote: they are read, and give the numbers that they gave then.

`saved/schema_1.zip` holds one small file per kind of model, and what each gave for new rows. It is never
written again: a format that changes gets a new number and a second archive (see `saved/write_saved.py`).
"""

import importlib.util
import json
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import sklearn

import tellwhy
from tellwhy.core.errors import UnreadableFile

SAVED = Path(__file__).with_name("saved")
ARCHIVES = sorted(SAVED.glob("*.zip"))
_SPEC = importlib.util.spec_from_file_location("write_saved", SAVED / "write_saved.py")
written = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(written)


def read(archive):
    with zipfile.ZipFile(archive) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


CASES = [(archive, name) for archive in ARCHIVES for name in written.MADE]


@pytest.fixture(scope="module")
def held():
    return {archive: read(archive) for archive in ARCHIVES}


@pytest.fixture
def loaded(request, held, tmp_path):
    """A model of an archive, and what it gave when it was saved."""
    archive, name = request.param
    files = held[archive]
    path = tmp_path / written.file_name(name)
    path.write_bytes(files[path.name])
    head = json.loads(zipfile.ZipFile(path).read("model.json"))
    version = head.get("scikit-learn", sklearn.__version__)
    if version.split(".")[:2] != sklearn.__version__.split(".")[:2]:
        with pytest.raises(UnreadableFile, match="was saved with scikit-learn"):
            tellwhy.load(path)
        pytest.skip(f"it holds a model of scikit-learn {version}")
    return name, tellwhy.load(path), np.array(json.loads(files["expected.json"])[name])


def given(name, model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array(written.given(name, model))


IDS = [f"{archive.stem} {name}" for archive, name in CASES]


@pytest.mark.parametrize("loaded", CASES, ids=IDS, indirect=True)
def test_it_gives_what_it_gave(loaded):
    name, model, expected = loaded
    # Sums of the same numbers differ in their last digits from processor to processor.
    np.testing.assert_allclose(given(name, model), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("loaded", CASES, ids=IDS, indirect=True)
def test_it_is_kept_bit_for_bit(loaded, tmp_path):
    name, model, _ = loaded
    again = tellwhy.load(tellwhy.save(model, tmp_path / "again"))
    assert type(again) is type(model)
    assert np.array_equal(given(name, again), given(name, model))


def test_no_kind_is_left_out(held):
    for files in held.values():
        assert {*files} == {*map(written.file_name, written.MADE), "expected.json"}
