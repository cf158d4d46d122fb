"""Data sets of the multi-class benchmarks, normalised as the thesis did, and a generated look-alike of LSHTC-small."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from tellwhy.core.errors import UnreadableFile
from tellwhy.data import fetch
from tellwhy.data.benchmarks import data_folder
from tellwhy.data.reading.bytes import file_fingerprint

CLINC = "400a4de72188a9dc2837de9940a53ea0544a003bc9dd4a323101cde1b9cab678"


@dataclass(frozen=True)
class Split:
    name: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    how: str


def counts(name: str) -> Any:
    parts = fetch(name)
    return sparse.csr_matrix(
        (parts["data"].astype(float), parts["indices"], parts["indptr"]), shape=parts["shape"]
    )


def news20() -> Split:
    X, meta = counts("mc_news20_counts_X"), fetch("mc_news20_counts_meta")
    train = meta["is_train"]
    weights = TfidfTransformer(sublinear_tf=True).fit(X[train])
    y = meta["y"].astype(np.int64)
    return Split(
        "news20",
        weights.transform(X[train]),
        y[train],
        weights.transform(X[~train]),
        y[~train],
        "tf-idf, unit norm",
    )


def naics2017(test_size: float = 0.25) -> Split:
    """All classes with at least two entries have rows on both sides where the draw allows; others train only."""
    X, y = counts("mc_naics2017_X"), fetch("mc_naics2017_meta")["y"].astype(np.int64)
    often = np.bincount(y)[y] >= 2
    rows = np.arange(len(y))
    train, test = train_test_split(rows[often], test_size=test_size, stratify=y[often], random_state=0)
    train = np.sort(np.concatenate((train, rows[~often])))
    weights = TfidfTransformer(sublinear_tf=True).fit(X[train])
    return Split(
        "naics2017",
        weights.transform(X[train]),
        y[train],
        weights.transform(X[test]),
        y[test],
        "tf-idf, unit norm",
    )


def naics2017_whole() -> Split:
    X, y = counts("mc_naics2017_X"), fetch("mc_naics2017_meta")["y"].astype(np.int64)
    X = TfidfTransformer(sublinear_tf=True).fit_transform(X)
    return Split("naics2017", X, y, X[:0], y[:0], "tf-idf, unit norm")


def clinc150() -> Split:
    path = data_folder() / "mc_clinc150.json.gz"
    if not path.is_file() or file_fingerprint(path) != CLINC:
        raise UnreadableFile(
            f"{path} is missing or another file; it comes from data/data_full.json of clinc/oos-eval."
        )
    found = json.loads(gzip.decompress(path.read_bytes()))
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    X = words.fit_transform([text for text, _ in found["train"]])
    X_test = words.transform([text for text, _ in found["test"]])
    y, y_test = (np.array([label for _, label in found[part]]) for part in ("train", "test"))
    return Split("clinc150", X, y, X_test, y_test, "tf-idf of words and pairs, unit norm")


def usps_libsvm() -> Split:
    """USPS with the values of LIBSVM's file, -1 to 1, as the thesis took it."""
    s = arrays("usps", scaled=False)
    return replace(s, name="usps_libsvm", X=2 * s.X - 1, X_test=2 * s.X_test - 1, how="values from -1 to 1")


def arrays(name: str, *, scaled: bool, centred: bool = True) -> Split:
    found = fetch(f"mc_{name}")
    X, y = found["X"].astype(float), found["y"].astype(np.int64)
    if "is_train" in found:
        train = found["is_train"]
    else:
        train = np.zeros(len(y), dtype=bool)
        train[train_test_split(np.arange(len(y)), test_size=0.31, stratify=y, random_state=0)[0]] = True
    if scaled:
        X = StandardScaler(with_mean=centred).fit(X[train]).transform(X)
    how = "as it is" if not scaled else "unit variance" if centred else "unit variance, means left in"
    called = name if centred else f"{name}_uncentred"
    return Split(called, X[train], y[train], X[~train], y[~train], how)


SETS = {
    "iris_xcsvm": lambda: arrays("iris_xcsvm", scaled=False),
    "glass_xcsvm": lambda: arrays("glass_xcsvm", scaled=False),
    "splice": lambda: arrays("splice", scaled=False),
    "satimage": lambda: arrays("satimage", scaled=True),
    "usps": lambda: arrays("usps", scaled=False),
    "usps_libsvm": usps_libsvm,
    "letter": lambda: arrays("letter", scaled=True),
    "letter_uncentred": lambda: arrays("letter", scaled=True, centred=False),
    "clinc150": clinc150,
    "news20": news20,
    "naics2017": naics2017,
}


def lshtc_look_alike(n: int = 4463, n_classes: int = 1139, n_terms: int = 51033, words: int = 120) -> Split:
    """Documents with classes of power-law sizes and Zipf words; each class prefers some words of its own."""
    rng = np.random.default_rng(0)
    sizes = 1.0 / np.arange(1, n_classes + 1) ** 0.8
    y = np.concatenate((np.arange(n_classes), rng.choice(n_classes, n - n_classes, p=sizes / sizes.sum())))
    zipf = 1.0 / np.arange(1, n_terms + 1)
    common = rng.choice(n_terms, size=(n, words), p=zipf / zipf.sum())
    own = rng.integers(0, n_terms, size=(n_classes, 60))
    topical = own[y][np.arange(n)[:, None], rng.integers(0, 60, size=(n, words // 4))]
    terms = np.concatenate((common, topical), axis=1)
    X = sparse.csr_matrix(
        (np.ones(terms.size), (np.repeat(np.arange(n), terms.shape[1]), terms.ravel())), shape=(n, n_terms)
    )
    X = TfidfTransformer(sublinear_tf=True).fit_transform(X)
    return Split("LSHTC-small look-alike", X, y, X[:0], y[:0], "tf-idf, unit norm")
