"""A motif that one channel of a long series has nowhere else: is it found, and where does the relevance fall?

Three channels, 100,000 steps; 40 samples of one channel are replaced. Three kinds of waves, each with its own motif.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

LENGTH = 40


def series(seed: int, n: int = 100_000) -> tuple[pd.DataFrame, int, int]:
    """A series with a planted motif, where it begins, and its channel."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) + 1
    waves = [np.sin(t / 7 + rng.uniform(0, 6)), np.sin(t / 11) * np.cos(t / 93), np.sign(np.sin(t / 17))]
    X = np.stack(waves, axis=1) + 0.1 * rng.normal(size=(n, 3))
    at, channel = int(rng.integers(1000, n - 1000)), int(seed % 3)
    motif = 1.2 * np.sin(np.arange(LENGTH) * (0.9, 0.7, 0.33)[channel])
    X[at : at + LENGTH, channel] = motif + 0.1 * rng.normal(size=LENGTH)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(t=t), at, channel
