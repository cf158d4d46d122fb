"""Who meets whom where classes are spread over ranks: two levels, ranks in rounds and the bundles of two ranks.

Rank r holds bundles 2nr … 2n(r + 1), in two halves of n. When two ranks meet, the rows of one half of each
visit one half of the other, so that neither works on weights that the other's rows visit.
"""

from __future__ import annotations

from dataclasses import dataclass

from tellwhy.classifiers.svm.schedule import rounds

HALVES = ((0, 0), (0, 1), (1, 1), (1, 0))  # (own half, half of the other) of the lower rank, in turn

Block = tuple[int, int]


@dataclass(frozen=True)
class Meeting:
    """Our bundles meet those of another rank, each another one; their rows meet those of our `hosts`."""

    other: int
    blocks: list[Block]
    hosts: list[int]


def bundles_of(rank: int, n: int, half: int | None = None) -> range:
    """Bundles of a rank, or of one of its halves of n."""
    whole = range(2 * n * rank, 2 * n * (rank + 1))
    return whole if half is None else whole[half * n : (half + 1) * n]


def partners(me: int, size: int) -> list[int | None]:
    """Whom a rank meets in each round; None where it rests.

    Examples
    --------
    >>> partners(0, 4), partners(1, 3)
    ([3, 2, 1], [2, None, 0])
    """
    met = [[b if a == me else a for a, b in pairs if me in (a, b)] for pairs in rounds(size)]
    return [found[0] if found else None for found in met]


def turns(me: int, size: int, n: int) -> list[list[Meeting]]:
    """Meetings of a rank, by turns that all ranks take at the same time, some of them resting.

    Examples
    --------
    >>> turns(0, 2, 1)[1], turns(1, 2, 1)[1]
    ([Meeting(other=1, blocks=[(0, 3)], hosts=[1])], [Meeting(other=0, blocks=[(2, 1)], hosts=[3])])
    """
    return [
        [] if other is None else _meetings(me, other, n, halves)
        for other in partners(me, size)
        for halves in HALVES
    ]


def _meetings(me: int, other: int, n: int, halves: tuple[int, int]) -> list[Meeting]:
    """The higher of two ranks sends to what the lower neither sends from nor to."""
    mine, theirs = halves if me < other else (1 - halves[1], 1 - halves[0])
    ours, foreign, lent = bundles_of(me, n, mine), bundles_of(other, n, theirs), bundles_of(me, n, 1 - mine)
    shifts = [[(i + shift) % n for i in range(n)] for shift in range(n)]
    return [
        Meeting(other, [(ours[i], foreign[turn[i]]) for i in range(n)], [lent[i] for i in turn])
        for turn in shifts
    ]
