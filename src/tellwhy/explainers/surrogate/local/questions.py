"""Questions to a model about one row: what each leaves of it, chosen by the answers to those before.

Half of the questions leave a share of the segments, drawn evenly. The others come in rounds: before each, a
ridge regression of all answers ranks the segments, and the next questions keep (or remove) sets of those
ranked first. A regression that has seen only halves of images says little of what a tenth of one is worth;
one that has seen the sets that it would name itself does.

Choosing questions by earlier answers leaves the posterior as it is: the masks depend on the coefficients only
through answers that the likelihood holds already. Intervals are as valid as with masks that were fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score_function import Floats, Integers
from tellwhy.explainers.surrogate.local.segments import neighbour_masks

KEPT_AT_FIRST = {"sufficiency": (0.5, 0.25), "necessity": (0.5, 0.75)}  # shares in the first two quarters
ROUNDS = 8
LOOKED_AT = 10  # segments ranked first that must stay the same
STABLE = 3  # rounds in a row in which they do
SPREAD = 0.5  # of the noise that varies the sets, in standard deviations of the segments' worth
SMALLEST = 2  # segments of a set
RIDGE = 1.0

Ask = Callable[[Floats], Floats]
"""From masks (n, segments) to the model's output for each."""


class Answers(NamedTuple):
    """What was asked and answered."""

    masks: Floats
    outputs: Floats
    n_halves: int  # of the first, which keep half of the segments (or a share that was given) at random
    is_stable: bool  # whether the segments ranked first stayed the same before the questions ran out


def ask_evenly(ask: Ask, n_segments: int, n_questions: int, kept: float, rng: np.random.Generator) -> Answers:
    """Ask about masks that keep a share of the segments, fixed beforehand."""
    masks = neighbour_masks(n_segments, n_questions, rng, kept=kept)
    return Answers(masks, ask(masks), n_questions, is_stable=True)


def ask_in_rounds(
    ask: Ask, n_segments: int, n_questions: int, question: str, rng: np.random.Generator
) -> Answers:
    """Ask half of the questions evenly, the others about sets of the segments that matter so far.

    Stops early when the segments ranked first are the same in three rounds.

    Examples
    --------
    >>> worth = np.array([0.0, 3.0, 0.0, 1.0, 0.0, 0.0])
    >>> answers = ask_in_rounds(lambda m: m @ worth, 6, 128, "sufficiency", np.random.default_rng(0))
    >>> ranking(worth_by_ridge(answers.masks, answers.outputs))[:2]
    array([1, 3])
    """
    half = n_questions // 2
    n_halves = half - half // 2
    masks = _first_masks(n_segments, half, question, rng)
    outputs = ask(masks)
    if n_segments < SMALLEST:
        return Answers(masks, outputs, n_halves, is_stable=True)  # there is nothing to rank
    ranked_first: list[frozenset[int]] = []
    for size in _round_sizes(n_questions - half):
        worth = worth_by_ridge(masks, outputs)
        ranked_first.append(frozenset(ranking(worth)[:LOOKED_AT].tolist()))
        if len(ranked_first) >= STABLE and len(set(ranked_first[-STABLE:])) == 1:
            return Answers(masks, outputs, n_halves, is_stable=True)
        sets = sets_of_the_best(worth, size, rng)
        further = sets if question == "sufficiency" else 1.0 - sets
        masks = np.vstack([masks, further])
        outputs = np.append(outputs, ask(further))
    return Answers(masks, outputs, n_halves, is_stable=False)


def _first_masks(n_segments: int, n_masks: int, question: str, rng: np.random.Generator) -> Floats:
    """Masks of the first half; the first of them is the row itself."""
    shares = KEPT_AT_FIRST[question]
    sizes = [n_masks - n_masks // 2, n_masks // 2]
    parts = [
        neighbour_masks(n_segments, size, rng, kept=kept, with_input=i == 0)
        for i, (size, kept) in enumerate(zip(sizes, shares, strict=True))
        if size
    ]
    return np.vstack(parts)


def _round_sizes(n_left: int) -> list[int]:
    """Questions of each round: as equal as can be, none empty."""
    sizes = np.diff(np.linspace(0, n_left, ROUNDS + 1).astype(int))
    return [int(size) for size in sizes if size > 0]


def worth_by_ridge(masks: Floats, outputs: Floats) -> Floats:
    """Coefficients of a ridge regression of the outputs: what each segment adds where it is kept."""
    centred = masks - masks.mean(axis=0)
    gram = centred.T @ centred + RIDGE * np.eye(masks.shape[1])
    return np.asarray(np.linalg.solve(gram, centred.T @ (outputs - outputs.mean())))


def ranking(worth: Floats) -> Integers:
    """Segments by their worth, the largest first."""
    return np.argsort(-worth, kind="stable")


def sets_of_the_best(worth: Floats, n_sets: int, rng: np.random.Generator) -> Floats:
    """Draw sets of the segments that are worth most: of many sizes, and varied, so that each is compared.

    Sizes reach from two segments to half of them, evenly in the logarithm: what suffices is not known
    beforehand. Noise on the worth exchanges segments of similar worth.

    Examples
    --------
    >>> sets = sets_of_the_best(np.array([9.0, 0.0, 0.1, 8.0, 0.0, 0.2]), 200, np.random.default_rng(0))
    >>> bool(sets[:, [0, 3]].mean() > 0.9), sorted(set(sets.sum(axis=1).tolist()))
    (True, [2.0, 3.0])
    """
    n_segments = len(worth)
    largest = max(SMALLEST, -(-n_segments // 2))
    sizes = np.exp(rng.uniform(np.log(SMALLEST), np.log(largest + 1), size=n_sets)).astype(np.int64)
    noise = rng.gumbel(size=(n_sets, n_segments))
    varied = worth + SPREAD * worth.std() * noise
    place = np.argsort(np.argsort(-varied, axis=1), axis=1)
    return (place < sizes[:, None]).astype(np.float64)


def prefixes(order: Integers, question: str) -> Floats:
    """Masks that keep (or remove) the first segments of a ranking: none, one, two, … all.

    Examples
    --------
    >>> prefixes(np.array([2, 0, 1]), "necessity")
    array([[1., 1., 1.],
           [1., 1., 0.],
           [0., 1., 0.],
           [0., 0., 0.]])
    """
    place = np.argsort(order)
    taken = (place < np.arange(len(order) + 1)[:, None]).astype(np.float64)
    return taken if question == "sufficiency" else 1.0 - taken


def first_enough(is_so: NDArray[np.bool_]) -> int:
    """Length of the shortest prefix for which something holds; all of them where it never does.

    Examples
    --------
    >>> first_enough(np.array([False, False, True, True]))
    2
    """
    return int(np.argmax(is_so)) if is_so.any() else len(is_so) - 1
