"""Rounds in which every pair of class blocks (or of ranks) is worked on exactly once.

The pairs of one round have nothing in common, so that they can be worked on at the same time. This is the
round-robin of a tournament, the 1-factorization of the complete graph. With an even number one stands in the
centre and the others on a circle; in round r the centre is paired with number r, and the others across the
line between these two. With an odd number, the one that would be paired with the centre rests.
"""

from __future__ import annotations

import numpy as np

from tellwhy.core.score_function import Integers


def partner(n: int, c: int, r: int) -> int | None:
    """Whom c is paired with in round r, all counted from 1; None where it rests.

    Examples
    --------
    >>> [partner(4, c, 1) for c in (1, 2, 3, 4)]
    [4, 3, 2, 1]
    >>> [partner(3, c, 2) for c in (1, 2, 3)]
    [3, None, 1]
    """
    is_even = n % 2 == 0
    on_circle = n - 1 if is_even else n
    if is_even and c == n:
        return r
    if c == r:
        return n if is_even else None
    # Mirrored at r on the circle. Algorithm 4 of the thesis, as printed, leaves the circle here.
    return (2 * r - c - 1) % on_circle + 1


def rounds(n: int) -> list[list[tuple[int, int]]]:
    """All rounds among n, counted from 0: pairs of one round are disjoint, and every pair occurs once.

    Examples
    --------
    >>> rounds(4)
    [[(0, 3), (1, 2)], [(0, 2), (1, 3)], [(0, 1), (2, 3)]]
    """
    n_rounds = n if n % 2 else n - 1
    found = [_round(n, r) for r in range(1, n_rounds + 1)]
    return [pairs for pairs in found if pairs]


def _round(n: int, r: int) -> list[tuple[int, int]]:
    pairs = []
    for c in range(1, n + 1):
        other = partner(n, c, r)
        if other is not None and c < other:
            pairs.append((c - 1, other - 1))
    return pairs


def balanced_blocks(sizes: Integers, n_blocks: int) -> list[Integers]:
    """Cut classes into blocks that differ by at most one class and hold about as many rows each.

    The largest classes are dealt first, each to the block with the fewest rows that still has a place.

    Examples
    --------
    >>> [block.tolist() for block in balanced_blocks(np.array([9, 1, 5, 5]), 2)]
    [[0, 1], [2, 3]]
    """
    n = len(sizes)
    places = np.full(n_blocks, n // n_blocks)
    places[: n % n_blocks] += 1
    rows = np.zeros(n_blocks)
    members: list[list[int]] = [[] for _ in range(n_blocks)]
    for c in np.argsort(-np.asarray(sizes), kind="stable"):
        open_rows = np.where(places > [len(m) for m in members], rows, np.inf)
        to = int(np.argmin(open_rows))
        members[to].append(int(c))
        rows[to] += sizes[c]
    return [np.sort(np.array(m, dtype=np.int64)) for m in members]
