"""Kernel bases: features whose inner products approximate a kernel, drawn at random or adapted to data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from tellwhy.bases.adaptation import Task, adapt
from tellwhy.bases.projections import DEPTHS, FeatureMap, Shape, measure_pair_error
from tellwhy.bases.training import Plan
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.estimator_rows import find_classes, place_classes, validate_rows
from tellwhy.core.params import (
    Fit,
    Rules,
    boolean,
    generator,
    integer,
    one_of,
    real,
    seed,
    validate_parameters,
)
from tellwhy.core.score import Integers
from tellwhy.kernels.distances import centre_and_unit, measure_neighbour_distance
from tellwhy.storage.model_file import SavedModel

_PRECISIONS = [np.float64, np.float32]
WITH_LABELS = ("supervised", "discriminative")


class KernelBasis(SavedModel, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Map rows to features φ(x) with φ(x)·φ(x') ≈ k(x, x').

    Gaussian: φ(x) = √(2/D) [sin(Gᵀx/σ), cos(Gᵀx/σ)] with D/2 directions. ArcCos: φ(x) = √(2/D) max(0, Gᵀx),
    applied to itself for the deeper kernels, each layer as wide as the last.

    Parameters
    ----------
    kernel
        'gaussian' (exp(−‖x−x'‖²/2σ²)), or the arc-cosine kernel of one, two or three layers: 'arccos',
        'arccos2', 'arccos3'. The latter have no bandwidth and depend on the origin: centre the columns first.
    basis
        'random' draws G. The others start there and train it, which needs PyTorch: 'unsupervised' on the
        kernel's own values, 'supervised' on the alignment with labels, 'discriminative' together with a
        softmax classifier. What was drawn is kept where training does no better on rows held out.
    n_features
        Columns D of the result; even for the sines and cosines of the Gaussian kernel.
    bandwidth
        σ, in the units of the data; 'auto' takes the mean distance to the 50th nearest neighbour among 1,000
        rows.
    structure
        'dense' (independent directions), 'orthogonal' (groups of orthogonal ones: smaller errors),
        'hadamard' (O(D log d) time and O(D) numbers for rows of d columns), or 'landmarks': similarities to D
        of the rows, made orthonormal. Trained, these have the smallest errors by far, for O(D (d + D)) time.
    n_blocks
        Blocks H D_i of structure='hadamard': 1, 2 or 3. A single block does not converge to the kernel.
    amplitudes
        Whether to train an amplitude for each pair of a sine and a cosine as well.
    bias
        Whether to train what is added to the projections of an arc-cosine basis, as in a neural network; from
        0, or, if 'drawn', from normal numbers as large as rows are long. The features then are no longer
        those of the kernel: for bases that learn from classes.
    device
        'cpu', 'cuda', or 'auto' for the latter where there is one; for training.
    learning_rate, decay
        Steps of Adam, and whether they shorten to nothing, in a straight line, over `max_epochs`. Directions
        have entries near 1 whatever the scale of the data, so that the default suits most of them.
    batch_size
        Rows (or pairs of rows) of each step.
    n_batches
        Steps of an epoch; 'auto' takes as many as there are batches in the data, at least 100.
    max_epochs, patience
        Epochs at most, and without a gain on rows held out.
    validation_share
        Share of the rows held out, at most 10,000 of them.
    dropout
        Share of the features that each row of a step does without; for basis='discriminative'.
    classifier_steps
        How many times as long as those of the directions the steps of the classifier are; likewise.
    refit
        Whether to train once more, on all rows, for the number of epochs that did best on rows held out.
    random_state
        Seed of everything drawn.

    Attributes
    ----------
    map_
        Kernel, bandwidth, centre and projections in use.
    bandwidth_
        σ in use; 1 for arc-cosine kernels.
    losses_
        Loss on the rows held out after each epoch of training; empty for basis='random'.
    start_loss_
        Loss there of the basis as it was drawn (basis='discriminative': with a classifier trained on it).
        Where it is below all of `losses_`, the drawn basis was kept.

    References
    ----------
    Rahimi and Recht, Advances in Neural Information Processing Systems 20 (2008); Yu, Suresh, Choromanski,
    Holtmann-Rice and Kumar, ibid. 29 (2016), orthogonal and Hadamard features; Alber, Kindermans, Schütt,
    Müller and Sha, ibid. 30 (2017), adapted bases.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> basis = KernelBasis(n_features=500, bandwidth=3.0, random_state=0).fit(X)
    >>> basis.transform(X).shape
    (300, 500)
    >>> basis.kernel_error(X) < 1e-3
    True
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "kernel": one_of(*DEPTHS),
        "basis": one_of("random", "unsupervised", *WITH_LABELS),
        "n_features": integer(1),
        "bandwidth": (one_of("auto"), real(0)),
        "structure": one_of("dense", "orthogonal", "hadamard", "landmarks"),
        "n_blocks": integer(1, 3),
        "amplitudes": boolean,
        "bias": (boolean, one_of("drawn")),
        "device": one_of("auto", "cpu", "cuda"),
        "learning_rate": real(0, 1),
        "decay": boolean,
        "batch_size": integer(2),
        "n_batches": (one_of("auto"), integer(1)),
        "max_epochs": integer(1),
        "patience": integer(1),
        "validation_share": real(0, 1),
        "dropout": real(0, 1, closed="left"),
        "classifier_steps": real(0),
        "refit": boolean,
        "random_state": seed,
    }
    map_: FeatureMap

    def __init__(
        self,
        kernel: str = "gaussian",
        basis: str = "random",
        n_features: int = 1000,
        *,
        bandwidth: str | float = "auto",
        structure: str = "orthogonal",
        n_blocks: int = 3,
        amplitudes: bool = False,
        bias: bool | str = False,
        device: str = "auto",
        learning_rate: float = 0.02,
        decay: bool = True,
        batch_size: int = 64,
        n_batches: str | int = "auto",
        max_epochs: int = 50,
        patience: int = 10,
        validation_share: float = 0.2,
        dropout: float = 0.0,
        classifier_steps: float = 1.0,
        refit: bool = False,
        random_state: Any = 0,
    ):
        self.kernel = kernel
        self.basis = basis
        self.n_features = n_features
        self.bandwidth = bandwidth
        self.structure = structure
        self.n_blocks = n_blocks
        self.amplitudes = amplitudes
        self.bias = bias
        self.device = device
        self.learning_rate = learning_rate
        self.decay = decay
        self.batch_size = batch_size
        self.n_batches = n_batches
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_share = validation_share
        self.dropout = dropout
        self.classifier_steps = classifier_steps
        self.refit = refit
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Draw the basis for the columns of X, and train it where `basis` says so; y holds classes."""
        return self._fit(X, y, None)

    def _fit(self, X: Any, y: Any, classes: Any) -> Self:
        self._check_parameters()
        rng = generator(self.random_state)
        for name in ("softmax_", "start_loss_"):
            self.__dict__.pop(name, None)
        rows, labels = self._check_rows_and_labels(X, y, classes, reset=True)
        self.map_, self.losses_ = self._drawn(rows, rng), np.empty(0)
        if self.basis != "random":
            self._adapt(rows, labels, rng, self.max_epochs)
        return self

    def partial_fit(self, X: Any, y: ArrayLike | None = None, classes: Any = None) -> Self:
        """Fit the basis to a first batch of rows; train it on by one epoch with each further batch.

        Steps of further batches have their full length: nobody knows which batch is the last.

        Parameters
        ----------
        X, y
            Rows, and their classes where the basis learns from classes.
        classes
            All classes there will be, at the first call; those of the first batch if None.
        """
        if not hasattr(self, "map_"):
            return self._fit(X, y, classes)
        self._check_parameters()
        rows, labels = self._check_rows_and_labels(X, y, getattr(self, "classes_", None), reset=False)
        if self.basis != "random":
            seen = len(self.losses_)
            self._adapt(rows, labels, np.random.default_rng([seen, *_seed_of(self.random_state)]), 1)
        return self

    def _check_parameters(self) -> None:
        validate_parameters(self)
        self._shape().check()
        for name, idle in (("dropout", 0), ("classifier_steps", 1)):
            if (got := getattr(self, name)) != idle and self.basis != "discriminative":
                raise InvalidParameter(
                    f"The {name!r} parameter of KernelBasis must be {idle} but for basis='discriminative', "
                    f"which alone trains a classifier. Got {got!r} instead."
                )

    def _shape(self) -> Shape:
        return Shape(self.kernel, self.structure, self.n_features, self.n_blocks, self.amplitudes, self.bias)

    def _check_rows_and_labels(self, X: Any, y: Any, classes: Any, *, reset: bool) -> tuple[Any, Integers]:
        """Check rows, and turn classes into 0, 1, … where the basis needs them."""
        learns_width = self.kernel == "gaussian" and isinstance(self.bandwidth, str)
        fewest = 2 if learns_width or self.basis != "random" else 1
        if self.basis not in WITH_LABELS:
            rows = validate_rows(self, X, reset=reset, dtype=_PRECISIONS, min_rows=fewest)
            return rows, np.zeros(len(rows), dtype=np.int64)
        rows, own = validate_rows(self, X, y=y, reset=reset, dtype=_PRECISIONS, min_rows=fewest)
        owner = f"KernelBasis(basis={self.basis!r})"
        self.classes_, labels = find_classes(own if classes is None else classes, owner)
        return rows, labels if classes is None else place_classes(own, self.classes_)

    def _drawn(self, X: Any, rng: np.random.Generator) -> FeatureMap:
        centre, bandwidth = np.zeros(X.shape[1]), 1.0
        if self.kernel == "gaussian":
            centre, _ = centre_and_unit(np.asarray(X, dtype=np.float64))
            bandwidth = (
                measure_neighbour_distance(X, rng)
                if isinstance(self.bandwidth, str)
                else float(self.bandwidth)
            )
        Z = (X - centre) / bandwidth if self.structure == "landmarks" else X
        return self._shape().drawn(Z, bandwidth, centre, rng)

    def _adapt(self, X: Any, labels: Integers, rng: np.random.Generator, max_epochs: int) -> None:
        n_batches = max(100, len(X) // self.batch_size) if isinstance(self.n_batches, str) else self.n_batches
        n_classes = len(self.classes_) if self.basis in WITH_LABELS else 1
        options = (float(self.dropout), getattr(self, "softmax_", None), float(self.classifier_steps))
        adapted = adapt(
            Task(self.basis, self.map_, n_classes, self.device, *options),
            X,
            labels,
            plan=Plan(
                self.learning_rate, self.batch_size, int(n_batches), max_epochs, self.patience, self.decay
            ),
            validation_share=self.validation_share,
            rng=rng,
            refit=self.refit,
        )
        self.start_loss_ = adapted.start_loss
        self.map_, self.losses_ = adapted.feature_map, np.concatenate([self.losses_, adapted.losses])
        if adapted.softmax is not None:
            self.softmax_ = adapted.softmax

    @property
    def bandwidth_(self) -> float:
        """σ in use; 1 for arc-cosine kernels."""
        return self.map_.bandwidth

    @property
    def _n_features_out(self) -> int:
        return self.map_.n_features

    def transform(self, X: Any) -> Any:
        """Return φ(x) of each row, in single precision for rows in single precision."""
        check_is_fitted(self)
        return self.map_.apply(validate_rows(self, X, reset=False, dtype=_PRECISIONS))

    def kernel_error(self, X: Any) -> float:
        """Mean of ½(k(x, x') − φ(x)·φ(x'))² over pairs of different rows, of at most 1,000 rows of X."""
        check_is_fitted(self)
        return measure_pair_error(self.map_, validate_rows(self, X, reset=False, min_rows=2))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.target_tags.required = self.basis in WITH_LABELS
        return tags

    def _require(self) -> Iterator[Fit]:
        if not any(name.endswith("_") for name in vars(self)):
            return  # a parameter of another model, which fits a copy of it
        fitted = self.map_
        yield "map_", fitted.kernel, self.kernel
        yield "map_", len(fitted.layers), 1 if fitted.has_landmarks else DEPTHS[fitted.kernel]
        yield "map_", fitted.n_features, self.n_features
        yield "n_features_in_", self.n_features_in_, fitted.layers[0].n_inputs
        if hasattr(self, "softmax_") and self.softmax_ is not None:
            yield "softmax_", self.softmax_.weights.shape, (fitted.n_features, len(self.classes_))
        features = fitted.apply(np.zeros((1, self.n_features_in_)))
        yield "map_", features.shape, (1, fitted.n_features)


def _seed_of(random_state: Any) -> list[int]:
    """Return a whole number for a seed; nothing for a source of random numbers, whose state has moved on."""
    return [int(random_state)] if isinstance(random_state, (int, np.integer)) else []
