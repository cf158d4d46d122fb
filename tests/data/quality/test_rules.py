"""What checks learn from a table is kept with a model, and asked of any other rows: in a list, alone, from disk."""

from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

import tellwhy
from tellwhy.checks import relations
from tellwhy.checks.check import CHECKS, CLAIMANTS, are_rules, check_table, learn_rules
from tellwhy.checks.facts import facts_of
from tellwhy.workflow import fit_model

CITIES = {"Berlin": "DE", "Paris": "FR", "Rome": "IT", "Madrid": "ES"}


def visits(n, seed=0):
    """Totals that are price × pieces, ends after starts, countries of cities, ratings from 1 to 5."""
    rng = np.random.default_rng(seed)
    price = rng.uniform(2, 90, n).round(2)
    pieces = rng.integers(2, 30, n)
    city = rng.choice(list(CITIES), n)
    start = rng.integers(0, 5000, n)
    return pd.DataFrame(
        {
            "price": price,
            "pieces": pieces,
            "total": (price * pieces).round(2),
            "start_km": start,
            "end_km": start + rng.integers(1, 3000, n),
            "city": city,
            "country": [CITIES[name] for name in city],
            "rating": rng.integers(1, 6, n),
        }
    )


@pytest.fixture(scope="module")
def model():
    return fit_model(visits(600), clean=True)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    return tellwhy.load(tellwhy.save(model, tmp_path_factory.mktemp("model") / "visits.tellwhy"))


def test_each_check_learns_its_rules(model):
    rules = model.rules
    assert [set(each.columns) for each in rules["learn_relations"]] == [{"total", "price", "pieces"}]
    assert [(each.low, each.high) for each in rules["learn_orders"]] == [("start_km", "end_km")]
    pairs = {
        (each.source, each.target): {level: told[0] for level, told in each.usual.items()}
        for each in rules["learn_dependencies"]
    }
    assert pairs["city", "country"] == CITIES
    assert pairs["country", "city"] == {country: city for city, country in CITIES.items()}
    assert "rating" in rules["learn_scales"]


def plain(rules):
    return {
        name: [each if isinstance(each, str) else told(asdict(each)) for each in found]
        for name, found in rules.items()
    }


def told(value):
    """Facts with arrays as lists, which compare as a whole."""
    if isinstance(value, dict):
        return {key: told(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [told(each) for each in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def test_rules_are_the_same_from_disk(model, saved):
    assert plain(saved.rules) == plain(model.rules)
    assert saved.facts.rules == dict(saved.rules)


def test_a_model_from_disk_learns_nothing_again(saved, monkeypatch):
    def refuse(*_):
        raise AssertionError("learned again")

    monkeypatch.setattr(relations, "candidates", refuse)
    learned = learn_rules(saved.facts)
    assert learned["learn_relations"] is saved.rules["learn_relations"]
    odd = visits(60, seed=1)
    odd.loc[7, "total"] += 31.5
    found = check_table(odd, saved.roles, reference=saved.facts).findings
    assert [(each.kind, each.rows) for each in found if each.surprise > 0] == [("broken_relation", (7,))]


def test_a_model_of_an_earlier_version_learns_them_when_they_are_asked_for(model):
    earlier = replace(model, rules={})
    assert plain(learn_rules(earlier.facts)) == plain(model.rules)


@pytest.mark.parametrize(
    "rules",
    [
        {"learn_relations": ["total = price × pieces"]},
        {"learn_orders": "start_km"},
        {"learn_scales": [5]},
        {"learn_everything": []},
    ],
)
def test_rules_that_no_check_learns_are_refused(rules):
    assert not are_rules(rules)


def test_what_a_check_learns_has_a_type():
    rules = learn_rules(facts_of(visits(600), None))
    assert are_rules(rules)
    learned = {check.learn.__name__ for check in CHECKS if check.learn}
    learned |= {learn.__name__ for claimant in CLAIMANTS for learn, _ in claimant.learned}
    assert set(rules) == learned
