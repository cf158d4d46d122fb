"""The page on what a model has learned: what it says must be so, and nothing on it may run or be fetched."""

import re

import numpy as np
import pytest

from tellwhy.explainers import Insight
from tellwhy.explainers.surrogate.chains import Convergence
from tellwhy.kinds.insight import InsightRun
from tellwhy.views.page.insight import render_insights, write_insight_report

SURE = Convergence({"a": 1.01}, {"a": 300.0})
UNSURE = Convergence({"a": 1.4}, {"a": 9.0})


def insight(slopes, limits, **changes):
    slopes = np.array(slopes, dtype=float)
    n = slopes.size
    made = {"target": "cat", "component": 0, "share": 0.4, "share_interval": (0.3, 0.5), "credibility": 0.9}
    made |= {"coefficients": slopes, "interval": np.array(limits), "effects": slopes}
    made |= {"top": np.argsort(-np.abs(slopes.ravel())), "rows": np.arange(4), "centre": np.abs(slopes)}
    made |= {"names": tuple(f"f{k}" for k in made["top"]), "applies": (), "r_hat": 1.01, "n_effective": 321.0}
    made |= {"examples": np.zeros((1, n)), "others": np.zeros((1, n))}
    return Insight(**made | changes)


def page(*insights, **convergence):
    return render_insights(InsightRun(list(insights), convergence or {"cat": SURE}, "m:f", "t.csv", 120))


def text(html):
    body = re.sub(r"<(style|script)>.*?</\1>", "", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]*>", " ", body).split())


def test_what_raises_and_what_lowers_and_what_may_be_nothing():
    found = text(page(insight([3.0, -2.0, 1.0], [[2, 4], [-3, -1], [-1, 3]])))
    assert (
        "Higher values of f0 make the class likelier. Higher values of f1 make the class less likely."
        in found
    )
    assert "Pattern 1: 40 % of its rows (between 30 and 50 %)" in found
    assert "f2 may be 0" in found
    assert "f0 may be 0" not in found
    assert "[−3, −1]" in found
    assert "90 % interval" in found


def test_a_score_has_an_output_and_no_class():
    found = text(page(insight([3.0, -2.0], [[2, 4], [-3, -1]], target="score"), score=SURE))
    assert "Higher values of f0 raise the output. Higher values of f1 lower the output." in found


def test_nothing_sure_is_said_so():
    assert "No feature surely matters here" in text(page(insight([1.0, 2.0], [[-1, 3], [-1, 5]])))


@pytest.mark.parametrize(
    ("r_hat", "words", "mark"),
    [
        (1.01, "chains agree (R̂ 1.01, 321 effective draws)", "is-verified"),
        (1.08, "chains nearly agree", "is-verified"),
        (1.3, "chains disagree (R̂ 1.30", "is-uncertain"),
        (np.inf, "not there in every draw", "is-uncertain"),
        (np.nan, "agreement of the chains unknown", "is-uncertain"),
    ],
)
def test_how_far_chains_agree_is_said_of_every_pattern(r_hat, words, mark):
    html = page(insight([1.0], [[0.5, 2]], r_hat=r_hat))
    assert words in text(html)
    assert f'class="mark {mark}"' in html
    assert ("1 pattern cannot be trusted yet" in text(html)) == (mark == "is-uncertain")


def test_classes_whose_chains_disagree_are_named():
    both = [insight([1.0], [[0.5, 2]], target=name) for name in ("cat", "dog")]
    found = text(page(*both, cat=SURE, dog=UNSURE))
    assert "2 patterns in 2 classes" in found
    assert "Chains do not agree yet in dog:" in found
    assert "Good to know" not in text(page(*both, cat=SURE, dog=SURE))


def test_images_are_drawn_beside_their_table():
    slopes = np.zeros((4, 5))
    slopes[1, 2], slopes[3, 4] = 2.0, -1.0
    limits = np.stack([slopes - 0.1, slopes + 0.1], axis=-1)
    html = page(insight(slopes, limits, top=np.array([7, 19]), names=("x1_2", "x3_4")))
    drawn = re.findall(r'<svg class="cells".*?</svg>', html)
    assert len(drawn) == 2
    assert drawn[1].count('class="odd"') == 1
    assert drawn[1].count('class="usual"') == 1
    assert 'fill-opacity="0.5"' in drawn[1], "half as strong"
    assert 'class="cells"' not in page(insight([1.0], [[0.5, 2]])), "a table has no picture"


def test_names_cannot_break_out_and_nothing_is_fetched():
    bad = "<script>alert(1)</script>"
    html = page(
        insight([1.0], [[0.5, 2]], names=(bad,), target=bad, applies=((bad, 0.0, 1.0),)), **{bad: SURE}
    )
    assert "<script>alert" not in html
    assert not re.search(r'(src|href)="(?!#|data:)', html)
    assert 'style="' not in html


def test_many_features_are_counted_and_the_file_is_written(tmp_path):
    made = insight(np.linspace(1, 2, 40), [[0.5, 3]] * 40)
    assert "25 more features are in insights.json" in text(page(made))
    assert "and 37 more make the class likelier" in text(page(made))
    path = write_insight_report(InsightRun([made], {"cat": SURE}, "m:f", "t.csv", 1), tmp_path / "p.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
