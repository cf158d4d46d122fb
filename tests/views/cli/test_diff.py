"""`tellwhy diff`: what it prints, as text, as JSON and as a page."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.views.cli import app

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, shift, country in (("jan", 0.0, "FR"), ("feb", 1.0, "<b>KP</b>")):
        table = pd.DataFrame(
            {
                "price": [f"${v:,.2f}" for v in rng.lognormal(3 + shift, 0.5, 400)],
                "size": rng.normal(size=400),
                "country": rng.choice(["DE", "US", country], 400),
                "note": [f"call {i} again" for i in range(400)],
                name: 1,
            }
        )
        table.to_csv(f"{name}.csv", index=False)


def run(*arguments, expect=0):
    result = RUNNER.invoke(app, ["diff", *arguments])
    assert result.exit_code == expect, result.output
    return result


def test_what_is_printed():
    text = run("jan.csv", "feb.csv").stdout
    assert text.index("price") < text.index(
        "2 of 4 columns drifted from jan.csv (400 rows) to feb.csv (400 rows)"
    )
    assert "new: <b>KP</b> (" in text
    assert "gone: FR (" in text
    assert "New columns: feb." in text
    assert "Gone columns: jan." in text


def test_json():
    found = json.loads(run("jan.csv", "feb.csv", "--json").stdout)
    assert found["n_drifted"] == 2
    assert {drift["column"] for drift in found["drifts"][:2]} == {"price", "country"}
    assert all(drift["drifted"] == (drift["p_adjusted"] <= 0.01) for drift in found["drifts"])
    assert found["old"] == {"source": "jan.csv", "n_rows": 400}
    country = next(drift for drift in found["drifts"] if drift["column"] == "country")
    assert list(country["new_levels"]) == ["<b>KP</b>"]


def test_nothing_drifted():
    result = run("jan.csv", "jan.csv")
    assert "No column drifted from jan.csv (400 rows) to jan.csv (400 rows)." in result.stdout


def test_the_page_is_whole_and_safe(tmp_path):
    run("jan.csv", "feb.csv", "--out", "d.html", "-q")
    page = (tmp_path / "d.html").read_text(encoding="utf-8")
    assert "2 of 4 columns drifted" in page
    assert "&lt;b&gt;KP&lt;/b&gt;" in page
    assert "<b>KP" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "https://" not in page


def test_options_and_mistakes():
    found = json.loads(run("jan.csv", "feb.csv", "--json", "--ignore", "price", "--text", "country").stdout)
    assert {drift["column"] for drift in found["drifts"]} == {"size", "country", "note"}
    assert "cannot" not in run("jan.csv", "none.csv", expect=1).stdout
    assert "no column 'prise'" in " ".join(
        run("jan.csv", "feb.csv", "--number", "prise", expect=1).stderr.split()
    )
