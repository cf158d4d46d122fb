"""What a saved classifier is made of, and how its parts must fit together.

The folder holds `classifier.json` (class, parameters, what was learned) and `arrays.npz`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.bases.basis_io import BASIS_PARTS
from tellwhy.classifiers.kernel_basis_classifier import KernelBasisClassifier
from tellwhy.classifiers.softmax import SoftmaxState
from tellwhy.classifiers.svm.lee_lin_wahba import LeeLinWahbaSVM, OneVsRestSVM
from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM
from tellwhy.classifiers.svm.weston_watkins import CrammerSingerSVM, WestonWatkinsSVM
from tellwhy.classifiers.text_classifier import TextClassifier
from tellwhy.storage.codec import Fit, Part, by_name
from tellwhy.storage.saved_models import SavedKind


def check_place(folder: str | Path) -> None:
    """Raise now if a model could not be written there: before training, not after."""
    KIND.check_place(folder)


def load(folder: str | Path) -> Any:
    """Read a classifier that its `save` wrote: it gives the same scores, bit for bit.

    Raises `UnreadableFile` for a folder that is damaged, of another version, or made up.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> model = WestonWatkinsSVM(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(model.save(place + "/iris"))
    >>> bool((again.decision_function(X) == model.decision_function(X)).all())
    True
    """
    return KIND.load(folder)


def _svm(model: MulticlassSVM) -> Iterator[Fit]:
    if not any(
        name.endswith("_") for name in vars(model)
    ):  # a parameter of another model, which fits a copy of it
        return
    shape = (len(model.classes_), model.n_features_in_)
    yield "coef_", (model.coef_.shape, model.coef_.dtype.kind), (shape, "f")
    yield "intercept_", model.intercept_.shape, shape[:1]
    yield "objective_", _is_number(model.objective_, -math.inf), True
    yield "dual_gap_", _is_number(model.dual_gap_, 0.0), True
    last = model.history_[-1]
    yield "history_", (last["objective"], last["gap"]), (model.objective_, model.dual_gap_)
    if hasattr(model, "centre_"):
        yield "centre_", model.centre_.shape, shape[1:]
    yield from _names(model)


def _is_number(value: object, least: float) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value) and value >= least


def _kernel_classifier(model: KernelBasisClassifier) -> Iterator[Fit]:
    """Check that the basis and what sits on it fit together."""
    width = model.basis_.map_.n_features
    yield "basis_", model.basis_.n_features_in_, model.n_features_in_
    if isinstance(model.head, str):
        yield "head_", hasattr(model, "head_"), False
        yield "softmax_", model.softmax_.weights.shape, (width + 1, len(model.classes_))
    else:
        yield "head_", model.head_.n_features_in_, width
        yield "head_", np.array_equal(model.head_.classes_, model.classes_), True
    yield from _names(model)


def _softmax_state(state: SoftmaxState) -> Iterator[Fit]:
    yield "weights", state.weights.ndim, 2
    yield "first", state.first.shape, state.weights.shape
    yield "second", state.second.shape, state.weights.shape


def _text_classifier(model: TextClassifier) -> Iterator[Fit]:
    """Check that there is one rarity and one column of weights per word, and no word twice."""
    n_words = len(model.words_)
    yield "words_", len(set(model.words_)), n_words
    yield "classifier_", model.classifier_.n_features_in_, n_words
    yield "rarities_", model.rarities_.shape, (n_words,)
    yield "classes_", np.array_equal(model.classifier_.classes_, model.classes_), True


def _names(model: MulticlassSVM | KernelBasisClassifier) -> Iterator[Fit]:
    if hasattr(model, "feature_names_in_"):
        yield "feature_names_in_", len(model.feature_names_in_), model.n_features_in_


_SVMS = by_name(
    *(Part(cls, _svm) for cls in (WestonWatkinsSVM, CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM))
)
_MODELS = {
    **_SVMS,
    **by_name(Part(KernelBasisClassifier, _kernel_classifier), Part(TextClassifier, _text_classifier)),
}
_PARTS = {**BASIS_PARTS, **_SVMS, **by_name(Part(SoftmaxState, _softmax_state))}
KIND = SavedKind("classifier", lambda: _MODELS, _PARTS)
