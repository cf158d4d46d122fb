import pytest

from tellwhy.classifiers.svm.ranks.meetings import turns


@pytest.mark.parametrize(("ranks", "half"), [(2, 1), (2, 3), (3, 2), (4, 1)])
def test_ranks_meet_once_and_never_work_on_the_same_weights(ranks, half):
    every = [turns(rank, ranks, half) for rank in range(ranks)]
    n = 2 * half * ranks
    tiles = [tile for mine in every for turn in mine for meeting in turn for tile in meeting.tiles]
    assert sorted(tiles) == [(g, b) for g in range(n) for b in range(n) if g // (2 * half) != b // (2 * half)]
    for me in range(ranks):
        for at, turn in enumerate(every[me]):
            there = every[turn[0].other][at] if turn else []
            for ours, theirs in zip(turn, there, strict=True):
                assert theirs.other == me
                assert ours.hosts == [b for _, b in theirs.tiles]
                assert not set(ours.hosts) & {g for g, _ in ours.tiles}
                assert len({b for _, b in ours.tiles}) == len({g for g, _ in ours.tiles}) == half
