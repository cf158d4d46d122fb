"""Odd pictures, and where they are odd."""

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.detectors import PatchModel
from tellwhy.kinds import pictures as picture_run
from tellwhy.kinds.picture_looks import AS_THEY_ARE
from tellwhy.kinds.pictures import explain_pictures, find_regions
from tellwhy.workflow import load_run, save_run

Image = pytest.importorskip("PIL.Image")
FAST = {"n_patches": 400}


def stripes(seed, *, scale=1, colour=False):
    """A picture of stripes, with noise."""
    rng = np.random.default_rng(seed)
    rows = 128 + 80 * np.sin(np.arange(40) / 2 + rng.uniform(0, 6))[:, None]
    pixels = np.repeat(np.repeat(rows + 5 * rng.normal(size=(40, 48)), scale, axis=0), scale, axis=1)
    pixels = np.clip(pixels, 0, 255).astype(np.uint8)
    return np.stack([pixels, pixels, pixels // 2], axis=2) if colour else pixels


def spoiled(pixels):
    """The same picture with a piece of it turned: no grey level is new."""
    pixels = pixels.copy()
    pixels[12:24, 20:32] = np.swapaxes(pixels[12:24, 20:32], 0, 1).copy()
    return pixels


@pytest.fixture
def place(tmp_path):
    (tmp_path / "good").mkdir()
    (tmp_path / "new").mkdir()
    for k in range(12):
        Image.fromarray(stripes(k)).save(tmp_path / "good" / f"{k:02}.png")
    for k in range(5):
        Image.fromarray(stripes(100 + k)).save(tmp_path / "new" / f"{k}.png")
    Image.fromarray(spoiled(stripes(200))).save(tmp_path / "new" / "spoiled.png")
    return tmp_path


def test_the_spoiled_picture_is_the_one_alarm_and_its_place_is_found(place):
    run = explain_pictures(place / "new", reference=place / "good", top=2, **FAST)
    assert run.anomalies[0].id.endswith("spoiled.png")
    assert run.anomalies[0].is_alarm
    assert run.n_flagged == 1
    assert len(run.anomalies) == 2
    top, bottom, left, right = run.anomalies[0].reasons[0].part.box
    assert 8 <= top < bottom <= 28
    assert 16 <= left < right <= 36
    assert "1 of 6 pictures is odd" in run.headline[0]
    assert run.array_of("relevance", 0).shape == (40, 48)


def test_ordinary_pictures_are_no_alarms(place):
    (place / "new" / "spoiled.png").unlink()
    run = explain_pictures(place / "new", reference=place / "good", top=1, **FAST)
    assert run.n_flagged == 0
    assert run.headline[0] == "None of the 5 pictures is odd."


def test_good_pictures_are_scored_in_the_unit_of_the_model_that_judges(monkeypatch):
    """Each part of the reference has a bandwidth of its own, and scores go with its square."""
    flat = np.full((1, 20, 20), 100.0)
    rng = np.random.default_rng(0)
    good = [flat[0] + rng.normal(scale=0.1 if k % 3 else 9.0, size=(20, 20)) for k in range(12)]
    model = PatchModel(patch_size=(7, 7), n_train_patches=200).fit(np.stack(good))
    used = []
    monkeypatch.setattr(
        picture_run,
        "_score_pictures",
        lambda fitted, pixels, ground, **_: (
            used.append(fitted.detectors_[0].bandwidth_) or np.zeros(len(pixels))
        ),
    )
    picture_run._score_reference(model, good, AS_THEY_ARE, [False])
    assert used == [model.detectors_[0].bandwidth_] * 3


def test_one_picture_is_compared_with_itself(place):
    run = explain_pictures(place / "new" / "spoiled.png", **FAST)
    assert run.threshold is None
    assert not run.anomalies[0].is_alarm
    top, bottom, left, right = run.anomalies[0].reasons[0].part.box
    assert top < 24
    assert bottom > 12
    assert left < 32
    assert right > 20
    assert "no alarms" in run.summary


def test_places_are_told_in_the_pixels_of_the_file(tmp_path):
    large = np.repeat(np.repeat(spoiled(stripes(1)), 4, axis=0), 4, axis=1)
    Image.fromarray(large).save(tmp_path / "p.png")
    run = explain_pictures(tmp_path / "p.png", side=48, **FAST)
    assert run.array_of("data", 0).shape == (40, 48)
    numbers = run.anomalies[0].reasons[0].facts["x"]
    assert 60 <= numbers[0] < numbers[1] <= 150
    assert any("192 × 160 pixels made 48 × 40" in notice for notice in run.notes)


def test_mixed_sizes_grey_and_colour_go_together(tmp_path):
    for k in range(3):
        Image.fromarray(stripes(k)).save(tmp_path / f"{k}.png")
    Image.fromarray(stripes(4, colour=True)[:30]).save(tmp_path / "4.png")
    run = explain_pictures(tmp_path, **FAST)
    assert run.anomalies[0].id.endswith("4.png")
    assert {run.array_of("data", k).shape for k in range(len(run.anomalies))} == {(40, 48, 3), (30, 48, 3)}


def test_pictures_that_cannot_be_read_are_told_and_the_others_go_on(place):
    (place / "new" / "broken.png").write_bytes(b"no picture")
    Image.fromarray(stripes(1)[:1, :1]).save(place / "new" / "dot.png")
    run = explain_pictures(place / "new", reference=place / "good", top=1, **FAST)
    assert len(run.names) == 6
    assert any("broken.png cannot be read" in notice for notice in run.notes)
    assert any("1 × 1 pixels as it is judged, fewer than a patch" in notice for notice in run.notes)


def test_a_single_picture_that_cannot_be_judged_is_an_error(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"")
    with pytest.raises(UnreadableFile, match=r"broken\.png"):
        explain_pictures(tmp_path / "broken.png")
    Image.fromarray(stripes(1)[:1, :1]).save(tmp_path / "dot.png")
    with pytest.raises(InvalidInput, match="fewer than a patch of 7"):
        explain_pictures(tmp_path / "dot.png")
    with pytest.raises(InvalidInput, match="None of the 2 pictures"):
        explain_pictures(tmp_path)
    Image.new("L", (30, 30), 7).save(tmp_path / "plain.png")
    with pytest.raises(InvalidInput, match="are blank"):
        explain_pictures(tmp_path / "plain.png")


def test_runs_are_saved_and_read_again(place, tmp_path):
    run = explain_pictures(place / "new" / "spoiled.png", **FAST)
    again = load_run(save_run(run, tmp_path / "run"))
    np.testing.assert_array_equal(again.array_of("relevance", 0), run.array_of("relevance", 0))
    assert again.anomalies[0].reasons == run.anomalies[0].reasons
    assert (again.headline[0], again.kind, again.threshold) == (run.headline[0], "pictures", None)
    (tmp_path / "run" / "media.json").write_text("{}")
    with pytest.raises(UnreadableFile, match="earlier version"):
        load_run(tmp_path / "run")


def test_even_relevance_has_no_place():
    assert find_regions(np.ones((20, 20)), 3) == []
    assert find_regions(np.zeros((20, 20)), 3) == []


def test_a_place_never_has_less_than_the_usual_relevance():
    """A place stands out once relevance is smoothed: how far is told in the same smoothed numbers."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        for region in find_regions(rng.exponential(size=(40, 40)) ** 2, 5):
            assert region.times_usual >= 1.5


def test_what_was_done_to_many_pictures_is_told_once(tmp_path):
    for k in range(3):
        Image.fromarray(stripes(k, scale=7)).save(tmp_path / f"{k}.png")
    Image.fromarray(stripes(9)).convert("RGBA").save(tmp_path / "clear.png")
    run = explain_pictures(tmp_path, top=1, **FAST)
    assert "3 pictures: 336 × 280 pixels made 256 × 213." in run.notes
    assert f"{tmp_path / 'clear.png'}: transparent parts put on white." in run.notes
    assert len(run.notes) == 2
