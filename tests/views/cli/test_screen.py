"""What the terminal shows of a run made by hand: ranks, marks, verdicts, and which stream they go to."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from views.example_run import run_of
from zoo.anomalies import moved, odd_row

from tellwhy.core.errors import TellwhyWarning
from tellwhy.results.evidence import Detection
from tellwhy.results.notice import written
from tellwhy.results.result import Reason
from tellwhy.views.cli import screen
from tellwhy.workflow import Run, TableComparison

Shown = Callable[[], list[str]]


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Shown:
    """Lines printed on stdout since the last call, without the blanks that align columns."""
    return lambda: [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.strip()]


def reason(name: str) -> Reason:
    return Reason(name, 1.0, [2.0, 3.0], 0.5, facts={"column": "number"})


def run() -> Run:
    data = pd.DataFrame({"a": [145.0, 2.0], "b": ["x", None], "c": [1, 2], "d": [True, False]})
    made = run_of(np.ones((2, 4)), list("abcd"), data=data)
    first = odd_row(30, "A1", 12.3456, 99.97, True, [reason("a"), reason("b")], {"a": 3.5, "b": "y"})
    second = odd_row(4, None, 0.5, 87.04, False, [], dict.fromkeys("abcd", 0))
    return replace(made, anomalies=[first, replace(second, p_value=1e-4)])


def test_rows_are_ranked_with_their_reasons_one_a_line(shown: Shown) -> None:
    screen.show_run(run(), 2)
    head, *lines = shown()
    assert head == "# id why: column = value (what is usual) · share of the score how sure"
    assert lines == [
        "1 A1 a = 1 (usually 2–3) · 50 % not verified, p = 1",
        "b = 1 (usually 2–3) · 50 %",
        "would look normal with a = 3.5 instead of 145 and b = y instead of x",
        "2 row 4 no column stands out below the line, p = 1 × 10⁻⁴",
        "no small change makes it look normal: 4 columns would have to differ",
    ]


def test_rows_without_names_are_numbered_and_only_the_asked_ones_are_shown(shown: Shown) -> None:
    nameless = replace(run(), anomalies=[moved(a, name=None) for a in run().anomalies])
    screen.show_run(nameless, 1)
    head, *lines = shown()
    assert head.startswith("# row why")
    assert lines[0].startswith("1 30 a = 1")
    assert lines[-1] == "… and 1 more in the report."
    assert not any(line.startswith("2 ") for line in lines)


def test_only_what_chance_would_not_make_is_told_below_the_line(shown: Shown) -> None:
    first, second = run().anomalies
    usual = replace(second, p_value=0.6)  # of two rows, one is as odd by chance
    screen.show_run(replace(run(), anomalies=[first, usual]), 2)
    assert not any("row 4" in line for line in shown())
    nothing = replace(run().alarms, n_flagged=0) if run().alarms else None
    scores = np.zeros(2)
    screen.show_run(replace(run(), anomalies=[usual], alarms=nothing, scores=scores, threshold=9.0), 2)
    assert any("below the line" in line for line in shown())


def test_three_changes_are_listed_and_missing_cells_are_called_so(shown: Shown) -> None:
    second = replace(run().anomalies[1], nearest_normal={"a": 1.0, "b": "z", "d": True})
    screen.show_run(replace(run(), anomalies=[run().anomalies[0], second]), 2)
    words = (
        "would look normal with a = 1 instead of 2 and b = z instead of missing and d = True instead of False"
    )
    assert words in " ".join(shown())


def test_brackets_in_the_users_words_are_shown(shown: Shown) -> None:
    first = replace(moved(run().anomalies[0], name="[red]A[/]"), reasons=[reason("[b]")])
    screen.show_run(replace(run(), anomalies=[first]), 1)
    text = " ".join(shown())
    assert "[red]A[/]" in text
    assert "[b] = 1" in text


@pytest.mark.parametrize(
    ("areas", "words"),
    [
        (
            {"Example": 0.3, "RandomAttribution": 0.5},
            "",
        ),
        ({"Example": 0.5, "RandomAttribution": 0.5}, "no better than a random order (area 0.50 against 0.50"),
        ({"Example": 0.6, "RandomAttribution": 0.5}, "no better than a random order (area 0.60 against 0.50"),
        ({"Other": 0.1, "RandomAttribution": 0.5}, ""),
        ({"Example": 0.3}, ""),
    ],
)
def test_the_verdict_follows_the_areas(shown: Shown, areas: dict[str, float], words: str) -> None:
    told = replace(run(), evidence=replace(run().evidence, flipping_area=areas), detection=None)
    screen.show_summary(replace(told, anomalies=[*told.anomalies] * screen.LEAST_EVIDENCE))
    text = " ".join(shown())
    assert text.startswith(run().summary)
    assert f"first lowers the score {words}" in text if words else "random order" not in text
    assert "Detection" not in text


def test_a_few_alarms_of_a_model_say_nothing_of_the_reasons(shown: Shown) -> None:
    evidence = replace(run().evidence, flipping_area={"Example": 0.6, "RandomAttribution": 0.5})
    few = replace(run(), evidence=evidence, detection=None)
    screen.show_summary(replace(few, anomalies=[*few.anomalies] * (screen.LEAST_EVIDENCE - 1)))
    assert "random order" not in " ".join(shown())


def test_detection_is_told_with_its_label(shown: Shown) -> None:
    screen.show_summary(replace(run(), detection=Detection("fraud", "yes", 7, 0.98765, 0.4321)))
    words = (
        "Detection against fraud = yes (7 rows): AUROC 0.988, average precision 0.432; no row is an alarm."
    )
    assert words in " ".join(shown())
    screen.show_summary(replace(run(), detection=Detection("[bold]k", "[red]v", 7, 0.9, 0.4)))
    assert "Detection against [bold]k = [red]v (7 rows)" in " ".join(shown())


def test_each_measure_of_a_comparison_stands_in_its_column(shown: Shown) -> None:
    table = pd.DataFrame(
        [
            ["OneClassDTD", 0.912, 0.85, 0.97, 0.75, 0.31, 0.052, 0.00123, ""],
            ["Occlusion", 0.5, 0.4, 0.6, 0.55, 0.4, np.nan, 2.0, ""],
            ["Shapley", 0.4, 0.3, 0.5, 0.45, 0.6, 1.7, 0.5, ""],
            ["Gradient", 0.4, 0.3, 0.5, 0.45, 0.6, 1.0, 0.5, ""],
            ["LRP", np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, "needs a [network]"],
        ],
        columns=[
            "method",
            "mrr",
            "mrr_low",
            "mrr_high",
            "hits@3",
            "flipping",
            "unattributed",
            "seconds_per_row",
            "note",
        ],
    )
    screen.show_comparison(
        TableComparison(table, "t.csv", "KernelDensity", 30, [], written("Use OneClassDTD."))
    )
    head, _, *lines = shown()
    assert head == "method finds the column 95 % interval in its top 3 flipping area unattributed ms a row"
    assert lines[:5] == [
        "OneClassDTD 0.91 0.85–0.97 75 % 0.31 5 % 1.2",
        "Occlusion 0.50 0.40–0.60 55 % 0.40 2e+03",
        "Shapley 0.40 0.30–0.50 45 % 0.60 >100 % 5e+02",
        "Gradient 0.40 0.30–0.50 45 % 0.60 100 % 5e+02",
        "LRP — needs a [network]",
    ]
    text = " ".join(lines[5:])
    assert text.startswith("Use OneClassDTD.")
    assert "Measured on 30 ordinary rows of t.csv" in text
    assert "scored by a KernelDensity" in text


def test_the_catalogue_shows_what_it_holds(shown: Shown) -> None:
    line = {
        "name": "LRP",
        "family": "propagation",
        "needs": "[torch]",
        "cost": "one pass",
        "exactness": "exact",
    }
    screen.show_methods(pd.DataFrame([line | {"citation": "Bach 2015"}]))
    assert shown()[0] == "name family needs cost exactness"
    screen.show_methods(pd.DataFrame([line]))
    assert shown()[2] == "LRP propagation [torch] one pass exact"


def test_notes_and_errors_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    screen.note("a [b] was left out")
    screen.fail("no [file]")
    found = capsys.readouterr()
    assert found.err == "note: a [b] was left out\nerror: no [file]\n"
    assert found.out == ""


def test_our_warnings_become_notes_in_the_words_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    def warned() -> None:
        with screen.show_warnings_as_notes({"Raise n_sweeps": "Raise --sweeps"}):
            warnings.warn("ours. Raise n_sweeps.", TellwhyWarning, stacklevel=1)
            warnings.warn("theirs", UserWarning, stacklevel=1)

    with pytest.warns(UserWarning, match="theirs"):
        warned()
    assert capsys.readouterr().err == "note: ours. Raise --sweeps.\n"
