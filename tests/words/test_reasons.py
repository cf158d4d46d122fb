"""Reasons, notices and headlines in words, on made-up examples of each kind."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from tellwhy.results.notice import Notice
from tellwhy.results.result import AlarmRule, Anomaly, Finding, Headline, Part, Reason
from tellwhy.results.schema import from_plain, to_plain
from tellwhy.results.store import convert_anomaly_2
from tellwhy.words import tell
from tellwhy.words.english.notices import NOTICES
from tellwhy.words.english.reasons import REASONS, count_alarms
from tellwhy.words.wording import aligned, number

SNAPSHOT = Path(__file__).with_name("reasons.txt")
NUMBER = {"column": "number"}
TSH = Reason("TSH", 145.0, [0.9, 4.1], 0.714, facts=NUMBER)
BILL = Finding(
    "decimal_slip", ["bill"], [4], {"times": 10.0}, {"low": 10.5, "high": 15.5}, {"bill": 142.0}, form="slip"
)
THREE = {"columns": ["TSH", "T3", "T4"]}
FOUR = {"columns": ["TSH", "T3", "T4", "FTI"]}
PAIR = {"other": "land", "other_value": "US", "pair_share": 0.9}

EXAMPLES = [
    TSH,
    replace(TSH, typical=[1.0, 1.0]),
    replace(TSH, is_share=False),
    replace(TSH, facts={**NUMBER, "times": 100.0}),
    replace(TSH, facts={**NUMBER, "where": "role = intern"}),
    replace(TSH, facts={**NUMBER, "where": "role = intern", "times": 0.01}),
    replace(TSH, facts={**NUMBER, "in_class": True}),
    replace(TSH, facts={**NUMBER, "in_class": True, "beside": 2.5}),
    Reason("born", "2031-05-01", ["1950-01-01", "2004-12-31"], 0.5, facts={"column": "date"}),
    Reason("paid", "invoice", ["card", "cash", "transfer"], 0.5, facts={"column": "category"}),
    Reason("paid", "cash", ["card", "cash"], 0.5, facts={"column": "category", "of_rows": 0.062}),
    Reason("paid", None, ["card"], 0.5, facts={"column": "category", "is_varied": True}),
    Reason("paid", "invoice", [], 0.5, facts={"column": "category"}),
    Reason("paid", "invoice", [], 0.5, kind="pair", facts={**PAIR, "n_together": 2, "n": 5000}),
    Reason("weight", 150.0, [], 0.5, kind="pair", facts={**PAIR, "low": 1.05, "high": 1.95}),
    Reason("weight", 150.0, [], 0.5, kind="pair", facts={**PAIR, "is_text": True}),
    replace(TSH, kind="group", facts={**NUMBER, **THREE, "side": "large", "n_side": 3}),
    replace(TSH, kind="group", facts={**NUMBER, **FOUR, "side": "small", "n_side": 3}),
    replace(TSH, kind="group", facts={**NUMBER, **FOUR, "side": "", "n_side": 4}),
    Reason("bill", 142.0, [], 0.5, kind="finding", finding=BILL),
    Reason(
        "mail",
        "…",
        (),
        0.5,
        kind="words",
        facts={"is_empty": False, "words": [["bitcoin", True], ["dear", False]]},
    ),
    Reason("mail", "…", (), 0.5, kind="words", facts={"is_empty": False, "words": []}),
    Reason("mail", "", (), 0.5, kind="words", facts={"is_empty": True, "words": []}),
    Reason("TSH", 1.0, [], 0.5, kind="as_written", facts={"text": "TSH = 1, says an older version"}),
]
TWO = {"old": "jan.csv", "new": "feb.csv", "n_rows": [500, 1]}
NONE: dict = {"levels": {}, "n_more": 0}
SAID = [
    Notice("odd_together"),
    Notice("odd_in_many", {"n": 5, "most": 3}),
    Notice("not_enough"),
    Notice("not_explained"),
    Notice("marked"),
    Notice("held_back", {"n": 1, "marks": [["known supplier", 1]]}),
    Notice("held_back", {"n": 1234, "marks": [[f"reason {k}", 100 + k] for k in range(7)]}),
    Notice("advise_time", {"column": "day", "other": "temperature"}),
    Notice("advise_by", {"column": "species", "other": "weight"}),
    Notice("missing_share", {"before": 0.01, "after": 0.1234}),
    Notice("median_moved", {"before": 40.0, "after": 50.0}),
    Notice("median_moved", {"before": "2024-01-15", "after": "2024-02-14"}),
    Notice(
        "range_moved", {"ends_before": [1.0, 9.0], "ends_after": [0.5, 20.0], "before": 5.0, "after": 5.0}
    ),
    Notice("share_moved", {"up_to": 0.0, "before": 0.5, "after": 0.1}),
    Notice(
        "levels_moved",
        {
            "new": {"levels": {"AT": 1200, "CH": 3}, "n_more": 2},
            "gone": {"levels": {"IT": 7}, "n_more": 0},
            "shares": [["DE", 0.5, 0.25], ["FR", 0.2, 0.2]],
        },
    ),
    Notice("columns_drifted", {"n": 6, "n_drifted": 2, **TWO}),
    Notice("columns_drifted", {"n": 1, "n_drifted": 0, **TWO}),
    Notice("levels_moved", {"new": NONE, "gone": NONE, "shares": [["DE", 0.5, 0.25]]}),
    Notice("as_written", {"text": "What an older version said."}),
]
# Of pictures, series and texts
REGION = Reason("", None, (), 0.5, kind="region", facts={"x": [3, 9], "y": [4, 8], "times_usual": 2.345})
CHANNEL = Reason("pressure", None, (), 0.9, kind="channel")
MEDIA_REASONS = [
    REGION,
    CHANNEL,
    Reason("zorgon", None, (), 0.4, kind="word", facts={"is_present": True}),
    Reason("dear", None, (), 0.4, kind="word", facts={"is_present": False}),
    Reason("age", None, [1.5, 3.0], 0.4, kind="coefficient", facts={"coefficient": 2.2, "effect": 4.0}),
    Reason(
        "price where land = US",
        None,
        [],
        1.0,
        kind="moved",
        facts={"said": "median_moved", "before": 40.0, "after": 50.0},
        is_share=False,
    ),
]
EVENT = {"what": "spike", "first": "2024-03-04 03:10", "last": "2024-03-04 03:10", "n": 1, "size": 58.6}
EVENT |= {"expected": 101.4, "expected_false": 0.02, "others": []}


def event(what, **facts):
    told = {**EVENT, "what": what, **facts}
    return Reason("load", 160.02, [92.0, 107.5], 1.0, kind="event", facts=told, is_share=False)


EVENT_REASONS = [
    event("spike"),
    event("dip", others=["flow"]),
    event("shift_up", others=["flow", "heat"]),
    event("shift_down", size=-58.6, others=list("abcdefg")),
    event("passing_up", n=30),
    event("passing_down", size=-58.6, n=30),
    event("noise_up", size=5.1234, n=100),
    event("noise_down", size=0.2, n=100),
    event("stuck", size=31.0),
    event("frequency", size=1.8, n=100),
    event("trend"),
    event("missing_cycle", n=24),
    event("relation", n=200),
    event("shape", n=80),
]
FOUND = {
    "n_moments": 4032,
    "n_told": 1,
    "n_watched": 0,
    "feature": "load",
    "value": 160.02,
    "typical": [92.0, 107.5],
    "facts": EVENT,
}
LOOKED = {"n_moments": 4032, "n_channels": 1, "n_before": 0, "is_clean": False}
LOOKED |= {"told": 1 / 3, "watched": 2.5, "most": 5}
EVENTS_SAID = [
    Notice("events_found", {"n_moments": 4032, "n_told": 0, "n_watched": 0}),
    Notice("events_found", FOUND),
    Notice("events_found", {**FOUND, "n_told": 2, "n_watched": 3}),
    Notice("events_found", {**FOUND, "n_told": 0, "n_watched": 1}),
    Notice("events_found", {**FOUND, "n_told": 0, "n_watched": 2}),
    Notice("events_looked_for", LOOKED),
    Notice("events_looked_for", {**LOOKED, "n_channels": 3, "n_before": 4000}),
    Notice("events_looked_for", {**LOOKED, "n_before": 400, "is_clean": True}),
    Notice("channels_at_rest", {"channels": ["valve"]}),
    Notice("channels_at_rest", {"channels": [f"valve {k}" for k in range(12)]}),
    Notice("no_promise", {"n": 400, "least": 100, "sure": 1000, "drifting": []}),
    Notice("no_promise", {"n": 4000, "least": 100, "sure": 1000, "drifting": ["heat"]}),
    Notice("no_promise", {"n": 60, "least": 100, "sure": 1000, "drifting": []}),
]


def place(reason):
    return {name: getattr(reason, name) for name in ("feature", "kind", "share", "facts")}


PICTURES = {"n": 12, "n_alarms": 1, "first": "a.png", "is_judged": True, "place": place(REGION)}
STRETCHES = {"n_alarms": 0, "first": "10 to 29", "is_judged": True, "place": place(CHANNEL)}
NODES = {
    "what": "time",
    "source": "plant.csv",
    "sizes": [150, 50],
    "n_alarms": 2,
    "rule": "at most 10 % false alarms expected",
    "n_explained": 10,
    "context_share": 0.37,
}
TEXTS = {"n": 60, "n_alarms": 2, "first": "row 7", "place": place(MEDIA_REASONS[3])}
COMPARED = {"n": 1, "n_reference": 0, "patch": 7, "side": 256, "aligned_share": None, "share_of_places": 0.01}
LABEL = {"label": "space", "rival": "autos", "came_with": "space"}
MEDIA_SAID = [
    Notice("patterns_learned", {"n": 3, "n_targets": 1, "n_unsure": 0}),
    Notice("patterns_learned", {"n": 3, "n_targets": 2, "n_unsure": 1}),
    *(Notice("labelled_texts", {"n": 40, "n_wrong": n}) for n in (None, 0, 1, 10)),
    Notice("labelled_texts", {"n": 1, "n_wrong": 0}),
    Notice("label_of_text", LABEL),
    Notice("label_of_text", {**LABEL, "came_with": None}),
    Notice("label_of_text", {**LABEL, "came_with": "hockey"}),
    Notice("odd_pictures", PICTURES),
    Notice("odd_pictures", {**PICTURES, "n_alarms": 3, "place": None}),
    Notice("odd_pictures", {**PICTURES, "n_alarms": 0}),
    Notice("odd_pictures", {**PICTURES, "is_judged": False}),
    Notice("odd_pictures", {**PICTURES, "n": 1}),
    Notice("odd_pictures", {**PICTURES, "n": 1, "place": None}),
    Notice("odd_pictures", {**PICTURES, "n": 1, "n_alarms": 0}),
    Notice("odd_pictures", {**PICTURES, "n": 1, "is_judged": False}),
    Notice("odd_stretches", STRETCHES),
    Notice("odd_stretches", {**STRETCHES, "n_alarms": 1}),
    Notice("odd_stretches", {**STRETCHES, "n_alarms": 2, "place": None}),
    Notice("odd_stretches", {**STRETCHES, "is_judged": False}),
    Notice("odd_texts", TEXTS),
    Notice("odd_texts", {**TEXTS, "n_alarms": 1, "place": None}),
    Notice("odd_texts", {**TEXTS, "n_alarms": 0}),
    Notice("odd_texts", {**TEXTS, "expected_false": 14.6}),
    Notice("pictures_compared", {**COMPARED, "rule": "no alarms"}),
    Notice(
        "pictures_compared",
        {
            **COMPARED,
            "n": 45,
            "n_reference": 40,
            "rule": "a rule",
            "looks": ["network"],
            "tried": {"network": 0.9333, "filters": 0.71, "network+filters": 0.94},
        },
    ),
    Notice(
        "pictures_compared",
        {**COMPARED, "n": 9, "rule": "a rule", "looks": ["network", "filters"], "tried": {}},
    ),
    Notice("carried_back", {"by": "network", "share": 0.9951}),
    Notice("carried_back", {"by": "filters", "share": 1.06}),
    Notice("carried_back", {"by": "whole", "share": 0.87}),
    Notice("pictures_compared", {**COMPARED, "n": 90, "rule": "a rule", "looks": ["whole"], "tried": {}}),
    Notice("could_see_more"),
    Notice("pictures_compared", {**COMPARED, "n": 2, "rule": "no alarms"}),
    Notice(
        "pictures_compared", {**COMPARED, "n": 9, "n_reference": 5, "aligned_share": 0.93, "rule": "a rule"}
    ),
    Notice(
        "stretches_compared",
        {
            "n_moments": 2000,
            "n_channels": 1,
            "against": "each other",
            "window": 20,
            "n_stretches": 66,
            "rule": "a rule",
        },
    ),
    Notice(
        "texts_compared",
        {"n": 60, "against": "each other", "by": "their words", "rule": "a rule", "likeness": "paper"},
    ),
    Notice(
        "texts_compared",
        {"n": 60, "against": "each other", "by": "what they mean", "rule": "a rule", "likeness": "meaning"},
    ),
    Notice("follows_length", {"correlation": 0.8765}),
    Notice("empty_texts", {"n": 2}),
    Notice("empty_text"),
    Notice("all_words_new"),
    Notice("nodes_in_classes", NODES),
    Notice("beside_neighbours", {"columns": ["height", "rain"]}),
    Notice("nodes_in_classes", {**NODES, "what": "grid", "sizes": [90], "n_alarms": 1}),
    Notice("no_shared_classes"),
]
ODD = Anomaly(Part("row", row=7), 9.0, is_alarm=True, reasons=[TSH])
KNOWN = [
    ODD,
    replace(ODD, is_alarm=False),
    replace(ODD, reasons=[replace(TSH, holds=True)]),
    *(
        replace(ODD, reasons=[Reason("bill", 142.0, [], 0.5, kind="finding", finding=found)])
        for found in (
            BILL,
            replace(BILL, surprise=9.9),
            replace(BILL, surprise=99.0),
            replace(BILL, probabilities=[0.62]),
            replace(BILL, probabilities=[0.97]),
            replace(BILL, probabilities=[0.9999]),
        )
    ),
]
RULE = AlarmRule("at most 10 % false alarms expected", 3, 0.3)
HEADLINES = [
    Headline(500, replace(RULE, n_flagged=0)),
    Headline(500, replace(RULE, n_flagged=1), "row 7", TSH, n_explained=1, n_holding=1),
    Headline(5000, RULE, "A-17", EXAMPLES[-5], n_explained=3, n_by_finding=1, n_holding=2, n_causes=2),
    Headline(5000, RULE, "A-17", None, n_explained=3, n_many=1, more=[SAID[5]]),
    Headline(5000, RULE, "row 7", EXAMPLES[3], n_explained=3, n_by_finding=3),
    Headline(0, RULE, is_written=True, more=[SAID[-1]]),
]

READING_SAID = [
    *(Notice("separated_by", {"sign": sign}) for sign in (";", "\t", "~")),
    Notice("decimal_comma", {"example": "1,5"}),
    Notice("no_header"),
    Notice("names_are_numbers", {"names": ["1.5", "2.5"]}),
    Notice("unnamed_columns", {"n": 1, "places": [3]}),
    Notice("unnamed_columns", {"n": 7, "places": [1, 2, 3, 4, 5]}),
    Notice("blank_lines"),
    Notice("read_as", {"encoding": "utf-16"}),
    Notice("not_utf8", {"line": 3, "encoding": "Windows-1252"}),
    Notice("mixed_encodings", {"n": 1, "example": "Zürich"}),
    Notice("mixed_encodings", {"n": 3000, "example": "Zürich", "files": ["a.csv", "b.csv"]}),
    Notice("numbers_for_people", {"column": "amount", "example": "1.234,5 is 1234.5"}),
    Notice("unknown_zone", {"column": "when", "zone": "Mars/Phobos"}),
    Notice("one_sheet", {"sheet": "first", "others": ["second", "third"]}),
    Notice("rows_of_list", {"n": 1200, "list": "result.items"}),
    Notice("names_hold_columns"),
    Notice("names_hold_rows", {"column": "name"}),
    Notice("features_are_rows"),
    Notice("rows_of_query", {"query": "SELECT * FROM orders"}),
    Notice("files_joined", {"n_rows": 5, "n_files": 2, "first": [["a.csv", 2], ["b.csv", 3]]}),
    Notice("files_joined", {"n_rows": 9000, "n_files": 4, "first": [["a.csv", 2]]}),
    Notice("array_of_other_shape", {"name": "note", "shape": [3], "grid": [4, 5]}),
    Notice("array_of_no_numbers", {"name": "note", "type": "<U3"}),
    Notice("read_so", {"column": "price", "as": "money in $", "kind": "number"}),
    Notice("read_so", {"column": "price", "as": "numbers, 1,5", "kind": "number", "unread": [1, "'ask'"]}),
    Notice("read_so", {"column": "due", "as": "dates, day first", "kind": "date", "unread": [12, "'?'"]}),
    Notice("read_so", {"column": "g", "as": "weights in g", "kind": "number", "converted": [1, "'1 kg'"]}),
    Notice("used_as_categories", {"column": "status", "as": "HTTP status codes"}),
    Notice("mixed_signs", {"column": "paid", "as": "amounts in $, €", "kind": "category"}),
    Notice("mixed_signs", {"column": "paid", "as": "amounts in $, €", "kind": "text"}),
    *(Notice("not_read_so", {"column": "age", "n": n, "kind": "number"}) for n in (1, 2)),
    Notice("left_out", {"columns": ["id"], "n": 1, "reason": "every row has the same value"}),
    Notice("left_out", {"columns": list("abcdefg"), "n": 12, "reason": "every row has the same value"}),
    Notice("varies_only_here", {"columns": ["level"]}),
    Notice("rows_with_gaps", {"n_rows": 1, "counts": {"a": 1}, "n_more": 0, "more_cells": 0}),
    *(
        Notice("gaps_filled", {"kind": kind, "counts": {"a": 2, "b": 1}, "n_more": n, "more_cells": 2 * n})
        for kind, n in (("number", 0), ("boolean", 1), ("date", 2), ("category", 0))
    ),
    Notice(
        "gaps_filled", {"kind": "date", "counts": {"a": 2}, "n_more": 0, "more_cells": 0, "where": "scored"}
    ),
    Notice("hour_compared", {"column": "at", "orders": "the order of rows"}),
    *(Notice("other_dates", {"column": "at", "n": n, "side": "later"}) for n in (1, 2)),
    Notice("later_dates", {"column": "at"}),
    *(Notice("new_since_fitted", {"columns": [["city", "2 new"]], "n": n}) for n in (1, 2, 3)),
    Notice("learned_from_sample", {"n": 5000, "of": 20_000}),
    Notice("compared_in_segments", {"n": 4, "columns": ["team", "site"]}),
    *(Notice("small_segments", {"n": n, "few": 50}) for n in (1, 2)),
    *(Notice("no_segment", {"n": n, "column": "team"}) for n in (1, 2)),
    Notice("texts_by_oddness", {"column": "review", "by": "words and letters"}),
    Notice("put_in_order", {"column": "at"}),
    *(Notice("same_times", {"column": "at", "n": n}) for n in (1, 2)),
    *(Notice("gaps_in_time", {"column": "at", "n": n, "first": "03:10", "last": "05:20"}) for n in (1, 2)),
    Notice("summer_time", {"rule": "Europe"}),
    Notice("same_season", {"season": "hour of the day", "columns": ["load", "flow"]}),
    Notice("no_numbers", {"columns": ["name"]}),
    Notice("averaged"),
    *(Notice("readings_filled", {"n": n}) for n in (1, 2)),
    *(Notice("never_changes", {"columns": ["valve"], "where": where}) for where in ("", " in the reference")),
    *(Notice("nodes_left_out", {"n": n}) for n in (1, 2)),
    Notice("piece_left_out", {"name": "a.csv", "why": "It is empty."}),
    *(Notice(kind, {"n": n}) for kind in ("more_left_out", "held_back_in_all") for n in (1, 2000)),
    Notice("scores_in_parts", {"n": 5_000_000}),
    *(Notice("trained_on", {"n": 900, "n_held": n}) for n in (0, 100)),
    Notice("judged_out_of_fold", {"n": 1200}),
    *(Notice("labels_alone", {"n": n}) for n in (1, 2)),
    *(Notice("texts_left_out", {"n": n, "has_labels": n > 1}) for n in (1, 2)),
    *(
        Notice("texts_shown", {"n": 50, "n_shown": shown, "n_wrong": n})
        for shown, n in ((50, 3), (20, 0), (20, 20), (20, 3))
    ),
    Notice("fewer_coalitions", {"methods": ["AnomalyShapley", "KernelShap"], "n": 256}),
    Notice("none_measured"),
    Notice("trust_none"),
    Notice("trust_best", {"method": "OneClassDTD", "mrr": 0.9, "others": []}),
    Notice("trust_best", {"method": "OneClassDTD", "mrr": 0.9, "others": ["Lime", "Occlusion"]}),
    Notice("picture_left_out", {"used": "judged", "why": "a.png is too small."}),
    *(Notice("picture_changed", {"name": "a.png", "n": n, "what": "the first of 2 frames"}) for n in (1, 2)),
    *(Notice("alike_for_more", {"n": n}) for n in (1, 2)),
    Notice("first_pictures", {"n": 100, "of": 2000}),
    Notice("more_unread", {"n": 3}),
    Notice("resized", {"size": [40, 20], "to": [8, 8]}),
    Notice("words_unknown", {"words": ["grief", "moon"]}),
    Notice("code_ran", {"network": "nets:make"}),
    Notice("first_shown", {"n": 40, "n_shown": 20}),
    Notice("undefined", {"method": "Deep Taylor"}),
    Notice("network_says", {"says": "cat", "probability": 0.93, "explained": "cat"}),
    Notice("network_says", {"says": "cat", "probability": None, "explained": "dog"}),
    *(Notice("inputs_explained", {"n": 40, "n_groups": n}) for n in (0, 1, 2)),
    Notice(
        "group_apart",
        {
            "n": 12,
            "share": 0.2,
            "of": "boat",
            "box": [10, 20, 0, 5],
            "inside": 0.4,
            "elsewhere": 0.012,
            "alike": 0.9,
        },
    ),
]


def told():
    lines = [reason.text for reason in EXAMPLES]
    lines += ["", *map(tell.doubt, SAID)]
    for found in HEADLINES:
        lines += ["", *found.sentences]
    lines += ["", *map(tell.known, KNOWN)]
    lines += ["", *(reason.text for reason in MEDIA_REASONS), "", *(notice.text for notice in MEDIA_SAID)]
    lines += ["", *(reason.text for reason in EVENT_REASONS), "", *(notice.text for notice in EVENTS_SAID)]
    lines += ["", *(notice.text for notice in READING_SAID)]
    return "\n".join(lines) + "\n"


def test_reasons_notices_and_headlines_are_told_as_the_snapshot_has_them():
    assert told() == SNAPSHOT.read_text(encoding="utf-8")


def test_every_kind_has_an_example():
    assert {reason.kind for reason in [*EXAMPLES, *MEDIA_REASONS, *EVENT_REASONS]} == {*REASONS, "finding"}
    assert {notice.kind for notice in [*SAID, *MEDIA_SAID, *EVENTS_SAID, *READING_SAID]} == set(NOTICES)


@pytest.mark.parametrize(
    "reason", [*EXAMPLES, *MEDIA_REASONS, *EVENT_REASONS], ids=lambda reason: reason.kind
)
def test_a_reason_says_the_same_once_it_was_json(reason):
    again = from_plain(Reason, json.loads(json.dumps(to_plain(reason))))
    assert again.text == reason.text
    assert json.dumps(asdict(again)) == json.dumps(asdict(reason))


def test_a_reason_that_was_saved_as_a_sentence_says_it_still():
    record = {"feature": "TSH", "value": 1.0, "typical": [], "share": 0.71, "holds": True}
    for text in ("TSH = 1 (usually 2–3) · 71 %", "TSH = 1 (usually 2–3)"):
        odd = {"row": 3, "id": None, "score": 1.0, "above_threshold": True}
        again = convert_anomaly_2({**odd, "reasons": [{**record, "text": text}]})
        assert from_plain(Anomaly, again).reasons[0].text == text


@pytest.mark.parametrize(("expected", "said"), [(0.99, "fewer than one"), (1.0, "about 1"), (1.6, "about 2")])
def test_chance_alarms_are_fewer_than_one_only_below_one(expected, said):
    told = count_alarms(Headline(800, AlarmRule("a rule", 7, expected)))
    assert told == f"7 of 800 rows are alarms (a rule); {said} would be expected by chance alone."


@pytest.mark.parametrize(
    ("values", "written_so"),
    [
        ((34.4712, 33.2, 9.05), ["34.47", "33.20", "9.05"]),
        ((2e6, 3.25), [number(2e6), number(3.25)]),  # the largest says that decimals would not be aligned
        ((0.5, 0.001), ["0.5000", "0.0010"]),
        ((0.009, 0.001), [number(0.009), number(0.001)]),
    ],
)
def test_numbers_of_a_column_are_aligned_by_the_largest(values, written_so):
    assert aligned(values) == written_so


def test_five_of_many_drifting_channels_are_named():
    names = [f"c{k}" for k in range(8)]
    told = Notice("no_promise", {"n": 4000, "least": 100, "sure": 1000, "drifting": names}).text
    assert "c0, c1, c2, c3, c4 drift slowly" in told


def test_hours_of_the_day_are_told_as_times():
    reason = Reason("opened", 15.15, [8.35, 11.7], 0.5, facts={"column": "number", "is_clock": True})
    assert reason.text == "opened = 15:09 (usually 08:21–11:42) · 50 %"
