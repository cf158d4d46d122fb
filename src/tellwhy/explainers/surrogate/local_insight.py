"""LocalInsight: which segments of one input suffice for a decision, or are necessary for it.

One mixture per explained row is fitted to neighbours of the row over its segments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from tellwhy.core.errors import NotConverged
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import Rules, Seed, instance_of, integer, none, one_of, real, seed
from tellwhy.core.progress import track
from tellwhy.core.score import Floats, Integers
from tellwhy.data.pieces import find_present_cells, segment
from tellwhy.explainers.rows import Attribution, Groups, Rows, groups_rule
from tellwhy.explainers.surrogate.chains import R_HAT, Priors
from tellwhy.explainers.surrogate.inputs import (
    InputExplainer,
    RowSegments,
    fix_seed,
    group_of_columns,
    replacement_rule,
    shaped,
    sum_to_own_columns,
)
from tellwhy.explainers.surrogate.mixture import Explained, Local, Plan, RowFits, fit_surrogate
from tellwhy.explainers.surrogate.order import (
    Answers,
    Sets,
    ask_evenly,
    ask_in_rounds,
    find_best_order,
    find_first_enough,
    fit_worth_by_ridge,
    make_prefixes,
    ranking,
)
from tellwhy.explainers.surrogate.sampler import Settings
from tellwhy.scoring.class_scores import as_outputs

ORDERED = 5 / 8  # of the questions, at most, put the segments in order; the others estimate what each adds


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """How neighbours of a row are made: some of its segments are replaced.

    Attributes
    ----------
    shape
        Of one input.
    replacement
        Values that replaced cells take, flat.
    group
        Segment of each cell, the same for all rows; None: every row has segments of its own.
    n_neighbours
        How many to make.
    n_segments
        About how many segments an image or sequence has.
    kept
        Share of the segments that neighbours keep, where no question is asked.
    question
        "sufficiency" or "necessity": neighbours are chosen by the answers so far. None: by the share alone.
    """

    shape: tuple[int, ...]
    replacement: Floats
    group: Integers | None
    n_neighbours: int
    n_segments: int
    kept: float = 0.75
    question: str | None = None

    def label(self, x: Floats) -> Integers:
        """Segment of each cell of a flattened input."""
        if self.group is not None:
            return self.group
        if len(self.shape) == 1:
            return find_present_cells(x, self.replacement)
        return segment(x.reshape(self.shape), self.n_segments).ravel()


@dataclass(frozen=True, eq=False)
class LocalPlan:
    """How rows are explained one by one.

    Attributes
    ----------
    outputs
        From flat inputs to the outputs of the model, one column per target.
    where
        How neighbours of a row are made.
    plan
        How a mixture is fitted to them.
    seed
        Of the random numbers, the same for every row: the explanation of a row does not depend on others.
    question_seed
        Of the questions that are drawn, where a question is declared; None: `seed` draws them, too.
    credibility
        Probability of the intervals.
    holds
        From outputs (n, targets) and the number of a target to whether the model still decides for it; used
        where a question is declared.
    limit
        Outputs beyond ± this count as this, where a question is declared; None: as they are.
    place
        Puts flat rows where a network computes; neighbours are then made there, and `outputs` takes them.
    """

    outputs: Callable[[Floats], Floats]
    where: Neighbourhood
    plan: Plan
    seed: int
    credibility: float
    holds: Callable[[Floats, int], NDArray[np.bool_]] | None = None
    limit: float | None = None
    question_seed: int | None = None
    place: Callable[[Any], Any] | None = None

    def limited(self, outputs: Floats | float) -> Floats:
        """Outputs within the limit: beyond it a decision is sure, and how sure does not matter."""
        return np.asarray(outputs if self.limit is None else np.clip(outputs, -self.limit, self.limit))


class Chosen(NamedTuple):
    """The answer to a declared question: which segments, and the model's output for what they leave."""

    segments: NDArray[np.bool_]
    place: Integers  # of each segment in the order, from 0; those that cannot matter come after all others
    output: float
    holds: bool  # whether the segments suffice, or are necessary
    n_questions: int


class _OneFit(NamedTuple):
    """What the mixture of one row says of its segments, and the answer to a declared question."""

    local: Local
    chosen: Chosen | None


def explain_locally(X: Floats, explained: Explained, how: LocalPlan) -> RowFits:
    """Explain each row by a mixture of its own, fitted to neighbours that keep some of its segments.

    A segment's value is its coefficient: the change of the output when it is there. Its cells share it
    equally.
    """
    cells = {name: np.zeros(shape) for name, shape in _shapes(X).items()}
    base = np.zeros(len(X))
    r_hat = np.zeros(len(X))
    chosen: list[Chosen] = []
    for i in track(range(len(X)), len(X), "explaining by local mixtures"):
        label = how.where.label(X[i])
        fit = _fit_one(RowSegments.of(X[i], label, how), explained.scores[i], int(explained.targets[i]))
        local = fit.local
        sizes = np.bincount(label)[label]  # of the segment that each cell belongs to
        r_hat[i] = local.r_hat
        base[i] = local.base
        cells["values"][i] = local.values[label] / sizes
        cells["stderr"][i] = _error(local, how)[label] / sizes
        cells["segments"][i] = label
        cells["coefficients"][i] = local.coefficients[label]
        cells["interval"][i] = local.interval[label] / sizes[:, None]
        cells["coefficient_interval"][i] = local.coefficient_interval[label]
        if fit.chosen is not None:
            chosen.append(fit.chosen)
    _warn(r_hat)
    values = cells.pop("values")
    stderr = cells.pop("stderr")
    segments = cells["segments"].astype(np.int64)
    extras = {**cells, "segments": segments, "r_hat": r_hat, **_record_answers(chosen, segments)}
    return RowFits(values, stderr, base, extras)


def _error(local: Local, how: LocalPlan) -> Floats:
    """Standard errors: of the draws or, where questions are chosen as they go, of what others would give.

    With other seeds other questions are asked: their answers differ by what the posterior says of the values.
    """
    if how.where.question is None:
        return local.stderr
    return np.hypot(local.deviation, local.stderr)


def _record_answers(chosen: list[Chosen], segments: Integers) -> dict[str, Floats | Integers]:
    """What is recorded of the answers to a declared question; nothing where none was."""
    if not chosen:
        return {}
    rows = list(zip(chosen, segments, strict=True))
    return {
        "chosen": np.array([row.segments[label] for row, label in rows]).astype(np.int64),
        "place": np.array([row.place[label] for row, label in rows]),
        "chosen_output": np.array([row.output for row in chosen]),
        "chosen_holds": np.array([row.holds for row in chosen]).astype(np.int64),
        "n_questions": np.array([row.n_questions for row in chosen]),
    }


def _shapes(X: Floats) -> dict[str, tuple[int, ...]]:
    """Shapes of what is recorded for each cell."""
    pairs = dict.fromkeys(("interval", "coefficient_interval"), (*X.shape, 2))
    return {**dict.fromkeys(("values", "stderr", "segments", "coefficients"), X.shape), **pairs}


def _fit_one(row: RowSegments, score: float, target: int) -> _OneFit:
    """Fit a mixture to neighbours of one row, in columns that say which segments each one keeps."""
    how = row.how
    rng = np.random.default_rng(how.seed)
    answers = _asked(row, target, rng)
    surrogate = fit_surrogate(
        row.whole(answers.masks), answers.outputs, how.plan, rng=rng, origin=np.zeros(row.n_segments)
    )
    local = surrogate.local(
        np.ones(row.n_segments),  # the row itself keeps all of its segments
        float(how.limited(score)),
        uniforms=rng.random(len(surrogate.coef)),
        credibility=how.credibility,
        owner=None,
    )
    return _OneFit(local, _choose(row, local, target, answers))


def _asked(row: RowSegments, target: int, rng: np.random.Generator) -> Answers:
    """Ask the model about neighbours: in rounds where a question is declared, else evenly."""
    where = row.how.where
    n = len(row.differing)
    if where.question is None:
        return ask_evenly(lambda m: row.outputs(m)[:, target], n, where.n_neighbours, where.kept, rng)
    seed = row.how.question_seed
    drawn = rng if seed is None else np.random.default_rng(seed)
    # The others put the segments in order, and ask about every start of it at the end.
    left = max(2, where.n_neighbours - _choose_n_for_order(row) - n - 1)
    return ask_in_rounds(lambda m: row.how.limited(row.outputs(m)[:, target]), n, left, where.question, drawn)


def _choose_n_for_order(row: RowSegments) -> int:
    """Most questions that put the segments in order: a share, where that is enough to compare orders."""
    n = len(row.differing)
    share = int(ORDERED * (row.how.where.n_neighbours - n - 1))
    return min(n * (n + 36), share) if share >= 4 * n else 0


def _choose(row: RowSegments, local: Local, target: int, answers: Answers) -> Chosen | None:
    """Find the shortest start of the order that suffices, or without which the decision is another."""
    question = row.how.where.question
    if question is None or row.how.holds is None:
        return None
    order, n_compared = _order(row, local, target, answers)
    outputs = row.outputs(make_prefixes(order, question))
    stays = row.how.holds(outputs, target)
    enough = stays if question == "sufficiency" else ~stays
    length = find_first_enough(enough)
    chosen = np.zeros(row.n_segments, dtype=bool)
    chosen[row.differing[order[:length]]] = True
    place = np.full(row.n_segments, len(order))
    place[row.differing[order]] = np.arange(len(order))
    n_questions = len(answers.masks) + n_compared + len(outputs)
    return Chosen(chosen, place, float(outputs[length, target]), bool(enough[length]), n_questions)


def _order(row: RowSegments, local: Local, target: int, answers: Answers) -> tuple[Integers, int]:
    """Put the segments in order by asking; also return how many questions that took."""
    n = len(row.differing)
    if n < 2 or not _choose_n_for_order(row):
        return ranking(local.coefficients[row.differing]), 0
    sets = Sets(_measure_worth(row, target), n, _choose_n_for_order(row))
    nothing, everything = sets.of([[], range(n)])
    limit = row.how.limit
    scale = expit if limit is not None else lambda w: (w - nothing) / ((everything - nothing) or 1.0)
    even = answers.outputs[: answers.n_halves]
    rankings = [
        ranking(local.coefficients[row.differing]),
        ranking(fit_worth_by_ridge(answers.masks[: len(even)], even if limit is None else expit(even))),
    ]
    enough = everything if limit is None else limit
    return np.array(find_best_order(sets, [r.tolist() for r in rankings], scale, enough=enough)), sets.n_asked


def _measure_worth(row: RowSegments, target: int) -> Callable[[Floats], Floats]:
    """What sets of segments are worth: the output that they keep or, for necessity, that they take away."""
    if row.how.where.question == "sufficiency":
        return lambda sets: row.outputs(sets)[:, target]
    return lambda sets: -row.outputs(1.0 - sets)[:, target]


def _warn(r_hat: Floats) -> None:
    """Say in how many rows chains do not agree, at the line that called `explain`."""
    apart = int((r_hat > R_HAT).sum())
    if apart:
        warnings.warn(
            f"The chains of {apart} of {len(r_hat)} rows do not agree yet (R̂ up to {r_hat.max():.2f}, "
            f"expected < {R_HAT}): their intervals may be too narrow. Raise n_burn and n_sweeps, or lower "
            "n_components.",
            NotConverged,
            stacklevel=7,
        )


LIMIT = 6.0  # of log-odds: probabilities of 0.0025 and 0.9975
DESIGN = 0  # seed of the questions that everyone is asked
MOST = 0.9  # of the way from nothing to the row: what an output without a decision must keep


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
    baseline
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
        Threads that run chains; None: one per core. Results do not depend on it.
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
    ...     explainer = LocalInsight(model, question, baseline=0.0, n_questions=256).fit(row)
    ...     print(question, explainer.explain(row).extras["chosen"][0, :2].sum())
    sufficiency 1
    necessity 2
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "question": one_of("sufficiency", "necessity"),
        "groups": groups_rule,
        "baseline": replacement_rule,
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
        "n_jobs": (none, integer(-64, 1024)),
        "random_state": seed,
    }

    def __init__(
        self,
        model: object,
        question: str = "sufficiency",
        *,
        groups: Groups | None = None,
        baseline: ArrayLike = "mean",
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
        n_jobs: int | None = None,
        random_state: Seed = 0,
    ):
        super().__init__(model)
        self.question = question
        self.groups = groups
        self.baseline = baseline
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
        found = sum_to_own_columns(explain_locally(rows.X, explained, self._make_plan(rows)), rows)
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

    def _make_plan(self, rows: Rows) -> LocalPlan:
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
            seed=fix_seed(self.random_state),
            question_seed=DESIGN if self.design == "fixed" else None,
            credibility=self.credibility,
            limit=LIMIT if len(self.targets_) > 1 else None,
            place=as_outputs(rows.score).place if rows.shape is not None else None,
            holds=lambda outputs, target: check_decision_stays(
                outputs, target, self.question, rows.score.threshold
            ),
        )


def check_decision_stays(
    outputs: Floats, target: int, question: str, threshold: float | None = None
) -> NDArray[np.bool_]:
    """Whether each line of outputs decides as the row does; lines go from nothing of the row to all of it.

    For necessity, they go from all to nothing. A score without a threshold has no decision: what suffices
    must keep nine tenths of what the row has beyond its replacement; what is necessary must take as much
    away.

    Examples
    --------
    >>> check_decision_stays(np.array([[2.0, 1.0], [0.0, 3.0]]), 1, "sufficiency")
    array([False,  True])
    >>> check_decision_stays(np.array([[0.0], [5.0], [9.5], [10.0]]), 0, "sufficiency")
    array([False, False,  True,  True])
    >>> check_decision_stays(np.array([[10.0], [5.0], [0.5], [0.0]]), 0, "necessity")
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
