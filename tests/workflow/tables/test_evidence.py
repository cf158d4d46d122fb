"""How far explanations can be trusted: the curves, the baseline, and what other methods say."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr

from tellwhy.core.explanation import Explanation
from tellwhy.detectors import GaussianMixture, KernelDensity
from tellwhy.evaluation import flipping
from tellwhy.explainers import GaussianNLL, Occlusion, OneClassDTD
from tellwhy.scoring import as_score
from tellwhy.verdicts.evidence import (
    EVIDENCE_ROWS,
    OPERATIONS,
    _count_affordable_rows,
    _measure_agreement,
    collect_evidence,
    correlate_ranks,
)
from tellwhy.views.page.page import write_report
from tellwhy.workflow import explain_table, load_run, save_run

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 4))
ODD = X[:60] + 6.0 * np.eye(4)[np.arange(60) % 4]
DETECTOR = KernelDensity().fit(X)


@pytest.fixture(scope="module")
def explanation():
    return OneClassDTD(DETECTOR).explain(ODD)


@pytest.fixture(scope="module")
def evidence(explanation):
    return collect_evidence(explanation, as_score(DETECTOR), X, second_opinions=True)


def test_curves_are_those_of_the_explanation_and_of_a_random_order(explanation, evidence):
    own = flipping(explanation[:EVIDENCE_ROWS], DETECTOR, background=X)
    assert list(evidence.flipping) == ["OneClassDTD", "RandomAttribution"]
    assert evidence.flipping_area["OneClassDTD"] == own.area
    np.testing.assert_array_equal(evidence.flipping["OneClassDTD"], own.mean_curve())
    random = evidence.flipping["RandomAttribution"]
    assert random[0] == 1
    assert evidence.flipping_area["RandomAttribution"] > own.area + 0.2
    # With one odd column of four, a random order resets it at each step equally often: a straight line.
    np.testing.assert_allclose(random, [1.0, 0.75, 0.5, 0.25, 0.0], atol=0.15)


def test_an_explanation_that_points_the_wrong_way_is_worse_than_random(explanation):
    turned = Explanation(
        values=-explanation.values, scores=explanation.scores, data=ODD, method="Wrong", kind="ranking"
    )
    found = collect_evidence(turned, as_score(DETECTOR), X)
    assert found.flipping_area["Wrong"] > found.flipping_area["RandomAttribution"]


def test_what_is_explained_and_what_no_column_received(explanation, evidence):
    assert evidence.explains == as_score(DETECTOR).describes
    missing = np.abs(explanation.residual) / np.abs(explanation.scores - explanation.base_values)
    assert evidence.unattributed == pytest.approx(np.median(missing))


def test_other_methods_are_asked_about_the_same_rows(explanation, evidence):
    assert [a.method for a in evidence.agreement] == ["Occlusion", "GaussianNLL"]
    some = explanation[:EVIDENCE_ROWS]
    for told, cls in zip(evidence.agreement, (Occlusion, GaussianNLL), strict=True):
        other = cls(DETECTOR).fit(X).explain(some.data)
        same = [a.argmax() == b.argmax() for a, b in zip(some.values, other.values, strict=True)]
        ranks = [spearmanr(a, b).statistic for a, b in zip(some.values, other.values, strict=True)]
        assert told.same_top_feature == pytest.approx(np.mean(same))
        assert told.rank_correlation == pytest.approx(np.mean(ranks))


def test_other_methods_are_asked_on_request_only(explanation, evidence):
    found = collect_evidence(explanation, as_score(DETECTOR), X)
    assert found.agreement == []
    assert found.flipping == evidence.flipping
    assert not explain_table(ODD[:40], top=3).evidence.agreement


@pytest.mark.parametrize(("n_columns", "is_tried"), [(30, True), (120, True), (130, False)])
def test_how_much_is_tried_depends_on_the_table_alone(n_columns, is_tried):
    """At most twenty rows, with the columns of sixteen others; of very wide tables none."""
    asked = []
    rows = np.random.default_rng(0).normal(size=(60, n_columns))

    class Counted:
        feature_shape = (n_columns,)
        feature_names = None
        describes = "sum"
        threshold = None

        def value(self, X):
            asked.append(len(X))
            return np.asarray(X).sum(axis=1)

    told = Explanation(values=rows, scores=rows.sum(axis=1), data=rows, method="Sum")
    found = collect_evidence(told, Counted(), rows)
    assert bool(found.flipping) == is_tried
    n_tried = min(EVIDENCE_ROWS, 5e4 / n_columns**2)
    assert sum(asked) <= 2 * (n_tried * 16 * n_columns + len(rows) + 2 * EVIDENCE_ROWS)


def test_a_method_has_no_second_opinion_on_itself_nor_where_it_does_not_apply():
    mixture = GaussianMixture(1).fit(X)
    explained = Occlusion(mixture).fit(X).explain(ODD[:5])
    found = collect_evidence(explained, as_score(mixture), X, second_opinions=True)
    assert [a.method for a in found.agreement] == ["GaussianNLL"]


def test_agreement_of_made_up_values():
    def made(values):
        values = np.array(values, dtype=float)
        return Explanation(values=values, scores=values.sum(axis=1), method="M")

    one = made([[3, 2, 1], [0, 0, 5], [1, 2, 3], [9, 1, 0]])
    other = made([[5, 4, 3], [0, 1, 5], [3, 2, 1], [9, 0, 1]])
    told = _measure_agreement(one, other)
    assert told.same_top_feature == 0.75
    assert told.rank_correlation == pytest.approx(np.mean([1.0, np.sqrt(0.75), -1.0, 0.5]))
    assert correlate_ranks(np.array([1.0]), np.array([-5.0])) == 1.0
    assert correlate_ranks(np.array([1.0, 1.0]), np.array([1.0, 2.0])) == 0.0


def test_rows_that_only_a_finding_raised_say_nothing_about_the_detector(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(50, 9, size=(600, 4)).round(2), columns=list("abcd"))
    table.loc[:29, "a"] = -999.0
    run = explain_table(table, top=5)
    assert {anomaly.row for anomaly in run.anomalies} == set(range(30))
    # Their cells are missing by then, so that the detector finds them ordinary: there is nothing to test.
    assert run.evidence.flipping == {}
    table.loc[40, "b"] = 900.0
    assert explain_table(table, top=5).evidence.flipping == {}  # of one row, the order says nothing
    table.loc[[40, 41, 42], "b"] = [900.0, 700.0, 800.0]
    mixed = explain_table(table, top=5)
    assert mixed.evidence.flipping["CommitteeShares"][1] < 0.2  # of the rows that the detector found


def test_the_order_of_one_column_says_nothing():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"reading": rng.gamma(9, 2, 400).round(2)})
    table.loc[:5, "reading"] += 160
    run = explain_table(table)
    assert run.evidence.flipping == {}
    assert " in 1 column by " in run.summary


def test_a_run_of_findings_alone_has_a_page(tmp_path):
    table = pd.DataFrame(np.random.default_rng(0).normal(50, 9, size=(600, 4)).round(2), columns=list("abcd"))
    table.loc[:29, "a"] = -999.0
    run = explain_table(table, top=5)
    page = write_report(load_run(save_run(run, tmp_path / "run")), tmp_path / "page.html")
    assert "Do the reasons hold?" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(("n_columns", "is_told"), [(1, False), (2, True), (3, True)])
def test_the_order_of_columns_is_tried_where_there_are_two(n_columns, is_told):
    narrow = KernelDensity().fit(X[:, :n_columns])
    found = collect_evidence(
        OneClassDTD(narrow).explain(ODD[:6, :n_columns]), as_score(narrow), X[:, :n_columns]
    )
    assert bool(found.flipping) is is_told


def test_occlusion_is_asked_about_as_many_rows_as_a_few_seconds_allow(explanation):
    assert _count_affordable_rows("GaussianNLL", explanation, 10**9) == len(explanation)
    assert _count_affordable_rows("Occlusion", explanation, 10**6) == int(OPERATIONS / (64 * 4**2 * 10**6))
    assert _count_affordable_rows("Occlusion", explanation, 10**9) == 0
