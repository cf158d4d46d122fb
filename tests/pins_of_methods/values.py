"""What every method of the catalogue finds, as numbers that can be kept in a file and compared."""

import hashlib
import inspect
import math
import warnings
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
from sklearn.base import clone
from testing.own_cases import DETECTORS, OWN_CASES

from tellwhy.core.explainer import LearnsFromRows
from tellwhy.core.registry import list_explainers
from tellwhy.testing.cases import CASES, odd_rows, some_rows

KEPT = 16  # numbers of an array that are written down; its digest is one of all of them


def pinned(array):
    """What is kept of an array: its shape, its sum, some of its numbers, and a digest of all its bits."""
    found = np.ascontiguousarray(array, dtype=np.float64)
    flat = found.ravel()
    places = np.unique(np.linspace(0, flat.size - 1, min(KEPT, flat.size)).astype(int))
    return {
        "shape": list(found.shape),
        "sum": _written(flat.sum()),
        "size": _written(np.abs(flat).sum()),
        "some": [_written(number) for number in flat[places]],
        "digest": hashlib.sha256((found + 0.0).tobytes()).hexdigest()[:16],  # −0 is written as 0
    }


def _written(number):
    """A number as JSON has it; it has no word for those that are not finite."""
    return float(number) if math.isfinite(number) else str(float(number))


def of_detectors():
    """Scores of every detector that the contract is run over, by how it is written."""
    return {repr(detector): lambda d=detector: _of_detector(d) for detector in DETECTORS}


def _of_detector(detector):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # networks that are trained for a moment say so
        fitted = clone(detector).fit(some_rows())
        return {
            "outlierness": pinned(fitted.outlierness(odd_rows())),
            "training_scores": pinned(fitted.training_scores_),
            "threshold": pinned(fitted.threshold_),
        }


def of_explainers():
    """Explanations by every explainer of the catalogue, of the model of its role."""
    taken = [c for c in list_explainers() if c.role != "network explainer" or find_spec("torch")]
    return {card.name: lambda c=card: _of_explainer(c) for card in taken}


def _of_explainer(card):
    case = OWN_CASES.get(card.name, CASES[card.role])
    settings = dict(case.settings)
    if "random_state" in inspect.signature(card.cls).parameters:
        settings["random_state"] = 0
    ordinary = case.ordinary()
    explainer = replace(case, settings=settings).make(card.cls, case.fit(ordinary))
    if isinstance(explainer, LearnsFromRows):
        explainer.fit(ordinary)
    explanation = case.explain(explainer, case.odd())
    found = {
        "values": explanation.values,
        "scores": explanation.scores,
        "base_values": explanation.base_values,
        "stderr": explanation.stderr,
    }
    return {name: pinned(array) for name, array in found.items() if array is not None}
