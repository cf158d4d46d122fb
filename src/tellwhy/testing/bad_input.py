"""Rows that no method can use, and what must happen to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats


def bad_rows(X: Floats) -> Iterator[tuple[str, Any]]:
    """Variants of X that must be refused, with their names."""
    for name, cell in (("NaN", np.nan), ("plus infinity", np.inf), ("minus infinity", -np.inf)):
        broken = X.copy()
        broken[len(X) // 2, 0] = cell  # in the middle: a check of the first row alone must not do
        yield name, broken
    text = X.astype(object)
    text[0, 0] = "abc"
    yield "text", text
    yield "complex numbers", X + 1j
    yield "no rows", X[:0]
    yield "no columns", X[:, :0]
    yield "one dimension", X[0]
    yield "three dimensions", X[None]


def assert_refused(call: Callable[[Any], Any], rows: Any, name: str, *, mentions: str = "") -> None:
    """Fail unless the call raises `InvalidInput` with a message."""
    try:
        call(rows)
    except InvalidInput as error:
        assert len(str(error)) > 20, f"{name}: the message says too little: {error}"
        assert mentions.lower() in str(error).lower(), (
            f"{name}: the message does not mention {mentions!r}: {error}"
        )
        return
    raise AssertionError(f"{name} was accepted; expected InvalidInput")
