"""Arrays with a mask: what it hides is missing, whatever number stands below it."""

from __future__ import annotations

from typing import Any

import numpy as np


def without_mask(X: Any) -> Any:
    """Return a masked array as a plain one, NaN (None for text) where it hides a cell; all else as it is.

    numpy itself forgets masks where an array is converted, and shows what they hide.

    Examples
    --------
    >>> without_mask(np.ma.masked_array([1, 2, 999], mask=[False, False, True]))
    array([ 1.,  2., nan])
    """
    if not isinstance(X, np.ma.MaskedArray):
        return X
    if not np.ma.getmaskarray(X).any():
        return np.asarray(X)
    if X.dtype.kind in "biuf":
        return np.ma.filled(X.astype(np.promote_types(X.dtype, np.float32)), np.nan)
    plain = np.asarray(X, dtype=object)
    plain[np.ma.getmaskarray(X)] = None
    return plain
