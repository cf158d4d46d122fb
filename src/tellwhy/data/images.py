"""Pictures from files: whatever their mode, depth and size, as numbers from 0 to 255."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, UnreadableFile
from tellwhy.core.optional import require
from tellwhy.core.score import Floats

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
SIDE = 256  # pixels along the longer side of a picture as it is judged
MOST_PIXELS = 170_000_000  # a file that claims more is refused before it is unpacked
_DEEP = ("I;16", "I;16B", "I;16L", "I;16N", "I", "F")


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture as it is judged.

    Attributes
    ----------
    name
        The file as the user named it.
    pixels
        (height, width) of a grey picture, (height, width, 3) of a coloured one, from 0 to 255.
    width, height
        Of the file, in its own pixels.
    notices
        What was done to it, one phrase each.
    """

    name: str
    pixels: Floats
    width: int
    height: int
    notices: tuple[str, ...] = ()

    @property
    def zoom(self) -> float:
        """Pixels of the file for one pixel as it is judged."""
        return self.width / self.pixels.shape[1]


def read_picture(path: str | Path, *, side: int = SIDE) -> Picture:
    """Read a picture, made smaller so that its longer side has at most `side` pixels.

    Palettes become colours, transparent parts lie on white, 16 bits keep their steps, a camera's orientation
    is applied, and of several frames the first is taken.
    """
    Image = require("PIL.Image", "Reading pictures")
    try:
        with warnings.catch_warnings():
            # the limit on pixels is ours, and it is checked before the file is unpacked
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(path) as opened:
                return _read(opened, str(path), side)
    except FileNotFoundError as error:
        raise UnreadableFile(f"{path} does not exist.") from error
    except InvalidInput:
        raise
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise UnreadableFile(
            f"{path} cannot be read as a picture: {error}. It may be damaged, empty, or something else; open "
            "it in a viewer and save it again as PNG."
        ) from error


def _read(opened: Any, name: str, side: int) -> Picture:
    width, height = opened.size
    if width * height > MOST_PIXELS:
        raise UnreadableFile(
            f"{name} has {width:,} × {height:,} pixels; at most {MOST_PIXELS:,} are read. Make it smaller, "
            "or cut it into parts."
        )
    notices = []
    if getattr(opened, "n_frames", 1) > 1:
        notices.append(f"the first of {opened.n_frames} frames")
    opened.draft("RGB" if opened.mode != "L" else "L", (side, side))  # JPEG files unpack smaller at once
    pixels, told = _read_pixels(_turn_upright(opened), side)
    is_turned = (pixels.shape[0] > pixels.shape[1]) != (height > width) and height != width
    size = (height, width) if is_turned else (width, height)
    if max(size) > side:
        told = (*told, f"{size[0]:,} × {size[1]:,} pixels made {pixels.shape[1]} × {pixels.shape[0]}")
    return Picture(name, pixels, size[0], size[1], (*notices, *told))


def _turn_upright(opened: Any) -> Any:
    """Turn a photograph as its camera was held."""
    return require("PIL.ImageOps", "Reading pictures").exif_transpose(opened)


def _read_pixels(image: Any, side: int) -> tuple[Floats, tuple[str, ...]]:
    """Numbers from 0 to 255, and what was done on the way."""
    told: tuple[str, ...] = ()
    if image.mode in _DEEP:
        image = image.convert("F")  # keeps all steps, also through the change of size
    elif image.mode in ("LA", "PA", "RGBA", "RGBa", "La") or "transparency" in image.info:
        image = _put_on_white(image.convert("RGBA"))
        told = ("transparent parts put on white",)
    elif image.mode in ("1", "L"):
        image = image.convert("L")
    else:
        image = image.convert("RGB")
    pixels = np.asarray(_make_smaller(image, side), dtype=np.float64)
    if image.mode == "F":
        pixels, more = _scale_depth(pixels)
        told = (*told, *more)
    if pixels.ndim == 3 and (pixels == pixels[..., :1]).all():
        pixels = pixels[..., 0]  # a grey picture that was saved in colours
    return np.ascontiguousarray(pixels), told


def _scale_depth(pixels: Floats) -> tuple[Floats, tuple[str, ...]]:
    if not np.isfinite(pixels).all():
        raise UnreadableFile("it holds pixels that are no finite numbers")
    if pixels.max(initial=0.0) <= 255:
        return pixels, ()
    return pixels / 257.0, ("16 bits told as 0 to 255",)


def _put_on_white(image: Any) -> Any:
    Image = require("PIL.Image", "Reading pictures")
    return Image.alpha_composite(Image.new("RGBA", image.size, (255, 255, 255, 255)), image).convert("RGB")


def _make_smaller(image: Any, side: int) -> Any:
    longest = max(image.size)
    if longest <= side:
        return image
    Image = require("PIL.Image", "Reading pictures")
    size = tuple(max(1, round(s * side / longest)) for s in image.size)
    # Boxes first, which are fast, and a smooth filter for the rest: no new pattern appears.
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0 if image.mode != "F" else None)


def is_picture(path: str | Path) -> bool:
    """Whether a name ends as those of pictures do.

    Examples
    --------
    >>> is_picture("a/B.PNG"), is_picture("a.csv")
    (True, False)
    """
    return str(path).lower().endswith(ENDINGS)


def shows_pictures(name: str) -> bool:
    """Whether a name is that of a picture, or of a folder that holds one: others hold tables."""
    path = Path(name)
    if not path.is_dir():
        return is_picture(name)
    return any(_is_shown(file) for file in path.rglob("*"))


def _is_shown(file: Path) -> bool:
    """Whether a file of a folder is a picture; hidden ones are what systems write beside them."""
    return is_picture(file) and file.is_file() and not file.name.startswith(".")


def list_pictures(place: str | Path) -> list[Path]:
    """Return the pictures of a folder and those below it, in the order of their names; or the file itself."""
    path = Path(place)
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if _is_shown(file))
    if not found:
        raise InvalidInput(
            f"{place} holds no picture; expected files that end in {', '.join(ENDINGS)}. Name another folder."
        )
    return found


def make_alike(pictures: Sequence[Picture]) -> list[Floats]:
    """Return pixels of grey and coloured pictures in one form: all in colours where one is."""
    if all(picture.pixels.ndim == 2 for picture in pictures):
        return [picture.pixels for picture in pictures]
    return [
        np.repeat(picture.pixels[..., None], 3, axis=2) if picture.pixels.ndim == 2 else picture.pixels
        for picture in pictures
    ]
