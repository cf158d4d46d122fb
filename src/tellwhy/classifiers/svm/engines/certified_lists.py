"""Certificates in parts that threads share: sums over all of them, and lists made anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from tellwhy.classifiers.svm.engines.dual_lists import DualLists, Part
from tellwhy.classifiers.svm.engines.records import Certified
from tellwhy.classifiers.svm.threads.workers import Workers, ranges

Key = TypeVar("Key")


@dataclass(frozen=True)
class Sums:
    """Σ losses and Σ dual variables of some lists, and their largest violation."""

    losses: float
    dual_sum: float
    worst: float


def certify_lists(
    lists: Mapping[Key, DualLists],
    certify_part: Callable[[Key, tuple[int, int]], Certified],
    workers: Workers,
) -> Sums:
    """Certify the examples of each list, some at a time, and list every variable that may have to move."""
    for some in lists.values():
        some.drop_zeros(workers)
    tasks = [(key, part) for key, some in lists.items() for part in ranges(len(some.lengths))]
    found = workers.map(lambda task: certify_part(*task), tasks)
    # Summed in the order of the tasks, whoever did them: the same bits for any number of threads.
    losses = sum(part.losses for part in found)
    dual_sum = sum(part.dual_sum for part in found)
    worst = max((part.worst for part in found), default=0.0)
    parts: dict[Key, list[Part]] = {key: [] for key in lists}
    for (key, (first, last)), part in zip(tasks, found, strict=True):
        parts[key].append(Part(first, last, part.classes, part.duals))
    # Lists can be larger than the weights: without these names each is freed as soon as it is copied.
    del found, part
    for key, some in lists.items():
        some.replace_parts(parts[key], workers)
    return Sums(losses, dual_sum, worst)
