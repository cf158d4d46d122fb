"""Who meets whom: rounds in which every pair of classes (or bundles, or ranks) meets exactly once.

The 1-factorization of the complete graph, as a football league does it. With an even number of teams one
stands in the centre and the others on a circle; in round r the centre meets team r and the others meet across
that line. With an odd number the team that would meet the centre rests.
"""

from __future__ import annotations

import numpy as np

from tellwhy.core.score_function import Integers


def partner(n: int, c: int, r: int) -> int | None:
    """Whom team c meets in round r, all counted from 1; None where it rests.

    Examples
    --------
    >>> [partner(4, c, 1) for c in (1, 2, 3, 4)]
    [4, 3, 2, 1]
    >>> [partner(3, c, 2) for c in (1, 2, 3)]
    [3, None, 1]
    """
    even = n % 2 == 0
    m = n - 1 if even else n
    if even and c == n:
        return r
    if c == r:
        return n if even else None
    return (2 * r - c - 1) % m + 1


def rounds(n: int) -> list[list[tuple[int, int]]]:
    """All rounds among n teams, counted from 0: pairs of one round are disjoint, and every pair occurs once.

    Examples
    --------
    >>> rounds(4)
    [[(0, 3), (1, 2)], [(0, 2), (1, 3)], [(0, 1), (2, 3)]]
    """
    found = []
    for r in range(1, (n if n % 2 else n - 1) + 1):
        met = ((c, partner(n, c, r)) for c in range(1, n + 1))
        found.append([(c - 1, other - 1) for c, other in met if other is not None and c < other])
    return [pairs for pairs in found if pairs]


def balanced_bundles(sizes: Integers, n_bundles: int) -> list[Integers]:
    """Cut classes into bundles that differ by at most one class and hold about as many rows each.

    The largest classes are dealt first, each to the bundle with the fewest rows that still has a place.

    Examples
    --------
    >>> [bundle.tolist() for bundle in balanced_bundles(np.array([9, 1, 5, 5]), 2)]
    [[0, 1], [2, 3]]
    """
    n = len(sizes)
    places = np.full(n_bundles, n // n_bundles)
    places[: n % n_bundles] += 1
    rows, members = np.zeros(n_bundles), [[] for _ in range(n_bundles)]  # type: tuple[np.ndarray, list[list[int]]]
    for c in np.argsort(-np.asarray(sizes), kind="stable"):
        open_rows = np.where(places > [len(m) for m in members], rows, np.inf)
        to = int(np.argmin(open_rows))
        members[to].append(int(c))
        rows[to] += sizes[c]
    return [np.sort(np.array(m, dtype=np.int64)) for m in members]
