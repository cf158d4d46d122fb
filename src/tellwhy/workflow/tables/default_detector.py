"""The detector that `auto` means, and the rows it learns from."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.registry import card
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import random_sample
from tellwhy.detectors import Committee

TRAINING_ROWS = 5_000
LEAST_ROWS = 10
TRIM = 0.1  # share of rows that is set aside where nobody vouches for them


def training_sample(n: int, rng: np.random.Generator) -> Integers:
    """Rows to learn from: all, or a random sample of many."""
    return np.sort(random_sample(n, TRAINING_ROWS, rng))


def make_detector(name: str, Z: Floats, *, is_clean: bool) -> tuple[Any, str]:
    """Return a fitted detector of encoded rows, and the words that describe it.

    'auto' is a committee of simple detectors that look for different things (`tellwhy.detectors.Committee`).
    It takes any shape of data, its score is minus the logarithm of a p-value, and it is explained exactly.
    Trained on the rows it scores it sets the oddest tenth aside before it learns what is ordinary; a
    reference of ordinary rows is learned from whole. benchmarks/tables/default_detector.py measures it.
    """
    if len(Z) < LEAST_ROWS:
        raise InvalidInput(f"There are only {len(Z)} rows to learn from; at least {LEAST_ROWS} are needed.")
    if name != "auto":
        chosen = card("detector", name)
        settings: dict[str, Any] = {}
        if "contamination" in inspect.signature(chosen.cls).parameters:
            settings["contamination"] = 0.01  # the share that the default detector of a clean reference has
        return chosen.cls(**settings).fit(Z), chosen.name
    model = Committee(trim=0.0 if is_clean else TRIM).fit(Z)
    return model, "committee of six simple detectors"
