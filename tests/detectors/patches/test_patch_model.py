"""A model of patches as a detector of images and series."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.base import clone

from storage.changed_files import edited
from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.registry import cards
from tellwhy.data.pieces import cut_patches
from tellwhy.detectors import KernelDensity, NearestNeighbours, OneClassSVM, PatchModel, load
from tellwhy.detectors.patches.patch_model import measure_nearest_patch_distance

RNG = np.random.default_rng(0)
GREY = RNG.normal(size=(4, 9, 10))
BRIEF = {"latent": 1, "hidden": 4, "max_epochs": 8}


def every_detector():
    for card in cards("detector"):
        if card.name in ("VAE", "DAGMM"):
            if find_spec("torch"):
                yield card.cls(**BRIEF)
        else:
            yield card.cls()


@pytest.mark.parametrize(
    ("X", "size"),
    [
        (RNG.normal(size=(3, 20)), 5),
        (RNG.normal(size=(3, 20, 2)), (5,)),
        (GREY, (3, 4)),
        (RNG.normal(size=(3, 9, 10, 3)), 3),
    ],
    ids=["series", "channels", "grey", "colour"],
)
@pytest.mark.parametrize("stride", [1, 2])
def test_the_score_is_the_sum_over_patches(X, size, stride):
    model = PatchModel(
        KernelDensity(bandwidth=2.0), size, stride, n_train_patches=40, scale="none", channels="joint"
    ).fit(X)
    sizes = model.patch_rows_.windows.size
    for x, total, places in zip(X, model.outlierness(X), model.position_outlierness(X), strict=True):
        expected = model.detectors_[0].outlierness(cut_patches(x, sizes, stride))
        np.testing.assert_allclose(places.ravel(), expected, rtol=1e-12)
        assert total == pytest.approx(expected.sum(), rel=1e-12)


@pytest.mark.parametrize("detector", list(every_detector()), ids=lambda d: type(d).__name__)
def test_every_detector_is_one_of_patches_and_survives_a_round_trip(detector, tmp_path):
    model = PatchModel(detector, (4, 4), n_train_patches=100).fit(GREY)
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.outlierness(GREY), model.outlierness(GREY))
    assert repr(again) == repr(model)
    assert again.threshold_ == model.threshold_
    assert PatchModel.load(tmp_path / "model").shape_ == (9, 10)


def test_models_of_positions_survive_a_round_trip(tmp_path):
    model = PatchModel(KernelDensity(), (7, 7), positions="separate").fit(RNG.normal(size=(20, 8, 9)))
    assert len(model.detectors_) == 6
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.outlierness(RNG.normal(size=(2, 8, 9))) > 0, True)
    with pytest.raises(InvalidInput, match="one model per position"):
        again.outlierness(RNG.normal(size=(2, 9, 9)))


@pytest.mark.parametrize(
    ("key", "wrong"),
    [("shape_", {"type": "tuple", "is": [9, "x"]}), ("threshold_", {"type": "number", "is": "nan"})],
)
def test_a_made_up_file_is_refused(tmp_path, key, wrong):
    path = PatchModel(KernelDensity(), (4, 4)).fit(GREY).save(tmp_path / "model")
    edited(path, ("learned", key), wrong)
    with pytest.raises(UnreadableFile):
        load(tmp_path / "model")


def test_detectors_that_are_too_narrow_for_the_patches_are_refused(tmp_path):
    path = PatchModel(KernelDensity(), (4, 4)).fit(GREY).save(tmp_path / "model")
    edited(path, ("learned", "patch_rows_", "is", "windows", "is", "size", "is"), [4, 5])
    with pytest.raises(UnreadableFile, match="detectors_"):
        load(tmp_path / "model")


def shifted_pictures(n):
    """Pictures with a bar in one place, every part of which patches show."""
    pictures = 0.05 * np.random.default_rng(n).normal(size=(n, 12, 16))
    pictures[:, :, 5:7] += 1.0
    return pictures


@pytest.mark.parametrize("positions", ["feature", "separate"])
def test_a_usual_patch_in_an_unusual_place_is_odd_only_where_places_count(positions):
    good = shifted_pictures(60)
    moved = np.roll(shifted_pictures(61)[-1:], 5, axis=2)
    shared = PatchModel(patch_size=(4, 4), n_train_patches=2000).fit(good)
    placed = PatchModel(patch_size=(4, 4), n_train_patches=2000, positions=positions).fit(good)
    usual = shifted_pictures(62)[-2:]

    def contrast(model):
        scores = model.outlierness(np.vstack([usual, moved]))
        return scores[-1] / scores[:-1].max()

    assert contrast(placed) > 1.2 * contrast(shared)
    assert placed.predict(moved)[0] == -1


def test_channels_of_series_count_alike_whatever_their_units():
    series = RNG.normal(size=(5, 80, 2)) * [1.0, 1e6]
    odd = series[:1].copy()
    odd[0, 40, 0] += 12.0
    model = PatchModel(patch_size=(5,), n_train_patches=300).fit(series)
    assert 36 <= model.position_outlierness(odd)[0].argmax() <= 40
    plain = PatchModel(patch_size=(5,), n_train_patches=300, scale="none").fit(series)
    np.testing.assert_array_equal(plain.patch_rows_.scale, [1.0, 1.0])
    assert model.patch_rows_.scale[1] > 1e5


def test_inputs_of_another_size_are_scored_and_judged_per_patch():
    model = PatchModel(patch_size=(3, 3), n_train_patches=200).fit(RNG.normal(size=(30, 8, 8)))
    larger = RNG.normal(size=(20, 16, 16))
    assert (model.outlierness(larger) > model.threshold_).all()
    assert (model.predict(larger) == 1).mean() > 0.8
    assert model.predict(larger[:1] + 5.0)[0] == -1


def test_thresholds_leave_the_trained_patches_out():
    X = RNG.normal(size=(3, 6, 6))
    model = PatchModel(NearestNeighbours(1), (3, 3)).fit(X)
    assert model.outlierness(X).max() == pytest.approx(0.0, abs=1e-9)
    assert model.training_scores_.min() > 1.0


def test_one_long_series_is_enough():
    wave = np.sin(np.arange(3000) / 4)
    model = PatchModel(patch_size=20, n_train_patches=400).fit(wave[None])
    assert model.predict(wave[None])[0] == 1


def test_the_same_seed_draws_the_same_patches():
    same = [PatchModel(patch_size=(3, 3), n_train_patches=50, random_state=3).fit(GREY) for _ in range(2)]
    np.testing.assert_array_equal(same[0].outlierness(GREY), same[1].outlierness(GREY))
    other = PatchModel(patch_size=(3, 3), n_train_patches=50, random_state=4).fit(GREY)
    assert (other.outlierness(GREY) != same[0].outlierness(GREY)).any()


def test_nothing_of_the_users_is_modified():
    detector = OneClassSVM(bandwidth=1.0)
    kept = GREY.copy()
    model = PatchModel(detector, (3, 3), n_train_patches=50).fit(GREY)
    model.outlierness(GREY)
    np.testing.assert_array_equal(GREY, kept)
    assert not hasattr(detector, "expansion_")
    assert clone(model).get_params()["patch_size"] == (3, 3)


def test_gradients_are_those_of_the_sum():
    model = PatchModel(KernelDensity(bandwidth=1.0), (3,), n_train_patches=60)
    model.fit(RNG.normal(size=(4, 9, 2)) * [1.0, 5.0])
    x = RNG.normal(size=(1, 9, 2))
    slopes = model.to_score().gradient(x)[0]
    for at in np.ndindex(9, 2):
        step = np.zeros((1, 9, 2))
        step[(0, *at)] = 1e-5
        slope = (model.outlierness(x + step) - model.outlierness(x - step))[0] / 2e-5
        assert slopes[at] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_the_nearest_different_patch_gives_the_bandwidth():
    rows = np.repeat(np.arange(6.0)[:, None] * 3.0, 4, axis=0)
    assert measure_nearest_patch_distance(rows, 0.1) == pytest.approx(3.0)


def test_inputs_of_different_sizes_are_learned_from_together():
    small = RNG.normal(size=(5, 8, 8))
    large = RNG.normal(size=(5, 12, 9))
    model = PatchModel(NearestNeighbours(1), (3, 3), n_train_patches=10_000).fit([*small, *large])
    assert model.detectors_[0].expansion_.points.shape == (5 * 36 + 5 * 70, 9)
    for inputs in (small, large):
        assert model.outlierness(inputs).max() == pytest.approx(0.0, abs=1e-9)
        assert (model.predict(inputs) == 1).all()
    with pytest.raises(InvalidInput, match="needs inputs of one size"):
        PatchModel(patch_size=(3, 3), positions="feature").fit([*small, *large])
    with pytest.raises(InvalidInput, match="with and without channels"):
        PatchModel(patch_size=(3, 3)).fit([small[0], RNG.normal(size=(8, 8, 3))])


def test_trimming_keeps_anomalies_from_vouching_for_each_other():
    wave = np.sin(np.arange(4000) / 4) + 0.1 * np.random.default_rng(0).normal(size=4000)
    wave[1000:1020] = wave[3000:3020] = 3.0  # the same twice
    plain = PatchModel(patch_size=20, n_train_patches=4000).fit(wave[None])
    trimmed = PatchModel(patch_size=20, n_train_patches=4000, trim=0.05).fit(wave[None])
    assert plain.position_outlierness(wave[None])[0, 1000] < 10
    assert trimmed.position_outlierness(wave[None])[0, 1000] > 100


def test_channels_with_models_of_their_own_add_up(tmp_path):
    series = RNG.normal(size=(4, 30, 2))
    model = PatchModel(KernelDensity(bandwidth=1.0), (5,), n_train_patches=80).fit(series)
    assert [detector.n_features_in_ for detector in model.detectors_] == [5, 5]
    prepared = series[0] / model.patch_rows_.scale
    alone = [
        detector.outlierness(cut_patches(prepared[:, c], (5,))) for c, detector in enumerate(model.detectors_)
    ]
    np.testing.assert_allclose(model.position_outlierness(series[:1])[0], sum(alone), rtol=1e-10)
    again = load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.outlierness(series), model.outlierness(series))
