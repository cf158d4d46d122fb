"""Named arrays that the compiled loops over guests take."""

from __future__ import annotations

from typing import Any, NamedTuple

from tellwhy.core.score_function import Floats, Integers


class GuestArrays(NamedTuple):
    """Guest t has the entries indptr[t] … indptr[t + 1] and the classes listed[t] … listed[t + 1]."""

    indptr: Integers
    indices: Any
    values: Any
    listed: Integers
    classes: Any


class Chain(NamedTuple):
    """Entries of guests that moved, linked by feature, and the steps they took."""

    heads: Integers  # of each feature: its newest entry, −1 for none
    links: Integers  # of each entry: the one before it
    owner: Integers  # of each entry: the guest it belongs to
    moved: Integers  # where the steps of each guest begin and end
    steps: Floats
    step_classes: Integers
    inner: Floats  # room: inner products with guests met
    met: Integers
    is_near: Any
