"""Fitted classifiers on disk: `classifier.json` (class, parameters, what was learned), `arrays.npz`; never pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.bases.basis_io import BASIS_RECORDS
from tellwhy.classifiers.kernel_basis_classifier import KernelBasisClassifier
from tellwhy.classifiers.softmax import SoftmaxState
from tellwhy.classifiers.svm.base import MulticlassSVM
from tellwhy.classifiers.svm.crammer_singer import CrammerSingerSVM
from tellwhy.classifiers.svm.lee_lin_wahba import LeeLinWahbaSVM
from tellwhy.classifiers.svm.one_vs_rest import OneVsRestSVM
from tellwhy.classifiers.svm.weston_watkins import WestonWatkinsSVM
from tellwhy.classifiers.text_classifier import TextClassifier
from tellwhy.core.storage.files import check_new_folder
from tellwhy.core.storage.saved_models import Shelf, load_model, save_model

_SVMS = (WestonWatkinsSVM, CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM)


def save(model: Any, folder: str | Path) -> Path:
    """Write a fitted classifier, whole or not at all; `load` reads it.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> model = WestonWatkinsSVM(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(save(model, place + "/iris"))
    >>> bool((again.decision_function(X) == model.decision_function(X)).all())
    True
    """
    return save_model(_SHELF, model, folder)


def check_place(folder: str | Path) -> None:
    """Raise now if a model could not be written there: before training, not after."""
    check_new_folder(Path(folder), marker=_SHELF.head)


def load(folder: str | Path) -> Any:
    """Read a classifier that `save` wrote: it gives the same scores, bit for bit.

    Raises `UnreadableFile` for a folder that is damaged, of another version, or made up.
    """
    return load_model(_SHELF, folder)


def _is_svm(model: MulticlassSVM) -> bool:
    """Whether the parts of an SVM fit together (one that is not fitted has none)."""
    if not hasattr(model, "coef_"):
        return True
    shape = (len(model.classes_), model.n_features_in_)
    centre = getattr(model, "centre_", None)
    sits = (
        model.coef_.shape == shape and model.intercept_.shape == shape[:1] and model.coef_.dtype.kind == "f"
    )
    return sits and (centre is None or centre.shape == shape[1:])


def _is_kernel_classifier(model: KernelBasisClassifier) -> bool:
    """Whether the basis and what sits on it fit together."""
    width = model.basis_.map_.n_features
    if isinstance(model.head, str):
        sits = not hasattr(model, "head_") and model.softmax_.weights.shape == (
            width + 1,
            len(model.classes_),
        )
    else:
        sits = model.head_.n_features_in_ == width and np.array_equal(model.head_.classes_, model.classes_)
    return sits and model.basis_.n_features_in_ == model.n_features_in_


def _is_state(record: SoftmaxState) -> bool:
    return record.weights.ndim == 2 and record.weights.shape == record.first.shape == record.second.shape


def _is_text_classifier(model: TextClassifier) -> bool:
    """Whether there is one rarity and one column of weights per word, and no word twice."""
    n_words, svm = len(model.words_), model.classifier_
    return (
        svm.n_features_in_ == n_words == len(set(model.words_))
        and model.rarities_.shape == (n_words,)
        and np.array_equal(svm.classes_, model.classes_)
    )


def _try_out(model: Any) -> None:
    """Notice now what would fail later: names and shapes that do not fit, features that cannot be computed."""
    sound = next(check for cls, check in _CHECKS.items() if isinstance(model, cls))
    names = getattr(model, "feature_names_in_", None)
    if not sound(model) or (names is not None and len(names) != model.n_features_in_):
        raise ValueError("the shapes of its parts do not fit together.")
    if isinstance(model, KernelBasisClassifier):
        model.basis_.map_.apply(np.zeros((1, model.n_features_in_)))


_CHECKS: dict[Any, Any] = {
    MulticlassSVM: _is_svm,
    KernelBasisClassifier: _is_kernel_classifier,
    TextClassifier: _is_text_classifier,
}
_SHELF = Shelf(
    "classifier",
    lambda: {cls.__name__: cls for cls in (*_SVMS, KernelBasisClassifier, TextClassifier)},
    {
        **BASIS_RECORDS,
        **{cls.__name__: (cls, _is_svm) for cls in _SVMS},
        "SoftmaxState": (SoftmaxState, _is_state),
    },
    _try_out,
)
