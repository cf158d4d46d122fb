"""Questions to a model about one row, and an order of its segments whose starts it was asked about.

Half of the questions leave a share of the segments, drawn evenly. The others come in rounds: before each, a
ridge regression of all answers ranks the segments, and the next questions keep (or remove) sets of those
ranked first. A regression that has seen only halves of images says little of what a tenth of one is worth;
one that has seen the sets that it would name itself does. Choosing questions by earlier answers leaves the
posterior as it is: the masks depend on the coefficients only through answers that the likelihood holds
already. Intervals are as valid as with masks that were fixed.

Coefficients are averages over many questions. Whether five segments suffice *together* is another matter:
two that matter alone may say the same. So orders are made in several ways: by adding segments one by one, by
leaving them out one by one, by regressions, and by beginning with the first and going on with the others.
The model is asked about all starts of each, and the order whose starts are best on average is taken. Where a
start is worse than a shorter one, the segments around its end are put into a better order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.surrogate.inputs import draw_neighbour_masks

DIGITS = 6  # of outputs that are compared: a model's rounding errors must not decide
ADDED = 4  # one in so many of the segments are added one by one: what few suffice is found so
BETTER = 0.0005  # mean worth by which an order must be better to be taken in place of one before it
DIP = 0.005  # worth that a start must lack, against a shorter one, to be mended
WINDOW = 4  # segments before and after the end of such a start that are put into another order
MENDED = 8  # starts at most
TO_MEND = 2 * (2 * WINDOW + 1) ** 2  # questions that further beginnings must leave: for two of them

Order = list[int]
Scale = Callable[[Floats], Floats]
"""From what sets are worth to numbers between 0 and about 1, whose means judge orders."""


@dataclass(eq=False)
class Sets:
    """Asks what sets of segments are worth, each set once.

    Attributes
    ----------
    worth
        From sets, as masks (n, segments), to what each is worth; larger is better.
    n_segments
        How many there are.
    n_left
        How many sets may still be asked about.
    """

    worth: Callable[[Floats], Floats]
    n_segments: int
    n_left: int
    n_asked: int = 0
    known: dict[frozenset[int], float] = field(default_factory=dict)

    def of(self, sets: Sequence[Sequence[int]]) -> Floats:
        """What each set is worth."""
        keys = [frozenset(one) for one in sets]
        new = [key for key in dict.fromkeys(keys) if key not in self.known]
        if new:
            masks = np.zeros((len(new), self.n_segments))
            for mask, key in zip(masks, new, strict=True):
                mask[list(key)] = 1.0
            self.known.update(zip(new, self.worth(masks).round(DIGITS).tolist(), strict=True))
            self.n_asked += len(new)
            self.n_left -= len(new)
        return np.array([self.known[key] for key in keys])


def find_best_order(sets: Sets, rankings: Sequence[Order], scale: Scale, *, enough: float) -> Order:
    """Find an order of the segments whose starts are worth most.

    Parameters
    ----------
    sets
        Asks what sets are worth.
    rankings
        Orders of all segments by regressions. The first tells which segments are compared at all, where
        questions do not reach for all, and which come first where sets are worth the same.
    scale
        From what sets are worth to numbers between 0 and about 1, whose means judge orders.
    enough
        Worth of a set to which no segment needs to be added.

    Examples
    --------
    Segments 0 and 1 say the same, so that the second of them adds nothing:

    >>> def worth(masks):
    ...     return 0.5 * masks[:, :2].max(axis=1) + 0.3 * masks[:, 2] + 0.2 * masks[:, 3]
    >>> find_best_order(Sets(worth, 4, 100), [[0, 1, 2, 3]], lambda found: found, enough=1.0)
    [0, 2, 3, 1]
    """
    n = len(rankings[0])
    if sets.n_left < n:
        return list(rankings[0])  # not even the starts of one order can be asked about
    # Some are left to judge with: all orders that regressions give, and as many again.
    compared = rankings[0][: count_compared(n, sets.n_left - 2 * len(rankings) * n)]
    rest = rankings[0][len(compared) :]
    added = _added(sets, [], compared, -(-len(compared) // ADDED), enough)
    kept = _left_out(sets, [], compared) + rest
    best = _best(sets, _orders(added, kept, rankings), scale)
    begun = [
        front + _left_out(sets, front, left) + rest for front, left in _list_beginnings(sets, added, compared)
    ]
    return _best(sets, [_mend_order(sets, order, scale) for order in (best, *begun)], scale)


def count_compared(n_segments: int, n_questions: int) -> int:
    """How many segments can be compared with so many questions: m of them take about 3 m² / 4.

    Examples
    --------
    >>> count_compared(49, 2048), count_compared(49, 512), count_compared(10, -3)
    (49, 25, 0)
    """
    return min(n_segments, int(np.sqrt(max(0, n_questions) / 0.75) - 0.5))


def _added(sets: Sets, front: Order, compared: Order, most: int, enough: float = np.inf) -> Order:
    """Add the segment with which a set is worth most, until it is worth enough or so many are added."""
    found: Order = []
    left = list(compared)
    while len(found) < min(most, len(compared)):
        worth = sets.of([[*front, *found, segment] for segment in left])
        best = int(worth.argmax())  # the first of those that are worth the same
        found.append(left.pop(best))
        if worth[best] >= enough:
            break
    return found


def _left_out(sets: Sets, front: Order, compared: Order) -> Order:
    """Leave out, one by one, the segment without which the others are worth most: it goes last."""
    back: Order = []
    left = list(compared)
    while len(left) > 1:
        worth = sets.of([[*front, *(other for other in left if other != one)] for one in left])
        least = len(left) - 1 - int(worth[::-1].argmax())  # the last of those that are missed as little
        back.append(left.pop(least))
    return [*left, *back[::-1]]


def _orders(added: Order, kept: Order, rankings: Sequence[Order]) -> list[Order]:
    """Orders to judge, those first that are taken where others are no better."""
    whole = [kept, *rankings]
    return [*whole, *(_splice_orders(added[:cut], rest) for rest in whole for cut in _choose_cuts(added))]


def _choose_cuts(added: Order) -> list[int]:
    """How many of the added segments others may go on after: a quarter, half, all."""
    return sorted({-(-len(added) // 4), -(-len(added) // 2), len(added)})


def _list_beginnings(sets: Sets, added: Order, compared: Order) -> Iterator[tuple[Order, Order]]:
    """Beginnings of the added segments, and what is left to be put in order, while questions reach."""
    for cut in _choose_cuts(added):
        left = [segment for segment in compared if segment not in added[:cut]]
        if sets.n_left >= len(left) * (len(left) + 1) // 2 + sets.n_segments + TO_MEND:
            yield added[:cut], left


def _splice_orders(beginning: Order, rest: Order) -> Order:
    """Return a beginning, and what it lacks in the order of another."""
    return [*beginning, *(segment for segment in rest if segment not in beginning)]


def _score_starts(sets: Sets, order: Order, scale: Scale) -> Floats:
    """What the starts of an order are worth: of one segment, two, … all but one."""
    return scale(sets.of([order[:length] for length in range(1, len(order))]))


def _best(sets: Sets, orders: list[Order], scale: Scale) -> Order:
    """Return the order whose starts are worth most on average, as far as the questions reach.

    Starts count by the inverse of their length: few segments say more than many.
    """
    n = len(orders[0])
    weights = 1.0 / np.arange(1, n)
    best, most = orders[0], -np.inf
    for order in orders:
        if sets.n_left < n and order is not orders[0]:
            break
        mean = float(np.average(_score_starts(sets, order, scale), weights=weights))
        if mean > most + BETTER:
            best, most = order, mean
    return best


def _mend_order(sets: Sets, order: Order, scale: Scale) -> Order:
    """Reorder segments around the ends of starts that are worse than a shorter one."""
    tried: set[int] = set()
    for _ in range(MENDED if sets.n_left >= len(order) else 0):
        found = _score_starts(sets, order, scale)
        dips = np.maximum.accumulate(found) - found
        is_good = dips < DIP
        dips[list(tried)] = 0.0
        worst = int(dips.argmax())
        if dips[worst] < DIP:
            break
        tried.add(worst)
        for low, high in (_stretch(is_good, worst), _choose_window(worst, len(order))):
            if sets.n_left >= (high - low + 1) ** 2:
                order = _find_best_within(sets, order, low, high, scale)
                break
    return order


def _choose_window(worst: int, n: int) -> tuple[int, int]:
    """Places shortly before and after the end of a start, which holds one segment more than its number."""
    return max(0, worst + 1 - WINDOW), min(n, worst + 1 + WINDOW)


def _stretch(is_good: NDArray[np.bool_], worst: int) -> tuple[int, int]:
    """Places from the last good start before a bad one to the first good one after it, or more.

    Examples
    --------
    >>> good = np.array([True] * 3 + [False] * 9 + [True] * 3)
    >>> _stretch(good, 5), _stretch(good[:10], 5)
    ((2, 13), (2, 11))
    """
    low, high = _choose_window(worst, len(is_good) + 1)
    before = np.flatnonzero(is_good[:worst])
    after = np.flatnonzero(is_good[worst:])
    first = int(before[-1]) + 1 if len(before) else 0
    last = worst + int(after[0]) + 1 if len(after) else len(is_good) + 1
    return min(low, first), max(high, last)


def _find_best_within(sets: Sets, order: Order, low: int, high: int, scale: Scale) -> Order:
    """Put some segments into the best of three orders: as they are, by adding, by leaving out."""
    front, window = order[:low], order[low:high]
    tries = [window, _added(sets, front, window, len(window)), _left_out(sets, front, window)]
    orders = [[*front, *one, *order[high:]] for one in tries]
    means = [float(_score_starts(sets, one, scale)[low : high - 1].mean()) for one in orders]
    return orders[int(np.argmax(means))]


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
    masks = draw_neighbour_masks(n_segments, n_questions, rng, kept=kept)
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
    >>> ranking(fit_worth_by_ridge(answers.masks, answers.outputs))[:2]
    array([1, 3])
    """
    half = n_questions // 2
    n_halves = half - half // 2
    masks = _draw_first_masks(n_segments, half, question, rng)
    outputs = ask(masks)
    if n_segments < SMALLEST:
        return Answers(masks, outputs, n_halves, is_stable=True)  # there is nothing to rank
    ranked_first: list[frozenset[int]] = []
    for size in _round_sizes(n_questions - half):
        worth = fit_worth_by_ridge(masks, outputs)
        ranked_first.append(frozenset(ranking(worth)[:LOOKED_AT].tolist()))
        if len(ranked_first) >= STABLE and len(set(ranked_first[-STABLE:])) == 1:
            return Answers(masks, outputs, n_halves, is_stable=True)
        sets = draw_sets_of_the_best(worth, size, rng)
        further = sets if question == "sufficiency" else 1.0 - sets
        masks = np.vstack([masks, further])
        outputs = np.append(outputs, ask(further))
    return Answers(masks, outputs, n_halves, is_stable=False)


def _draw_first_masks(n_segments: int, n_masks: int, question: str, rng: np.random.Generator) -> Floats:
    """Masks of the first half; the first of them is the row itself."""
    shares = KEPT_AT_FIRST[question]
    sizes = [n_masks - n_masks // 2, n_masks // 2]
    parts = [
        draw_neighbour_masks(n_segments, size, rng, kept=kept, with_input=i == 0)
        for i, (size, kept) in enumerate(zip(sizes, shares, strict=True))
        if size
    ]
    return np.vstack(parts)


def _round_sizes(n_left: int) -> list[int]:
    """Questions of each round: as equal as can be, none empty."""
    sizes = np.diff(np.linspace(0, n_left, ROUNDS + 1).astype(int))
    return [int(size) for size in sizes if size > 0]


def fit_worth_by_ridge(masks: Floats, outputs: Floats) -> Floats:
    """Coefficients of a ridge regression of the outputs: what each segment adds where it is kept."""
    centred = masks - masks.mean(axis=0)
    gram = centred.T @ centred + RIDGE * np.eye(masks.shape[1])
    return np.asarray(np.linalg.solve(gram, centred.T @ (outputs - outputs.mean())))


def ranking(worth: Floats) -> Integers:
    """Segments by their worth, the largest first."""
    return np.argsort(-worth, kind="stable")


def draw_sets_of_the_best(worth: Floats, n_sets: int, rng: np.random.Generator) -> Floats:
    """Draw sets of the segments that are worth most: of many sizes, and varied, so that each is compared.

    Sizes reach from two segments to half of them, evenly in the logarithm: what suffices is not known
    beforehand. Noise on the worth exchanges segments of similar worth.

    Examples
    --------
    >>> sets = draw_sets_of_the_best(np.array([9.0, 0.0, 0.1, 8.0, 0.0, 0.2]), 200, np.random.default_rng(0))
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


def make_prefixes(order: Integers, question: str) -> Floats:
    """Masks that keep (or remove) the first segments of a ranking: none, one, two, … all.

    Examples
    --------
    >>> make_prefixes(np.array([2, 0, 1]), "necessity")
    array([[1., 1., 1.],
           [1., 1., 0.],
           [0., 1., 0.],
           [0., 0., 0.]])
    """
    place = np.argsort(order)
    taken = (place < np.arange(len(order) + 1)[:, None]).astype(np.float64)
    return taken if question == "sufficiency" else 1.0 - taken


def find_first_enough(is_so: NDArray[np.bool_]) -> int:
    """Length of the shortest prefix for which something holds; all of them where it never does.

    Examples
    --------
    >>> find_first_enough(np.array([False, False, True, True]))
    2
    """
    return int(np.argmax(is_so)) if is_so.any() else len(is_so) - 1
