"""Which ranks work together when: two levels, pairs of ranks in rounds and the class blocks of two ranks.

Rank r holds class blocks 2nr … 2n(r + 1), in two halves of n. When two ranks meet, the rows of one half of
each visit one half of the other, so that neither works on weights that the other's rows visit.
"""

from __future__ import annotations

from dataclasses import dataclass

from tellwhy.classifiers.svm.schedule import rounds

HALVES = ((0, 0), (0, 1), (1, 1), (1, 0))  # (own half, half of the other) of the lower rank, in turn

Tile = tuple[int, int]


@dataclass(frozen=True)
class Meeting:
    """Rows of our blocks visit blocks of another rank, each another one; its rows visit our `hosts`."""

    other: int
    tiles: list[Tile]
    hosts: list[int]


def blocks_of(rank: int, n: int, half: int | None = None) -> range:
    """Class blocks of a rank, or of one of its halves of n."""
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
    ([Meeting(other=1, tiles=[(0, 3)], hosts=[1])], [Meeting(other=0, tiles=[(2, 1)], hosts=[3])])
    """
    return [
        [] if other is None else _meetings(me, other, n, halves)
        for other in partners(me, size)
        for halves in HALVES
    ]


def _meetings(me: int, other: int, n: int, halves: tuple[int, int]) -> list[Meeting]:
    """The higher of two ranks sends to what the lower neither sends from nor to."""
    mine, theirs = halves if me < other else (1 - halves[1], 1 - halves[0])
    ours = blocks_of(me, n, mine)
    foreign = blocks_of(other, n, theirs)
    lent = blocks_of(me, n, 1 - mine)
    found = []
    for shift in range(n):
        turn = [(i + shift) % n for i in range(n)]
        tiles = [(ours[i], foreign[turn[i]]) for i in range(n)]
        found.append(Meeting(other, tiles, [lent[i] for i in turn]))
    return found
