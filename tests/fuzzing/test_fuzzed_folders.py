"""Damaged folders of runs, explanations and models: used as they are, or refused by an error of ours."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from fuzzing import mutations, sample_folders
from tellwhy.core.errors import TellwhyError

FEW = 25
MANY = 200
WAYS = {
    ".json": (mutations.damaged, mutations.restructured, mutations.restructured),
    ".npz": (mutations.damaged, mutations.rezipped, mutations.rezipped),
    ".parquet": (mutations.damaged,),
    ".tellwhy": (mutations.damaged, *[mutations.remodelled] * 4),
}
CASES = {
    "run of a table": (sample_folders.save_table_run, sample_folders.use_run),
    "run of a grid": (sample_folders.save_grid_run, sample_folders.use_run),
    "explanation": (sample_folders.save_table_run, sample_folders.use_explanation),
    "classifier": (sample_folders.save_classifier, sample_folders.use_classifier),
}
DETECTORS = ("OneClassSVM", "GaussianMixture", "NearestNeighbours", "Committee", "PCADetector", "ClusterSVDD")
CASES |= {
    name: (sample_folders.save_detector(name), sample_folders.use_detector) for name in (*DETECTORS, "SVDD")
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Folders that were saved already, by the name of the case."""
    return tmp_path_factory.mktemp("sound"), {}


def attack(name: str, sound: tuple[Path, dict[str, Path]], work: Path, count: int, seed: int) -> int:
    """Damage one file of a folder after the other; return how often the folder was refused."""
    save, use = CASES[name]
    place, saved = sound
    if name not in saved:
        saved[name] = save(place / name)
    use(saved[name])
    shutil.copytree(saved[name], work)
    files = sorted(path.relative_to(work) for path in work.rglob("*") if path.suffix in WAYS)
    rng = np.random.default_rng(seed)
    n_refused = 0
    for number in range(count):
        file = files[rng.integers(len(files))]
        content = (work / file).read_bytes()
        ways = WAYS[file.suffix]
        (work / file).write_bytes(ways[rng.integers(len(ways))](content, rng))
        try:
            use(work)
        except TellwhyError:
            n_refused += 1
        except BaseException as error:
            raise AssertionError(f"damage {number} of seed {seed}, {file}: {error!r}") from error
        (work / file).write_bytes(content)
    return n_refused


@pytest.mark.parametrize("name", ["run of a table", "run of a grid", "classifier", "OneClassSVM"])
def test_damaged_folders_are_refused_in_words(name, sound, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that is read with other numbers may warn of them
        assert attack(name, sound, tmp_path / "work", FEW, seed=0) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_damaged_folders_are_refused_in_words(name, sound, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seed = int(os.environ.get("TELLWHY_SEED", "1"))
        assert attack(name, sound, tmp_path / "work", MANY, seed) > 0
