"""Saved detectors: the same bits again, and nothing but detectors, whatever a file says."""

import json
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from tellwhy import detectors
from tellwhy.core.errors import CannotWrite, InvalidInput, UnreadableFile
from tellwhy.core.registry import cards
from tellwhy.core.score import HasGradient
from tellwhy.detectors import (
    SVDD,
    VAE,
    GaussianMixture,
    KernelDensity,
    NearestNeighbours,
    OneClassSVM,
    PCADetector,
)

RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(60, 3)), columns=["a", "b", "ç 'd'"])
NEW = pd.DataFrame(2 * RNG.normal(size=(10, 3)), columns=X.columns)
QUICK = {
    "VAE": {"latent": 1, "hidden": 3, "max_epochs": 2},
    "DAGMM": {"latent": 1, "hidden": 3, "max_epochs": 2},
}
KINDS = [
    *(
        card.cls(**QUICK.get(card.name, {}))
        for card in cards("detector")
        if card.name not in QUICK or find_spec("torch")
    ),
    OneClassSVM("student_t", bandwidth=np.float32(2.0), q=np.int64(2)),
    SVDD("linear"),
    GaussianMixture(candidates=[2, 3], covariance="diag", random_state=np.random.default_rng(1)),
    *([VAE("elbo", latent="auto", hidden=2, max_epochs=2)] if find_spec("torch") else []),
]


@pytest.mark.parametrize("detector", KINDS, ids=lambda d: type(d).__name__)
@pytest.mark.parametrize("framed", [True, False], ids=["frame", "array"])
def test_the_same_bits_again(detector, framed, tmp_path):
    rows, new = (X, NEW) if framed else (X.to_numpy(), NEW.to_numpy())
    detector.fit(rows).set_threshold(contamination=0.2)
    again = detectors.load(detector.save(tmp_path / "model"))
    assert type(again) is type(detector)
    np.testing.assert_array_equal(again.outlierness(new), detector.outlierness(new))
    np.testing.assert_array_equal(again.predict(new), detector.predict(new))
    np.testing.assert_array_equal(again.training_scores_, detector.training_scores_)
    assert again.to_score().feature_names == detector.to_score().feature_names
    score, other = detector.to_score(), again.to_score()
    if isinstance(score, HasGradient):
        np.testing.assert_array_equal(other.gradient(new), score.gradient(new))
    else:
        np.testing.assert_array_equal(other.shares(new), score.shares(new))
    kept, found = detector.get_params(), again.get_params()
    assert {k: v for k, v in found.items() if k != "random_state"} == {
        k: v for k, v in kept.items() if k != "random_state"
    }
    assert set(vars(again)) == set(vars(detector))
    again.set_threshold(contamination=0.05)
    again.fit(rows)


def test_an_infinite_threshold_survives(tmp_path):
    detector = NearestNeighbours().fit(X).set_threshold(value=np.inf)
    assert detectors.load(detector.save(tmp_path / "model")).threshold_ == np.inf


def test_a_class_reads_its_own_kind_only(tmp_path):
    folder = PCADetector().fit(X).save(tmp_path / "model")
    assert isinstance(PCADetector.load(folder), PCADetector)
    with pytest.raises(UnreadableFile, match="holds a PCADetector, not a OneClassSVM"):
        OneClassSVM.load(folder)


def test_folders_that_are_not_ours_are_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not touch")
    detector = PCADetector().fit(X)
    with pytest.raises(CannotWrite, match="was not written by tellwhy"):
        detector.save(tmp_path / "mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    detector.save(tmp_path / "model")
    detector.set_threshold(value=3.0).save(tmp_path / "model")
    assert detectors.load(tmp_path / "model").threshold_ == 3.0


class Homemade(PCADetector):
    """Not in the registry."""


def test_what_could_not_be_read_is_not_written(tmp_path):
    with pytest.raises(CannotWrite, match="Homemade is not a registered detector"):
        Homemade().fit(X).save(tmp_path / "model")
    namesake = type("PCADetector", (PCADetector,), {})  # a file would bring back the other class of that name
    with pytest.raises(CannotWrite, match="PCADetector is not a registered detector"):
        namesake().fit(X).save(tmp_path / "model")
    detector = PCADetector().fit(X)
    detector.secret_ = object()
    with pytest.raises(CannotWrite, match="secret_ holds object"):
        detector.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.fixture
def saved(tmp_path):
    return KernelDensity().fit(X).save(tmp_path / "model")


def change(folder, edits):
    head = json.loads((folder / "detector.json").read_text())
    for path, value in edits.items():
        place = head
        *steps, last = path.split("/")
        for step in steps:
            place = place[step]
        place[last] = value
    (folder / "detector.json").write_text(json.dumps(head))


BOMB = {"type": "Popen", "is": {"args": "echo"}}
POINTS = {"type": "array", "is": "expansion_.points"}
# What is changed in the head, what must be said of it, and the key that must be named (None: the file alone).
EDITS = [
    ({"schema": 99}, "has schema 99", None),
    ({"detector": "os.system"}, "which is no detector", None),
    ({"detector": "Detector"}, "which is no detector", None),
    ({"detector": ["KernelDensity"]}, "lacks 'detector'", None),
    ({"params": 3}, "lacks 'params'", None),
    ({"params/nonsense": 1}, "nonsense", "params"),
    ({"params/q": 0.1}, "'q' parameter", "params"),
    ({"params/q": 10**400}, "does not hold a working", "params"),
    ({"params/kernel": POINTS}, "does not hold a working", "params"),
    ({"params/kernel": {"type": "array"}}, "'is' is missing", "params.kernel"),
    ({"learned/expansion_": BOMB}, "names 'Popen'", "learned.expansion_"),
    ({"learned/expansion_": {"type": "number", "is": "abc"}}, "could not convert", "learned.expansion_"),
    ({"learned/expansion_": {"type": "lambda", "is": []}}, "names 'lambda'", "learned.expansion_"),
    ({"learned/expansion_": {"type": [], "is": []}}, "unhashable", "learned.expansion_"),
    (
        {"learned/expansion_": {"type": "array", "is": "nowhere"}},
        "'nowhere' is missing",
        "learned.expansion_",
    ),
    ({"learned/expansion_/is/kernel": BOMB}, "names 'Popen'", "learned.expansion_.kernel"),
    ({"learned/fit": 1}, "'fit' is nothing that it learns", "learned.fit"),
    ({"learned/to_score": 1}, "'to_score' is nothing", "learned.to_score"),
    ({"learned/bandwidth_": 1.0}, "'bandwidth_' is nothing", "learned.bandwidth_"),
    ({"learned/_private_": 1}, "'_private_' is nothing", "learned._private_"),
    ({"learned/private": 1}, "'private' is nothing", "learned.private"),
    ({"learned/n_features_in_": 10**13}, "10000000000000 columns", "learned"),
    ({"learned/n_features_in_": -1}, "-1 columns", "learned"),
    (
        {"learned/feature_names_in_": {"type": "names", "is": ["a"]}},
        "is 1, expected 3",
        "learned.feature_names_in_",
    ),
    ({"learned/threshold_": "high"}, "could not convert", "learned"),
    ({"learned/threshold_": {"type": "number", "is": "nan"}}, "cannot be right", "learned.threshold_"),
    (
        {"learned/expansion_/is/kernel/is/bandwidth": {"type": "number", "is": "inf"}},
        "do not fit together",
        "learned.expansion_.kernel.bandwidth",
    ),
    (
        {"learned/expansion_/is/kernel/is/bandwidth": -1.0},
        "do not fit together",
        "learned.expansion_.kernel.bandwidth",
    ),
    ({"learned/expansion_/is/weights": POINTS}, "do not fit together", "learned.expansion_.weights"),
    ({"learned/expansion_/is/n_training": 3}, "do not fit together", "learned.expansion_.n_training"),
]


@pytest.mark.parametrize(("edits", "message", "key"), EDITS, ids=[str(e)[:60] for e, *_ in EDITS])
def test_made_up_heads_are_refused(saved, edits, message, key):
    change(saved, edits)
    with pytest.raises(UnreadableFile, match=message) as found:
        detectors.load(saved)
    assert "detector.json" in str(found.value)
    assert key is None or f"key {key!r}" in str(found.value)


@pytest.mark.parametrize("change_of", [lambda w: w * 2, lambda w: w * 0, lambda w: np.r_[-w[:1], w[1:]]])
@pytest.mark.parametrize("cls", [KernelDensity, OneClassSVM, SVDD])
def test_weights_that_do_not_sum_to_one_are_refused(cls, change_of, tmp_path):
    folder = cls().fit(X).save(tmp_path / "model")
    with np.load(folder / "arrays.npz") as stored:
        arrays = dict(stored)
    arrays["expansion_.weights"] = change_of(arrays["expansion_.weights"])
    np.savez(folder / "arrays.npz", **arrays)
    with pytest.raises(UnreadableFile, match="weights cannot be right"):
        detectors.load(folder)


def test_shares_of_a_mixture_that_do_not_sum_to_one_are_refused(tmp_path):
    folder = GaussianMixture(2, random_state=0).fit(X).save(tmp_path / "model")
    with np.load(folder / "arrays.npz") as stored:
        arrays = dict(stored)
    (name,) = (name for name in arrays if name.endswith("log_weights"))
    np.savez(folder / "arrays.npz", **{**arrays, name: arrays[name] + 0.1})
    with pytest.raises(UnreadableFile, match="log_weights cannot be right"):
        detectors.load(folder)


def test_a_threshold_that_is_no_number_is_refused():
    with pytest.raises(InvalidInput, match="value=nan"):
        KernelDensity().fit(X).set_threshold(value=np.nan)


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[1]", '{"schema": 1}', "[" * 100_000, "\x00\xff"], ids=range(7)
)
def test_heads_that_are_no_json_are_refused(saved, text):
    (saved / "detector.json").write_text(text, encoding="latin-1")
    with pytest.raises(UnreadableFile):
        detectors.load(saved)


def test_truncated_arrays_are_refused(saved):
    whole = (saved / "arrays.npz").read_bytes()
    for share in (0.0, 0.1, 0.5, 0.9, 0.999):
        (saved / "arrays.npz").write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(UnreadableFile, match=r"arrays.npz"):
            detectors.load(saved)
    with open(saved / "arrays.npz", "wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(UnreadableFile, match="holds one array"):
        detectors.load(saved)
    (saved / "arrays.npz").unlink()
    with pytest.raises(UnreadableFile, match="missing or damaged"):
        detectors.load(saved)


def test_flipped_bytes_never_go_unnoticed(saved):
    whole, before = (saved / "arrays.npz").read_bytes(), detectors.load(saved).outlierness(NEW)
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        (saved / "arrays.npz").write_bytes(broken)
        try:
            np.testing.assert_array_equal(detectors.load(saved).outlierness(NEW), before)
        except UnreadableFile:
            continue


NOT_NUMBERS = r"arrays\.npz holds something else than finite numbers in 'expansion_\.points'"


@pytest.mark.parametrize(
    ("points", "told"),
    [
        (np.full((60, 3), np.nan), NOT_NUMBERS),
        (np.zeros((60, 3), dtype=complex), NOT_NUMBERS),
        (np.array([["a"] * 3] * 60), NOT_NUMBERS),
        (np.zeros((60, 2)), "fitted on 3 columns, but scores rows of shape"),
        (np.zeros((59, 3)), r"key 'learned\.expansion_\.weights'"),
        (np.zeros((60, 3), dtype=np.float32), r"key 'learned\.expansion_\.points'"),
        (np.zeros(60), r"key 'learned\.expansion_\.points'"),
        (np.float64(1.0), r"key 'learned\.expansion_\.points'"),
    ],
    ids=["nan", "complex", "text", "columns", "rows", "single", "1D", "0D"],
)
def test_arrays_that_do_not_fit_are_refused(saved, points, told):
    with np.load(saved / "arrays.npz") as stored:
        arrays = dict(stored)
    np.savez(saved / "arrays.npz", **{**arrays, "expansion_.points": points})
    with pytest.raises(UnreadableFile, match=told):
        detectors.load(saved)


def test_pickled_arrays_are_never_opened(saved):
    np.savez(
        saved / "arrays.npz", **{"expansion_.points": np.array([{"a": 1}], dtype=object)}, allow_pickle=True
    )
    with pytest.raises(UnreadableFile, match="missing or damaged"):
        detectors.load(saved)


def test_networks_whose_layers_do_not_fit_are_refused(tmp_path):
    pytest.importorskip("torch")
    folder = VAE(**QUICK["VAE"]).fit(X).save(tmp_path / "model")
    with np.load(folder / "arrays.npz") as stored:
        arrays = dict(stored)
    assert "network_.encode.weight" in arrays
    for wrong in (np.zeros((2, 3)), np.zeros((3, 4)), np.zeros(3)):
        np.savez(folder / "arrays.npz", **{**arrays, "network_.encode.weight": wrong})
        with pytest.raises(UnreadableFile, match="does not hold a working VAE"):
            detectors.load(folder)
