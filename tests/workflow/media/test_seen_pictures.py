"""Pictures that are looked at by a network or by fine filters: which is chosen, what is found, and what is kept."""

import numpy as np
import pytest

import tellwhy
from tellwhy.core.errors import InvalidInput, MissingExtra
from tellwhy.kinds import pictures as picture_run
from tellwhy.kinds.picture_looks import PictureLooks, choose_best, plant_defect
from tellwhy.kinds.pictures import explain_pictures

pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")
FILTERS = {"features": "filters"}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    from tellwhy.detectors.patches import looks

    monkeypatch.setattr(looks, "SMALLEST", 32)


def texture(seed, *, odd=False):
    rng = np.random.default_rng(seed)
    pixels = 128 + 25 * rng.normal(size=(48, 64))
    if odd:
        pixels[20:32, 30:42] = 128.0  # a smooth spot: no grey level is new
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


@pytest.fixture
def place(tmp_path):
    for name, pictures in {
        "good": [texture(k) for k in range(12)],
        "new": [*(texture(100 + k) for k in range(5)), texture(200, odd=True)],
    }.items():
        (tmp_path / name).mkdir()
        for k, pixels in enumerate(pictures):
            Image.fromarray(pixels).save(tmp_path / name / f"{k:02}.png")
    return tmp_path


def test_a_smooth_spot_in_a_texture_is_the_one_alarm_and_its_place_is_found(place):
    found = explain_pictures(place / "new", reference=place / "good", top=2, **FILTERS)
    first = found.anomalies[0]
    assert first.id.endswith("05.png")
    assert [item.is_alarm for item in found.anomalies] == [True, False]
    top, bottom, left, right = first.reasons[0].part.box
    assert 14 <= top < bottom <= 38
    assert 24 <= left < right <= 48
    carried = next(notice for notice in first.notices if notice.kind == "carried_back")
    relevance = found.array_of("relevance", 0)
    assert carried.facts["by"] == "filters"
    assert 0.5 < carried.facts["share"] < 1.5
    assert "fine filters" in found.summary
    assert relevance.shape == (48, 64)


def test_a_saved_model_tells_the_same_and_wants_pictures_of_its_size(place, tmp_path):
    model = tellwhy.fit(place / "good", clean=True, **FILTERS)
    found = tellwhy.judge(model, place / "new")
    again = tellwhy.judge(tellwhy.load(model.save(tmp_path / "m.tellwhy")), place / "new")
    np.testing.assert_array_equal(again.scores, found.scores)
    np.testing.assert_array_equal(again.array_of("relevance", 0), found.array_of("relevance", 0))
    Image.fromarray(texture(1)[:40]).save(place / "new" / "small.png")
    with pytest.raises(InvalidInput, match=r"small\.png has another size"):
        tellwhy.judge(model, place / "new")


def test_pictures_without_a_reference_are_ranked_each_as_if_it_were_new(place):
    found = explain_pictures(place / "new", top=1, **FILTERS)
    assert found.anomalies[0].id.endswith("05.png")
    assert found.threshold is None


def test_what_cannot_be_done_is_refused(place):
    with pytest.raises(InvalidInput, match="5 pictures or more"):
        explain_pictures(place / "new" / "00.png", **FILTERS)
    if not picture_run.is_there(picture_run.NETWORK):
        with pytest.raises(MissingExtra, match=r"tellwhy\[images\]"):
            explain_pictures(place / "new", features="network")


def test_without_the_weights_raw_patches_are_compared_and_it_is_told_once(place, monkeypatch):
    monkeypatch.setattr(picture_run, "is_there", lambda *_: False)
    found = explain_pictures(place / "new", reference=place / "good", top=1, n_patches=200)
    assert [notice.kind for notice in found.notices].count("could_see_more") == 1
    asked = explain_pictures(place / "new", top=1, n_patches=200, features="patches")
    assert not [notice for notice in asked.notices if notice.kind == "could_see_more"]


def test_two_looks_are_taken_only_where_they_find_clearly_more():
    assert choose_best({"network": 0.95, "filters": 0.7, "network+filters": 0.96}) == "network"
    assert choose_best({"network": 0.7, "filters": 0.9, "network+filters": 0.96}) == "network+filters"
    near = {"network": 0.96, "filters": 0.98, "network+filters": 0.98}
    assert choose_best(near) == "filters"
    assert choose_best(near, is_same_thing=True) == "network"
    assert choose_best({**near, "network": 0.8}, is_same_thing=True) == "filters"


@pytest.mark.parametrize("seed", range(8))
def test_a_planted_defect_changes_a_small_part_of_a_copy(seed):
    picture = texture(1).astype(float)
    kept = picture.copy()
    found = plant_defect(picture, np.random.default_rng(seed))
    changed = found != picture
    assert 0 < changed.sum() < 0.1 * changed.size
    np.testing.assert_array_equal(picture, kept)
    assert found.min() >= picture.min()
    assert found.max() <= picture.max()


class Fixed:
    """A look that finds of each picture what stands in its first row."""

    def __init__(self, column):
        self.column = column

    @property
    def lens(self):
        return self

    def seen(self, picture):
        return picture[0, self.column]


def test_of_two_looks_the_one_that_finds_more_counts(monkeypatch):
    from tellwhy.detectors.patches import looks

    monkeypatch.setattr(looks, "scores_of", lambda look, seen: np.array([seen]))
    both = PictureLooks(
        ["network", "filters"],
        [Fixed(0), Fixed(1)],
        np.array([10.0, 1.0]),
        np.array([2.0, 0.5]),
        np.ones(3),
        {},
    )
    np.testing.assert_allclose(both.scores([np.array([[14.0, 1.0]]), np.array([[10.0, 4.0]])]), [2.0, 6.0])
