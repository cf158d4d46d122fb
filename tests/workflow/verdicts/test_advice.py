"""A table in the order of time, or of several kinds of rows, is better asked otherwise: a note says how."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tellwhy.verdicts.advice import advise
from tellwhy.workflow import explain_table

DAYS = pd.date_range("2026-01-01", periods=400, freq="D")


def asked(**columns):
    frame = pd.DataFrame(columns)
    roles = {}
    for name, column in frame.items():
        is_date = pd.api.types.is_datetime64_any_dtype(column)
        kind = "date" if is_date else "number" if pd.api.types.is_numeric_dtype(column) else "category"
        roles[name] = SimpleNamespace(kind=kind)
    return [(notice.kind, notice.facts["column"]) for notice in advise(frame, roles)]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_a_number_that_follows_the_one_before_suggests_time(rng):
    level = np.sin(np.arange(400) / 20) + 0.1 * rng.normal(size=400)
    assert asked(day=DAYS, level=level) == [("advise_time", "day")]
    assert asked(day=DAYS, level=rng.normal(size=400)) == []  # orders of a shop
    assert asked(day=rng.permutation(DAYS), level=level) == []  # rows in no order
    assert asked(day=DAYS, number=np.arange(400)) == []  # a number of orders
    assert asked(day=DAYS[:1].repeat(400), level=level) == []


def test_numbers_that_differ_by_a_label_suggest_segments(rng):
    species = np.repeat(["Adelie", "Gentoo"], 200)
    weight = np.where(species == "Gentoo", 5000, 3700) + rng.normal(0, 300, 400)
    assert asked(species=species, weight=weight) == [("advise_by", "species")]
    assert asked(species=species, weight=rng.normal(size=400)) == []
    assert asked(species=species, price=np.where(species == "Gentoo", 5.0, 3.0)) == []  # it follows from it
    few = np.where(np.arange(400) < 5, "Chinstrap", species)
    assert asked(species=few, weight=weight) == []  # five rows are no segment
    sex = rng.choice(["f", "m"], 400)
    both = weight + np.where(sex == "f", 0, 200)
    assert asked(sex=sex, species=species, weight=both, wing=both / 20) == [("advise_by", "species")]


def test_the_note_names_the_option_and_is_not_given_twice(rng):
    species = np.repeat(["Adelie", "Gentoo"], 200)
    weight = np.where(species == "Gentoo", 5000, 3700) + rng.normal(0, 300, 400)
    table = pd.DataFrame({"species": species, "weight": weight, "age": rng.normal(9, 2, 400)})
    told = "weight differs by species: --by species compares rows with those of the same species."
    assert told in explain_table(table, top=1).notes
    assert told not in explain_table(table, by=["species"], top=1).notes
