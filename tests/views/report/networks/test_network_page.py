"""The page on an explained network: what stands on it is what the run holds."""

import re

import numpy as np
import pytest

from tellwhy.results.network_run import Absorbed, ClassOutput, FoundGroup, MethodTold, NetworkItem, NetworkRun
from tellwhy.results.notice import Notice
from tellwhy.views.page.network import render_network
from tellwhy.words.english.networks import is_carried, write_carried, write_conserved

LRP = MethodTold(
    "lrp", "LRP", "attribution", 0.21, (Absorbed("body.0", "conv2d", 0.2),), 0.1, 0.5, 2, 2, is_checked=True
)


def item(name="a.png", **changes):
    made = {
        "name": name,
        "classes": [ClassOutput("cat", 3.0, 0.9), ClassOutput("dog", 0.8, 0.1)],
        "explained": "cat",
        "output": 3.0,
        "pixels": np.full((6, 6), 100.0),
        "words": [],
        "values": {"lrp": np.ones((1, 6, 6))},
        "left_over": {"lrp": 0.6},
    }
    return NetworkItem(**{**made, **changes})


def run_of(items, **changes):
    made = {
        "network": "m:f",
        "source": "in",
        "kind": "pictures",
        "explains": "the largest output",
        "opening": Notice("network_says", {"says": "cat", "probability": None, "explained": "cat"}),
        "n_inputs": len(items),
        "items": items,
        "methods": [LRP],
        "groups": [],
        "n_grouped": 0,
        "said": [],
        "settings": {},
        "versions": {},
    }
    return NetworkRun(**{**made, **changes})


def test_trust_and_ledger_are_told():
    page = render_network(run_of([item()]))
    assert "21 % of the output went to biases and stabilisers" in page
    assert "body.0: conv2d" in page
    assert "area 0.10 against 0.50; better in 2 of 2 inputs" in page
    assert re.search(r"is-explained.*?cat", page, re.DOTALL)
    assert "0.6 of 3 left over" in page


def test_words_have_their_sides():
    words = item(pixels=np.empty(0), words=["good", "<i>", "bad"], values={"lrp": np.array([2.0, 0.0, -2.0])})
    page = render_network(run_of([words], kind="texts"))
    assert re.search(r'<mark class="against-5"[^>]*>good</mark>', page)
    assert re.search(r'<mark class="for-5"[^>]*>bad</mark>', page)
    assert "&lt;i&gt;" in page
    assert "<i>" not in page


def test_odd_groups_show_their_pictures():
    group = FoundGroup("12 pictures look at the corner.", ["b.png"], (0, 2, 0, 2))
    page = render_network(run_of([item(), item("b.png")], groups=[group], n_grouped=40))
    section = page[page.index('id="odd"') : page.index('id="trust"')]
    assert "12 pictures look at the corner." in section
    assert section.count("<img") == 1


def test_a_page_stays_small():
    rng = np.random.default_rng(0)
    big = [
        item(
            pixels=rng.integers(0, 255, (300, 300, 3)).astype(float),
            values={"lrp": rng.random((3, 300, 300))},
        )
    ]
    page = render_network(run_of(big * 12))
    assert len(page.encode()) <= 8_000_000
    assert "inputs fit on this page" in page


@pytest.mark.parametrize(
    ("area", "better", "is_good"), [(0.1, 9, True), (0.45, 9, False), (0.1, 4, False), (0.6, 1, False)]
)
def test_what_is_hardly_better_than_chance_is_not_called_checked(area, better, is_good):
    told = MethodTold("g", "G", "sensitivity", area=area, random_area=0.5, n_better=better, n_judged=10)
    assert is_carried(told) == is_good
    assert ("do not rely on it" in write_carried(told)) != is_good
    assert write_conserved(told) == "Its values are no shares of the output."


def test_an_output_that_does_not_fall_is_said():
    told = MethodTold("g", "G", "sensitivity", is_checked=True)
    assert "does not fall when all is painted over" in write_carried(told)
    assert "was not checked" in write_carried(MethodTold("g", "G", "sensitivity"))
