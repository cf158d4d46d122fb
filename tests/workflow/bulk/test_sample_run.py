"""Of which block a run tells what is usual: it depends on the blocks, not on the order of their ends."""

from types import SimpleNamespace

import pytest

from tellwhy.bulk.merge import EarlySample
from tellwhy.bulk.parts import Record

PLAN = SimpleNamespace(blocks=[SimpleNamespace(number=n) for n in range(4)])


def done(**alarms):
    """Records of some blocks: b2=5 is block 2 with five alarms."""
    return {int(name[1:]): Record(int(name[1:]), n_alarms=n) for name, n in alarms.items()}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (done(), None),
        (done(b1=3), None),  # block 0 may have alarms
        (done(b0=0, b2=3), None),  # so may block 1
        (done(b0=2), 0),
        (done(b3=1, b0=0, b1=4), 1),
        (done(b0=0, b1=0, b2=0, b3=1), 3),
        (done(b0=0, b1=0, b2=0, b3=0), None),
    ],
)
def test_it_is_the_first_with_alarms_and_known_only_when_those_before_are_done(records, expected):
    found = EarlySample(PLAN).first_with_alarms(records)
    assert (None if found is None else found.number) == expected


def test_blocks_that_have_no_alarms_are_looked_at_once():
    early = EarlySample(PLAN)
    records = done(b0=0)
    assert early.first_with_alarms(records) is None
    records |= done(b1=0, b3=2)
    assert early.first_with_alarms(records) is None
    records |= done(b2=7)
    assert early.first_with_alarms(records).number == 2


def test_what_went_wrong_in_the_thread_is_raised_where_it_is_asked_for():
    early = EarlySample(SimpleNamespace(blocks=PLAN.blocks, job=SimpleNamespace(model="/nowhere/m.tellwhy")))
    early.look(done(b1=1))
    assert early.result() is None
    early.look(done(b0=1))
    with pytest.raises(Exception, match="nowhere"):
        early.result()
    early.end()
