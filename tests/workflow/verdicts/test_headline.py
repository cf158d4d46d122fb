"""The first sentences of a report, in good English whatever their numbers are."""

from dataclasses import replace

import pytest
from zoo.anomalies import odd_row

from tellwhy.results.notice import Notice
from tellwhy.results.result import AlarmRule, Finding, Reason
from tellwhy.verdicts.headline import make_headline

RULE = "at most 10 % false alarms expected"


def alarm(row, known_by, column):
    finding = (
        Finding("placeholder", [column], [], {"value": 300}, {"low": 20, "high": 70}, n=1)
        if known_by == "rule"
        else None
    )
    reason = Reason(
        column, 300, [20, 70], 0.9, known_by == "verified", facts={"column": "number"}, finding=finding
    )
    return odd_row(row, None, 9.0, 99.0, True, [reason])


@pytest.mark.parametrize(
    ("known_by", "told"),
    [
        ("v", "The reasons for the alarm were verified: with usual values in the named columns"),
        ("u", "The reasons for the alarm could not be verified."),
        ("vv", "The reasons for both alarms were verified: "),
        ("vvvvv", "The reasons for all 5 alarms were verified: "),
        ("vuv", "The reasons for 2 of 3 alarms were verified: "),
        ("vuv", "The reasons for the last one could not be verified."),
        ("vuvu", "The reasons for the remaining 2 could not be verified."),
        ("uu", "The reasons for both alarms could not be verified."),
        ("r", "The alarm was found by a rule about the data."),
        ("rr", "Both alarms were found by rules about the data."),
        ("rrrr", "All 4 alarms were found by rules about the data."),
        ("uru", "1 of 3 alarms was found by a rule about the data. The reasons for both others could not"),
        ("rvv", "The reasons for both others were verified: "),
        ("rvvv", "The reasons for all 3 others were verified: "),
        ("rvvu", "The reasons for 2 of the 3 others were verified: "),
    ],
)
def test_how_many_and_how_sure(known_by, told):
    words = {"v": "verified", "r": "rule", "u": "unverified"}
    alarms = [alarm(row, words[sign], "age") for row, sign in enumerate(known_by)]
    many, foremost, sure = make_headline(800, AlarmRule(RULE, len(alarms), 0.2), alarms, {}).sentences
    counted = "1 of 800 rows is an alarm" if len(alarms) == 1 else f"{len(alarms)} of 800 rows are alarms"
    assert many.startswith(counted)
    assert f" ({RULE})" in many
    assert foremost.startswith("The oddest is row 0: age = 300")
    assert told in sure
    n = {word: known_by.count(sign) for sign, word in words.items()}
    assert (
        "verified: with" in sure,
        "by a rule" in sure or "by rules" in sure,
        "not be verified" in sure,
    ) == (
        n["verified"] > 0,
        n["rule"] > 0,
        n["unverified"] > 0,
    )


def test_causes_are_counted_as_people_count_them():
    def first(n_flagged, columns):
        alarms = [alarm(row, "verified", column) for row, column in enumerate(columns)]
        return make_headline(800, AlarmRule(RULE, n_flagged, 0.2), alarms, {}).sentences[0]

    assert first(10, "abcdefghij").startswith("10 of 800 rows are alarms, with 10 different causes (")
    assert first(3, "aab").startswith("3 of 800 rows are alarms, with 2 different causes (")
    assert first(2, "aa").startswith("2 of 800 rows are alarms, all with one cause (")
    assert first(300, "ab").startswith("300 of 800 rows are alarms, with at least 2 different causes (")
    assert first(1, "a").startswith("1 of 800 rows is an alarm (")


def test_rows_that_are_odd_in_many_columns_are_counted_among_the_unverified():
    alarms = [alarm(row, "unverified", "age") for row in range(3)]
    many = Notice("odd_in_many", {"n": 5, "most": 3})
    alarms[1:] = [replace(each, doubt=many) for each in alarms[1:]]
    sure = make_headline(800, AlarmRule(RULE, 3, 0.2), alarms, {}).sentences[2]
    assert sure == (
        "The reasons for all 3 alarms could not be verified: 2 are odd in more than 3 columns at once."
    )
