"""Labels that are common elsewhere and hardly occur in a segment."""

import numpy as np
import pandas as pd
import pytest

from tellwhy.checks.mistakes import RARE_IN_SEGMENT
from tellwhy.kinds.segments import count_labels
from tellwhy.workflow import explain_table


def orders(seed, *, apart, n=4000, n_segments=12):
    rng = np.random.default_rng(seed)
    base = np.array([0.4, 0.3, 0.2, 0.1])
    shares = np.array([rng.dirichlet(apart * base) for _ in range(n_segments)])
    segment = rng.integers(n_segments, size=n)
    label = np.array([rng.choice(4, p=shares[s]) for s in segment])
    paid = np.array(["card", "cash", "invoice", "voucher"])[label]
    # Numbers of shops, so that the table's own check of pairs of labels does not see them.
    return pd.DataFrame(
        {"shop": segment * 1.0 + 0.5, "paid": paid, "total": rng.normal(50, 9, size=n).round(2)}
    )


def found_in(frame):
    run = explain_table(frame, by=["shop"], columns=["paid", "total"])
    return [finding for finding in run.findings if finding.kind == RARE_IN_SEGMENT.kind]


def test_a_label_that_a_segment_hardly_has():
    frame = orders(0, apart=200.0)
    there = np.flatnonzero((frame["shop"] == 3.5) & (frame["paid"] == "cash"))
    frame.loc[there[2:], "paid"] = "card"
    (finding,) = found_in(frame)
    assert finding.rows == there[:2].tolist()
    assert finding.columns == ["paid"]
    assert finding.text.startswith("2 rows: paid = cash where shop = 3.5 (2 of ")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("apart", [1.0, 10.0, 1000.0])
def test_segments_that_differ_by_nature_are_no_finding(apart, seed):
    assert found_in(orders(seed, apart=apart)) == []


def test_how_far_apart_segments_are():
    rng = np.random.default_rng(1)
    for truth in (3.0, 30.0):
        shares = np.array([rng.dirichlet(truth * np.array([0.5, 0.3, 0.2])) for _ in range(300)])
        segments = np.repeat(np.arange(300), 60)
        labels = np.array([rng.choice(3, p=shares[s]) for s in segments])
        assert count_labels(labels, segments, 3, 300).strength() == pytest.approx(truth, rel=0.35)
