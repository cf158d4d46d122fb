"""A cell that a finding emptied was not missing in the user's table, and is not said to have been filled in."""

import numpy as np
import pandas as pd

from tellwhy.workflow import explain_new, explain_table, fit_model


def orders():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"age": rng.integers(18, 95, size=400).astype(float), "pay": rng.normal(50, 9, size=400)}
    )
    table.loc[[3, 77], "age"] = 999.0
    return table


def filled(run):
    return [text for text in run.notes if "illed missing" in text]


def test_only_cells_that_were_missing_are_said_to_be_filled_in():
    table = orders()
    assert filled(explain_table(table)) == []
    table.loc[9, "age"] = None
    assert filled(explain_table(table)) == ["Filled missing numbers with the median: 'age' (1)."]


def test_by_a_model_too():
    model = fit_model(orders())
    new = orders().iloc[:60]
    assert filled(explain_new(model, new)) == []
    new.loc[9, "age"] = None
    told = "In the scored rows: filled missing numbers with the median: 'age' (1)."
    assert told in filled(explain_new(model, new))
