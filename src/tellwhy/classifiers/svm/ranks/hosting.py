"""Certificates of guests at their host, and lists of all classes for their first visit."""

from __future__ import annotations

from typing import Any

import numpy as np

from tellwhy.classifiers.svm.engines._compiled_certificate import certify
from tellwhy.classifiers.svm.engines.dual_lists import DualLists
from tellwhy.classifiers.svm.engines.records import Block, Certified, Examples, ListArrays
from tellwhy.classifiers.svm.ranks.messages import Guests


class HostedGuests:
    """Guests as the examples of a certificate: none has a label among the classes of its host."""

    def __init__(self, guests: Guests, extra: Any):
        n = len(guests)
        self.guests = guests
        self.bases = extra[:n].astype(np.float64)
        none = np.zeros(n, dtype=np.int64)
        self.examples = Examples(
            rows=np.arange(n),
            labels=none,
            squares=np.ones(n),
            caps=extra[n : 2 * n].astype(np.float64),
            sum_caps=np.full(n, np.inf),
            own_at=np.zeros(n + 1, dtype=np.int64),
            own=none[:0],
            own_is_positive=False,
        )
        listed = guests.arrays.listed
        lengths = np.diff(listed).astype(np.int32)
        self.lists = ListArrays(
            listed[:-1].copy(), lengths, guests.arrays.classes, extra[2 * n :], np.zeros(n, dtype=np.int8)
        )

    def certified(self, part: tuple[int, int], block: Block, slack: float) -> Certified:
        """Certify some guests against the classes of a block."""
        found: Certified = certify(
            *part, self.guests.entries, self.examples, self.bases, block, self.lists, slack
        )
        return found


def joined_sums(parts: list[Certified]) -> list[float]:
    """Σ losses, Σ dual variables and the largest violation of all parts."""
    losses = sum(part.losses for part in parts)
    dual_sum = sum(part.dual_sum for part in parts)
    return [losses, dual_sum, max(part.worst for part in parts)]


def list_all(lists: DualLists, m: int) -> None:
    """List all m classes of every example of a tile."""
    n = len(lists.lengths)
    if lists.used == n * m:
        return
    duals = np.zeros((n, m), dtype=lists.duals.dtype)
    at = np.repeat(np.arange(n), lists.lengths), lists.classes[: lists.used]
    duals[at] = lists.duals[: lists.used]
    lists.starts[:] = m * np.arange(n)
    lists.lengths[:] = m
    lists.classes = np.tile(np.arange(m, dtype=np.int32), n)
    lists.duals = duals.ravel()
    lists.used = n * m
