"""Fitted multi-class SVMs on disk: `classifier.json` (class, parameters, history) and `weights.npz`; never pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from tellwhy.classifiers.base import MulticlassSVM
from tellwhy.classifiers.crammer_singer import CrammerSingerSVM
from tellwhy.classifiers.lee_lin_wahba import LeeLinWahbaSVM
from tellwhy.classifiers.one_vs_rest import OneVsRestSVM
from tellwhy.classifiers.weston_watkins import WestonWatkinsSVM
from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.core.files import new_folder, read_versioned, write_json
from tellwhy.core.params import validate_parameters
from tellwhy.core.saved_models import stored_arrays

SCHEMA = 1
_HEAD, _ARRAYS = "classifier.json", "weights.npz"
_CLASSES = {c.__name__: c for c in (WestonWatkinsSVM, CrammerSingerSVM, LeeLinWahbaSVM, OneVsRestSVM)}
_PLAIN = ("history_", "n_iter_", "objective_", "dual_gap_", "multilabel_", "temperature_", "n_features_in_")


def save(model: MulticlassSVM, folder: str | Path) -> Path:
    """Write a fitted model, whole or not at all; `load` reads it.

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
    check_is_fitted(model)
    params = model.get_params(deep=False)
    if isinstance(params["class_weight"], dict):
        params["class_weight"] = {"keys": list(params["class_weight"]), "values": list(params["class_weight"].values())}
    if isinstance(params["random_state"], (np.random.Generator, np.random.RandomState)):
        params["random_state"] = None
    arrays = {"classes": model.classes_, "intercept": model.intercept_}
    if model.classes_.dtype.kind == "O":
        if not all(isinstance(c, str) for c in model.classes_):
            raise CannotWrite("The classes are neither numbers nor text; only those can be saved.")
        arrays["classes"] = model.classes_.astype(str)
    if sparse.issparse(model.coef_):
        arrays |= {"data": model.coef_.data, "indices": model.coef_.indices, "indptr": model.coef_.indptr}
    else:
        arrays["coef"] = model.coef_
    learned = {name: getattr(model, name) for name in _PLAIN if hasattr(model, name)}
    names = getattr(model, "feature_names_in_", None)
    head = {
        "schema": SCHEMA,
        "classifier": type(model).__name__,
        "params": params,
        "learned": learned,
        "text_classes": bool(model.classes_.dtype.kind == "O"),
        "feature_names": None if names is None else [str(name) for name in names],
    }
    with new_folder(Path(folder), marker=_HEAD) as work:
        write_json(work / _HEAD, head)
        np.savez_compressed(work / _ARRAYS, allow_pickle=False, **arrays)
    return Path(folder)


def load(folder: str | Path) -> MulticlassSVM:
    """Read a model that `save` wrote: it gives the same scores, bit for bit."""
    place = Path(folder)
    head = read_versioned(place / _HEAD, SCHEMA, "a classifier")
    cls = _CLASSES.get(str(head.get("classifier")))
    if cls is None:
        raise UnreadableFile(f"{place / _HEAD} names {head.get('classifier')!r}, which is no classifier of tellwhy.")
    try:
        return _assembled(cls, head, stored_arrays(place / _ARRAYS))
    except (UnreadableFile, TypeError, ValueError, LookupError, AttributeError, MemoryError) as error:
        raise UnreadableFile(f"{place} does not hold a working {cls.__name__}: {error}") from error


def _assembled(cls: type[MulticlassSVM], head: dict[str, Any], arrays: dict[str, Any]) -> MulticlassSVM:
    params = dict(head["params"])
    if isinstance(params.get("class_weight"), dict):
        weights = params["class_weight"]
        params["class_weight"] = dict(zip(weights["keys"], weights["values"], strict=True))
    model = cls(**params)
    validate_parameters(model)
    for name in _PLAIN:
        if name in head["learned"]:
            setattr(model, name, head["learned"][name])
    model.classes_ = arrays["classes"].astype(object) if head["text_classes"] else arrays["classes"]
    model.intercept_ = arrays["intercept"]
    shape = (len(model.intercept_), int(model.n_features_in_))
    model.coef_ = arrays["coef"] if "coef" in arrays else _sparse(arrays, shape)
    if head["feature_names"] is not None:
        model.feature_names_in_ = np.array(head["feature_names"], dtype=object)
    if model.coef_.shape != shape or len(model.classes_) != shape[0]:
        raise ValueError(f"its weights have shape {model.coef_.shape} for {len(model.classes_)} classes.")
    return model


def _sparse(arrays: dict[str, Any], shape: tuple[int, int]) -> Any:
    found = sparse.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
    found.check_format(full_check=True)
    return found
