"""The table that notebooks show: what raised a score, and what lowered it."""

import re

import numpy as np
import pandas as pd

from tellwhy import Explanation


def page(**changes):
    values = np.array([[0.5, -3.0, 0.1, 2.0]])
    data = pd.DataFrame([[1.5, "red", 0, 12.25]], columns=["a", "b", "c", "d"], index=["order 7"])
    given = {
        "values": values,
        "scores": [9.0],
        "data": data,
        "feature_names": list("abcd"),
        "method": "Example",
    }
    return Explanation(**{**given, **changes})._repr_html_()


def cells(text):
    return [re.sub("<[^>]*>", "", cell) for cell in re.findall("<td>(.*?)</td>", text)]


def test_the_largest_in_either_direction_come_first_with_their_cells():
    assert cells(page()) == ["order 7", "9", "b = red −3, d = 12.25 +2, a = 1.5 +0.5"]


def test_colours_tell_the_direction():
    first, second = re.findall('<span style="(color:[^"]*)">[−+]', page())[:2]
    assert first != second
    assert "raises" in page()
    assert "lowers" in page()
    assert "raises" not in page(kind="ranking")


def test_cells_are_escaped_and_cut():
    text = page(data=pd.DataFrame([[1.5, "<script>" + "x" * 90, 0, 1.0]], columns=list("abcd")))
    assert "<script>" not in text
    assert len(cells(text)[2]) < 120


def test_pictures_and_rows_without_data_have_no_cells():
    assert cells(page(data=None))[2] == "b −3, d +2, a +0.5"
    image = Explanation(values=np.ones((1, 2, 2)), scores=[4.0], method="Image", data=np.zeros((1, 2, 2)))
    assert "x0_0 +1" in cells(image._repr_html_())[2]


def test_rows_of_a_classifier_are_told_with_their_class():
    told = {"explained": np.array(["<no>", "yes"])}
    shown = Explanation(values=[[1.0], [2.0]], scores=[1.0, 2.0], method="Example", extras=told)._repr_html_()
    assert "<th>class</th>" in shown
    assert shown.index("<td>yes</td>") < shown.index("<td>&lt;no&gt;</td>")  # the highest score first
