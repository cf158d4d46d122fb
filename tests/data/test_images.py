"""Pictures from files, whatever their mode, depth and size."""

import builtins

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, MissingExtra, UnreadableFile
from tellwhy.data import images
from tellwhy.data.images import list_pictures, make_alike, read_picture, shows_pictures

Image = pytest.importorskip("PIL.Image")
RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, size=(20, 30), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, size=(20, 30, 3), dtype=np.uint8)


def saved(tmp_path, image, name="p.png", **settings):
    image.save(tmp_path / name, **settings)
    return read_picture(tmp_path / name)


def test_grey_and_coloured_pictures_are_read_as_they_are(tmp_path):
    np.testing.assert_array_equal(saved(tmp_path, Image.fromarray(GREY)).pixels, GREY)
    picture = saved(tmp_path, Image.fromarray(COLOUR))
    np.testing.assert_array_equal(picture.pixels, COLOUR)
    assert (picture.width, picture.height, picture.zoom) == (30, 20, 1.0)
    assert not picture.notices


def test_palettes_become_colours(tmp_path):
    palette = Image.fromarray(COLOUR).quantize(64)
    picture = saved(tmp_path, palette)
    np.testing.assert_array_equal(picture.pixels, np.asarray(palette.convert("RGB")))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_transparent_parts_lie_on_white(tmp_path, mode):
    alpha = np.full((20, 30), 255, dtype=np.uint8)
    alpha[:5] = 0
    base = Image.fromarray(COLOUR if mode == "RGBA" else GREY)
    base.putalpha(Image.fromarray(alpha))
    picture = saved(tmp_path, base)
    assert (picture.pixels[:5] == 255).all()
    np.testing.assert_array_equal(picture.pixels[5:], (COLOUR if mode == "RGBA" else GREY)[5:])
    assert "transparent parts put on white" in picture.notices


def test_sixteen_bits_keep_their_steps(tmp_path):
    deep = (np.arange(600, dtype=np.uint16) * 109).reshape(20, 30)
    picture = saved(tmp_path, Image.fromarray(deep))
    np.testing.assert_allclose(picture.pixels, deep / 257.0, rtol=1e-6)
    assert len(np.unique(picture.pixels)) == 600


def test_black_and_white_is_0_and_255(tmp_path):
    picture = saved(tmp_path, Image.fromarray(GREY > 99))
    assert set(np.unique(picture.pixels)) == {0.0, 255.0}


def test_grey_saved_in_colours_is_grey(tmp_path):
    assert saved(tmp_path, Image.fromarray(np.repeat(GREY[..., None], 3, axis=2))).pixels.ndim == 2


def test_large_pictures_are_made_smaller_without_new_patterns(tmp_path):
    stripes = np.zeros((800, 400), dtype=np.uint8)
    stripes[::2] = 255  # finer than what is left: it must become an even grey
    picture = saved(tmp_path, Image.fromarray(stripes))
    assert picture.pixels.shape == (256, 128)
    assert np.ptp(picture.pixels[10:-10]) < 12
    assert picture.zoom == pytest.approx(3.125)
    assert "400 × 800 pixels made 128 × 256" in picture.notices[-1]


def test_photographs_are_turned_as_the_camera_was_held(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    picture = saved(tmp_path, Image.fromarray(GREY), "p.jpg", exif=exif)
    assert picture.pixels.shape == (30, 20)
    assert (picture.width, picture.height) == (20, 30)


def test_of_several_frames_the_first_is_taken(tmp_path):
    frames = [Image.fromarray(GREY), Image.fromarray(255 - GREY)]
    frames[0].save(tmp_path / "p.gif", save_all=True, append_images=frames[1:])
    picture = read_picture(tmp_path / "p.gif")
    assert picture.notices[0] == "the first of 2 frames"
    np.testing.assert_array_equal(picture.pixels, GREY)


def test_a_picture_of_a_hundred_million_pixels_is_read(tmp_path):
    Image.new("1", (12_000, 9_000), 1).save(tmp_path / "huge.png")
    picture = read_picture(tmp_path / "huge.png")
    assert picture.pixels.shape == (192, 256)
    assert (picture.pixels == 255).all()


def test_more_pixels_than_fit_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    Image.fromarray(GREY).save(tmp_path / "p.png")
    monkeypatch.setattr(images, "MOST_PIXELS", 500)
    with pytest.raises(UnreadableFile, match=r"30 × 20 pixels; at most 500"):
        read_picture(tmp_path / "p.png")


def test_one_pixel_is_a_picture(tmp_path):
    assert saved(tmp_path, Image.fromarray(GREY[:1, :1])).pixels.shape == (1, 1)


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "missing", "folder"])
def test_what_is_no_picture_is_told(tmp_path, damage):
    path = tmp_path / "p.png"
    Image.fromarray(COLOUR).save(path)
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "text": b"a,b\n1,2\n"}[damage])
    with pytest.raises(UnreadableFile, match=r"p\.png"):
        read_picture(path)


def test_pictures_of_a_folder_come_in_the_order_of_their_names(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/2.png", "10.PNG", "a.png", ".hidden.png"):
        Image.fromarray(GREY).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("x")
    assert [str(path.relative_to(tmp_path)) for path in list_pictures(tmp_path)] == [
        "10.PNG",
        "a.png",
        "b/2.png",
    ]
    (tmp_path / "none").mkdir()
    Image.fromarray(GREY).save(tmp_path / "none" / "._a.png")  # what systems write beside pictures
    assert not shows_pictures(str(tmp_path / "none"))
    with pytest.raises(InvalidInput, match="holds no picture"):
        list_pictures(tmp_path / "none")


def test_grey_pictures_beside_coloured_ones_become_coloured(tmp_path):
    grey = saved(tmp_path, Image.fromarray(GREY))
    colour = saved(tmp_path, Image.fromarray(COLOUR), "c.png")
    assert [pixels.shape for pixels in make_alike([grey, colour])] == [(20, 30, 3), (20, 30, 3)]
    assert make_alike([grey, grey])[0].shape == (20, 30)


def test_without_pillow_the_install_is_named(tmp_path, monkeypatch):
    import importlib

    def refuse(name, *args):
        if name.startswith("PIL"):
            raise ImportError(name)
        return builtins.__import__(name, *args)

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(MissingExtra, match=r"tellwhy\[images\]"):
        read_picture(tmp_path / "p.png")
