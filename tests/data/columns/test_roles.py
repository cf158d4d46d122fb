"""Columns as people write them: what each is, what its cells become, and what is said of it."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.data.columns.reading import Role
from tellwhy.data.columns.roles import read_columns

N = 60


def repeated(cells, n=N):
    return [cells[i % len(cells)] for i in range(n)]


def read_one(cells, name="c", **given):
    read = read_columns(pd.DataFrame({name: cells}), **given)
    return read.frame[name], read.roles[name], read.notices


NUMBERS = {
    "dollars": (["$1,299.00", "-$5", "($1,200.00)", "$-3"], [1299, -5, -1200, -3], "money in $"),
    "dollars and none": (["$1,299.00", "7", "$8"], [1299, 7, 8], "money in $"),
    "millions": (["$1.2M", "$850K", "$3"], [1.2e6, 850e3, 3], "money in $"),
    "euros": (["1.299,00 €", "12,50 €", "3 €"], [1299, 12.5, 3], "money in €"),
    "euros before": (["€ 1.299,50", "€12", "EUR 7,10"], [1299.5, 12, 7.1], "money in €"),
    "thousands of euros": (["1.299 €", "999 €"], [1299, 999], "money in €"),
    "a code before": (["USD 12", "USD 1,300.25"], [12, 1300.25], "money in $"),
    "a code behind": (["12.50 CHF", "1'300.00 CHF"], [12.5, 1300], "money in CHF"),
    "rupees": (["₹1,23,456.00", "₹99"], [123456, 99], "money in ₹"),
    "a minus of its own": (["−$5.00", "$6.00"], [-5, 6], "money in $"),
    "percent": (["12 %", "12.5%", "-3%"], [12, 12.5, -3], "percent"),
    "kilograms": (["12 kg", "3.5kg", "1,200 kg"], [12, 3.5, 1200], "weights in kg"),
    "grams, some in kilograms": (["1200 g", "850 g", "1,2 kg"], [1200, 850, 1200], "weights in g"),
    "millimetres": (["3.5mm", "4mm", "1 cm"], [3.5, 4, 10], "lengths in mm"),
    "degrees": (["20 °C", "-3.5 °C"], [20, -3.5], "temperatures in °C"),
    "sizes": (["5 GB", "7 GB", "500 MB"], [5, 7, 0.5], "sizes in GB"),
    "commas in thousands": (["1,234", "12", "3,456,789"], [1234, 12, 3456789], "numbers written as 1,234"),
    "points in thousands": (
        ["1.234", "12", "3.456.789"],
        [1234, 12, 3456789],
        "numbers written as 3.456.789",
    ),
    "spaces in thousands": (["1 234", "12", "1\u202f300"], [1234, 12, 1300], "numbers written as 1 234"),
    "apostrophes in thousands": (["1'234", "12"], [1234, 12], "numbers written as 1'234"),
    "decimal commas": (["1,5", "12,25"], [1.5, 12.25], "numbers written as 1,5"),
    "thousands by a letter": (["2.5k", "1M", "850"], [2500, 1e6, 850], "numbers with k for thousands"),
    "either": (["1,234 kg", "5,678 kg"], [1234, 5678], "weights in kg, 1,234 taken for 1234"),
    "no thousands": (["1,234 kg", "5,678 kg", "12345 kg"], [1.234, 5.678, 12345], "weights in kg"),
    "three decimals": (["1.234 kg", "5.678 kg"], [1.234, 5.678], "weights in kg"),
    "plain": (["1.5", "12", "-3e2"], [1.5, 12, -300], "numbers"),
    "times of day": (["14:30", "2:15 PM", "00:00:36"], [14.5, 14.25, 0.01], "times of day, in hours"),
}


@pytest.mark.parametrize(("cells", "values", "words"), NUMBERS.values(), ids=NUMBERS)
def test_numbers_as_people_write_them(cells, values, words):
    column, role, notices = read_one(repeated(cells))
    np.testing.assert_allclose(column, repeated(values))
    assert column.dtype == np.float64
    assert (role.kind, role.words) == ("number", words)
    assert len(notices) == (words != "numbers")


WORDS = {
    "addresses": ["192.168.100.101", "192.168.178.120"],
    "telephones": ["+49 170 123 456", "+49 171 987 654"],
    "telephones in groups": ["0170 123456", "0171 987654"],
    "versions": ["1.2.14", "1.3.10"],
    "versions of four": ["1.2.3.4", "1.2.3.5"],
    "seats": ["12A", "13A", "14A"],
    "rooms": ["Room 12", "Room 13"],
    "ranges": ["10-20", "20-30"],
    "pressures of blood": ["120/80", "130/85"],
    "sizes of clothes": ["S", "M", "L", "38"],
    "chromosomes": [*map(str, range(1, 23)), "X", "Y"],
    "answers": ["yes", "no", "maybe"],
    "ratios": ["1:2", "3:4"],
    "words": ["red", "green"],
    "ordinals": ["1st", "2nd", "3rd"],
    "dates without a year": ["31.05.", "01.06."],
    "quarters": ["Q1 2024", "Q2 2024", "Q4 2023"],
    "weeks": ["2024-W05", "2024-W06"],
    "cards": ["4111 1111 1111 1111", "5500 0000 0000 0004"],
    "stars of five": ["3.5/5", "4/5"],
    "latitudes": ["52.52° N", "48.13° N"],
    "tolerances": ["5±1", "6±2"],
    "about": ["~5", "~6"],
    "limits": ["<0.01", "0.5", "0.7"],
    "hours and minutes": ["1h 30m", "2h 10m"],
    "books": ["978-3-16-148410-0", "978-0-306-40615-7"],
    "social security": ["123-45-6789", "987-65-4321"],
    "coordinates": ["52.5, 13.4", "48.1, 11.5"],
    "fractions": ["1/2", "3/4"],
    "screens": ["1920x1080", "1280x720"],
    "hexadecimal": ["0x1F", "0x2A"],
    "prices per kilogram": ["$5/kg", "$6/kg"],
    "ranges of money": ["10–20 €", "20–30 €"],
    "two layouts of dates": ["2024-01-05", "05.01.2024"],
    "telephones without spaces": ["+496252369624", "+496252369625"],
}


@pytest.mark.parametrize("cells", WORDS.values(), ids=WORDS)
def test_what_only_resembles_a_number_or_a_date_stays_as_it_is(cells):
    cells = repeated(cells, 96)
    column, role, notices = read_one(cells)
    assert column.tolist() == cells
    assert role.kind == "category"
    assert not notices


DATES = {
    "31.05.2024": ("2024-05-31", "dates, day first"),
    "31/05/2024": ("2024-05-31", "dates, day first"),
    "31-05-24": ("2024-05-31", "dates, day first"),
    "05/31/2024": ("2024-05-31", "dates, month first"),
    "5/31/24 3:05 PM": ("2024-05-31T15:05", "dates, month first"),
    "05/31/2024 12:00 am": ("2024-05-31", "dates, month first"),
    "31 May 2024": ("2024-05-31", "dates, month by name"),
    "31. Mai 2024": ("2024-05-31", "dates, month by name"),
    "31-May-24": ("2024-05-31", "dates, month by name"),
    "Fri, 31 May 2024 08:30:00": ("2024-05-31T08:30", "dates, month by name"),
    "May 31, 2024": ("2024-05-31", "dates, month by name first"),
    "2024-05-31T08:30:15.25Z": ("2024-05-31T08:30:15.25", "dates, year first"),
    "2024-05-31 08:30:00+02:00": ("2024-05-31T06:30", "dates, year first"),
    "2024/5/31": ("2024-05-31", "dates, year first"),
    "2024-05": ("2024-05-01", "dates, year first"),
}


@pytest.mark.parametrize(("text", "expected"), DATES.items())
def test_dates_as_people_write_them(text, expected):
    other = text.replace("31", "30")
    column, role, _ = read_one(repeated([text, other]))
    assert column.to_numpy()[0] == np.datetime64(expected[0])
    is_constant = other == text
    assert (role.kind, role.words) == ("constant" if is_constant else "date", expected[1])


def test_days_and_months_are_told_apart_by_the_column():
    days = pd.date_range("2024-03-01", periods=12)
    us = days.strftime("%m/%d/%Y").tolist()
    read, role, _ = read_one(us)
    assert role.words == "dates, month first"
    assert read.tolist() == days.tolist()
    read, role, _ = read_one(days.strftime("%d/%m/%Y").tolist())
    assert role.words == "dates, day first"
    assert read.tolist() == days.tolist()
    shuffled = days[np.random.default_rng(0).permutation(12)]
    read, role, _ = read_one(shuffled.strftime("%d/%m/%Y").tolist())
    assert (role.words, read.tolist()) == ("dates, day first", shuffled.tolist())
    in_order = ["05/01/2024", "03/02/2024", "09/03/2024", "01/04/2024", "07/05/2024", "02/06/2024"]
    assert read_one(in_order)[1].words == "dates, day first"
    assert read_one([f"{text[3:5]}/{text[:2]}/2024" for text in in_order])[1].words == "dates, month first"
    _, role, notices = read_one(repeated(["03/04/2024", "05/06/2024"]))
    assert "nothing in the column tells" in role.words
    assert notices == ["c: dates, taken as month first, which nothing in the column tells."]


def test_an_uncertain_column_follows_the_certain_ones_of_its_table():
    frame = pd.DataFrame(
        {"a": repeated(["03/04/2024", "05/06/2024"]), "b": repeated(["31/12/2023", "1/2/2024"])}
    )
    read = read_columns(frame)
    assert read.roles["a"].words == "dates, day first"
    assert read.frame["a"][0] == pd.Timestamp("2024-04-03")


def test_points_in_time_as_numbers_need_a_name_that_says_so():
    seconds = 1_717_142_400 + np.random.default_rng(0).integers(0, 10**6, N)
    column, role, notices = read_one(seconds, "created_at")
    assert role == Role("date", "dates, seconds since 1970")
    assert column[0] == pd.Timestamp(seconds[0], unit="s")
    assert notices == ["created_at: dates, seconds since 1970."]
    column, role, _ = read_one(seconds * 1000 + 7, "eventTime")
    assert column[0] == pd.Timestamp(seconds[0] * 1000 + 7, unit="ms")
    assert read_one(seconds, "revenue")[1].kind == "number"
    assert read_one(np.arange(N) * 7 % 50, "time")[1].kind == "number"
    column, role, _ = read_one([20240531, 20240602, 20231231] * 20, "date")
    assert column[0] == pd.Timestamp("2024-05-31")
    assert read_one([20240531, 20240602, 20231231] * 20, "price")[1].kind == "number"


CODES = {
    "status": ([200, 404, 500], "HTTP status codes"),
    "order_status": ([1, 2, 3], "codes"),
    "zip": ([80331, 10115, 1234], "postal codes"),
    "Postal Code": ([80331.0, 10115.0, np.nan], "postal codes"),
    "customerId": ([17, 99, 4], "numbers that name things"),
    "type": ([1, 2, 9], "codes"),
}


@pytest.mark.parametrize(("name", "given"), CODES.items())
def test_numbers_that_name_things_are_categories(name, given):
    column, role, notices = read_one(repeated(given[0]), name)
    assert (role.kind, role.words) == ("category", given[1])
    assert notices == [f"{name}: {given[1]}, used as categories."]
    assert [str(label) for label in column.dtype.categories] == sorted(
        (str(int(code)) for code in given[0] if not np.isnan(code)), key=int
    )
    assert read_one(repeated(given[0]), "width")[1].kind == "number"


@pytest.mark.parametrize(
    "name", ["class_size", "type_count", "id_length", "ziprange", "paid", "subtype_share"]
)
def test_a_measure_of_a_code_is_no_code(name):
    assert read_one(repeated([3, 4, 5]), name)[1].kind == "number"


def test_numbers_that_are_too_many_or_negative_are_no_codes():
    many = np.arange(600) % 150
    assert read_one(many, "type")[1].kind == "number"
    assert read_one(many % 90, "type")[1].kind == "category"
    assert read_one(many, "customer_id")[1].kind == "category"
    assert read_one(repeated([-1, 1, 2]), "status")[1].kind == "number"
    assert read_one([*repeated([1, 2]), -1], "status")[1].kind == "category"
    assert read_one(repeated([0.5, 1, 2]), "status")[1].kind == "number"


def test_numbers_that_name_things_and_hardly_recur_are_identifiers():
    cells = [*range(1000, 1040), *range(1000, 1010)]
    _, role, _ = read_one(np.random.default_rng(0).permutation(cells), "customer_id")
    assert (role.kind, role.words) == ("identifier", "numbers that name things")


def test_codes_that_begin_with_zeros_stay_text():
    column, role, _ = read_one(repeated(["01234", "80331", "00042"]), "plz")
    assert column[0] == "01234"
    assert (role.kind, role.words) == ("category", "postal codes")
    assert read_one(repeated(["007", "123", "042"]), "agent")[1].words == "codes"
    assert read_one(repeated(["0.5", "12", "7"]))[1].kind == "number"


@pytest.mark.parametrize(
    "pair", [("yes", "no"), ("TRUE", "FALSE"), ("Y", "N"), ("ja", "nein"), ("Ja", "Nein"), ("t", "f")]
)
def test_yes_and_no(pair):
    column, role, notices = read_one([*repeated(pair), None])
    assert role.kind == "boolean"
    assert column[:2].tolist() == [True, False]
    assert column.isna().sum() == 1
    assert read_one(repeated(pair))[0].dtype == bool
    assert len(notices) == (pair[0] != "TRUE")


def test_text_and_identifiers_are_told_apart_and_left_as_they_are():
    notes = [f"customer {i} called and asked for help" for i in range(N)]
    column, role, _ = read_one(notes)
    assert (role.kind, role.words, column.tolist()) == ("text", "short text", notes)
    assert read_one([f"A-{i:05}" for i in range(N)])[1].kind == "identifier"
    assert read_one(range(N))[1].kind == "identifier"
    assert read_one([7] * N)[1].kind == "constant"
    assert read_one([None] * N)[1].kind == "empty"
    assert read_one(repeated(["$5", "$5"]))[1].kind == "constant"


def test_cells_that_cannot_be_read_become_missing_and_are_counted():
    cells = [*repeated(["$1,299.00", "$5", "$7.50"], 57), "ask", "ask", "n/a?"]
    column, role, notices = read_one(cells)
    assert role.words == "money in $"
    assert column.isna().tolist() == [False] * 57 + [True] * 3
    assert notices == [
        "c: money in $, read as numbers; 3 cells such as 'ask' are not written so and taken as missing."
    ]
    assert read_one([*repeated(["$5", "$7"], 50), *["ask"] * 10])[1].kind == "category"


@pytest.mark.parametrize(
    ("cells", "other", "share", "kind"),
    [
        (["$5", "$7"], "ask", 0.2, "category"),
        (["$5", "$7"], "ask", 0.05, "number"),
        (["yes", "no"], "maybe", 0.05, "category"),
        (["yes", "no"], "maybe", 0.002, "boolean"),
    ],
)
def test_what_a_sample_hides_is_found_on_all_cells(cells, other, share, kind):
    n = 20_000
    column = np.array(repeated(cells, n), dtype=object)
    # A decision is made on 2,000 cells, evenly spread; no other word is among those.
    hidden = np.setdiff1d(np.arange(n), np.linspace(0, n - 1, 2000).round().astype(int))
    column[np.random.default_rng(0).choice(hidden, int(share * n), replace=False)] = other
    assert read_one(column.tolist())[1].kind == kind


def test_missing_words_are_missing_without_a_word():
    column, _, notices = read_one([*repeated(["$5", "$7"]), "", "N/A", "-", None])
    assert column.isna().sum() == 4
    assert notices == ["c: money in $, read as numbers."]


def test_a_conversion_is_said():
    _, _, notices = read_one([*repeated(["120 g", "850 g"]), "1.2 kg"])
    assert notices == ["c: weights in g, read as numbers; one cell, '1.2 kg', is converted."]


def test_nothing_of_the_given_table_changes():
    frame = pd.DataFrame({"a": repeated(["$5", "$7"]), "b": np.arange(N) * 1.5, "status": repeated([1, 2])})
    frame.index = np.arange(N) + 100
    before = frame.copy(deep=True)
    read = read_columns(frame)
    pd.testing.assert_frame_equal(frame, before)
    assert list(read.frame.columns) == list(frame.columns)
    assert read.frame.index.equals(frame.index)
    assert read.frame["a"].tolist() == repeated([5.0, 7.0])
    assert np.shares_memory(read.frame["b"].to_numpy(), frame["b"].to_numpy())


def test_the_owner_overrules():
    frame = pd.DataFrame(
        {
            "level": repeated([1, 2, 3]),
            "zip": repeated([100, 200]),
            "day": repeated(["3|4|2024", "5|6|2024"]),
            "note": repeated(["a", "b"]),
            "ref=x": repeated(["1.2.14", "1.3.10"]),
        }
    )
    read = read_columns(
        frame, category=["level"], number=["zip"], date=["day=%d|%m|%Y", "ref=x"], text=["note"]
    )
    kinds = {name: role.kind for name, role in read.roles.items()}
    assert kinds == {"level": "category", "zip": "number", "day": "date", "note": "text", "ref=x": "date"}
    assert read.frame["day"][0] == pd.Timestamp("2024-04-03")
    assert read.frame["ref=x"][0] == pd.Timestamp("2014-02-01")
    assert read.frame["zip"].dtype == np.int64
    assert isinstance(read.frame["level"].dtype, pd.CategoricalDtype)


def test_mistakes_in_what_the_owner_says():
    frame = pd.DataFrame({"price": repeated(["$5", "$7"]), "word": repeated(["a", "b"])})
    with pytest.raises(InvalidParameter, match=r"no column 'prize'\. Did you mean 'price'"):
        read_columns(frame, number=["prize"])
    with pytest.raises(InvalidParameter, match="'price' cannot be both category and number"):
        read_columns(frame, number=["price"], category=["price"])
    with pytest.raises(InvalidInput, match="No cell of column 'word' is a number"):
        read_columns(frame, number=["word"])
    with pytest.raises(InvalidInput, match=r"No cell of column 'word' is a date written %Y"):
        read_columns(frame, date=["word=%Y"])


def test_a_second_table_is_read_like_the_first():
    january = pd.DataFrame(
        {
            "day": repeated(["31/01/2024", "05/01/2024"]),
            "price": repeated(["1.299 €", "12 €", "3,50 €"]),
            "code": repeated([1, 2]),
            "weight": repeated(["5 kg", "6 kg"]),
        }
    )
    february = pd.DataFrame(
        {
            "day": ["03/02/2024", "05/02/2024"],
            "price": ["1.300 €", "free"],
            "code": [3, 1],
            "weight": ["700 g", "800 g"],
        }
    )
    first = read_columns(january)
    second = read_columns(february, roles=first.roles)
    assert second.frame["day"].tolist() == [pd.Timestamp("2024-02-03"), pd.Timestamp("2024-02-05")]
    assert second.frame["price"][0] == 1300.0
    assert np.isnan(second.frame["price"][1])
    assert second.frame["weight"].tolist() == [0.7, 0.8]
    assert isinstance(second.frame["code"].dtype, pd.CategoricalDtype)


def test_stored_types_are_believed():
    frame = pd.DataFrame(
        {
            "d": pd.date_range("2024-01-01", periods=3),
            "b": [True, False, True],
            "o": [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None],
            "f": [0.5, np.inf, np.nan],
        }
    )
    read = read_columns(frame)
    assert [read.roles[name].kind for name in frame] == ["date", "boolean", "date", "constant"]
    pd.testing.assert_frame_equal(read.frame, frame, check_column_type=False)


def test_codes_of_which_every_row_has_its_own_are_identifiers():
    _, role, _ = read_one([f"{i:07}" for i in range(N)])
    assert (role.kind, role.words) == ("identifier", "codes")


def test_hours_of_two_digits_are_numbers():
    column, role, _ = read_one([f"{h:02}" for h in range(24)] * 3, "hour")
    assert role.kind == "number"
    assert column[1] == 1.0


def test_plain_numbers_in_text_are_asked_what_numbers_are_asked():
    _, role, _ = read_one(repeated(["200", "404", "500"]), "status")
    assert (role.kind, role.words) == ("category", "HTTP status codes")
    assert read_one(repeated(["0", "1", "1"]))[1].kind == "boolean"
    assert read_one([str(i) for i in range(N)])[1].kind == "identifier"
    column, role, _ = read_one([str(1_717_142_400 + 61 * i * i) for i in range(N)], "ts")
    assert role.kind == "date"
    assert column[0] == pd.Timestamp(1_717_142_400, unit="s")


def test_tables_of_any_kind():
    array = np.random.default_rng(0).normal(size=(5, 2))
    assert list(read_columns(array).roles) == ["x0", "x1"]
    named = read_columns(pd.DataFrame({0: ["$5", "$6"], 1: [1.5, 2.5]}))
    assert named.roles["0"].words == "money in $"
    assert named.frame["0"].tolist() == [5.0, 6.0]
    empty = read_columns(pd.DataFrame({"a": []}))
    assert empty.roles["a"].kind == "empty"


def test_cells_of_any_kind():
    cells = [*repeated(["$5", "$7"]), 12, 3.5, "\ud800", None]
    column, role, _ = read_one(np.array(cells, dtype=object))
    assert role.words == "money in $"
    assert column[60:62].tolist() == [12.0, 3.5]
    assert column[62:].isna().all()
    assert read_one(np.array([[1], [2, 3], None, [1]], dtype=object))[1].kind == "category"
    assert read_one(pd.Categorical(repeated(["$5", "$7"])))[1].kind == "category"
    assert read_one(pd.array(repeated(["$5", "$7"]), dtype="string"))[1].words == "money in $"


def test_rows_may_share_a_label():
    frame = pd.DataFrame({"a": ["$5", "$7", "$9"]}, index=[3, 3, 1])
    assert read_columns(frame).frame["a"].tolist() == [5.0, 7.0, 9.0]


@pytest.mark.parametrize(
    ("cells", "signs"),
    [(["$5", "7 €", "$6", "$8"], "$, €"), (["5 kg", "7 m", "3 kg"], "kg, m"), (["20 °C", "68 °F"], "°C, °F")],
)
def test_amounts_that_cannot_be_compared_stay_as_they_are_and_are_said(cells, signs):
    column, role, notices = read_one(repeated(cells))
    assert column.tolist() == repeated(cells)
    assert (role.kind, role.words) == ("category", f"amounts in {signs}")
    assert notices == [f"c: amounts in {signs}, which cannot be compared: read as categories."]
    many = [f"${i}.5" if i % 2 else f"{i}.5 €" for i in range(90)]
    assert read_one(many)[1].kind == "text"


def test_codes_larger_than_any_whole_number_stay_numbers():
    frame = pd.DataFrame({"status": [1e300, 200.0, 404.0, 200.0] * 10})
    assert read_columns(frame).frame["status"].nunique() == 3


def test_long_whole_numbers_name_things():
    """Floats make one of them: told apart, they are names or categories."""
    frame = pd.DataFrame({"u": [2**62 + i for i in range(40)], "k": [2**62 + i % 3 for i in range(40)]})
    found = read_columns(frame)
    assert [found.roles[name].kind for name in "uk"] == ["identifier", "category"]
    assert found.frame["k"].nunique() == 3


def test_text_of_many_digits_names_things():
    ids = [str(10**19 + i) for i in range(40)]
    frame = pd.DataFrame(
        {"u": ids, "k": [ids[i % 3] for i in range(40)], "z": [*map(str, range(1000, 1039)), "0007"]}
    )
    found = read_columns(frame)
    assert [found.roles[name].kind for name in "ukz"] == ["identifier", "category", "identifier"]
    assert found.frame["k"].tolist() == frame["k"].tolist()
