"""Rows are called by their title or key where they have one, though nobody said which column it is."""

import numpy as np
import pandas as pd

from tellwhy.workflow import explain_table


def table(**more):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"power": rng.normal(300, 30, 120), "weight": rng.normal(1500, 90, 120), **more})
    frame.loc[7, "power"] = 2900.0
    return frame


def first_name(frame, **asked):
    run = explain_table(frame, top=1, **asked)
    assert run.anomalies[0].row == 7
    return run.anomalies[0].id


def test_names_of_rows_name_them():
    models = [f"Model{chr(65 + i // 26)}{chr(65 + i % 26)}" for i in range(120)]
    assert first_name(table(model=models)) == "ModelAH"
    assert explain_table(table(model=models)).headline[1].startswith("The oddest is ModelAH: power = 2900")
    assert first_name(table(model=models, order=range(120)), id_column="order") == "7"  # what was asked for


def test_titles_of_several_words_name_rows_too():
    titles = [f"The long way to place number {i} and back again" for i in range(120)]
    assert first_name(table(title=titles)) == titles[7]
    assert first_name(table(comment=titles)) is None


def test_what_many_rows_share_names_none():
    assert first_name(table(name=["a", "b", "c"] * 40)) is None
    assert first_name(table()) is None


def test_cells_that_are_missing_in_the_same_rows_are_one_finding():
    frame = table(wing=np.arange(120) % 7 + 0.5)
    frame.loc[[30, 31], ["wing", "weight"]] = np.nan
    frame = pd.concat([frame] * 3, ignore_index=True).drop(index=[150, 151, 270, 271])
    gaps = [finding for finding in explain_table(frame).findings if finding.kind == "gap"]
    assert [sorted(finding.columns) for finding in gaps] == [["weight", "wing"]]
    assert gaps[0].text.startswith("2 rows: weight and wing are missing (they are filled in all others)")
