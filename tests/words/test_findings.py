"""Every form of a finding in words, on a made-up example of each."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tellwhy.checks.mistakes import MISTAKES
from tellwhy.results.result import MISSING, Finding, Reason
from tellwhy.words import tell
from tellwhy.words.english.findings import SENTENCES

SNAPSHOT = Path(__file__).with_name("findings.txt")
EQUATION = {
    "pattern": "{0} = {1} × {2}",
    "columns": ["total", "price", "pieces"],
    "before": [],
    "factor": 1.0,
    "offset": 0.0,
}
BALANCE = {
    "pattern": "{0} = {1} + {2}",
    "columns": ["balance", "balance", "amount"],
    "before": [1],
    "factor": 1.0,
    "offset": 2.5,
}
CLOCK = {"first": "2024-03-04 03:10", "last": "2024-03-04 04:20", "is_clock": True}
SIZE = asdict(Reason("size", 9.0, [1.0, 3.0], 0.5, facts={"column": "number"}))
NAMES = {"first": "17", "last": "19", "is_clock": False}


def odd(kind, columns, rows, facts=None, usual=None, cells=None, **more):
    return Finding(kind, columns, rows, facts or {}, usual or {}, cells or {}, **more)


EXAMPLES = [
    odd("gap", ["bill", "wing"], [3, 271], cells={"bill": None}),
    odd("gap", list("abcdef"), [3, 271], cells={"a": None}),
    odd("placeholder", ["age"], [3, 77], {"value": 999.0}, {"low": 18.0, "high": 94.0}, {"age": 999.0}),
    odd("placeholder", ["t"], [3], {"value": -999.0}, {"low": -3.5, "high": 30.0}, {"t": -999.0}),
    odd(
        "placeholder",
        ["born"],
        [3],
        {"value": "1900-01-01"},
        {"low": "1950-03-02", "high": "2004-12-31"},
        {"born": "1900-01-01"},
    ),
    odd(
        "placeholder",
        ["born"],
        [3, 4],
        {"value": "1990-01-01"},
        {"most": 2.0},
        {"born": "1990-01-01"},
        form="default_day",
    ),
    odd(
        "placeholder",
        ["job"],
        [1, 2, 3],
        {"value": "Unknown"},
        {"values": ["cook", "nurse", "driver"], "are_more": True},
        {"job": "Unknown"},
        form="placeholder_word",
    ),
    odd("impossible_date", ["born"], [5], {"value": "2024-02-31"}, {}, {"born": "2024-02-31"}),
    odd(
        "placeholder",
        ["visits"],
        [4, 5],
        {"value": "none yet", "among": "numbers"},
        {},
        {"visits": "none yet"},
        form="unread_word",
    ),
    odd("future_date", ["born"], [5], {}, {"high": "2024-05-01"}, {"born": "2042-05-01"}),
    odd("sign_flip", ["paid"], [5], {}, {"low": 1.0, "high": 99.5}, {"paid": -23.5}),
    odd("sign_flip", ["paid"], [5, 6], {}, {"low": 1.0, "high": 99.5}, {"paid": -23.5}),
    odd(
        "broken_order",
        ["humidity"],
        [4, 5],
        {"side": "above", "bound": 100.0},
        {"low": 20.0, "high": 100.0},
        {"humidity": 104.0},
        form="beyond_bound",
    ),
    odd("decimal_slip", ["bytes"], [4], {}, {"n": 2960}, {"bytes": 1.084}, form="not_whole"),
    odd("decimal_slip", ["bytes"], [4], {}, {}, {"bytes": 1.084}, form="not_whole"),
    odd(
        "decimal_slip",
        ["bill"],
        [4],
        {"times": 10.0},
        {"low": 10.58, "high": 15.54},
        {"bill": 142.0},
        form="slip",
    ),
    odd(
        "decimal_slip",
        ["bill"],
        [4, 6],
        {"times": 0.01, "label": "plan"},
        {},
        {"bill": 0.142},
        form="slip",
    ),
    odd(
        "mixed_units",
        ["weight"],
        [4, 6],
        {"times": 2.2046, "label": "sex", "level": "f"},
        {"low": 50.0, "high": 90.0},
        {"weight": 156.0},
        form="slip",
    ),
    odd("mixed_units", ["temp"], [4, 6], {}, {}, {"temp": 98.8}, form="fahrenheit"),
    odd(
        "broken_dependency",
        ["country", "city"],
        [7],
        {"source": "city", "target": "country"},
        {},
        {"country": "DE", "city": "Rome"},
        form="dependency",
        probabilities=[0.93],
        expected=["IT"],
        own=[{"level": "Rome", "n": 302}],
    ),
    odd(
        "broken_dependency",
        ["country", "city"],
        [7, 9],
        {"source": "city", "target": "country"},
        {},
        {"country": None, "city": "Rome"},
        form="missing_cell",
        probabilities=[0.93, 0.71],
        expected=["IT", "FR"],
        own=[{"level": "Rome", "n": 302}, {"level": "Paris", "n": 1}],
    ),
    odd(
        "broken_dependency",
        ["lands", "flight"],
        [7],
        {"source": "flight", "target": "lands"},
        {},
        {"lands": "7:10", "flight": "AA-12"},
        form="report",
        probabilities=[0.97],
        expected=["7:45"],
        own=[{"level": "AA-12", "n": 21, "n_reports": 38}],
    ),
    odd(
        "misplaced",
        ["city", "country"],
        [7],
        {"value": "France", "home": "country"},
        {"n": 120},
        {"city": "France", "country": "Italy"},
        probabilities=[0.97],
    ),
    odd(
        "misplaced",
        ["city", "state"],
        [7],
        {"value": "AL", "home": "state"},
        {"n": 120},
        {"city": "Birmingham AL", "state": None},
        form="two_values",
        probabilities=[0.8],
        expected=["Birmingham"],
    ),
    odd(
        "second_convention",
        ["size"],
        [7, 9],
        {"written": "ounce", "usual": "oz"},
        {"n": 1200},
        {"size": "12 ounce"},
        probabilities=[0.92, 0.92],
    ),
    odd("damaged_text", ["town"], [7], {}, {}, {"town": "Z�rich"}, probabilities=[0.95]),
    odd("swapped", ["height", "weight"], [4, 6], {}, {}, {"height": 71.0}, probabilities=[0.97, 0.93]),
    odd("odd_cell", ["note"], [4], {}, {}, {"note": "x?!"}, probabilities=[0.9712]),
    odd("odd_cell", ["note"], [4, 9], {}, {}, {"note": "x?!"}, probabilities=[0.9999, 0.55]),
    odd("odd_cell", ["age"], [7], {}, {"low": 13.0, "high": 75.0}, {"age": 5555.0}, form="far_value"),
    odd(
        "broken_relation",
        ["total", "price", "pieces"],
        [3],
        {"equation": EQUATION, "is_first": True, "times": 0.0},
        {"n": 1495},
        {"total": 13.0, "price": 4.0, "pieces": 3.0},
        form="relation",
    ),
    odd(
        "broken_relation",
        ["pieces", "total", "price"],
        [3, 4],
        {"equation": {**EQUATION, "factor": 1.19}, "is_first": False, "times": 0.0},
        {},
        {"pieces": 3.0, "total": 13.0, "price": 4.0},
        form="relation",
    ),
    odd(
        "sign_flip",
        ["balance", "amount"],
        [3],
        {"equation": BALANCE, "is_first": True, "times": -1.0},
        {"n": 1495},
        {"balance": -13.0, "amount": 4.0},
        form="relation_sign",
    ),
    odd(
        "decimal_slip",
        ["total", "price", "pieces"],
        [3],
        {"equation": EQUATION, "is_first": True, "times": 0.001},
        {"n": 1495},
        {"total": 0.012, "price": 4.0, "pieces": 3.0},
        form="relation_slip",
    ),
    odd(
        "broken_order",
        ["delivered", "ordered"],
        [3],
        {"low": "ordered", "high": "delivered", "is_date": True},
        {"n": 1495},
        {"delivered": "2024-01-01", "ordered": "2024-02-01"},
        form="order",
    ),
    odd(
        "broken_order",
        ["min", "max"],
        [3, 9],
        {"low": "min", "high": "max", "is_date": False},
        {},
        {"min": 5.0, "max": 2.0},
        form="order",
    ),
    odd(
        "broken_dependency",
        ["country", "city"],
        [3],
        {"source": "city", "target": "country"},
        {"level": "Rome", "expected": "IT", "n": 120, "are_several": False},
        {"country": "FR", "city": "Rome"},
        form="dependency",
    ),
    odd(
        "decimal_slip",
        ["price", "product"],
        [3, 4],
        {"source": "product", "target": "price"},
        {"level": "A-17", "expected": 4.5, "are_several": True},
        {"price": 45.0, "product": "A-17"},
        form="dependency",
    ),
    odd(
        "broken_dependency",
        ["closed", "state"],
        [3],
        {"level": "open"},
        {"n": 230},
        {"closed": "2024-01-05", "state": "open"},
        form="filled_cell",
    ),
    odd(
        "rare_pair",
        ["country", "payment"],
        [3, 4, 5],
        {"levels": ["US", "invoice"]},
        {"counts": [1200, 800], "expected": 240.2},
        {"country": "US", "payment": "invoice"},
    ),
    odd("new_level", ["country"], [3, 4], {"level": "AT"}, {}, {"country": "AT"}),
    odd("new_level", ["unit"], [3, 4], {"level": "kg", "n": 2}, {}, {"unit": "kg"}),
    odd("new_level", ["shop"], [3, 4], {"n": 2, "level": "s-17"}, {}, {"shop": "s-17"}, form="new_levels"),
    odd("vanished_level", ["country"], [], {"level": "IT"}, {"n": 1300}, {"country": "IT"}),
    odd("rare_level", ["country"], [7], {"level": "KP"}, {"n_levels": 4, "least": 1100}, {"country": "KP"}),
    odd(
        "rare_level",
        ["rating"],
        [4, 50],
        {"values": [6.0, 12.0]},
        {"low": 1.0, "high": 5.0},
        {"rating": 6.0},
        form="off_scale",
    ),
    odd(
        "rare_level",
        ["code"],
        [4],
        {},
        {"like": "AB-1234"},
        {"code": "AB-12X"},
        form="odd_pattern",
        probabilities=[0.97],
        own=[{"value": "AB-12X"}],
    ),
    odd(
        "rare_level",
        ["code"],
        [4, 9, 17, 30],
        {},
        {"like": "AB-1234"},
        {"code": "AB-12X"},
        form="odd_pattern",
        probabilities=[0.97, 0.96, 0.96, 0.91],
        own=[{"value": "AB-12X"}, {"value": "AB1234"}, {"value": "AB1234"}, {"value": "?B-1234"}],
    ),
    odd(
        "misspelling", ["land"], [4], {"level": "Germny", "meant": "Germany"}, {"n": 1200}, {"land": "Germny"}
    ),
    odd("misspelling", ["land"], [4], {"level": "Germny", "meant": "Germany"}, {}, {"land": "Germny"}),
    odd(
        "rare_in_segment",
        ["grade"],
        [4],
        {"level": "senior", "segment": "role = intern"},
        {"n_there": 1, "n_segment": 400, "share": 0.25},
        {"grade": "senior"},
    ),
    odd("gap", ["site"], [17], {}, {}, {"site": None}),
    odd(
        "empty_row",
        ["a", "b", "c"],
        [5, 6],
        {"least": 8, "n_columns": 9},
        {"most": 1},
        {"a": None, "b": None},
    ),
    odd("duplicate", ["a", "b"], [5], {"n_columns": 2}, {}, {"a": 1.0, "b": "x"}),
    odd("duplicate", ["a", "b"], [5, 8], {"n_columns": 2}, {}, {"a": 1.0, "b": "x"}),
    odd("burst", ["a", "b"], range(1, 21), {"n_columns": 2}, {}, {"a": 1.0, "b": "x"}, n=21),
    odd("duplicate", ["id"], [5], {}, {}, {"id": 17.0}, form="repeated_identifier"),
    odd(
        "repeated_elsewhere",
        ["a", "b"],
        [],
        {"n_columns": 2, "row": {"row": 17, "file": "a.csv"}, "first": {"row": 3, "file": "b.csv"}},
        n=2,
    ),
    odd(
        "burst",
        ["ordered"],
        range(1500),
        {"value": "2024-03-01 12:30:00"},
        {"most": 7},
        {"ordered": "2024-03-01 12:30:00"},
        form="one_moment",
    ),
    odd("stuck", ["temp"], range(30), {"value": 21.25}, {}, {"temp": 21.25}, n=31, action=MISSING),
    odd("odd_rows", ["size"], [4], {"example": SIZE}),
    odd(
        "odd_rows",
        ["size", "land"],
        [4, 5],
        {"example": SIZE, "ends": [7.0, 9.0], "is_one_value": False},
    ),
    odd(
        "stuck", ["load"], range(9), {**CLOCK, "value": 3.14159}, {}, {"load": 3.14159}, form="stuck_reading"
    ),
    odd("spike", ["load"], [17], {**NAMES, "last": "17", "season": "", "size": 123.456}, {}, {"load": 300.0}),
    odd(
        "passing_shift",
        ["load"],
        range(7),
        {**CLOCK, "season": "hour of the week", "moment": "2024-03-04T03:40:00", "size": -12.0},
        {},
        {"load": 3.0},
    ),
    odd("passing_shift", ["load"], range(3), {**NAMES, "season": "", "size": 2.0}, {}, {"load": 3.0}),
    odd("level_shift", ["load"], [9], {"size": 5.5, "first": "2024-03-04"}, {"n": 1200}),
    odd("drift", ["load"], [], {"size": -5.5, "first": "2024-03-04", "last": "2024-06-01"}),
    odd("placeholder", ["age"], [3, 4], {"text": "2 rows: age = 99, a placeholder."}, form="as_written"),
]


def told(found):
    lines = [
        f"{found.form or found.kind}",
        f"  text     {found.text}",
        f"  listed   {tell.finding_without_count(found)}",
        f"  example  {tell.new_example(found)}",
        f"  of a row {tell.of_row(found, found.cells)}",
    ]
    return "\n".join(line.rstrip() for line in lines)


def test_findings_are_told_as_the_snapshot_has_them():
    assert "\n".join(map(told, EXAMPLES)) + "\n" == SNAPSHOT.read_text(encoding="utf-8")


def test_every_form_has_an_example():
    assert {found.form or found.kind for found in EXAMPLES} == set(SENTENCES)


def test_every_form_that_is_declared_can_be_said_from_its_facts():
    examples = {(found.kind, found.form or found.kind): found for found in EXAMPLES}
    declared = {form for mistake in MISTAKES.values() for form in mistake.forms}
    assert declared | {"as_written"} == set(SENTENCES)
    for (kind, form), found in examples.items():
        if form != "as_written":
            assert set(found.facts) <= MISTAKES[kind].forms[form]
    for mistake in MISTAKES.values():
        assert mistake.empties <= set(mistake.forms)


@pytest.mark.parametrize("found", EXAMPLES, ids=lambda found: found.form or found.kind)
def test_a_finding_says_the_same_once_it_was_json(found):
    again = Finding(**json.loads(json.dumps({**asdict(found), "rows": list(found.rows)})))
    assert told(again) == told(found)


@pytest.mark.parametrize(
    ("times", "said"),
    [(100.0, "100 times too large"), (0.1, "10 times too small"), (1e-3, "1,000 times too small")],
)
def test_a_slip_is_told_by_how_many_times_the_number_is_too_large_or_too_small(times, said):
    found = odd("decimal_slip", ["total"], [4], {"equation": EQUATION, "times": times}, form="relation_slip")
    assert f"total is {said} for " in found.text


def test_what_should_stand_in_several_rows_is_told_of_the_first():
    found = next(e for e in EXAMPLES if e.form == "dependency" and "expected" in e.usual)
    told = replace(found, rows=[3, 9], expected=("Lyon", "Nizza")).text
    assert "Lyon" in told
    assert "Nizza" not in told
