"""Odd strategies in a generated "Clever Hans" set: the group is found and named, and clean sets have none."""

import numpy as np
import pytest

from tellwhy.core.explanation import Explanation
from tellwhy.evaluation import box_ratios, strategies

SIDE = 14


def pictures(rng, n, *, marked=()):
    """Pictures of a bright bar per class (upright or lying) at any place; marked ones have a corner of dots."""
    classes = np.arange(n) % 2
    X = 0.1 * rng.random((n, SIDE, SIDE))
    for i in range(n):
        at = int(rng.integers(4, 10))
        if classes[i]:
            X[i, at : at + 2, 3:12] += 1.0
        else:
            X[i, 3:12, at : at + 2] += 1.0
    is_marked = np.isin(np.arange(n), marked)
    X[is_marked, :2, :2] = 1.0
    return X, classes, is_marked


def relevance(X, classes, is_marked, rng, *, with_data=True):
    """What a network that learned the bars, and the mark where there is one, would say."""
    values = np.where(X > 0.5, X, 0.0) * rng.uniform(0.5, 1.5, X.shape)
    values[is_marked] *= 0.3
    values[is_marked, :2, :2] = 2.0
    return Explanation(
        values=values,
        scores=np.ones(len(X)),
        method="Example",
        data=X if with_data else None,
        extras={"output": classes},
    )


@pytest.mark.parametrize("with_data", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_the_marked_group_is_found_and_named(seed, with_data):
    rng = np.random.default_rng(seed)
    marked = np.flatnonzero((np.arange(200) % 2 == 0) & (rng.random(200) < 0.4))
    X, classes, is_marked = pictures(rng, 200, marked=marked)
    found = strategies(relevance(X, classes, is_marked, rng, with_data=with_data)).odd
    assert [group.of for group in found] == [0]
    assert set(found[0].rows) == set(marked)
    assert found[0].box == (0, 2, 0, 2)
    assert f"{len(marked)} pictures" in found[0].words()
    assert "rows 0–1, columns 0–1" in found[0].words()


@pytest.mark.parametrize("seed", range(10))
def test_clean_sets_have_no_odd_group(seed):
    rng = np.random.default_rng(100 + seed)
    X, classes, is_marked = pictures(rng, 200)
    assert strategies(relevance(X, classes, is_marked, rng)).odd == []


def test_looking_at_different_things_in_one_place_is_no_strategy():
    rng = np.random.default_rng(0)
    marked = np.arange(0, 100, 2)
    X, classes, is_marked = pictures(rng, 200, marked=marked)
    assert len(strategies(relevance(X, classes, is_marked, rng)).odd) == 1
    X[marked, :4, :4] = rng.random((len(marked), 4, 4))  # each shows something else there
    assert strategies(relevance(X, classes, is_marked, rng)).odd == []


def test_a_group_of_three_is_no_strategy():
    rng = np.random.default_rng(0)
    X, classes, is_marked = pictures(rng, 200, marked=[0, 2, 4])
    assert strategies(relevance(X, classes, is_marked, rng)).odd == []


def test_relevance_everywhere_is_not_odd():
    rng = np.random.default_rng(0)
    values = rng.random((60, SIDE, SIDE))
    e = Explanation(values=values, scores=np.ones(60), method="Example")
    assert strategies(e, np.arange(60) % 3).odd == []


def test_channels_first_and_last_are_the_same():
    rng = np.random.default_rng(0)
    X, classes, is_marked = pictures(rng, 80, marked=np.arange(0, 40, 2))
    e = relevance(X, classes, is_marked, rng)
    stacked = np.stack([e.values] * 3, axis=1)
    boxes = []
    for values in (stacked, np.moveaxis(stacked, 1, 3)):
        again = Explanation(values=values, scores=np.ones(80), method="Example")
        boxes.append([(g.box, len(g.rows)) for g in strategies(again, classes).odd])
    assert boxes[0] == boxes[1] == [((0, 2, 0, 2), 20)]


def test_few_pictures_of_a_class_are_left_alone():
    e = Explanation(values=np.ones((6, 4, 4)), scores=np.ones(6), method="Example")
    assert list(strategies(e).groups) == []


def test_classes_that_look_beside_their_boxes_come_first():
    rng = np.random.default_rng(0)
    values = 0.01 * rng.random((40, 8, 8))
    values[::2, :4, :4] += 1.0
    values[1::2, 4:, 4:] += 1.0
    e = Explanation(values=values, scores=np.ones(40), method="Example")
    boxes = np.tile([0, 4, 0, 4], (40, 1))
    found = box_ratios(e, boxes, np.where(np.arange(40) % 2, "beside", "on it")).by_class()
    assert found["class"].tolist() == ["beside", "on it"]
    assert found["ratio"][0] < 0.05
    assert found["ratio"][1] > 20
    assert (found["low"] <= found["inside"]).all()
    assert (found["inside"] <= found["high"]).all()
    assert found["times_area"][1] == pytest.approx(found["inside"][1] / 0.25)
