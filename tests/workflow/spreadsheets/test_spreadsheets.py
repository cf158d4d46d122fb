"""Spreadsheets of a run: original rows, reasons beside them, coloured cells, no formula."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

import tellwhy
from tellwhy.results.result import Reason
from tellwhy.results.schema import to_plain
from tellwhy.storage import csv_cells as text_file
from tellwhy.verdicts import run_io as workbook
from tellwhy.verdicts.sheet_rows import find_named_columns, list_header, list_sheet_rows, list_shown_places
from tellwhy.workflow import explain_table, load_run, save_run

FORMULA = "=1+1"
FIRST = ["rank", "row", "line", "id", "score", "p_value", "flagged", "reason_1", "reason_2", "reason_3"]
FIRST += ["known_by", "note", "would_look_normal"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame(
        {
            "order": [f"o{i}" for i in range(n)],
            "price": [f"${v:,.2f}" for v in rng.lognormal(5, 0.3, n)],
            "age": rng.integers(18, 95, n),
            "size": rng.normal(50, 3, n).round(2),
            "score": rng.normal(size=n).round(3),
            "comment": [f"call customer {i} about {rng.integers(1e6)} again" for i in range(n)],
        }
    )
    frame.loc[[3, 77], "age"] = 999
    frame.loc[5, "size"] = 900.0
    frame.loc[5, "comment"] = FORMULA
    frame["gap"] = np.where(np.arange(n) == 5, 7.0, np.nan)
    return frame


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    path = tmp_path_factory.mktemp("t") / "orders.csv"
    table.to_csv(path, index=False)
    return explain_table(path, id_column="order", top=5)


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    return save_run(run, tmp_path_factory.mktemp("runs") / "run")


def lines_of(folder):
    with (folder / "anomalies.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_every_line_has_the_same_columns_with_the_table_last(run, folder, table):
    names = [*FIRST, "order", "price", "age", "size", "score (table)", "comment", "gap"]
    assert list_header(run) == names
    with (folder / "anomalies.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == names
    assert {len(row) for row in rows} == {len(names)}
    assert len(rows) == 1 + len(run.anomalies)


def test_cells_are_those_of_the_table(run, folder, table):
    by_row = {int(line["row"]): line for line in lines_of(folder)}
    assert {3, 5, 77} <= set(by_row)
    for row, line in by_row.items():
        assert int(line["line"]) == row + 2
        assert line["id"] == line["order"] == f"o{row}"
        assert line["price"] == table["price"][row]
        assert int(line["age"]) == table["age"][row]  # 999, though it is treated as missing
        assert float(line["size"]) == table["size"][row]
        assert float(line["score (table)"]) == table["score"][row]
    assert by_row[5]["comment"] == f"'{FORMULA}"
    assert (by_row[5]["gap"], by_row[3]["gap"]) == ("7", "")
    assert by_row[5]["would_look_normal"].endswith("instead of 900")


def test_what_is_told_is_what_the_run_holds(run, folder):
    for anomaly, line in zip(run.anomalies, lines_of(folder), strict=True):
        texts = [reason.text for reason in anomaly.reasons[:3]]
        assert [line[f"reason_{k}"] for k in (1, 2, 3)] == texts + [""] * (3 - len(texts))
        assert float(line["p_value"]) == anomaly.p_value
        assert (line["flagged"], line["known_by"]) == (str(anomaly.above_threshold), anomaly.known_by)
        assert line["note"] == anomaly.note


def test_the_workbook_has_the_same_cells_and_no_formula(run, folder):
    book = openpyxl.load_workbook(folder / "anomalies.xlsx")
    assert book.sheetnames == ["anomalies", "findings", "summary"]
    sheet = book["anomalies"]
    assert (sheet.freeze_panes, sheet.max_row) == ("A2", 1 + len(run.anomalies))
    assert [cell.value for cell in sheet[1]] == list_header(run)
    for told, cells in zip(list_sheet_rows(run), sheet.iter_rows(min_row=2), strict=True):
        for cell, value in zip(cells, told, strict=True):
            is_float = isinstance(value, float)
            assert cell.value == (
                pytest.approx(value, rel=1e-14) if is_float else None if value == "" else value
            )
        assert all(cell.data_type != "f" for cell in cells)
    formulas = [cell for row in sheet.iter_rows() for cell in row if cell.value == FORMULA]
    assert len(formulas) == 1
    assert formulas[0].quotePrefix


def test_cells_that_reasons_name_are_coloured_and_no_others(run, folder):
    sheet = openpyxl.load_workbook(folder / "anomalies.xlsx")["anomalies"]
    names = list_header(run)
    colored = {}
    for at, cells in enumerate(sheet.iter_rows(min_row=2)):
        found = {names[j] for j, cell in enumerate(cells) if cell.fill.fgColor.rgb == workbook.ODD_CELL}
        colored[run.anomalies[at].row] = found
    assert colored[5] == {"size"}
    assert colored[3] == colored[77] == {"age"}
    unsure = [anomaly.row for anomaly in run.anomalies if anomaly.known_by == "unverified"]
    assert all(not colored[row] for row in unsure)


def test_pairs_name_both_columns():
    def beside(other):
        return {"other": other, "other_value": "US", "n_together": 3, "n": 900}

    class Pair:
        reasons = (
            Reason("pay", "invoice", [], 0.5, holds=True, kind="pair", facts=beside("land")),
            Reason("age", 3, [], 0.1, holds=False, kind="pair", facts=beside("size")),
        )

    assert find_named_columns(Pair, ["pay", "land", "age", "size", "and"]) == {"pay", "land"}


def test_findings_are_listed_with_their_lines(folder):
    sheet = openpyxl.load_workbook(folder / "anomalies.xlsx")["findings"]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows()]
    assert tuple(rows[0]) == workbook.FINDING_COLUMNS
    placeholder = next(row for row in rows if row[-1] == "placeholder")
    assert placeholder[0] == 2
    assert placeholder[1].startswith("2 rows: age = 999")
    assert placeholder[4] == "5, 79"


def test_the_folder_is_whole_without_openpyxl(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tellwhy.verdicts.run_io.can_write_workbook", lambda: False)
    made = save_run(run, tmp_path / "run")
    assert not (made / "anomalies.xlsx").exists()
    assert (made / "anomalies.csv").exists()
    assert load_run(made).table_rows.shape == run.table_rows.shape


def test_cells_that_excel_cannot_hold(run, tmp_path):
    rows = run.table_rows.iloc[:1].assign(order="a\x00b\x07c", comment="x" * 40_000, size=np.inf, age=10**17)
    one = replace(run, anomalies=run.anomalies[:1], table_rows=rows)
    workbook.write_workbook(one, tmp_path / "b.xlsx")
    cells = [cell.value for cell in openpyxl.load_workbook(tmp_path / "b.xlsx")["anomalies"][2]]
    found = dict(zip(list_header(one), cells, strict=True))
    assert found["order"] == "abc"
    assert len(found["comment"]) == workbook.LONGEST_CELL
    assert (found["size"], found["age"]) == ("inf", str(10**17))


def test_rows_of_several_files_tell_which(table, tmp_path):
    table.iloc[:100].to_csv(tmp_path / "a.csv", index=False)
    table.iloc[100:].to_csv(tmp_path / "b.csv", index=False)
    run = explain_table([tmp_path / "a.csv", tmp_path / "b.csv"], top=5)
    made = save_run(run, tmp_path / "run")
    found = {line["row"]: (line["file"], line["line"]) for line in lines_of(made)}
    assert found["5"] == (str(tmp_path / "a.csv"), "7")
    assert to_plain(load_run(made).anomalies) == to_plain(run.anomalies)
    found = next(each for each in load_run(made).findings if each.kind == "placeholder")
    names = [str(tmp_path / name) for name in ("a.csv", "a.csv")]
    assert (list(found.lines), list(found.files)) == ([5, 79], names)
    assert list_shown_places(found, 1) == [f"{names[0]}:5"]


def test_tables_in_memory_with_cells_of_several_kinds(tmp_path):
    frame = pd.DataFrame({"x": np.arange(40.0), "mixed": [1, "two", None, 4.5] * 10})
    run = explain_table(frame, top=2)
    made = save_run(run, tmp_path / "run")
    assert set(load_run(made).table_rows["mixed"].dropna()) <= {"1", "two", "4.5"}


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "＝", "＋", "－", "＠"])
@pytest.mark.parametrize("before", ["", " ", '"', "a;", "a; ", 'a;"', "a\t", "a\n", "a\r\n", "a|"])
def test_no_separator_makes_a_formula_of_a_cell(start, before):
    """Where semicolons separate cells, the rest of a cell behind one is a cell: nothing of it may run."""
    cell = text_file.neutralise(f"{before}{start}1+1")
    assert "1+1" in cell
    for piece in re.split(r"[;\t\n\r|]", cell):
        assert not piece.lstrip(' "').startswith(start)


@pytest.mark.parametrize("text", ["a-b", "x=1", "mail@example.org", "1;2", "a; b", "3 - 4"])
def test_what_is_no_formula_stays_as_it_is(text):
    assert text_file.neutralise(text) == text


def test_there_is_one_writer_of_separated_text():
    """Another writer would have a guard of its own, or none."""
    sources = Path(tellwhy.__file__).parent.rglob("*.py")
    writers = {
        path.name for path in sources if re.search(r"csv\.(Dict)?[wW]riter|\.to_csv", path.read_text())
    }
    assert writers == {"csv_cells.py"}
