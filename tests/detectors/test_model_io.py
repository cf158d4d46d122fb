"""Saved detectors: the same bits again, and nothing but detectors, whatever a file says."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from storage.changed_files import array_of, changed, edited, members_of, pack, with_arrays
from tellwhy import detectors
from tellwhy.bases import KernelBasis
from tellwhy.core.errors import CannotWrite, UnreadableFile
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


def test_folders_are_left_alone_and_files_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not touch")
    detector = PCADetector().fit(X)
    with pytest.raises(CannotWrite, match="it is a folder; expected a file"):
        detector.save(tmp_path / "mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    detector.save(tmp_path / "deep" / "model")
    detector.set_threshold(value=3.0).save(tmp_path / "deep" / "model")
    assert detectors.load(tmp_path / "deep" / "model").threshold_ == 3.0


def test_what_is_no_detector_is_told(tmp_path):
    path = KernelBasis(n_features=4, random_state=0).fit(X).save(tmp_path / "basis")
    with pytest.raises(UnreadableFile, match="holds a KernelBasis, which is no detector"):
        detectors.load(path)


class Homemade(PCADetector):
    """Not in the registry."""


def test_what_could_not_be_read_is_not_written(tmp_path):
    with pytest.raises(CannotWrite, match="A Homemade cannot be saved; expected"):
        Homemade().fit(X).save(tmp_path / "model")
    namesake = type("PCADetector", (PCADetector,), {})  # a file would bring back the other class of that name
    with pytest.raises(CannotWrite, match="A PCADetector cannot be saved; expected"):
        namesake().fit(X).save(tmp_path / "model")
    detector = PCADetector().fit(X)
    detector.secret_ = object()
    with pytest.raises(CannotWrite, match="secret_ holds object"):
        detector.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.fixture
def saved(tmp_path):
    return KernelDensity().fit(X).save(tmp_path / "model")


def change(path, edits):
    for place, value in edits.items():
        edited(path, place.split("/"), value)


BOMB = {"type": "Popen", "is": {"args": "echo"}}
POINTS = {"type": "array", "is": "model.learned.expansion_.points"}
# What is changed in the head, what must be said of it, and the key that must be named (None: the file alone).
EDITS = [
    ({"params": 3}, "does not hold a working", "params"),
    ({"learned": 3}, "does not hold a working", None),
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
    assert "model" in str(found.value)
    assert key is None or f"key {key!r}" in str(found.value)


@pytest.mark.parametrize(
    ("head", "told"),
    [
        ({"schema": 99}, "has schema 99"),
        ({"is": {"type": "os.system", "is": {}}}, "names 'os.system', which is nothing that a model holds"),
        ({"is": {"type": "Detector", "is": {}}}, "names 'Detector', which is nothing"),
        ({"is": {"type": "load", "is": {}}}, "names 'load', which is nothing"),
        ({"is": {"type": ["KernelDensity"], "is": {}}}, "unhashable"),
        ({"is": {"type": "Exponential", "is": {"bandwidth": 1.0, "q": 2.0}}}, "is no model of its own"),
        ({"is": 3}, "is no model of its own"),
    ],
    ids=str,
)
def test_made_up_kinds_are_refused(saved, head, told):
    changed(saved, lambda held: held.update(head))
    with pytest.raises(UnreadableFile, match=told):
        detectors.load(saved)


@pytest.mark.parametrize("change_of", [lambda w: w * 2, lambda w: w * 0, lambda w: np.r_[-w[:1], w[1:]]])
@pytest.mark.parametrize("cls", [KernelDensity, OneClassSVM, SVDD])
def test_weights_that_do_not_sum_to_one_are_refused(cls, change_of, tmp_path):
    path = cls().fit(X).save(tmp_path / "model")
    with_arrays(path, {"expansion_.weights": change_of(array_of(path, "expansion_.weights"))})
    with pytest.raises(UnreadableFile, match="weights cannot be right"):
        detectors.load(path)


def test_shares_of_a_mixture_that_do_not_sum_to_one_are_refused(tmp_path):
    path = GaussianMixture(2, random_state=0).fit(X).save(tmp_path / "model")
    with_arrays(path, {"log_weights": array_of(path, "log_weights") + 0.1})
    with pytest.raises(UnreadableFile, match="log_weights cannot be right"):
        detectors.load(path)


@pytest.mark.parametrize(
    "text", ["", "{", "null", "[1]", '{"schema": 1}', "[" * 100_000, "\x00\xff"], ids=range(7)
)
def test_heads_that_are_no_json_are_refused(saved, text):
    pack(saved, {**members_of(saved), "model.json": text.encode("latin-1")})
    with pytest.raises(UnreadableFile):
        detectors.load(saved)


def test_flipped_bytes_never_go_unnoticed(saved):
    whole, before = saved.read_bytes(), detectors.load(saved).outlierness(NEW)
    for place in np.random.default_rng(0).integers(0, len(whole), 60):
        broken = bytearray(whole)
        broken[place] ^= 0xFF
        saved.write_bytes(broken)
        try:
            np.testing.assert_array_equal(detectors.load(saved).outlierness(NEW), before)
        except UnreadableFile:
            continue


NOT_NUMBERS = r"holds something else than finite numbers in 'model\.learned\.expansion_\.points'"


@pytest.mark.parametrize(
    ("points", "told"),
    [
        (np.full((60, 3), np.nan), NOT_NUMBERS),
        (np.zeros((60, 3), dtype=complex), "expected numbers of this machine"),
        (np.array([["a"] * 3] * 60), "expected numbers of this machine"),
        (np.zeros((60, 2)), "fitted on 3 columns, but scores rows of shape"),
        (np.zeros((59, 3)), r"key 'learned\.expansion_\.weights'"),
        (np.zeros((60, 3), dtype=np.float32), r"key 'learned\.expansion_\.points'"),
        (np.zeros(60), r"key 'learned\.expansion_\.points'"),
        (np.float64(1.0), r"key 'learned\.expansion_\.points'"),
    ],
    ids=["nan", "complex", "text", "columns", "rows", "single", "1D", "0D"],
)
def test_arrays_that_do_not_fit_are_refused(saved, points, told):
    with_arrays(saved, {"expansion_.points": points})
    with pytest.raises(UnreadableFile, match=told):
        detectors.load(saved)


def test_pickled_arrays_are_never_opened(saved):
    with_arrays(saved, {"expansion_.points": np.array([{"a": 1}], dtype=object)})
    with pytest.raises(UnreadableFile, match="holds Python objects, which are never loaded"):
        detectors.load(saved)


def test_networks_whose_layers_do_not_fit_are_refused(tmp_path):
    pytest.importorskip("torch")
    path = VAE(**QUICK["VAE"]).fit(X).save(tmp_path / "model")
    for wrong in (np.zeros((2, 3)), np.zeros((3, 4)), np.zeros(3)):
        with_arrays(path, {"network_.encode.weight": wrong})
        with pytest.raises(UnreadableFile, match="does not hold a working VAE"):
            detectors.load(path)
