"""Each kind of wrong text is found in a small table, and what is merely rare is left alone."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.checks.check import check_table
from tellwhy.checks.copies import first_of_copies, hashed_cells
from tellwhy.checks.dependencies import Groups
from tellwhy.checks.formats import Level
from tellwhy.checks.keyboard import Edit, Keyboard, edits_between
from tellwhy.checks.writing import write_column

CITIES = {"Berlin": "Germany", "Hamburg": "Germany", "Paris": "France", "Lyon": "France", "Rome": "Italy"}
CITIES |= {"Milan": "Italy", "Madrid": "Spain", "Lisbon": "Portugal"}


def visits(n=800, seed=0):
    rng = np.random.default_rng(seed)
    city = rng.choice(list(CITIES), n)
    parts = rng.integers(0, [9, 9, 9999], (n, 3))
    return pd.DataFrame(
        {
            "city": city,
            "country": [CITIES[each] for each in city],
            "code": [f"{a}{b}-{k:04d}" for a, b, k in parts],
            "size": [f"{k} oz" for k in rng.integers(4, 30, n)],
            "x": rng.normal(size=n).round(3),
        }
    )


def told(table, **more):
    return [f for f in check_table(table, **more).findings if f.probabilities]


def cells(findings):
    return {(row, f.columns[0]) for f in findings for row in f.rows}


def test_nothing_is_claimed_of_a_clean_table():
    assert told(visits()) == []


@pytest.mark.parametrize(
    ("column", "value", "kinds"),
    [
        ("city", "Hambrug", {"misspelling", "dependency"}),
        ("city", "hamburg", {"misspelling"}),
        ("city", "HamburgÂ", {"misspelling", "damaged_text", "dependency"}),
        ("country", "Germny", {"misspelling", "dependency"}),
        ("code", "code 77", {"odd_pattern"}),
        ("code", "Jun-70", {"odd_pattern"}),
        ("city", "France", {"misplaced"}),
        ("x", "1.2.3", {"unread_word", "odd_pattern"}),
    ],
)
def test_a_wrong_cell_is_told_and_nothing_else(column, value, kinds):
    table = visits().astype({"x": object})
    rows = np.flatnonzero(table["city"] == "Hamburg")[[3]] if column != "code" else [5]
    table.loc[rows, column] = value
    found = [
        f
        for f in check_table(table).findings
        if (f.surprise > 0 and f.kind != "rare_level") or f.probabilities
    ]
    assert cells(found) == {(int(rows[0]), column)}
    assert {f.form or f.kind for f in found} <= kinds


def test_a_second_unit_is_one_finding():
    table = visits()
    rows = list(range(10, 30))
    table.loc[rows, "size"] = table.loc[rows, "size"].str.replace("oz", "ounce")
    (found,) = told(table)
    assert (found.kind, found.rows) == ("second_convention", tuple(rows))
    assert found.facts == {"written": "ounce", "usual": "oz"}


def test_two_values_in_one_cell_beside_an_empty_one():
    table = visits()
    table.loc[7, ["city", "country"]] = ["Rome Italy", None]
    table.loc[7, "city"] = "Rome Italy"
    assert cells(told(table)) >= {(7, "city")}


def test_counties_one_letter_apart_are_both_counties():
    """Payne is no slip of Wayne where its rows have another code, nor where such names are many."""
    rng = np.random.default_rng(1)
    county = rng.choice(["Wayne", "Lincoln", "Monroe", "Jackson", "Franklin"], 900).astype(object)
    county[[4, 50, 77]] = "Payne"
    fips = pd.Series(county).map(
        dict(zip(["Wayne", "Lincoln", "Monroe", "Jackson", "Franklin", "Payne"], "abcdef", strict=True))
    )
    assert told(pd.DataFrame({"county": county, "fips": fips, "x": rng.normal(size=900)})) == []
    names = [f"{a}ay{b}" for a in "BDHKLMRSW" for b in ("ne", "nes", "ner", "den")]
    many = rng.choice(names, 1200).astype(object)
    many[5] = "Jayne"
    assert all(f.surprise == 0 for f in told(pd.DataFrame({"name": many, "x": rng.normal(size=1200)})))


def test_a_rare_code_of_the_usual_form_is_legitimate():
    rng = np.random.default_rng(2)
    table = pd.DataFrame(
        {"code": rng.choice([f"A-{k:03d}" for k in range(40)], 900), "x": rng.normal(size=900)}
    )
    table.loc[7, "code"] = "A-917"
    assert told(table) == []


def test_a_station_that_writes_otherwise_made_no_mistakes():
    rng = np.random.default_rng(3)
    station = rng.choice(list("abcdefgh"), 800)
    reading = np.array([f"{k}.{j}" for k, j in rng.integers(1, 9, (800, 2))], object)
    here = np.flatnonzero(station == "c")[:60]
    station[np.flatnonzero(station == "c")[60:]] = "a"
    reading[here] = [f"{k} dry" for k in rng.integers(1, 9, len(here))]
    assert not [f for f in told(pd.DataFrame({"station": station, "reading": reading})) if len(f.rows) > 10]


def test_an_error_that_recurs_with_its_row_is_found_as_the_single_one():
    table = visits(300)
    table.loc[[3, 40], "country"] = ["Germny", "Frnce"]
    table.loc[90, "code"] = "nope!"
    five = pd.concat([table] * 5, ignore_index=True)
    once = cells(told(table))
    assert once == {(3, "country"), (40, "country"), (90, "code")}
    assert cells(told(five)) == {(row + k * 300, name) for row, name in once for k in range(5)}


def test_new_rows_are_judged_by_the_known_ones_alone():
    known = visits(600)
    new = visits(40, seed=9)
    new.loc[3, "country"] = "Germny"
    new.loc[8, ["city", "country"]] = ["Rome", "Spain"]
    found = told(new, reference=known)
    assert cells(found) == {(3, "country"), (8, "country")}
    for row in (3, 8):
        alone = told(new.iloc[[row]].reset_index(drop=True), reference=known)
        assert cells(alone) == {(0, "country")}


def test_each_cell_is_told_with_its_own_group():
    table = visits()
    rows = [int(np.flatnonzero(table["city"] == city)[2]) for city in ("Rome", "Paris", "Berlin")]
    table.loc[rows, "country"] = "Portugal"
    (found,) = [f for f in told(table) if f.form == "dependency"]
    assert found.rows == tuple(sorted(rows))
    by_row = dict(
        zip(found.rows, zip([own["level"] for own in found.own], found.expected, strict=True), strict=True)
    )
    assert by_row == {row: (table["city"][row], CITIES[table["city"][row]]) for row in rows}
    for place, row in enumerate(found.rows):
        text = found.of_rows([place]).text
        assert f"city = {table['city'][row]} goes with country = {CITIES[table['city'][row]]}" in text


def test_agreement_beyond_chance_is_that_of_all_pairs_of_rows():
    rng = np.random.default_rng(4)
    x = rng.choice(list("abcdef"), 60)
    y = np.where(rng.random(60) < 0.7, np.char.upper(x), rng.choice(list("ABCDEF"), 60))
    agree = [np.mean([y[i] == y[j] for j in range(60) if j != i and x[j] == x[i]]) for i in range(60)]
    _, counts = np.unique(y, return_counts=True)
    chance = float(((counts / 60) ** 2).sum())
    groups = Groups.of(*(write_column(pd.Series(each), np.zeros(0, int)) for each in (x, y)))
    assert groups.kappa() == pytest.approx((np.mean(agree) - chance) / (1 - chance), rel=1e-12)


def test_the_keyboard_learns_what_comes_in():
    slips = [[Edit("replace", "a", "x")]] * 40
    keyboard = Keyboard.learned(slips)
    assert keyboard.is_usual("x")
    assert not keyboard.is_usual("q")
    letters = {chr(code) for code in range(33, 93)}
    assert sum(Keyboard().p_came(letter) for letter in letters) == pytest.approx(1.0)
    assert keyboard.log_p(edits_between("xoad", "road"), 4) > Keyboard().log_p(
        edits_between("xoad", "road"), 4
    )


@pytest.mark.parametrize("seed", range(3))
def test_edits_are_the_least_that_there_are(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        meant = "".join(rng.choice(list("abcd"), 8))
        cut = int(rng.integers(0, 7))
        for written in (meant[:cut] + meant[cut + 1 :], meant[:cut] + "z" + meant[cut:]):
            edits = edits_between(written, meant)
            assert [edit.kind for edit in edits] in (["drop"], ["add"])
        swapped = meant[:cut] + meant[cut + 1] + meant[cut] + meant[cut + 2 :]
        if swapped != meant:
            assert edits_between(swapped, meant) == [Edit("swap")]


def test_patterns_generalise_as_their_level_says():
    tokens = ["AB", "-", "12", " ", "oz"]
    assert Level(has_lengths=True, has_cases=True).pattern(tokens) == ("A", "-", "99", " ", "a")
    assert Level(has_lengths=False, has_cases=False).pattern(tokens) == ("w", "-", "9+", " ", "w")
    kept = Level(has_lengths=False, has_cases=False, words=frozenset({"oz"}))
    assert kept.pattern(tokens) == ("w", "-", "9+", " ", '"oz"')


def test_few_labels_repeat_themselves_and_are_no_copies():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": rng.choice(list("uv"), 500), "b": rng.choice(list("uvw"), 500)})
    assert first_of_copies([hashed_cells(frame[name]) for name in frame]) is None


def test_a_cell_that_another_finding_emptied_is_not_told_as_empty():
    table = visits()
    table["price"] = table["city"].map({city: 3.5 + at for at, city in enumerate(CITIES)})
    table.loc[7, "price"] = -999.0
    findings = check_table(table).findings
    assert [(f.kind, f.rows) for f in findings if "price" in f.columns] == [("placeholder", (7,))]
    table.loc[7, "price"] = np.nan
    empty = [f for f in check_table(table).findings if f.form == "missing_cell"]
    assert [f.rows for f in empty] == [(7,)]
    assert [float(value) for value in empty[0].expected] == [3.5 + list(CITIES).index(table["city"][7])]


def test_a_label_of_words_that_others_have_is_no_misspelling():
    rng = np.random.default_rng(0)
    levels = ["Very_Good", "Good", "Average", "Poor"]
    table = visits(1500)
    table["state"] = rng.choice(levels, 1500, p=[0.1, 0.5, 0.35, 0.05])
    table.loc[[3, 70, 400, 800, 900], "state"] = "Very_Poor"
    assert told(table) == []
    table.loc[11, "state"] = "Very_Godo"
    assert cells(told(table)) == {(11, "state")}
