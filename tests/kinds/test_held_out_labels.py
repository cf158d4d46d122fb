"""Texts that are held out to check labels on."""

import numpy as np
import pytest

from tellwhy.kinds.label_columns import hold_out

LABELS = np.array(["a"] * 40 + ["b"] * 40 + ["rare"] + ["twice"] * 2)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_every_class_keeps_a_text_to_learn_from(share, seed):
    held = hold_out(LABELS, share, seed)
    left = np.setdiff1d(np.arange(len(LABELS)), held)
    assert set(LABELS[left]) == set(LABELS)
    assert len(held) >= round(share * len(LABELS)) - 4


def test_what_is_held_out_is_what_it_was_where_no_class_is_lost():
    common = LABELS[:80]
    drawn = np.sort(np.random.default_rng(3).permutation(80)[:8])
    np.testing.assert_array_equal(hold_out(common, 0.1, 3), drawn)
