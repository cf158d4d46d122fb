"""Fitted weights: classes × features, sparse where that pays."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

SPARSE_BELOW = 0.3  # weights are kept sparse if fewer of them than this share are not zero
SPARSE_FROM = 10_000  # weights


def dense(weights: Any) -> Any:
    """Weights in an array."""
    return weights.toarray() if sparse.issparse(weights) else weights


def density(weights: Any) -> float:
    """Share of weights that are not zero."""
    nonzero = weights.nnz if sparse.issparse(weights) else np.count_nonzero(weights)
    return float(nonzero / (weights.shape[0] * weights.shape[1]))


def stored(weights: Any) -> Any:
    """Weights as they are kept: sparse where they are many and most of them zero."""
    if weights.shape[0] * weights.shape[1] >= SPARSE_FROM and density(weights) < SPARSE_BELOW:
        return sparse.csr_array(weights)
    return np.ascontiguousarray(dense(weights))


def without_small(weights: Any, threshold: float) -> Any:
    """Sparse weights without those of at most this size."""
    kept = sparse.csr_array(weights)
    kept.data = np.where(np.abs(kept.data) > threshold, kept.data, 0)
    kept.eliminate_zeros()
    return kept


def by_feature(weights: Any) -> Any:
    """Features × classes, in the order in memory that products with many rows want."""
    return weights.T.tocsr() if sparse.issparse(weights) else np.ascontiguousarray(weights.T)
