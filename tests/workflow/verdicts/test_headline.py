"""The first sentences of a report, in good English whatever their numbers are."""

import pytest
from zoo.anomalies import odd_row

from tellwhy.results.result import AlarmRule, Reason
from tellwhy.verdicts.headline import headline_of

RULE = "at most 10 % false alarms expected"


def alarm(row, *, holds):
    reason = Reason("age", 300, [20, 70], 0.9, holds, facts={"column": "number"})
    return odd_row(row, None, 9.0, 99.0, True, [reason])


@pytest.mark.parametrize(
    ("holds", "by_finding", "told"),
    [
        ([True], [], "The reasons for the alarm were verified: with usual values in the named columns"),
        ([False], [], "The reasons for the alarm could not be verified."),
        ([True, True], [], "The reasons for both alarms were verified: "),
        ([True] * 5, [], "The reasons for all 5 alarms were verified: "),
        ([True, False, True], [], "The reasons for 2 of 3 alarms were verified: "),
        ([False, False], [], "The reasons for both alarms could not be verified."),
        ([True], [0], "The alarm was raised by findings about the data alone, not by the model."),
        ([True, True], [0, 1], "Both alarms were raised by findings about the data alone, not by the model."),
        (
            [True] * 4,
            [0, 1, 2, 3],
            "All 4 alarms were raised by findings about the data alone, not by the model.",
        ),
        (
            ["", ""],
            [0],
            "1 of 2 alarms was raised by findings about the data alone, not by the model. The reasons for the other one",
        ),
        ([True, True, True], [0], "The reasons for both others were verified: "),
        ([True] * 4, [0], "The reasons for all 3 others were verified: "),
        ([True, True, False], [0], "The reasons for 1 of the 2 others were verified: "),
    ],
)
def test_how_many_and_how_sure(holds, by_finding, told):
    alarms = [alarm(row, holds=each) for row, each in enumerate(holds)]
    many, foremost, sure = headline_of(
        800, AlarmRule(RULE, len(alarms), 0.2), alarms, by_finding=by_finding
    ).sentences
    counted = "1 of 800 rows is an alarm" if len(alarms) == 1 else f"{len(alarms)} of 800 rows are alarms"
    assert many.startswith(f"{counted} ({RULE})")
    assert foremost == "The oddest is row 0: age = 300 (usually 20–70)."
    assert told in sure
