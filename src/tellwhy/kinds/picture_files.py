"""Picture files, read alike: what is asked of them, all in grey or all in colours, what was done to them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Fit
from tellwhy.core.score import Floats
from tellwhy.data.images import SIDE, Picture, list_pictures, make_alike, read_picture
from tellwhy.results.notice import Notice

FEW = 12  # pictures up to which every position is scored; of more, every second along each axis
SHOWN_NOTICES = 5
FEATURES = ("auto", "network", "filters", "whole", "patches")


@dataclass(frozen=True)
class PictureRequest:
    """How pictures are judged.

    Attributes
    ----------
    top
        How many pictures are explained.
    patch
        Side of the patches, in pixels of the pictures as they are judged.
    side
        Longest side of a picture as it is judged.
    n_patches
        Patches to learn from.
    fdr
        Expected share of false alarms among the alarms.
    random_state
        Seed of every draw.
    features
        What is compared: "network" (features of a small network), "filters" (fine filters), "whole" (what
        a picture shows as a whole, by the network), "patches" (raw patches, by a one-class SVM), or "auto":
        "whole" where each picture shows another thing, else of the first two, one or both, as they find
        defects that are planted in good pictures. Without `pip install 'tellwhy[images]'`, or with pictures
        of several sizes, "auto" takes raw patches.
    """

    top: int = 10
    patch: int = 7
    side: int = SIDE
    n_patches: int = 3_000
    fdr: float | None = None
    random_state: int = 0
    features: str = "auto"

    def _require(self) -> Iterator[Fit]:
        yield "features", self.features in FEATURES, True
        yield "patch", self.patch >= 1 and self.side >= self.patch and self.top >= 1, True


@dataclass(frozen=True, eq=False)
class Pictures:
    """Pictures as they were read.

    Attributes
    ----------
    source
        What was named.
    request
        What is asked of them.
    pictures
        As they are in their files.
    pixels
        All grey, or all in colours.
    said
        What was done to them.
    is_own
        Whether the model was fitted to them, and nobody says that they are good.
    """

    source: str
    request: PictureRequest
    pictures: Sequence[Picture]
    pixels: Sequence[Floats]
    said: list[Notice]
    is_own: bool = False

    @property
    def is_sparse(self) -> bool:
        """Whether every second position is scored: there are many."""
        return len(self.pictures) > FEW


def read_pictures(files: Any, request: PictureRequest, used: str) -> Pictures:
    """Read pictures, all grey or all in colours."""
    given = [files] if isinstance(files, (str, Path)) else list(files)
    pictures, said = _read(given, request, used)
    return Pictures(", ".join(str(place) for place in given), request, pictures, make_alike(pictures), said)


LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue (ITU-R BT.601)


def match_colours(pixels: Floats, *, is_grey: bool) -> Floats:
    """Return a picture in grey, or in colours, whatever it is."""
    if is_grey:
        return pixels if pixels.ndim == 2 else np.asarray(pixels @ np.array(LUMINANCE))
    return np.repeat(pixels[..., None], 3, axis=2) if pixels.ndim == 2 else pixels


def compute_fingerprint(pixels: Sequence[Floats]) -> str:
    """SHA-256 of pixels, picture by picture."""
    found = hashlib.sha256()
    for each in pixels:
        found.update(repr(each.shape).encode())
        found.update(np.ascontiguousarray(each, dtype=np.float64).tobytes())
    return found.hexdigest()


def _read(
    places: Sequence[str | Path], request: PictureRequest, used: str
) -> tuple[list[Picture], list[Notice]]:
    """Read pictures; one of many that cannot be read is told, and the others go on."""
    paths = [path for place in places for path in list_pictures(place)]
    pictures = []
    left_out = []
    for path in paths:
        try:
            picture = read_picture(path, side=request.side)
            _check_size(picture, request.patch)
        except InvalidInput as error:
            if len(paths) == 1:
                raise
            left_out.append(Notice("picture_left_out", {"used": used, "why": str(error)}))
            continue
        pictures.append(picture)
    if not pictures:
        raise InvalidInput(f"None of the {len(paths)} pictures can be {used}. The first: {left_out[0].text}")
    return pictures, [*_shorten(left_out), *_shorten(_tell_changes(pictures))]


def _tell_changes(pictures: Sequence[Picture]) -> list[Notice]:
    """What was done to pictures; what was done to many is told once."""
    names: dict[str, list[str]] = {}
    for picture in pictures:
        if picture.notices:
            names.setdefault(", ".join(picture.notices), []).append(picture.name)
    return [Notice("picture_changed", {"name": w[0], "n": len(w), "what": t}) for t, w in names.items()]


def _shorten(said: list[Notice]) -> list[Notice]:
    if len(said) <= SHOWN_NOTICES:
        return said
    return [*said[:SHOWN_NOTICES], Notice("alike_for_more", {"n": len(said) - SHOWN_NOTICES})]


def _check_size(picture: Picture, patch: int) -> None:
    height, width = picture.pixels.shape[:2]
    if min(height, width) < patch:
        raise InvalidInput(
            f"{picture.name} has {width} × {height} pixels as it is judged, fewer than a patch of {patch} × "
            f"{patch}. Pass a larger picture, or a smaller patch."
        )
