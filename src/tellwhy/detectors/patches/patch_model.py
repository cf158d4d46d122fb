"""A one-class model of windows or patches, as a detector of whole series and images.

Inputs are an array of them, or a list of arrays of different sizes. Patches are drawn from them; how far
these are apart says what a small difference is; a detector of rows is fitted to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.arrays import draw_sample, spread_evenly
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.old_names import takes_old_names
from tellwhy.core.params import (
    Fit,
    Rule,
    Rules,
    Seed,
    generator,
    integer,
    is_whole,
    none,
    one_of,
    real,
    seed,
    validate_parameters,
)
from tellwhy.core.score import Floats, Integers, LeavesRowsOut
from tellwhy.data.pieces import PatchRows, Windows
from tellwhy.detectors.base import Detector
from tellwhy.detectors.kernel.one_class_svm import OneClassSVM
from tellwhy.detectors.patches.layer_features import (
    FeatureScore,
    KeptNetwork,
    LayerFeatures,
    check_features,
    keep_network,
    restore_network,
)
from tellwhy.detectors.patches.patch_score import PatchScore
from tellwhy.kernels.distances import ScaledPoints, centre_and_unit
from tellwhy.scoring import as_score
from tellwhy.scoring.function_scores import read_array_rows

SAMPLE = 1_000  # patches whose nearest neighbours are looked for, among all


def measure_nearest_patch_distance(rows: Floats, level: float, *, otherwise: float | None = None) -> float:
    """Quantile of the distances between patches and their nearest neighbour among all, equal ones apart.

    A clean grid has many equal patches: their distance 0 would be no bandwidth. Where all of them are equal,
    the answer is `otherwise`, or an error without it.

    Examples
    --------
    >>> round(measure_nearest_patch_distance(np.array([[0.0], [0.0], [1.0], [4.0]]), 0.5), 6)
    1.0
    """
    some = draw_sample(len(rows), SAMPLE, np.random.default_rng(0))
    _, unit = centre_and_unit(rows)
    points = ScaledPoints.of(rows, unit)
    squared = points.squared_distances(points.scaled[some])
    squared[squared <= 1e-20] = np.inf
    nearest = np.sqrt(squared.min(axis=1))
    nearest = nearest[np.isfinite(nearest)]
    if not len(nearest) and otherwise is not None:
        return otherwise
    if not len(nearest):
        raise InvalidInput(
            "All training patches are equal, so that there is no scale to learn from. Pass inputs that vary, "
            "or a detector with a bandwidth: PatchModel(OneClassSVM(bandwidth=…))."
        )
    return float(np.quantile(nearest, level)) * unit


MOST_PLACES = 2_500  # models of positions="separate": a grid of 50 × 50


class LearnsPatches:
    """What `PatchModel` learns from inputs in groups of one size, whose channels have been scaled."""

    detector: Any
    n_train_patches: int
    positions: str
    position_weight: float
    trim: float
    patch_rows_: PatchRows

    def _fit_shared(self, groups: list[Floats], rng: np.random.Generator) -> Any:
        counts = [len(X) * int(np.prod(self.patch_rows_.windows.grid(X.shape[1:]))) for X in groups]
        ends = np.cumsum(counts)
        chosen = draw_sample(int(ends[-1]), int(self.n_train_patches), rng)
        owner = np.searchsorted(ends, chosen, side="right")
        own = [chosen[owner == k] - (ends[k] - counts[k]) for k in range(len(groups))]
        rows = self._sampled(groups, own)
        if self.positions == "feature":
            # the lengths of a picture's axes are compared with how far apart patches are
            weight = float(self.position_weight) * measure_nearest_patch_distance(rows, 0.5)
            rules = self.patch_rows_
            self.patch_rows_ = PatchRows(rules.windows, rules.scale, weight)
            rows = self._sampled(groups, own)
        return self._fitted(rows)

    def _sampled(self, groups: list[Floats], chosen: list[Integers]) -> Floats:
        parts = [
            self.patch_rows_.sample(X, some) for X, some in zip(groups, chosen, strict=True) if len(some)
        ]
        return np.vstack(parts)

    def _fitted(self, rows: Floats) -> Any:
        """Fit a detector to patches; a second time without the oddest ones where that is asked for."""
        fitted = self._make_detector(rows).fit(rows)
        if not self.trim:
            return fitted
        score: Any = as_score(fitted)
        left_out = (score.match(rows),) if isinstance(score, LeavesRowsOut) else ()
        scores = score.value(rows, *left_out)
        kept = rows[scores <= np.quantile(scores, 1 - self.trim)]
        return self._make_detector(kept).fit(kept)

    def _fit_places(self, X: Floats, grid: tuple[int, ...], rng: np.random.Generator) -> list[Any]:
        n_places = int(np.prod(grid))
        if n_places > MOST_PLACES or len(X) < 2:
            raise InvalidInput(
                f'positions="separate" learns one model for each of the {n_places:,} positions from '
                f"{len(X):,} inputs; it needs 2 inputs or more, and at most {MOST_PLACES:,} positions. "
                'Take a larger stride, or positions="feature".'
            )
        chosen = draw_sample(len(X), int(self.n_train_patches), rng)
        rows = [self.patch_rows_.cut(X[chosen], piece) for piece in self.patch_rows_.windows.places(X.shape)]
        return [self._fitted(some) for some in rows]

    def _make_detector(self, rows: Floats) -> Any:
        if self.detector is not None:
            return clone(self.detector)
        # A channel may rest while others move: its patches then count in units of its own spread, if any.
        unit = 1.0 if (self.patch_rows_.scale != 1.0).any() else None
        return OneClassSVM(bandwidth=measure_nearest_patch_distance(rows, 0.1, otherwise=unit), nu=0.1)


def group_by_size(X: Any) -> list[Floats]:
    """Inputs in groups of one size: an array is one group."""
    if not isinstance(X, (list, tuple)) or len({np.shape(x) for x in X}) < 2:
        return [read_array_rows(X)]
    if len({np.ndim(x) for x in X}) > 1:
        shapes = sorted({np.shape(x) for x in X}, key=len)
        raise InvalidInput(
            f"X mixes inputs with and without channels, of shapes {shapes[0]} and {shapes[-1]}. Make them "
            "all grey, or all of the same channels."
        )
    shapes = list(dict.fromkeys(np.shape(x) for x in X))
    return [read_array_rows(np.stack([x for x in X if np.shape(x) == shape])) for shape in shapes]


CALIBRATION_PATCHES = 50_000  # patches of whole inputs that thresholds are drawn from


def _is_size(value: Any) -> bool:
    sizes = value if isinstance(value, (list, tuple)) else [value]
    return len(sizes) in (1, 2) and all(map(integer(1).accepts, sizes))


class PatchModel(LearnsPatches, Detector):
    """O(x) = Σ_t o(patch t): a detector of patches makes one of images or series (section 7 of the paper).

    The detector is fitted to patches drawn at random from the inputs. An input is as odd as its patches are
    in sum; `position_outlierness` tells each patch alone, and `tellwhy.explain(model, X)` every pixel of
    every image, or every sample of every channel.

    Parameters
    ----------
    detector
        An unfitted detector of rows, of which a copy is fitted to the patches. None: a one-class SVM whose
        bandwidth is the 0.1 quantile of the distances between patches and their nearest neighbours.
    patch_size
        (height, width) for images of shape (n, h, w[, channels]); (samples,) for series of shape (n, t[,
        channels]). A single number where the shape leaves no doubt.
    stride
        Step between patches.
    n_train_patches
        The most patches to learn from, drawn from all inputs and positions; per position where each has its
        own model.
    positions
        "shared": a patch may lie anywhere, as in textures. For aligned pictures (the same part, photographed
        in the same place): "feature" compares patches with those nearby, "separate" learns one model for each
        position.
    position_weight
        Of positions="feature": the distance from one end of a picture to the other, in units of a typical
        distance between patches.
    channels
        "joint": a patch has all channels. "separate": every channel has a model of its own, and o is their
        sum: for channels that go their own ways, whose combinations are too many to be learned. "auto":
        separate for series, joint for images.
    trim
        Share of the training patches, the oddest ones, that a second fit does without: for inputs that hold
        the anomalies themselves, which would otherwise vouch for each other.
    scale
        "channels" divides each channel by its standard deviation, "none" does not; "auto" does so for series,
        whose channels have units of their own.
    contamination
        Share of the training inputs above the threshold that `fit` sets.
    features, layer
        A torch.nn.Module and the name of one of its layers, whose activations are looked at in the place of
        pixels or readings; `patch_size` counts places of that layer, 1 for single ones. Relevance is carried
        back to the inputs by LRP. A layer that pools gives one place: a detector of whole inputs.
    device, dtype
        "cuda" (or "auto", where there is one) scores and explains patches by PyTorch, for detectors made of
        distances; "float32" for devices that are slow in double precision.
    random_state
        Seed of the draw.

    Attributes
    ----------
    detectors_
        The fitted detector, or one per position or channel.
    shape_
        Shape of one training input, or of its activations.
    training_scores_, threshold_
        Sums over training inputs, whose own patches are left out, and what `predict` compares with.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> waves = np.sin(np.arange(300) / 5 + rng.uniform(0, 6, size=(8, 1)))
    >>> model = PatchModel(patch_size=12, n_train_patches=500).fit(waves)
    >>> odd = waves[:1].copy()
    >>> odd[0, 100:112] = 0.0
    >>> model.predict(odd), int(model.position_outlierness(odd).argmax())
    (array([-1]), 100)
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "detector": (none, Rule("an unfitted detector with fit(X)", lambda d: hasattr(d, "fit"))),
        "patch_size": Rule("a whole number above 0, or one or two of them", _is_size),
        "stride": integer(1),
        "n_train_patches": integer(2),
        "positions": one_of("shared", "feature", "separate"),
        "position_weight": real(0, np.inf),
        "channels": one_of("auto", "joint", "separate"),
        "trim": real(0, 0.5, closed="both"),
        "scale": one_of("auto", "channels", "none"),
        "contamination": real(0, 0.5, closed="right"),
        "features": (none, Rule("a torch.nn.Module", lambda module: hasattr(module, "named_modules"))),
        "layer": (none, Rule("the name of a layer", lambda name: isinstance(name, str))),
        "device": one_of("cpu", "cuda", "auto"),
        "dtype": one_of("float64", "float32"),
        "random_state": seed,
    }

    def __init__(
        self,
        detector: Any = None,
        patch_size: int | tuple[int, ...] = 7,
        stride: int = 1,
        *,
        n_train_patches: int = 10_000,
        positions: str = "shared",
        position_weight: float = 10.0,
        channels: str = "auto",
        trim: float = 0.0,
        scale: str = "auto",
        contamination: float = 0.05,
        features: Any = None,
        layer: str | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        random_state: Seed = 0,
    ):
        self.detector = detector
        self.patch_size = patch_size
        self.stride = stride
        self.n_train_patches = n_train_patches
        self.positions = positions
        self.position_weight = position_weight
        self.channels = channels
        self.trim = trim
        self.scale = scale
        self.contamination = contamination
        self.features = features
        self.layer = layer
        self.device = device
        self.dtype = dtype
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Learn what the patches of ordinary images (n, h, w[, c]) or series (n, t[, c]) look like.

        Inputs of different sizes come as a list of arrays; one model per position needs equal sizes.
        """
        validate_parameters(self)
        check_features(self.features, self.layer)
        groups = group_by_size(X)
        if self.positions != "shared" and len(groups) > 1:
            raise InvalidInput(
                f'positions="{self.positions}" needs inputs of one size; X holds {len(groups)} different '
                'ones. Cut or scale them to one size, or take positions="shared".'
            )
        self._fit_groups(groups)
        return self

    def _fit(self, X: Floats) -> None:
        self._fit_groups([X])

    def _fit_groups(self, groups: list[Floats]) -> None:
        """Learn from inputs in groups of one size, or from their activations."""
        rng = generator(self.random_state)
        windows = Windows(self._size(groups[0].ndim), int(self.stride))
        if self.features is not None:
            self.input_shape_ = tuple(int(s) for s in groups[0].shape[1:])
            network = self._make_layer_features(len(windows.size))
            groups = [network.activations(X) for X in groups]
        self.shape_ = tuple(int(s) for s in groups[0].shape[1:])
        self.patch_rows_ = PatchRows(windows, self._scale(groups, len(windows.size)))
        prepared = [self.patch_rows_.prepared(X) for X in groups]
        if self._by == "position":
            self.detectors_ = self._fit_places(prepared[0], windows.grid(self.shape_), rng)
        elif self._by == "channel":
            alone = ([X[..., c : c + 1] for X in prepared] for c in range(self.shape_[-1]))
            self.detectors_ = [self._fit_shared(groups, rng) for groups in alone]
        else:
            self.detectors_ = [self._fit_shared(prepared, rng)]
        self.training_scores_ = np.concatenate([self._calibrate_sums(X) for X in groups])
        self.set_threshold(contamination=self.contamination)

    def _calibrate_sums(self, X: Floats) -> Floats:
        """Sums of some training inputs, as if they had the size of the first."""
        grid = self.patch_rows_.windows.grid(X.shape[1:])
        some = X[spread_evenly(len(X), max(1, CALIBRATION_PATCHES // int(np.prod(grid))))]
        maps = self._make_patch_score().positions(some, unseen=True)
        return np.asarray(maps.reshape(len(maps), -1).mean(axis=1) * self._n_positions)

    @property
    def _by(self) -> str:
        """What there are several detectors for: "position", "channel" or "" for nothing."""
        n_axes = len(self.patch_rows_.windows.size)
        if self.positions == "separate":
            return "position"
        is_raw = self.layer is None  # activations mean something together only
        is_alone = self.channels == "separate" or (self.channels == "auto" and n_axes == 1 and is_raw)
        return "channel" if is_alone and len(self.shape_) > n_axes and self.positions == "shared" else ""

    @property
    def _n_positions(self) -> int:
        return int(np.prod(self.patch_rows_.windows.grid(self.shape_)))

    def _size(self, n_dimensions: int) -> tuple[int, ...]:
        """Size of a patch along each axis, told by the shape of the inputs where it is one number."""
        size = self.patch_size
        n_axes = n_dimensions - 1
        if not isinstance(size, (list, tuple)):
            if n_dimensions == 3:
                raise InvalidInput(
                    f"X has 3 axes: grey images (n, h, w), or series of several channels (n, t, c)? Say "
                    f"patch_size=({size}, {size}) for images, patch_size=({size},) for series."
                )
            return (int(size),) * (1 if n_axes == 1 else 2)
        sizes = tuple(int(s) for s in size)
        if n_axes - len(sizes) not in (0, 1):
            shapes = "series (n, t) or (n, t, c)" if len(sizes) == 1 else "images (n, h, w) or (n, h, w, c)"
            raise InvalidInput(f"patch_size={sizes} expects {shapes}; X has {n_dimensions} axes.")
        return sizes

    def _scale(self, groups: list[Floats], n_axes: int) -> Floats:
        """Length of each channel: its standard deviation, or 1."""
        is_scaled = self.scale == "channels" or (self.scale == "auto" and n_axes == 1)
        n_channels = groups[0].shape[-1] if groups[0].ndim == n_axes + 2 else 1
        if not is_scaled or n_channels == 1:
            return np.ones(n_channels)
        spread = np.concatenate([X.reshape(-1, n_channels) for X in groups]).std(axis=0)
        return np.where(spread > 0, spread, 1.0)

    def to_score(self) -> PatchScore | FeatureScore:
        """Return the outlierness as a score function of whole inputs."""
        check_is_fitted(self)
        if self.layer is None:
            return self._make_patch_score()
        features = self._make_layer_features(len(self.patch_rows_.windows.size))
        return FeatureScore(self._make_patch_score(), features, tuple(self.input_shape_))

    def _make_patch_score(self) -> PatchScore:
        """The score of inputs, or of activations."""
        inner = [as_score(detector) for detector in self.detectors_]
        where = {"device": self.device, "dtype": self.dtype}
        return PatchScore(
            inner, self.patch_rows_, tuple(self.shape_), self._known_threshold, by=self._by, **where
        )

    def _make_layer_features(self, n_axes: int) -> LayerFeatures:
        if self.features is None:
            kept: KeptNetwork = self.network_
            raise InvalidInput(
                f"This model looks at layer {self.layer!r} of a {kept.class_name}, whose weights were saved "
                f"and whose class was not: PatchModel.load(folder, features={kept.class_name}(…)) gives it "
                "back."
            )
        return LayerFeatures(self.features, str(self.layer), n_axes, self.device)

    @classmethod
    @takes_old_names
    def load(cls, path: str | Path, *, features: Any = None) -> Self:
        """Read a model that `save` wrote; one with `features` needs a network of the same class again.

        The saved weights are put into a copy of it.
        """
        model = super().load(path)
        if features is not None:
            if model.layer is None:
                raise InvalidParameter(f"{path} holds a model without a network: leave features= out.")
            check_features(features, model.layer)
            model.features = restore_network(features, model.network_)
            del model.network_
        return model

    def position_outlierness(self, X: ArrayLike) -> Floats:
        """Return how odd each patch of each input is, shape (n, *grid of positions)."""
        check_is_fitted(self)
        return self.to_score().positions(X)

    def _validated(self, X: ArrayLike, *, reset: bool) -> Floats:  # noqa: ARG002
        return self.to_score().checked(X)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Return threshold − outlierness, both per patch: inputs may be larger than those of the fit."""
        maps = self.position_outlierness(X)
        return self.threshold_ / self._n_positions - maps.reshape(len(maps), -1).mean(axis=1)

    def _to_save(self) -> Any:
        """The model with the weights of its network in the place of the network: no code is ever saved."""
        if self.features is None:
            return self
        written: Any = copy(self)
        written.network_ = keep_network(self.features)
        written.features = None
        return written

    def _require(self) -> Iterator[Fit]:
        """Check what pieces are cut by, then score one input."""
        shape = self.shape_
        yield "shape_", isinstance(shape, tuple) and all(map(is_whole, shape)), True
        yield "patch_rows_", isinstance(self.patch_rows_, PatchRows), True
        windows = self.patch_rows_.windows
        n_axes = len(windows.size)
        yield "shape_", len(shape) - n_axes in (0, 1), True
        n_channels = shape[-1] if len(shape) > n_axes else 1
        yield "patch_rows_", len(self.patch_rows_.scale) in (1, n_channels), True
        n_places = int(np.prod(windows.grid(shape)))
        counts = {"position": n_places, "channel": n_channels}
        yield "detectors_", len(self.detectors_), counts.get(self._by, 1)
        yield "detectors_", all(isinstance(detector, Detector) for detector in self.detectors_), True
        together = 1 if self._by == "channel" else n_channels
        width = int(np.prod(windows.size)) * together + (n_axes if self.patch_rows_.position_weight else 0)
        yield "detectors_", {detector.n_features_in_ for detector in self.detectors_}, {width}
        yield "threshold_", bool(np.isnan(float(self.threshold_))), False
        if self.layer is not None:
            yield "network_", isinstance(self.network_, KeptNetwork), True
            given = self.input_shape_
            yield "input_shape_", isinstance(given, tuple) and all(map(is_whole, given)), True
            yield "input_shape_", len(given) - n_axes in (0, 1), True
