"""The command line as people use it: what it prints, writes and refuses."""

import csv
import json
import os
import resource
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tellwhy.views.cli import app
from tellwhy.workflow import load_run

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "order": [f"A{i:04d}" for i in range(300)],
            "amount": rng.normal(50, 10, size=300).round(2),
            "items": rng.poisson(4, size=300),
            "country": rng.choice(["DE", "FR", "PL"], size=300),
            "fraud": 0,
        }
    )
    table.loc[17, ["amount", "fraud"]] = [480.0, 1]
    table.loc[120, ["country", "fraud"]] = ["XX", 1]
    return table


@pytest.fixture
def data(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame.to_csv(tmp_path / "orders.csv", index=False)
    return tmp_path / "orders.csv"


def run(*arguments, expect=0):
    result = RUNNER.invoke(app, [str(a) for a in arguments])
    assert result.exit_code == expect, result.output
    return result


def refused(*arguments, expect=1):
    """Run, expect a refusal in one readable piece, and nothing written."""
    before = set(os.listdir())
    result = run(*arguments, expect=expect)
    assert set(os.listdir()) == before, "something was left behind"
    assert "Traceback" not in result.output
    assert result.stdout == ""
    return " ".join(result.stderr.split())


def test_ranked_rows_with_reasons_in_words(data):
    result = run("explain", data, "--id", "order", "--exclude", "fraud", "--top", 2)
    shown = " ".join(result.stdout.split())
    assert "A0017" in shown
    assert "amount = 480 (usually 3" in shown
    assert "; 10 times too large, a slipped decimal point?)" in shown
    assert "A0120" in shown
    assert "country = 'XX'" in shown
    assert "would look normal with amount = " in shown
    assert "instead of 480" in shown
    assert "Report: tellwhy-orders/report.html" in shown
    assert "2 of 300 rows are alarms" in shown
    assert "better than a random order" not in shown  # two rows tell nothing


def test_json_and_nothing_else_on_stdout(data):
    result = run("explain", data, "--id", "order", "--label", "fraud", "--top", 3, "--json", "--seed", 7)
    found = json.loads(result.stdout)
    first = found["anomalies"][0]
    assert set(first) >= {"row", "id", "score", "percentile", "reasons", "nearest_normal"}
    assert (first["row"], first["id"]) == (17, "A0017")
    assert set(first["reasons"][0]) == {"feature", "value", "typical", "share", "holds", "text"}
    assert first["reasons"][0]["holds"] is True
    assert (first["line"], first["holds"], first["note"]) == (19, True, "")
    assert first["p_value"] < 1e-4
    assert found["n_flagged"] >= 2
    assert {"kind", "columns", "rows", "text"} <= set(found["findings"][0])
    assert len(found["headline"]) == 3
    assert first["reasons"][0]["feature"] == "amount"
    assert first["reasons"][0]["value"] == 480.0
    low, high = first["reasons"][0]["typical"]
    assert 30 < low < high < 70
    assert 30 < first["nearest_normal"]["amount"] < 80
    assert len(found["anomalies"]) == 3
    assert found["seed"] == 7
    stored = load_run(data.parent / "tellwhy-orders")
    assert (found["threshold"], found["out"]) == (stored.threshold, "tellwhy-orders")
    assert (found["source"], found["notices"]) == (str(data), stored.notes)
    assert found["detection"]["auroc"] > 0.95
    assert "committee" in found["detector"]


def test_the_run_folder(data):
    run("explain", data, "--out", "found", "--top", 5)
    assert sorted(os.listdir("found")) == [
        "anomalies.csv",
        "anomalies.xlsx",
        "explanation",
        "manifest.json",
        "report.html",
        "result.json",
        "rows.parquet",
        "scores.parquet",
    ]
    with open("found/anomalies.csv", encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    by_row = {line["row"]: line for line in lines}
    assert {lines[0]["row"], lines[1]["row"]} == {"17", "120"}
    assert by_row["17"]["reason_1"].startswith("amount = 480")
    loaded = load_run(data.parent / "found")
    assert len(loaded.scores) == 300
    assert {loaded.anomalies[0].row, loaded.anomalies[1].row} == {17, 120}
    page = (data.parent / "found" / "report.html").read_bytes()
    os.remove("found/report.html")
    assert run("report", "found").stdout.strip() == "found/report.html"
    assert (data.parent / "found" / "report.html").read_bytes() == page
    run("explain", data, "--out", "found", "--top", 5)  # our own folder is replaced


def test_the_same_seed_gives_the_same_result(data):
    first, second = (run("explain", data, "--json", "--out", name).stdout for name in ("a", "b"))
    assert first.replace('"out": "a"', "") == second.replace('"out": "b"', "")


def test_normal_rows_and_reference_files(data, frame):
    by_value = json.loads(run("explain", data, "--normal", "fraud=0", "--json").stdout)
    assert {a["row"] for a in by_value["anomalies"][:2]} == {17, 120}
    assert by_value["reference"] == "the rows with fraud = 0"
    assert "fraud" not in {r["feature"] for a in by_value["anomalies"] for r in a["reasons"]}
    frame[frame["fraud"] == 0].to_csv("normal.csv", index=False)
    frame.iloc[[17, 3, 120]].to_csv("today.csv", index=False)
    arguments = (
        "explain",
        "today.csv",
        "--reference",
        "normal.csv",
        "--exclude",
        "fraud",
        "--json",
        "--top",
        2,
    )
    found = json.loads(run(*arguments).stdout)
    assert sorted(a["row"] for a in found["anomalies"][:2]) == [0, 2]


def test_a_column_that_varies_only_outside_the_reference_is_a_reason(data, frame):
    frame.assign(status="ok").to_csv("normal.csv", index=False)
    frame.assign(status=["ok", "broken"] * 150).iloc[:10].to_csv("today.csv", index=False)
    arguments = (
        "explain",
        "today.csv",
        "--reference",
        "normal.csv",
        "--exclude",
        "fraud,order",
        "--json",
        "--top",
        1,
    )
    found = json.loads(run(*arguments).stdout)
    assert found["anomalies"][0]["row"] % 2 == 1
    assert found["anomalies"][0]["reasons"][0]["feature"] == "status"


@pytest.mark.parametrize("detector", ["OneClassSVM", "nearest_neighbours", "SVDD"])
def test_other_detectors_and_methods(data, detector):
    found = json.loads(
        run("explain", data, "--detector", detector, "--json", "--exclude", "fraud,order").stdout
    )
    assert 17 in [a["row"] for a in found["anomalies"][:2]]
    by_occlusion = json.loads(
        run("explain", data, "--method", "occlusion", "--json", "--exclude", "fraud").stdout
    )
    assert by_occlusion["method"] == "Occlusion"


def test_contamination_sets_the_share_above_the_threshold(data):
    run("explain", data, "--contamination", 0.1, "--out", "found")
    loaded = load_run(data.parent / "found")
    assert (loaded.scores > loaded.threshold).sum() == 30


@pytest.mark.slow
def test_compare_says_which_method_to_trust(data):
    result = run("compare", data, "--rows", 30, "--exclude", "order")
    assert "CommitteeShares" in result.stdout
    assert "RandomAttribution" in result.stdout
    found = json.loads(run("compare", data, "--rows", 30, "--exclude", "order", "--json").stdout)
    assert {line["method"] for line in found["methods"]} >= {"CommitteeShares", "RandomAttribution"}
    assert found["recommendation"]


def test_methods_help_and_version():
    assert "OneClassDTD" in run("methods").stdout
    assert json.loads(run("methods", "--json").stdout)[0]["name"]
    assert "tellwhy explain data.csv" in run("explain", "--help").stdout.replace("\n", " ")
    assert run("--version").stdout.startswith("tellwhy 0.")
    assert "explain" in RUNNER.invoke(app, []).output


# Bad files ------------------------------------------------------------------------------------------------------

ROWS = "a,b\n" + "\n".join(f"{i},{i * i % 7}" for i in range(30))
BAD_FILES = {
    "empty.csv": (b"", "empty"),
    "header.csv": (b"a,b\n", "no data rows"),
    "one_row.csv": (b"a,b\n1,2\n", "row"),
    "ragged.csv": (b"a,b\n1,2\n1,2,3\n4,5\n", "line 3"),
    "infinite.csv": ((ROWS + "\n5,inf\n").encode(), "inf"),
    "binary.csv": (b"a,b\n1,\x002\n", "NUL"),
    "duplicates.csv": (b"a,b,a\n1,2,3\n4,5,6\n", "'a'"),
    "truncated.parquet": (b"PAR1 and then nothing", "Parquet"),
    "broken.jsonl": (b'{"a": 1}\n{"a": \n', "line 2"),
    "truncated.csv.gz": (b"\x1f\x8b\x08\x00\x00", "gz"),
    "broken.zip": (b"PK\x03\x04 nothing", "zip"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, mentions = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    message = refused("explain", name)
    assert mentions.lower() in message.lower()


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_encodings_and_decimal_commas_are_recognised(frame, encoding, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    german = frame.rename(columns={"amount": "größe"}).drop(columns=["fraud", "order"])
    german.to_csv("daten.csv", index=False, sep=";", decimal=",", encoding=encoding)
    found = json.loads(run("explain", "daten.csv", "--json", "--top", 1).stdout)
    reason = found["anomalies"][0]["reasons"][0]
    assert (reason["feature"], reason["value"]) == ("größe", 480.0)


def test_hostile_cells_are_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    cells = rng.choice(["plain", "usual"], size=200).astype(object)
    cells[5], cells[6] = "<script>alert(1)</script>", "=cmd|' /C calc'!A0"
    names = [f"r{i}" for i in range(200)]
    names[5], names[6] = "<img src=x onerror=alert(1)>", "=1+1"
    table = pd.DataFrame({"name": names, "x": rng.normal(size=200), "=SUM(A1)": cells})
    table.to_csv("hostile.csv", index=False)
    run("explain", "hostile.csv", "--id", "name", "--top", 5, "--out", "found")
    page = (tmp_path / "found" / "report.html").read_text()
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    with open("found/anomalies.csv", encoding="utf-8-sig", newline="") as file:
        cells = [cell for line in csv.reader(file) for cell in line]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@"))]


@pytest.mark.slow
def test_five_thousand_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.DataFrame(
        np.random.default_rng(0).normal(size=(60, 5000)), columns=[f"c{i}" for i in range(5000)]
    )
    table.iloc[3, 77] = 500.0
    table.to_csv("wide.csv", index=False)
    found = json.loads(run("explain", "wide.csv", "--json", "--top", 1).stdout)
    assert (found["anomalies"][0]["row"], found["anomalies"][0]["reasons"][0]["feature"]) == (3, "c77")
    assert (tmp_path / "tellwhy-wide" / "report.html").stat().st_size < 8 * 2**20


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (["--normal", "fraud=7"], "No row of"),
        (["--normal", "fruad=0"], "Did you mean 'fraud'"),
        (["--normal", "fraud"], "'COLUMN=VALUE'"),
        (["--id", "nobody"], "no column 'nobody'"),
        (["--columns", "amount,weight"], "no column 'weight'"),
        (["--label", "country"], "say which marks anomalies"),
        (["--detector", "magic"], "no detector named 'magic'"),
        (["--method", "magic"], "no explainer named 'magic'"),
        (["--contamination", "0.9"], "'contamination' parameter"),
        (["--missing", "guess"], "'missing' parameter"),
        (["--reference", "missing.csv"], "missing.csv"),
        (["--exclude", "order,amount,items,country,fraud"], "No column"),
        (["--out", "orders.csv"], "not written by tellwhy"),
        (["--out", "orders.csv/inside"], "Cannot write"),
    ],
)
def test_wrong_requests_say_what_to_do(data, arguments, mentions):
    assert mentions in refused("explain", data.name, *arguments)


def test_wrong_usage_exits_with_2(data):
    run("explain", expect=2)
    run("explain", data, "--no-such-option", expect=2)
    run("explain", data, "--top", "0", expect=2)


def test_missing_cells(data, frame):
    holes = frame.drop(columns=["fraud", "order"]).astype({"items": float})
    holes.loc[[4, 9], "items"] = np.nan
    holes.to_csv("holes.csv", index=False)
    imputed = run("explain", "holes.csv", "--out", "imputed")
    assert "missing numbers with the median: 'items' (2)" in " ".join(imputed.stderr.split())
    assert "'items'" in refused("explain", "holes.csv", "--missing", "error")
    run("explain", "holes.csv", "--missing", "drop", "--out", "dropped")
    loaded = load_run(data.parent / "dropped")
    assert len(loaded.scores) == 298
    assert not {4, 9} & set(loaded.rows.tolist())
    assert loaded.anomalies[0].row == 17


# What happens to the process --------------------------------------------------------------------------------------


def python(code, cwd, **kwargs):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **kwargs,
    )


def test_a_full_disk_leaves_nothing_half_written(data):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    code = "from tellwhy.views.cli import main; import sys; sys.argv = ['tellwhy', 'explain', 'orders.csv']; main()"
    done = python(code, data.parent, preexec_fn=small_files)
    assert done.returncode == 1, done.stderr
    assert "Nothing was written" in done.stderr
    assert os.listdir(data.parent) == ["orders.csv"]


def test_ctrl_c_exits_with_130_and_leaves_nothing(data):
    code = """
        import os, signal, sys, time
        import tellwhy.kinds.table_result as workflow

        def interrupted(*args, **more):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(30)

        workflow.collect_evidence = interrupted
        from tellwhy.views.cli import main
        sys.argv = ['tellwhy', 'explain', 'orders.csv']
        main()
    """
    done = python(code, data.parent)
    assert done.returncode == 130, done.stderr
    assert done.returncode == 128 + signal.SIGINT
    assert "Interrupted" in done.stderr
    assert os.listdir(data.parent) == ["orders.csv"]
