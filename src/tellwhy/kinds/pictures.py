"""Pictures explained.

Where relevance gathers: the few places of a picture that a reader should look at.

From picture files to odd pictures, and the places in them that are odd.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage
from sklearn.base import clone

from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import stage, track
from tellwhy.core.score import Floats
from tellwhy.data.images import SIDE, Picture, alike, pictures_in, read_picture
from tellwhy.data.pieces import Windows
from tellwhy.detectors import PatchModel
from tellwhy.explainers import PatchRelevance
from tellwhy.kinds.aligned import LEAST, Ground, ground_of
from tellwhy.kinds.table_result import versions
from tellwhy.results.media_run import Item, MediaRun, Place
from tellwhy.scoring.foretold import ForetoldHeights
from tellwhy.storage import clock
from tellwhy.verdicts.ordinary import Judged, judge

MOST = 3
HALF = 0.5  # a region is where the smoothed relevance is above this share of its highest point


@dataclass(frozen=True)
class Region:
    """A box of pixels, what share of the relevance is in it, and how many times the usual it has."""

    top: int
    left: int
    bottom: int
    right: int
    share: float
    times_usual: float


def regions_of(relevance: Floats, patch: int) -> list[Region]:
    """Return the places with most relevance, at most three, the one with most first.

    Relevance is smoothed over a patch; a place is a connected part above half of the highest point that
    stands out from the middle of the picture.

    Examples
    --------
    >>> relevance = np.ones((40, 40))
    >>> relevance[10:16, 20:26] = 30.0
    >>> [(r.top, r.left, r.bottom, r.right) for r in regions_of(relevance, 3)]
    [(10, 20, 16, 26)]
    """
    flat = relevance.sum(axis=2) if relevance.ndim == 3 else relevance
    positive = np.clip(flat, 0.0, None)
    total = positive.sum()
    if total <= 0:
        return []
    smooth = ndimage.uniform_filter(positive, size=patch, mode="nearest")
    usual = float(np.median(smooth))
    labels, _ = ndimage.label(smooth > max(HALF * smooth.max(), 1.5 * usual))
    found = []
    for k, box in enumerate(ndimage.find_objects(labels), start=1):
        inside = labels[box] == k
        share = float(positive[box][inside].sum() / total)
        level = float(smooth[box][inside].mean()) / (usual or 1.0)
        rows, columns = box
        found.append(Region(rows.start, columns.start, rows.stop, columns.stop, share, level))
    return sorted(found, key=lambda region: -region.share)[:MOST]


FOLDS = 3  # parts of the reference that are judged by the others
FEW = 12  # pictures up to which every position is scored; of more, every second along each axis
PLACES = 0.01  # share of a picture's positions, the oddest ones, whose mean is the picture's score
TRIMMED = 0.05  # share of the patches left out where the pictures are their own reference
SHOWN_NOTICES = 5


@dataclass(frozen=True)
class PictureRequest:
    """How pictures are judged.

    Attributes
    ----------
    reference
        A folder of good pictures (or one picture); None: the pictures are compared with each other, and a
        single one with itself.
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
    """

    reference: str | Path | None = None
    top: int = 10
    patch: int = 7
    side: int = SIDE
    n_patches: int = 3_000
    fdr: float | None = None
    random_state: int = 0


def explain_pictures(files: str | Path | Sequence[str | Path], **settings: Any) -> MediaRun:
    """Find odd pictures, and where they are odd.

    Parameters
    ----------
    files
        A picture, a folder of them, or several of these.
    settings
        See `PictureRequest`.
    """
    request = PictureRequest(**settings)
    given = [files] if isinstance(files, (str, Path)) else list(files)
    stage("reading pictures")
    pictures, notices = _read(given, request, "judged")
    reference: list[Picture] = []
    if request.reference is not None:
        reference, more = _read([request.reference], request, "used as reference")
        notices += more
    pixels = alike([*pictures, *reference])
    own, good = pixels[: len(pictures)], pixels[len(pictures) :]
    is_sparse = len(pictures) > FEW
    stage("learning what is ordinary")
    ground = ground_of(own, good)
    _check_contents(good or own, ground)
    model = _model(request, is_clean=bool(good)).fit([ground.seen(each) for each in good or own])
    scores = _scores(model, own, ground, unseen=not good, is_sparse=is_sparse)
    ordinary = _ordinary(model, good, ground, is_sparse=is_sparse) if len(good) > 1 else None
    judged = judge(scores, ordinary, fdr=request.fdr, learn=ForetoldHeights.of_scores)
    seen = _Seen(pictures, own, ground, len(good), notices, scores, judged)
    order = np.argsort(-scores, kind="stable")[: request.top].tolist()
    items = [_item(model, seen, i) for i in track(order, len(order), "explaining pictures")]
    return _run(", ".join(str(place) for place in given), request, seen, items)


@dataclass(frozen=True, eq=False)
class _Seen:
    """Pictures as they were read and judged."""

    pictures: Sequence[Picture]
    pixels: Sequence[Floats]  # all grey, or all in colours
    ground: Ground
    n_reference: int
    notices: list[str]
    scores: Floats
    judged: Judged

    @property
    def n_alarms(self) -> int:
        threshold = self.judged.threshold
        return 0 if threshold is None else int((self.scores > threshold).sum())


def _read(
    places: Sequence[str | Path], request: PictureRequest, used: str
) -> tuple[list[Picture], list[str]]:
    """Read pictures; one of many that cannot be read is told, and the others go on."""
    paths = [path for place in places for path in pictures_in(place)]
    pictures = []
    notices = []
    for path in paths:
        try:
            picture = read_picture(path, side=request.side)
            _check_size(picture, request.patch)
        except InvalidInput as error:
            if len(paths) == 1:
                raise
            notices.append(f"Not {used}: {error}")
            continue
        pictures.append(picture)
    if not pictures:
        raise InvalidInput(f"None of the {len(paths)} pictures can be {used}. The first: {notices[0]}")
    return pictures, [*_few(notices), *_few(_changed(pictures))]


def _changed(pictures: Sequence[Picture]) -> list[str]:
    """What was done to pictures; what was done to many is told once."""
    names: dict[str, list[str]] = {}
    for picture in pictures:
        if picture.notices:
            names.setdefault(", ".join(picture.notices), []).append(picture.name)
    return [
        f"{who[0] if len(who) == 1 else f'{len(who):,} pictures'}: {what}." for what, who in names.items()
    ]


def _few(notices: list[str]) -> list[str]:
    if len(notices) <= SHOWN_NOTICES:
        return notices
    return [*notices[:SHOWN_NOTICES], f"The same or alike for {len(notices) - SHOWN_NOTICES} more pictures."]


def _check_size(picture: Picture, patch: int) -> None:
    height, width = picture.pixels.shape[:2]
    if min(height, width) < patch:
        raise InvalidInput(
            f"{picture.name} has {width} × {height} pixels as it is judged, fewer than a patch of {patch} × "
            f"{patch}. Pass a larger picture, or a smaller patch."
        )


def _check_contents(learned: Sequence[Floats], ground: Ground) -> None:
    if ground.is_aligned or any(np.ptp(pixels) > 0 for pixels in learned):
        return
    raise InvalidInput(
        "The pictures to learn from are blank: every pixel is the same, so that nothing tells what a small "
        f"difference is. Pass pictures that show something, or {LEAST} blank ones or more as --reference."
    )


def _model(request: PictureRequest, *, is_clean: bool) -> PatchModel:
    return PatchModel(
        patch_size=(request.patch, request.patch),
        n_train_patches=request.n_patches,
        trim=0.0 if is_clean else TRIMMED,
        random_state=request.random_state,
    )


def _scores(
    model: PatchModel, pixels: Sequence[Floats], ground: Ground, *, unseen: bool, is_sparse: bool
) -> Floats:
    """Mean of the oddest positions of each picture: a small defect is not lost in a large picture."""
    score = (_sparser(model) if is_sparse else model).to_score()
    found = []
    for picture in track(pixels, len(pixels), "scoring pictures"):
        places = np.sort(score.positions(ground.seen(picture)[None], unseen=unseen), axis=None)
        found.append(float(places[-max(1, int(PLACES * len(places))) :].mean()))
    return np.array(found)


def _sparser(model: PatchModel) -> PatchModel:
    """The same model, asked about every second position."""
    coarse = copy.copy(model)
    rules = model.patch_rows_
    coarse.patch_rows_ = replace(rules, windows=Windows(rules.windows.size, 2))
    return coarse


def _ordinary(model: PatchModel, good: Sequence[Floats], ground: Ground, *, is_sparse: bool) -> Floats:
    """Scores of the reference pictures, each by a model that has not seen it.

    All models have the bandwidth of the one that judges: scores go with its square, and that of other
    pictures may be half of it where many patches are almost equal.
    """
    fold = np.arange(len(good)) % min(FOLDS, len(good))
    scores = np.empty(len(good))
    for k in range(int(fold.max()) + 1):
        others = [pixels for pixels, f in zip(good, fold, strict=True) if f != k]
        held = [pixels for pixels, f in zip(good, fold, strict=True) if f == k]
        theirs = Ground.learn(others, is_clean=True) if ground.is_aligned else ground
        fitted = clone(model).set_params(detector=model.detectors_[0])
        fitted.fit([theirs.seen(each) for each in others])
        scores[fold == k] = _scores(fitted, held, theirs, unseen=False, is_sparse=is_sparse)
    return scores


def _item(model: PatchModel, seen: _Seen, at: int) -> Item:
    """Explain a picture at every position, and find the places that are odd."""
    picture = seen.pictures[at]
    judged = seen.judged
    values = PatchRelevance(model).explain(seen.ground.seen(seen.pixels[at])[None]).values[0]
    relevance = values.sum(axis=2) if values.ndim == 3 else values
    patch = model.patch_rows_.windows.size[0]
    return Item(
        name=picture.name,
        score=float(seen.scores[at]),
        is_alarm=judged.threshold is not None and bool(seen.scores[at] > judged.threshold),
        places=[_place(region, picture) for region in regions_of(relevance, patch)],
        p_value=None if judged.p_values is None else float(judged.p_values[at]),
        notices=picture.notices,
        data=seen.pixels[at],
        relevance=relevance,
    )


def _place(region: Region, picture: Picture) -> Place:
    """A region in the pixels of the file."""
    zoom = picture.zoom
    left, right = round(region.left * zoom), round(region.right * zoom)
    top, bottom = round(region.top * zoom), round(region.bottom * zoom)
    words = f"x {left}–{right}, y {top}–{bottom} ({region.times_usual:.1f} times the usual relevance)"
    return Place(words, region.share, (region.top, region.bottom, region.left, region.right))


def _run(source: str, request: PictureRequest, seen: _Seen, items: Sequence[Item]) -> MediaRun:
    return MediaRun(
        kind="pictures",
        source=source,
        headline=_headline(seen, items),
        summary=_summary(seen, request),
        notices=seen.notices,
        settings={**vars(request), "threshold_rule": seen.judged.rule},
        items=items,
        names=[picture.name for picture in seen.pictures],
        scores=seen.scores,
        threshold=seen.judged.threshold,
        versions=versions(),
        created=clock.stamp(),
    )


def _headline(seen: _Seen, items: Sequence[Item]) -> str:
    n = len(seen.pictures)
    where = f"at {items[0].places[0].text}" if items[0].places else "in no place in particular"
    if seen.judged.threshold is None:
        first = "The picture" if n == 1 else f"Of {n:,} pictures, {items[0].name}"
        return f"{first} is oddest {where}."
    if seen.n_alarms == 0:
        return "The picture is ordinary." if n == 1 else f"None of the {n:,} pictures is odd."
    if n == 1:
        return f"The picture is odd, {'most of all ' if items[0].places else ''}{where}."
    verb = "is" if seen.n_alarms == 1 else "are"
    return f"{seen.n_alarms:,} of {n:,} pictures {verb} odd; {items[0].name} most of all, {where}."


def _summary(seen: _Seen, request: PictureRequest) -> str:
    n = len(seen.pictures)
    itself = "itself" if n == 1 else "each other"
    good = f"{seen.n_reference:,} good picture{'s' if seen.n_reference != 1 else ''}"
    what = "One picture was" if n == 1 else f"{n:,} pictures were"
    place = f" {seen.ground.told}" if seen.ground.is_aligned else ""
    return (
        f"{what} compared with {good if seen.n_reference else itself}, by a one-class SVM of patches of "
        f"{request.patch} × {request.patch} pixels (longest side: {request.side} pixels).{place} A "
        f"picture’s score is the mean of its oddest {PLACES:.0%} of patches. Alarms: {seen.judged.rule}. "
        "Relevance of pixels: One-Class DTD of every patch, added up."
    )
