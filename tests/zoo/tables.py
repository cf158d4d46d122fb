"""Tables that transformers are tried on: numbers, gaps, words and texts."""

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin

RNG = np.random.default_rng(3)
N = 90
NUMBERS = pd.DataFrame(
    RNG.normal(size=(N, 4)) * [1.0, 10.0, 0.1, 3.0] + [0.0, 50.0, 0.0, 9.0], columns=list("abcd")
)
GAPS = NUMBERS.mask(RNG.random((N, 4)) < 0.1)
LABELS = np.arange(N) % 3
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(40, 9, N),
        "city": RNG.choice(["Rome", "Oslo", "Lima", "Bonn"], N, p=[0.5, 0.3, 0.15, 0.05]),
        "size": RNG.choice(["S", "M", "L"], N),
        "pay": RNG.lognormal(3, 1, N),
        "note": RNG.choice(["red car", "blue car", "red bike", "old blue van"], N),
    }
)
WORDS = TABLE[["city", "size"]]


class Undeclared(TransformerMixin, BaseEstimator):
    """A user's transformer that records nothing about its columns."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(X)[:, ::-1]
