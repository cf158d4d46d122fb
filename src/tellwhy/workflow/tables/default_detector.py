"""The detector that `auto` means, and the rows it learns from."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.registry import card
from tellwhy.core.score_function import Floats, Integers
from tellwhy.core.tables import random_sample
from tellwhy.detectors import KernelDensity
from tellwhy.kernels.bandwidth import median_distance

TRAINING_ROWS = 5_000
LEAST_ROWS = 10


def training_sample(n: int, rng: np.random.Generator) -> Integers:
    """Rows to learn from: all, or a random sample of many."""
    return np.sort(random_sample(n, TRAINING_ROWS, rng))


def make_detector(name: str, Z: Floats, *, is_clean: bool) -> tuple[Any, str]:
    """Return a fitted detector of encoded rows, and the words that describe it.

    'auto' is a Gaussian kernel density: it takes any shape of data, costs one pass, and its scores are
    explained exactly. Trained on a reference of ordinary rows its bandwidth is a quarter of the median
    distance between rows. Trained on the rows it scores it is half of it: a small group of equal anomalies
    then does not vouch for itself. On generated data (clusters, correlations, skewed, discrete and mixed
    columns; scattered, one-feature, clustered and dependency-breaking anomalies) this is where detection is
    best; benchmarks/default_detector.py shows it.
    """
    if len(Z) < LEAST_ROWS:
        raise InvalidInput(f"There are only {len(Z)} rows to learn from; at least {LEAST_ROWS} are needed.")
    if name != "auto":
        chosen = card("detector", name)
        settings: dict[str, Any] = {}
        if "false_alarms" in inspect.signature(chosen.cls).parameters:
            settings["false_alarms"] = 0.01  # the share that the default detector of a clean reference has
        return chosen.cls(**settings).fit(Z), chosen.name
    share = 0.25 if is_clean else 0.5
    in_words = "a quarter" if is_clean else "half"
    model = KernelDensity(bandwidth=share * median_distance(Z)).fit(Z)
    return model, f"kernel density (Gaussian, bandwidth {in_words} of the median distance)"
