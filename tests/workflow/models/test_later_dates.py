"""Months after the fitting: their dates are no oddity, and no gap either."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.workflow import explain_new, fit_model


def month(start, seed, n=240, zone=None):
    rng = np.random.default_rng(seed)
    ordered = pd.to_datetime(start) + pd.to_timedelta(rng.integers(0, 28 * 86400, n), unit="s")
    frame = pd.DataFrame({"ordered": pd.Series(ordered).dt.tz_localize(zone)})
    frame["shipped"] = frame["ordered"] + pd.to_timedelta(rng.integers(3600, 5 * 86400, n), unit="s")
    frame["price"] = np.round(rng.gamma(3, 10, n), 2)
    return frame


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_after_the_fitting_are_neither_odd_nor_missing(zone):
    model = fit_model(month("2026-01-01", 0, zone=zone))
    march = month("2026-03-01", 1, zone=zone)
    march.loc[9, "price"] = 900.0
    run = explain_new(model, march, top=20)
    assert run.anomalies[0].row == 9
    assert [reason.feature for reason in run.anomalies[0].reasons] == ["price"]
    told = {reason.feature for anomaly in run.anomalies for reason in anomaly.reasons}
    assert told == {"price"}
    assert any("shipped: 240 dates are later" in text for text in run.notes)
