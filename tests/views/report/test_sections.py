"""The head, the ranked table, groups, columns and settings of the page: counts, order and words."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from views.example_run import example_run, said
from views.report.drawn import mark, marks
from zoo.anomalies import odd_row

from tellwhy.results.notice import written as said_so
from tellwhy.results.result import Anomaly, Group, Run
from tellwhy.views.page import anomalies, overview as sections, scores
from tellwhy.views.page.shell import Limits
from tellwhy.words.wording import THIN

RUN = example_run(200, top=8)


def scored(values: list[float], threshold: float) -> Run:
    return replace(RUN, scores=np.array(values), threshold=threshold)


@pytest.mark.parametrize(
    ("scores", "headline"),
    [
        ([1.0, 2.0, 3.0, 3.0], "None of 4 rows stands out."),
        ([1.0, 3.0, 3.5], "1 of 3 rows stands out."),
        ([4.0, 3.0, 3.5], "2 of 3 rows stand out."),
        ([4.0], "1 of 1 row stands out."),
    ],
)
def test_rows_above_the_threshold_stand_out_and_one_at_it_does_not(
    scores: list[float], headline: str
) -> None:
    found = sections.make_overview(scored(scores, 3.0), Limits())
    assert found.headline == headline
    assert dict(found.figures)["above the threshold"] == headline.split(maxsplit=1)[0].replace("None", "0")


def test_the_main_columns_are_named_only_where_something_stands_out() -> None:
    shares = {"a": 0.05, "b": 0.6, "c": 0.049, "d": 0.2, "e": 0.101}
    run = replace(RUN, column_shares=shares)
    assert sections.make_overview(run, Limits()).because == ["b", "d", "e"]
    few = replace(run, column_shares={"a": 0.049, "b": 0.951, "c": np.nan})
    assert sections.make_overview(few, Limits()).because == ["b"]
    assert sections.make_overview(replace(run, threshold=1e9), Limits()).because == []


def test_notices_that_do_not_fit_are_counted() -> None:
    run = replace(RUN, notices=[said_so(f"notice {k}") for k in range(9)])
    found = sections.make_overview(run, Limits(lines=4))
    assert (found.notices, found.more_notices) == ([f"notice {k}" for k in range(4)], 5)
    assert sections.make_overview(run, Limits()).more_notices == 0


def test_the_histogram_says_how_it_is_drawn() -> None:
    usual = np.random.default_rng(0).normal(0.0, 1.0, 4000).clip(-4, 4)
    found = scores.scores(scored([*usual, 5.5, 900.0, 900.0], 5.0))
    assert found.words == f"3 of 4003 rows (0.075{THIN}%) score above the threshold of 5."
    assert [note.split()[0] for note in found.notes] == ["Counts", "The"]
    assert "logarithmic" in found.notes[0]
    assert "gathers the 2 rows beyond" in found.notes[1]
    plain = scores.scores(scored([1.0, 2.0, 9.0], 5.0))
    assert plain.words == f"1 of 3 rows (33{THIN}%) scores above the threshold of 5."
    assert plain.notes == []


def anomaly(row: int, score: float, main: str = "a", name: str | None = None, **changes: object) -> Anomaly:
    reasons = [said(main, 1.0, [], 0.7, f"{main} = 1 · 70 %")] if main else []
    return replace(odd_row(row, name, score, 99.5, True, reasons), **changes)  # type: ignore[arg-type]


def test_lines_are_ranked_from_one_and_say_what_is_below_the_threshold() -> None:
    given = [
        anomaly(40, 34.4712, name="Ann", percentile=99.996),
        anomaly(7, 9.05, main="", is_alarm=False, percentile=12.345),
    ]
    first, second = anomalies.make_lines(replace(RUN, anomalies=given), Limits())
    assert (first.rank, first.row, first.name, first.has_id, first.is_above) == (1, 40, "Ann", True, True)
    assert (first.score, first.percentile) == ("34.47", "99.99")
    assert (float(first.raw_score), float(first.raw_percentile)) == (34.4712, 99.996)
    assert first.reasons == [f"a = 1 · 70{THIN}%"]
    assert (second.rank, second.row, second.name, second.has_id, second.is_above) == (
        2,
        7,
        "row 7",
        False,
        False,
    )
    assert (second.score, second.percentile, second.reasons, second.main) == ("9.05", "12.34", [], "")


def test_only_listed_rows_and_reasons_are_shown() -> None:
    run = replace(RUN, anomalies=[anomaly(k, 9.0 - k) for k in range(5)])
    assert [line.row for line in anomalies.make_lines(run, Limits(listed=3))] == [0, 1, 2]
    many = replace(RUN.anomalies[0], reasons=[said(c, 1, [], 0.1, c) for c in "abcd"])
    assert anomalies.make_lines(replace(RUN, anomalies=[many]), Limits(reasons=2))[0].reasons == ["a", "b"]


def test_columns_to_filter_by_come_most_frequent_first() -> None:
    given = [anomaly(k, 9.0, main) for k, main in enumerate(["x", "y", "y", "", "z", "z", "z"])]
    assert anomalies.find_main_columns(anomalies.make_lines(replace(RUN, anomalies=given), Limits())) == [
        "z",
        "y",
        "x",
    ]


def test_groups_count_all_their_rows_and_link_those_with_a_card() -> None:
    given = [anomaly(k, 9.0 - k, name=f"no {k}" if k else None) for k in range(4)]
    groups = [Group(["a", "b"], [0, 1, 2, 3]), Group(["c"], [3, 99])]
    run = replace(RUN, anomalies=given, groups=groups)
    first, second = sections.list_groups(run, Limits(links=3, cards=2))
    assert (first.features, first.n_rows, first.more) == (["a", "b"], 4, 1)
    assert first.links == [(0, "row 0", True), (1, "no 1", True), (2, "no 2", False)]
    assert second.links == [(3, "no 3", False), (99, "row 99", False)]
    assert (second.n_rows, second.more) == (2, 0)
    assert [mark(group.bar, "usual").at("width") for group in (first, second)] == [100, 50]


def test_small_columns_are_joined_and_their_parts_added() -> None:
    shares = {"a": 0.1, "b": 0.5, "c": 0.25, "d": 0.1, "e": 0.05}
    found = scores.make_columns(replace(RUN, column_shares=shares), Limits(columns=2))
    assert [(c.name, c.share, c.is_rest) for c in found] == [
        ("b", f"50{THIN}%", False),
        ("c", f"25{THIN}%", False),
        ("3 other columns", f"25{THIN}%", True),
    ]
    drawn = [m for c in found for m in marks(c.bar) if m.kind in ("odd", "rest")]
    assert [(m.kind, m.at("width")) for m in drawn] == [("odd", 100), ("odd", 50), ("rest", 50)]


def test_bars_of_many_small_columns_stay_inside() -> None:
    shares = {f"c{k}": 0.1 for k in range(10)}
    found = scores.make_columns(replace(RUN, column_shares=shares), Limits(columns=2))
    drawn = [m for c in found for m in marks(c.bar) if m.kind in ("odd", "rest")]
    assert [m.at("width") for m in drawn] == pytest.approx([12.5, 12.5, 100])


def test_settings_are_written_for_people() -> None:
    run = replace(
        RUN, settings={"reference": None, "columns": ["a", "b"], "exclude": [], "seed": 0}, threshold=1 / 3
    )
    found = sections.show_settings_of_run(run, Limits()).html
    shown = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", found))
    assert [shown[name] for name in ("reference", "columns", "exclude", "seed")] == [
        "none",
        "a, b",
        "none",
        "0",
    ]
    assert (shown["threshold"], shown["input"]) == ("0.333333", "thyroid.csv")
