"""Several explainers, of one model or of several, averaged by rank, with their disagreement shown."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyError
from tellwhy.core.explainer import Explains, LearnsFromRows
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Extras
from tellwhy.core.params import Rule, Rules, validate_parameters
from tellwhy.core.progress import shown
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, ScoreFunction

_TIED = 1e-9  # of the row's largest value: smaller differences are rounding, not an order


class Ensemble:
    """R_i = mean over the members of the rank of feature i: 1 for the most relevant feature, 0 for the least.

    No method names the right feature always; where several agree the answer is safer, and where they do not,
    the reader should know. Members may explain different models, as long as these read the same columns.
    Values are ranked with their signs (a negative value makes a row look more normal); features with equal
    values share the mean of their ranks.

    Parameters
    ----------
    explainers
        Two explainers or more, each with its own model.

    Notes
    -----
    `scores` are those of the first member. `extras` holds

    - "disagreement", one number per row: 1 − the mean Spearman correlation between the ranks of two members.
      0: all give the same order; 1: their orders have nothing in common; above 1: they contradict each other.
    - "rank_spread", shaped like the values: the highest rank any member gives to the feature minus the
      lowest.
    - "member_scores", one column per member: the score that each of them explains.
    - "nearest_normal", where a member that explains the same scores as the first has it.

    Examples
    --------
    >>> from tellwhy.detectors import OneClassSVM
    >>> from tellwhy.explainers import OneClassDTD, Sensitivity
    >>> model = OneClassSVM().fit(np.random.default_rng(0).normal(size=(100, 3)))
    >>> explanation = Ensemble([OneClassDTD(model), Sensitivity(model)]).explain([[0.0, 5.0, 1.0]])
    >>> explanation.values, explanation.extras["disagreement"].round(9)
    (array([[0. , 1. , 0.5]]), array([0.]))
    """

    kind: ClassVar[str] = "ranking"
    _parameters: ClassVar[dict[str, Rules]] = {
        "explainers": Rule(
            "a list of two explainers or more",
            lambda given: isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 1,
        )
    }

    def __init__(self, explainers: Sequence[Explains]):
        self.explainers = explainers

    @property
    def model(self) -> Any:
        """The model of the first member."""
        return self._members()[0].model

    @property
    def score(self) -> ScoreFunction:
        """The score of the first member."""
        score: ScoreFunction = self._members()[0].score
        return score

    def fit(self, X: ArrayLike) -> Self:
        """Give background rows to the members that take them.

        Copies of them learn; the explainers that were passed stay as they are.
        """
        self.members_ = [
            _call_member(i, member, copy(member).fit, X) if isinstance(member, LearnsFromRows) else member
            for i, member in enumerate(self._checked())
        ]
        return self

    def explain(self, X: ArrayLike, *, progress: bool | None = None) -> Explanation:
        """Explain each row of X by the mean rank of its features over the members.

        `progress` shows how far each is, or does not; None: on a terminal and in notebooks, after two
        seconds.
        """
        with shown(progress):
            found = [_call_member(i, member, member.explain, X) for i, member in enumerate(self._members())]
        first = found[0]
        for i, other in enumerate(found):
            _check_alike(first, other, i)
        joined = _join([e.values.reshape(len(e), -1) for e in found])
        return Explanation(
            values=joined.mean.reshape(first.values.shape),
            scores=first.scores,
            data=X,
            feature_names=first.feature_names,
            method=type(self).__name__,
            params={
                "explains": first.params["explains"],
                "members": [f"{e.method} of {e.params['explains']}" for e in found],
            },
            kind=self.kind,
            extras=_find_normal_versions(found)
            | {
                "disagreement": joined.disagreement,
                "rank_spread": joined.spread.reshape(first.values.shape),
                "member_scores": np.column_stack([e.scores for e in found]),
            },
        )

    def _members(self) -> list[Any]:
        given = self._checked()
        return vars(self).get("members_", given)

    def _checked(self) -> list[Any]:
        validate_parameters(self)
        for i, member in enumerate(self.explainers):
            # a class has the methods of its instances, but no model
            if isinstance(member, type) or not isinstance(member, Explains):
                raise InvalidParameter(
                    f"Member {i} of Ensemble must be an explainer of a model, such as OneClassDTD(model). "
                    f"Got {member!r} instead."
                )
        return list(self.explainers)


def _find_normal_versions(found: Sequence[Explanation]) -> Extras:
    """Return "nearest_normal" of the first member that has it and explains the same scores as member 0."""
    for each in found:
        if "nearest_normal" in each.extras and np.array_equal(each.scores, found[0].scores):
            return each.extras.only("nearest_normal")
    return Extras()


def _call_member(i: int, member: Any, call: Any, X: Any) -> Any:
    """Call a member; an error of ours says whose it is."""
    try:
        return call(X)
    except TellwhyError as error:
        raise type(error)(f"Member {i} of Ensemble ({type(member).__name__}): {error}") from error


def _check_alike(first: Explanation, other: Explanation, i: int) -> None:
    """Raise unless an explanation is about the same rows and features as the first, and gives each a rank."""
    if first.values.shape != other.values.shape:
        raise InvalidInput(
            f"Members of Ensemble must explain the same features: member 0 ({first.method}) gives values of "
            f"shape {first.values.shape}, member {i} ({other.method}) {other.values.shape}. "
            "Use models of the same columns."
        )
    names = first.feature_names
    others = other.feature_names
    if names is not None and others is not None and list(names) != list(others):
        at = next(k for k, (a, b) in enumerate(zip(names, others, strict=True)) if a != b)
        raise InvalidInput(
            f"Members of Ensemble must explain the same features: feature {at} is {names[at]!r} for member 0 "
            f"({first.method}) and {others[at]!r} for member {i} ({other.method})."
        )
    odd = np.argwhere(~np.isfinite(other.values.reshape(len(other), -1)))
    if len(odd):
        raise InvalidInput(
            f"Ensemble cannot rank: member {i} ({other.method}) gives no finite value for row {odd[0][0]}, "
            f"feature {odd[0][1]}. Leave that row or that member out."
        )


@dataclass(frozen=True)
class _Joined:
    """Mean rank of each feature and its spread over the members, (n, d), and each row's disagreement."""

    mean: Floats
    spread: Floats
    disagreement: Floats


def _join(values: list[Floats]) -> _Joined:
    """Rank the values of each member, and put the ranks together, in batches of rows."""
    n, d = values[0].shape
    joined = _Joined(np.empty((n, d)), np.empty((n, d)), np.empty(n))
    for rows in cut_batches(n, 64 * d * len(values)):
        ranks = np.stack([normalise_ranks(v[rows]) for v in values])
        joined.mean[rows] = ranks.mean(axis=0)
        joined.spread[rows] = np.ptp(ranks, axis=0)
        joined.disagreement[rows] = 1.0 - average_correlation(ranks)
    return joined


def normalise_ranks(values: Floats) -> Floats:
    """Ranks within each row, from 0 for its smallest value to 1 for its largest.

    Equal values share the mean of their ranks.

    Examples
    --------
    >>> normalise_ranks(np.array([[5.0, -1.0, 5.0, 0.0, 2.0]]))
    array([[0.875, 0.   , 0.875, 0.25 , 0.5  ]])
    """
    if values.shape[1] == 1:  # the only feature is the most relevant one
        return np.ones(values.shape)
    order = np.argsort(values, axis=1, kind="stable")  # rankdata alone would tell rounding apart
    ordered = np.take_along_axis(values, order, axis=1)
    apart = np.diff(ordered, axis=1) > _TIED * np.abs(ordered).max(axis=1, keepdims=True)
    # values that are tied but for rounding get the same step, and rankdata gives equal steps their mean rank
    step = np.zeros(values.shape)
    np.put_along_axis(step, order[:, 1:], np.cumsum(apart, axis=1), axis=1)
    return np.asarray((rankdata(step, axis=1) - 1) / (values.shape[1] - 1))


def average_correlation(ranks: Floats) -> Floats:
    """Mean Pearson correlation between the ranks (members, n, d) of two members, of each row.

    A member that gives all features the same rank says nothing: it correlates 0 with others, and 1 with its
    like.
    """
    centred = ranks - ranks.mean(axis=2, keepdims=True)
    length = np.sqrt(np.einsum("mnd,mnd->mn", centred, centred))
    is_flat = length == 0
    # ranks of unit length: their inner product is the correlation
    unit = centred / np.where(is_flat, 1.0, length)[:, :, None]
    # |Σ_m u_m|² holds every pair twice and each unit vector once with itself: no loop over pairs is needed
    together = unit.sum(axis=0)
    m = len(ranks)
    n_flat = is_flat.sum(axis=0)
    pairs = np.einsum("nd,nd->n", together, together) - (m - n_flat) + n_flat * (n_flat - 1)
    return np.asarray(pairs / (m * (m - 1)))
