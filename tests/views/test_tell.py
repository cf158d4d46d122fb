"""A result in every form of output."""

import json

import numpy as np
import pandas as pd
import pytest

import tellwhy
from tellwhy.core.errors import InvalidParameter
from tellwhy.views.tell import FORMS


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size": rng.normal(10, 1, 150)})
    frame["weight"] = 2 * frame["size"] + rng.normal(0, 0.1, 150)
    frame.loc[7, "weight"] = 3.0
    return tellwhy.judge(tellwhy.fit(frame), frame)


@pytest.mark.parametrize("form", sorted(FORMS))
def test_every_form_tells_the_anomalies(result, form):
    said = tellwhy.tell(result, form)
    assert "weight" in said
    assert "row 7" in said or '"row": 7' in said or ",7," in said


def test_json_is_the_document_of_a_result(result):
    assert json.loads(tellwhy.tell(result, "json"))["anomalies"][0]["part"]["row"] == 7


def test_an_unknown_form_is_told_with_those_there_are(result):
    with pytest.raises(InvalidParameter, match="There are: csv, html, json, text"):
        tellwhy.tell(result, "stone")
