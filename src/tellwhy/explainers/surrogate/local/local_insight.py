"""LocalInsight: which parts of one input suffice for a decision, or are necessary for it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tellwhy.core.explanation import Explanation
from tellwhy.core.params import Rules, Seed, instance_of, integer, none, one_of, real, seed
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.explainers.base import Attribution, Rows
from tellwhy.explainers.column_groups import Groups, groups_rule
from tellwhy.explainers.surrogate.inputs import (
    InputExplainer,
    fixed_seed,
    group_of_columns,
    in_own_columns,
    replacement_rule,
    shaped,
)
from tellwhy.explainers.surrogate.local.local_fit import LocalPlan, Neighbourhood, explain_locally
from tellwhy.explainers.surrogate.mixture import Explained, Plan
from tellwhy.explainers.surrogate.priors import Priors
from tellwhy.explainers.surrogate.sampler import Settings
from tellwhy.scoring.class_scores import as_outputs

LIMIT = 6.0  # of log-odds: probabilities of 0.0025 and 0.9975
DESIGN = 0  # seed of the questions that everyone is asked
MOST = 0.9  # of the way from nothing to the row: what an output without a decision must keep


@register(
    "explainer",
    family="surrogate",
    needs="any score, or a classifier with probabilities; rows that tell what replaces a part",
    cost="n_questions calls of the model and about a second of sampling per row",
    exactness="posterior mean of an approximation, with credible intervals; the chosen set is verified",
    citation="after Guo, Huang, Tao, Xing, Lin, NeurIPS (2018)",
    applies=lambda _: True,
)
class LocalInsight(InputExplainer):
    """Which segments of an input suffice for the model's decision, or are necessary for it.

    The model is asked about versions of the input in which some segments are replaced; a Bayesian elastic
    net (or a mixture of them) is fitted to the answers; its coefficients are the values. "sufficiency"
    asks about inputs that keep few segments, "necessity" about inputs that lose few. The first half of these
    questions is spread evenly; the others are about sets of the segments that mattered so far, until the
    ranking is stable. Log-odds beyond ±6 count as ±6: a decision as sure as that does not become surer.

    Values say what a segment adds on average. Which segments do it together is asked directly, with up to
    five eighths of the questions: `extras["place"]` is the place of each segment, from 0, in an order whose
    starts keep (or take away) as much of the output as was found. It may differ from that of the values.

    `extras["chosen"]` marks the answer: the shortest start of the order that, kept alone, leaves the
    decision as it is (sufficiency), or without which the decision is another (necessity). The model was
    asked, so it is so: `extras["chosen_output"]` is its output, and `extras["chosen_holds"]` is 0 where not
    even all segments do. Of a score without classes or threshold, the set keeps (or takes away) nine tenths
    of what the row has beyond its replacement.

    Parameters
    ----------
    model
        A classifier with probabilities, a regressor, a PyTorch network, a function that gives one number per
        row or the probabilities of classes, or anything that `tellwhy.scoring.as_score` reads.
    question
        "sufficiency": what suffices when it alone is kept. "necessity": what is necessary, so that the
        decision changes when it is taken away.
    groups
        None: images and sequences are cut into segments; of other rows, every cell that differs from its
        replacement is one. Or groups of columns (as in `KernelShap`).
    replacement
        What a replaced segment shows: the "mean" of the rows given to `fit`, a number, or an input.
    n_questions
        The most questions to the model per row, all together.
    design
        "fixed": whatever the seed, the same questions are drawn, so that explanations of two seeds differ by
        the sampler's draws alone. "drawn": the seed draws the questions, too, which tells how much an
        explanation owes to them.
    n_segments
        About how many segments an image or sequence has.
    n_components, n_elastic_nets, n_sweeps, n_burn, n_chains, priors
        Of the mixture, as in `DMMMEN`.
    credibility
        Probability of the intervals.
    n_jobs
        Threads that run chains; results do not depend on it.
    random_state
        Seed of all draws.

    Examples
    --------
    Any one of two words is enough, so that neither is necessary:

    >>> def model(rows):
    ...     p = np.where(rows[:, :2].max(axis=1) > 0, 0.9, 0.1)
    ...     return np.column_stack([1 - p, p])
    >>> row = np.ones((1, 5))
    >>> for question in ("sufficiency", "necessity"):
    ...     explainer = LocalInsight(model, question, replacement=0.0, n_questions=256).fit(row)
    ...     print(question, explainer.explain(row).extras["chosen"][0, :2].sum())
    sufficiency 1
    necessity 2
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "question": one_of("sufficiency", "necessity"),
        "groups": groups_rule,
        "replacement": replacement_rule,
        "n_questions": integer(16),
        "design": one_of("fixed", "drawn"),
        "n_segments": integer(2),
        "n_components": integer(1, 1000),
        "n_elastic_nets": integer(1, 100),
        "n_sweeps": integer(8),
        "n_burn": integer(0),
        "n_chains": integer(1),
        "priors": (none, instance_of(Priors, words="a Priors object")),
        "credibility": real(0.0, 1.0),
        "n_jobs": integer(-64, 1024),
        "random_state": seed,
    }

    def __init__(
        self,
        model: object,
        question: str = "sufficiency",
        *,
        groups: Groups | None = None,
        replacement: ArrayLike = "mean",
        n_questions: int = 4096,
        design: str = "fixed",
        n_segments: int = 50,
        n_components: int = 1,
        n_elastic_nets: int = 3,
        n_sweeps: int = 200,
        n_burn: int = 100,
        n_chains: int = 2,
        priors: Priors | None = None,
        credibility: float = 0.95,
        n_jobs: int = -1,
        random_state: Seed = 0,
    ):
        super().__init__(model)
        self.question = question
        self.groups = groups
        self.replacement = replacement
        self.n_questions = n_questions
        self.design = design
        self.n_segments = n_segments
        self.n_components = n_components
        self.n_elastic_nets = n_elastic_nets
        self.n_sweeps = n_sweeps
        self.n_burn = n_burn
        self.n_chains = n_chains
        self.priors = priors
        self.credibility = credibility
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, X: ArrayLike) -> None:
        rows = self.first_rows(X)
        self.group_ = group_of_columns(self.groups, rows, self.names_)

    def explain(self, X: ArrayLike, *, progress: bool | None = None) -> Explanation:
        """Explain the output of each row: what its segments add, and the set that answers the question."""
        self._check_fitted("group_")
        return super().explain(X, progress=progress)

    def _attribute(self, rows: Rows) -> Attribution:
        outputs = self.outputs(rows, rows.X)
        targets = outputs.argmax(axis=1)
        explained = Explained(outputs[np.arange(len(outputs)), targets], targets)
        found = in_own_columns(explain_locally(rows.X, explained, self._how(rows)), rows)
        extras = {name: shaped(extra, rows) for name, extra in found.extras.items()}
        return Attribution(
            found.values,
            explained.scores,
            found.base,
            stderr=found.stderr,
            extras={**extras, "target": targets},
            params={"targets": self.targets_, "priors": repr(self.priors or Priors())},
            per_owner=True,
        )

    def _how(self, rows: Rows) -> LocalPlan:
        settings = Settings(self.n_components, self.n_elastic_nets, self.n_sweeps, self.n_burn, self.n_chains)
        where = Neighbourhood(
            shape=self.shape_,
            replacement=self.replaced_by(),
            group=self.group_,
            n_neighbours=self.n_questions,
            n_segments=self.n_segments,
            question=self.question,
        )
        return LocalPlan(
            outputs=lambda flat: self.outputs(rows, flat),
            where=where,
            # Columns say whether a segment is kept: all have the same unit.
            plan=Plan(settings, self.priors or Priors(), scale="common", n_jobs=self.n_jobs),
            seed=fixed_seed(self.random_state),
            question_seed=DESIGN if self.design == "fixed" else None,
            credibility=self.credibility,
            limit=LIMIT if len(self.targets_) > 1 else None,
            place=as_outputs(rows.score).place if rows.shape is not None else None,
            holds=lambda outputs, target: decision_stays(
                outputs, target, self.question, rows.score.threshold
            ),
        )


def decision_stays(
    outputs: Floats, target: int, question: str, threshold: float | None = None
) -> NDArray[np.bool_]:
    """Whether each line of outputs decides as the row does; lines go from nothing of the row to all of it.

    For necessity, they go from all to nothing. A score without a threshold has no decision: what suffices
    must keep nine tenths of what the row has beyond its replacement; what is necessary must take as much
    away.

    Examples
    --------
    >>> decision_stays(np.array([[2.0, 1.0], [0.0, 3.0]]), 1, "sufficiency")
    array([False,  True])
    >>> decision_stays(np.array([[0.0], [5.0], [9.5], [10.0]]), 0, "sufficiency")
    array([False, False,  True,  True])
    >>> decision_stays(np.array([[10.0], [5.0], [0.5], [0.0]]), 0, "necessity")
    array([ True,  True, False, False])
    """
    if outputs.shape[1] > 1:
        return np.asarray(outputs.argmax(axis=1) == target)
    values = outputs[:, 0]
    whole = values[-1] if question == "sufficiency" else values[0]
    if threshold is not None:
        return np.asarray((values > threshold) == (whole > threshold))
    nothing = values[0] if question == "sufficiency" else values[-1]
    if whole == nothing:
        return np.ones(len(values), dtype=bool)
    left = (values - nothing) / (whole - nothing)
    return np.asarray(left >= MOST if question == "sufficiency" else left > 1.0 - MOST)
