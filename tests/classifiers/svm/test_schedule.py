import itertools

import numpy as np
import pytest

from tellwhy.classifiers.svm.dual_lists import balanced_blocks, partner, rounds


@pytest.mark.parametrize("n", range(1, 14))
def test_every_pair_meets_once_and_rounds_are_disjoint(n):
    met = [pair for pairs in rounds(n) for pair in pairs]
    assert sorted(met) == list(itertools.combinations(range(n), 2))
    for pairs in rounds(n):
        teams = [team for pair in pairs for team in pair]
        assert len(teams) == len(set(teams))
    assert len(rounds(n)) == (0 if n == 1 else n - 1 if n % 2 == 0 else n)


def printed_algorithm_4(n, c, r):
    """The schedule as printed in the thesis."""
    if n % 2 == 0 and c == n:
        return r
    if c == r:
        return n if n % 2 == 0 else c
    return (2 * r - c) % (n - 1)


@pytest.mark.parametrize("n", [5, 8])
def test_the_printed_schedule_fails_where_ours_holds(n):
    m = n if n % 2 else n - 1
    printed = [[printed_algorithm_4(n, c, r) for c in range(1, n + 1)] for r in range(1, m + 1)]
    assert any(other < 1 for line in printed for other in line)
    for r in range(1, m + 1):
        for c in range(1, n + 1):
            other = partner(n, c, r)
            assert other is None or (1 <= other <= n and other != c and partner(n, other, r) == c)


def test_bundles_are_balanced_by_classes_and_rows():
    rng = np.random.default_rng(0)
    sizes = np.sort(rng.pareto(1.0, size=101) * 10).astype(int) + 1
    bundles = balanced_blocks(sizes, 4)
    assert sorted(np.concatenate(bundles)) == list(range(101))
    assert {len(b) for b in bundles} == {25, 26}
    rows = [sizes[b].sum() for b in bundles]
    assert max(rows) <= max(1.1 * min(rows), sizes.max() + 25 * np.median(sizes))
