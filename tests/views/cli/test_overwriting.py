"""No command takes the place of a file that tellwhy did not write, and none of its own input."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import tellwhy
from tellwhy.core.errors import CannotWrite
from tellwhy.detectors import KernelDensity
from tellwhy.storage import folders, overwriting
from tellwhy.storage.model_file import save
from tellwhy.views.cli import app

THESIS = b"PK\x03\x04 ten years of work"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("a.csv", "b.csv"):
        pd.DataFrame(rng.normal(size=(60, 3)).round(3), columns=list("uvw")).to_csv(name, index=False)
    (tmp_path / "thesis.docx").write_bytes(THESIS)
    return tmp_path


def told(expect, *arguments):
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == expect, result.output
    return " ".join(result.output.split())


def fails(*_, **__):
    raise AssertionError("work was done before the output was looked at")


@pytest.mark.parametrize(
    ("arguments", "worker"),
    [
        (("fit", "a.csv", "--save", "a.csv"), "tellwhy.kinds.table_model.fit_model"),
        (("fit", "a.csv", "--save", "thesis.docx"), "tellwhy.kinds.table_model.fit_model"),
        (("fit", "a.csv", "--save", "a.csv", "--force"), "tellwhy.kinds.table_model.fit_model"),
        (("diff", "a.csv", "b.csv", "--out", "b.csv"), "tellwhy.kinds.two_tables.diff_tables"),
        (("diff", "a.csv", "b.csv", "--out", "b.csv", "--force"), "tellwhy.kinds.two_tables.diff_tables"),
        (("diff", "a.csv", "b.csv", "--out", "thesis.docx"), "tellwhy.kinds.two_tables.diff_tables"),
        (("explain", "a.csv", "--out", "."), "tellwhy.kinds.table.explain_table"),
        (("explain", "a.csv", "--out", "thesis.docx"), "tellwhy.kinds.table.explain_table"),
        (("report", "run", "--out", "thesis.docx"), "tellwhy.verdicts.run_io.load_run"),
    ],
)
def test_users_files_are_left_before_any_work(place, monkeypatch, arguments, worker):
    (place / "run").mkdir()
    before = {path: path.read_bytes() for path in place.iterdir() if path.is_file()}
    monkeypatch.setattr(worker, fails)
    told(1, *arguments)
    assert {path: path.read_bytes() for path in place.iterdir() if path.is_file()} == before


def test_a_labelled_table_is_not_replaced_by_its_machine(place):
    before = (place / "a.csv").read_bytes()
    told(1, "fit-svm", "a.csv", "--label", "u", "--out", "a.csv")
    assert (place / "a.csv").read_bytes() == before


def test_what_tellwhy_wrote_and_what_is_forced_is_replaced(place):
    told(0, "fit", "a.csv", "--save", "m.tellwhy", "-q")
    told(0, "fit", "b.csv", "--save", "m.tellwhy", "-q")
    assert tellwhy.load("m.tellwhy").source == "b.csv"
    told(0, "fit", "b.csv", "--save", "thesis.docx", "-q", "--force")
    assert tellwhy.load("thesis.docx").n_rows == 60
    for _ in range(2):
        told(0, "diff", "a.csv", "b.csv", "--out", "page.html", "-q")
    (place / "mine.html").write_text("<html>")
    told(1, "diff", "a.csv", "b.csv", "--out", "mine.html", "-q")
    told(0, "diff", "a.csv", "b.csv", "--out", "mine.html", "-q", "--force")
    assert overwriting.PAGE_SIGN in (place / "mine.html").read_bytes()


def test_files_of_a_run_are_not_replaced_by_its_page(place):
    told(0, "explain", "a.csv", "--out", "run", "-q")
    before = (place / "run/result.json").read_bytes()
    told(1, "report", "run", "--out", "run/result.json", "--force")
    assert (place / "run/result.json").read_bytes() == before
    told(0, "report", "run")


def test_functions_that_write_keep_to_it(place):
    detector = KernelDensity().fit(np.random.default_rng(0).normal(size=(20, 2)))
    for target in ("thesis.docx", "a.csv"):
        with pytest.raises(CannotWrite, match="did not write it"):
            save(detector, target)
    assert (place / "thesis.docx").read_bytes() == THESIS
    (place / "empty").touch()
    save(detector, save(detector, place / "empty"))


def test_an_input_is_known_by_every_name(place):
    (place / "linked").hardlink_to(place / "a.csv")
    with overwriting.allowed(force=True, inputs=["nowhere", "SELECT 1", place / "a.csv"]):
        with pytest.raises(CannotWrite, match="to be read"):
            folders.check_new_file(place / "linked", sign=b"x")
        folders.check_new_file(place / "thesis.docx", sign=b"x")
    with pytest.raises(CannotWrite, match="did not write it"):
        folders.check_new_file(place / "thesis.docx", sign=b"x")
