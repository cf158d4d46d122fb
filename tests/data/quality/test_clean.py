"""Tables with nothing wrong raise no finding, whatever they are made of."""

import numpy as np
import pytest

from data.quality.clean_tables import CLEAN
from tellwhy.checks.check import check_table

SEEDS = range(4)


@pytest.mark.parametrize("make", CLEAN, ids=lambda make: make.__name__)
def test_a_clean_table_has_no_finding(make):
    told = []
    for seed in SEEDS:
        rng = np.random.default_rng([seed, 1])
        frame = make(rng, int(rng.choice([200, 1000, 3000])))
        before = frame.copy()
        told += [finding.text for finding in check_table(frame).findings if finding.surprise > 0]
        assert frame.equals(before)
    assert told == []


@pytest.mark.parametrize("make", CLEAN, ids=lambda make: make.__name__)
def test_the_second_half_of_a_clean_table_has_no_finding_against_the_first(make):
    frame = make(np.random.default_rng([8, 1]), 2000)
    before = frame.iloc[:1000].reset_index(drop=True)
    after = frame.iloc[1000:].reset_index(drop=True)
    findings = check_table(after, reference=before).findings
    assert [finding.text for finding in findings if finding.surprise > 0] == []
