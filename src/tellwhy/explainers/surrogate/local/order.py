"""An order of segments whose starts the model itself was asked about.

Coefficients are averages over many questions. Whether five segments suffice *together* is another matter:
two that matter alone may say the same. So orders are made in several ways: by adding segments one by one, by
leaving them out one by one, by regressions, and by beginning with the first and going on with the others.
The model is asked about all starts of each, and the order whose starts are best on average is taken. Where a
start is worse than a shorter one, the segments around its end are put into a better order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.score_function import Floats

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


def best_order(sets: Sets, rankings: Sequence[Order], scale: Scale, *, enough: float) -> Order:
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
    >>> best_order(Sets(worth, 4, 100), [[0, 1, 2, 3]], lambda found: found, enough=1.0)
    [0, 2, 3, 1]
    """
    n = len(rankings[0])
    if sets.n_left < n:
        return list(rankings[0])  # not even the starts of one order can be asked about
    # Some are left to judge with: all orders that regressions give, and as many again.
    compared = rankings[0][: n_compared(n, sets.n_left - 2 * len(rankings) * n)]
    rest = rankings[0][len(compared) :]
    added = _added(sets, [], compared, -(-len(compared) // ADDED), enough)
    kept = _left_out(sets, [], compared) + rest
    best = _best(sets, _orders(added, kept, rankings), scale)
    begun = [
        front + _left_out(sets, front, left) + rest for front, left in _beginnings(sets, added, compared)
    ]
    return _best(sets, [_mended(sets, order, scale) for order in (best, *begun)], scale)


def n_compared(n_segments: int, n_questions: int) -> int:
    """How many segments can be compared with so many questions: m of them take about 3 m² / 4.

    Examples
    --------
    >>> n_compared(49, 2048), n_compared(49, 512), n_compared(10, -3)
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
    return [*whole, *(_spliced(added[:cut], rest) for rest in whole for cut in _cuts(added))]


def _cuts(added: Order) -> list[int]:
    """How many of the added segments others may go on after: a quarter, half, all."""
    return sorted({-(-len(added) // 4), -(-len(added) // 2), len(added)})


def _beginnings(sets: Sets, added: Order, compared: Order) -> Iterator[tuple[Order, Order]]:
    """Beginnings of the added segments, and what is left to be put in order, while questions reach."""
    for cut in _cuts(added):
        left = [segment for segment in compared if segment not in added[:cut]]
        if sets.n_left >= len(left) * (len(left) + 1) // 2 + sets.n_segments + TO_MEND:
            yield added[:cut], left


def _spliced(beginning: Order, rest: Order) -> Order:
    """Return a beginning, and what it lacks in the order of another."""
    return [*beginning, *(segment for segment in rest if segment not in beginning)]


def _starts(sets: Sets, order: Order, scale: Scale) -> Floats:
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
        mean = float(np.average(_starts(sets, order, scale), weights=weights))
        if mean > most + BETTER:
            best, most = order, mean
    return best


def _mended(sets: Sets, order: Order, scale: Scale) -> Order:
    """Reorder segments around the ends of starts that are worse than a shorter one."""
    tried: set[int] = set()
    for _ in range(MENDED if sets.n_left >= len(order) else 0):
        found = _starts(sets, order, scale)
        dips = np.maximum.accumulate(found) - found
        is_good = dips < DIP
        dips[list(tried)] = 0.0
        worst = int(dips.argmax())
        if dips[worst] < DIP:
            break
        tried.add(worst)
        for low, high in (_stretch(is_good, worst), _window(worst, len(order))):
            if sets.n_left >= (high - low + 1) ** 2:
                order = _best_within(sets, order, low, high, scale)
                break
    return order


def _window(worst: int, n: int) -> tuple[int, int]:
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
    low, high = _window(worst, len(is_good) + 1)
    before = np.flatnonzero(is_good[:worst])
    after = np.flatnonzero(is_good[worst:])
    first = int(before[-1]) + 1 if len(before) else 0
    last = worst + int(after[0]) + 1 if len(after) else len(is_good) + 1
    return min(low, first), max(high, last)


def _best_within(sets: Sets, order: Order, low: int, high: int, scale: Scale) -> Order:
    """Put some segments into the best of three orders: as they are, by adding, by leaving out."""
    front, window = order[:low], order[low:high]
    tries = [window, _added(sets, front, window, len(window)), _left_out(sets, front, window)]
    orders = [[*front, *one, *order[high:]] for one in tries]
    means = [float(_starts(sets, one, scale)[low : high - 1].mean()) for one in orders]
    return orders[int(np.argmax(means))]
