"""Choosing an explainer by cells that were moved: the better one, the first in doubt, and what is refused."""

import numpy as np
import pytest

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.evaluation import choose_by_injection
from tellwhy.explainers import KernelShap, RandomAttribution

X = np.random.default_rng(0).normal(size=(200, 8))


def distance(rows):
    return (rows**2).sum(axis=1)


def shap():
    return KernelShap(distance).fit(X)


def test_the_better_one_is_taken_whatever_its_place():
    for names in (("random", "shap"), ("shap", "random")):
        made = {"random": RandomAttribution(distance), "shap": shap()}
        found = choose_by_injection({name: made[name] for name in names}, X)
        assert found.best == "shap"
        assert found.means["shap"] > found.means["random"] + 0.1


def test_the_first_stays_in_doubt():
    first, second = RandomAttribution(distance, random_state=1), RandomAttribution(distance, random_state=2)
    for made in ({"one": first, "two": second}, {"two": second, "one": first}):
        assert choose_by_injection(made, X).best == next(iter(made))


def test_it_says_what_was_tried():
    found = choose_by_injection({"shap": shap()}, X, n_rows=20)
    assert len(found.reciprocal_ranks["shap"]) == 20
    assert found.words == (
        f"shap: mean reciprocal rank of one cell moved in each of 20 rows: shap {found.means['shap']:.2f}"
    )


def test_seeds():
    same, again, other = (
        choose_by_injection({"shap": shap()}, X, seed).reciprocal_ranks["shap"] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(same, again)
    assert (same != other).any()


def test_bad_input():
    with pytest.raises(InvalidInput, match="no explainers"):
        choose_by_injection({}, X)
    with pytest.raises(InvalidParameter, match="n_rows"):
        choose_by_injection({"shap": shap()}, X, n_rows=1)
