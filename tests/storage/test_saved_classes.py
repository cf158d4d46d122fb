"""Classes that a file may name: each is found where the table says, and loaded only when a file names it."""

import subprocess
import sys

import numpy as np
import pytest

import tellwhy
from storage.changed_files import changed
from tellwhy import detectors
from tellwhy.core.errors import UnreadableFile
from tellwhy.core.old_names import OLD_NAMES
from tellwhy.detectors import KernelDensity
from tellwhy.kernels import Exponential
from tellwhy.storage import saved_classes
from tellwhy.storage.saved_classes import PLACES, SavedClasses

CLASSES = SavedClasses()
ROWS = np.random.default_rng(0).normal(size=(30, 2))


@pytest.fixture
def saved(tmp_path):
    return KernelDensity().fit(ROWS).save(tmp_path / "density.tellwhy")


OF_NETWORKS = {"Lens", "NearestPlaces", "PlaceGaussians", "tellwhy.LRP"}


@pytest.mark.parametrize("name", PLACES)
def test_every_class_is_where_the_table_says(name):
    if name in OF_NETWORKS:
        pytest.importorskip("torch")
    cls = CLASSES.part(name).cls
    assert (cls.__module__, cls.__name__) == (PLACES[name], name.removeprefix("tellwhy."))
    assert CLASSES.name_of(cls) == name


@pytest.mark.parametrize(
    "name", ["", "Detector", "load", "os.system", "tellwhy.load", "tellwhy.LRP", "tellwhy.LIME", "sklearn.X"]
)
def test_other_names_are_none(name):
    if name in OF_NETWORKS:
        pytest.importorskip("torch")
    assert CLASSES.part(name) is None


def kernel_of(head):
    return head["is"]["is"]["learned"]["is"]["expansion_"]["is"]["kernel"]


def test_a_class_that_was_renamed_is_found(saved, monkeypatch):
    before = tellwhy.load(saved).outlierness(ROWS)
    changed(saved, lambda head: kernel_of(head).update(type="Gauss"))
    with pytest.raises(UnreadableFile, match="names 'Gauss'"):
        tellwhy.load(saved)
    monkeypatch.setattr(saved_classes, "RENAMED", {"Gauss": "Exponential"})
    assert np.array_equal(tellwhy.load(saved).outlierness(ROWS), before)


def test_a_field_that_was_renamed_is_found(saved, monkeypatch):
    before = tellwhy.load(saved).outlierness(ROWS)

    def rename(head):
        fields = kernel_of(head)["is"]
        fields["sigma"] = fields.pop("bandwidth")

    changed(saved, rename)
    with pytest.raises(UnreadableFile, match="sigma"):
        tellwhy.load(saved)
    monkeypatch.setitem(OLD_NAMES, Exponential.__name__, {"sigma": "bandwidth"})
    assert np.array_equal(tellwhy.load(saved).outlierness(ROWS), before)


def test_a_folder_is_an_old_word_for_a_file(tmp_path):
    model = KernelDensity().fit(ROWS)
    with pytest.warns(DeprecationWarning, match="'folder' parameter"):
        path = model.save(folder=tmp_path / "m")
    for load in (KernelDensity.load, detectors.load):
        with pytest.warns(DeprecationWarning, match="'folder' parameter"):
            assert np.array_equal(load(folder=path).outlierness(ROWS), model.outlierness(ROWS))


def test_only_what_a_file_names_is_loaded(saved):
    code = (
        "import sys, tellwhy\n"
        "model = tellwhy.load(sys.argv[1])\n"
        "print(type(model).__name__)\n"
        "print(*[name for name in sys.modules if name.startswith(('tellwhy.', 'torch', 'sklearn.ens'))])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=True
    )
    name, loaded = done.stdout.splitlines()
    assert name == "KernelDensity"
    others = ("committee", "lccad", "gaussian_mixture", "classifiers", "explainers", "workflow", "torch")
    found = [module for module in loaded.split() if any(part in module for part in others)]
    assert found == []
