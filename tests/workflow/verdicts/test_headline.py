"""The first sentences of a report, in good English whatever their numbers are."""

import pytest

from tellwhy.workflow.run import AlarmRule, Anomaly, Reason
from tellwhy.workflow.verdicts.headline import headline_of

RULE = "at most 10 % false alarms expected"


def alarm(row, *, holds):
    reason = Reason("age", 300, [20, 70], 0.9, "age = 300 · 90 %", holds)
    return Anomaly(row, None, 9.0, 99.0, True, [reason])


@pytest.mark.parametrize(
    ("holds", "by_finding", "told"),
    [
        ([True], [], "The reasons of the alarm were verified: with usual values in the named columns"),
        ([False], [], "The reasons of the alarm could not be verified."),
        ([True, True], [], "The reasons of 2 of 2 alarms were verified: "),
        (
            ["", ""],
            [0],
            "1 of 2 alarms rests on a finding alone: see there how sure it is. The reasons of the other one",
        ),
        ([True, True, True], [0], "The reasons of 2 of the 2 others were verified: "),
    ],
)
def test_how_many_and_how_sure(holds, by_finding, told):
    alarms = [alarm(row, holds=each) for row, each in enumerate(holds)]
    many, foremost, sure = headline_of(800, AlarmRule(RULE, len(alarms), 0.2), alarms, by_finding=by_finding)
    counted = "1 of 800 rows is an alarm" if len(alarms) == 1 else f"{len(alarms)} of 800 rows are alarms"
    assert many.startswith(f"{counted} ({RULE})")
    assert foremost == "The oddest is row 0: age = 300."
    assert told in sure
