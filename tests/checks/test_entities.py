"""Reports of many sources: the reliable ones are believed, copies have one voice, empty reports are told."""

import numpy as np
import pandas as pd
import pytest
from oracles.report_oracles import believed

from tellwhy.checks import entities
from tellwhy.checks.check import check_table
from tellwhy.checks.entities import Attribute, believe, voices_of


def made(rng, n_things=5, n_sources=4, n_values=3):
    thing, source = np.divmod(np.arange(n_things * n_sources), n_sources)
    kept = rng.random(len(thing)) < 0.9
    value = rng.integers(0, n_values, kept.sum())
    return Attribute(np.flatnonzero(kept), thing[kept], source[kept], value, 0.5)


@pytest.mark.parametrize("seed", range(4))
def test_values_are_those_of_plain_loops(seed, monkeypatch):
    monkeypatch.setattr(entities, "_ROUNDS", 3)
    rng = np.random.default_rng(seed)
    attribute = made(rng)
    weights = rng.uniform(0.2, 1, 4)
    (values,), _ = believe([attribute], weights)
    reports = zip(attribute.thing.tolist(), attribute.source.tolist(), attribute.value.tolist(), strict=True)
    slow = believed(list(reports), dict(enumerate(weights)), 3, entities.VALUES)
    for thing, value, p in zip(attribute.pairs.thing, attribute.pairs.value, values, strict=True):
        assert p == pytest.approx(slow[thing, value], rel=1e-9)


def flights(seed=0, n_things=60, n_sources=14, n_copies=0):
    """Sources that are right with probability .95 or .5; copies repeat the last bad one, mistakes and all."""
    rng = np.random.default_rng(seed)
    rows = []
    told = {}
    q = np.where(np.arange(n_sources) % 2, 0.95, 0.5)
    for thing in range(n_things):
        truth = [f"{rng.integers(1, 12)}:{rng.integers(10, 60)}" for _ in range(2)]
        for source in range(n_sources + n_copies):
            said = [
                each if rng.random() < q[min(source, n_sources - 1)] else f"{rng.integers(1, 12)}:{minute}"
                for each, minute in zip(truth, rng.integers(10, 60, 2), strict=True)
            ]
            if source >= n_sources:
                said = told[thing, 0]
            told[thing, source] = said
            rows.append((f"F{thing}", f"site{source}", *said, *truth))
    return pd.DataFrame(rows, columns=["flight", "site", "leaves", "lands", "leaves_true", "lands_true"])


def claimed(table):
    found = np.zeros(table.shape, bool)
    for finding in check_table(table).findings:
        if finding.surprise > 0:
            found[list(finding.rows), table.columns.get_loc(finding.columns[0])] = True
    return found


@pytest.mark.parametrize("n_copies", [0, 8])
def test_wrong_reports_are_found_even_where_copies_outvote_the_rest(n_copies):
    known = flights(1, n_copies=n_copies)
    table = known[["flight", "site", "leaves", "lands"]]
    wrong = np.zeros(table.shape, bool)
    wrong[:, 2] = known["leaves"] != known["leaves_true"]
    wrong[:, 3] = known["lands"] != known["lands_true"]
    found = claimed(table)
    assert (found & wrong).sum() > 0.9 * wrong.sum()
    assert (found & ~wrong).sum() <= 0.1 * found.sum()


def test_copies_are_told_from_sources_that_are_both_good():
    known = flights(2, n_copies=3)
    codes = {name: pd.factorize(known[name])[0] for name in known}
    attributes = [
        Attribute(np.arange(len(known)), codes["flight"], codes["site"], codes[name], 0.5)
        for name in ("leaves", "lands")
    ]
    weights = voices_of(attributes, 17)
    assert weights[[0, 14, 15, 16]] == pytest.approx(0.25)
    assert weights[1:14] == pytest.approx(1.0)


def test_each_report_is_told_with_its_own_thing_and_what_was_expected():
    known = flights(3)
    table = known[["flight", "site", "leaves", "lands"]].copy()
    table.loc[[5, 40], "leaves"] = None
    for finding in check_table(table).findings:
        if finding.form in ("report", "missing_cell"):
            column = finding.columns[0]
            level = [own["level"] for own in finding.own]
            assert level == table["flight"].iloc[list(finding.rows)].tolist()
            truth = known[f"{column}_true"].iloc[list(finding.rows)].to_numpy()
            assert (np.array(finding.expected) == truth).mean() > 0.9
            assert {own["n_reports"] for own in finding.own} <= {13, 14}
    empty = [row for f in check_table(table).findings if f.form == "missing_cell" for row in f.rows]
    assert set(empty) >= {5, 40}
