"""The method that was named, the cheapest, or the best of several tried.

The method: by its name, by its class, as an explainer that is already made, or chosen automatically.

Methods for any score, tried on cells that are moved in the user's own ordinary rows.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.arrays import random_sample, take_rows
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.explainer import Explains
from tellwhy.core.old_names import warned_names
from tellwhy.core.params import generator, nearest
from tellwhy.core.registry import Card, card, card_of, cards, explainer_card
from tellwhy.core.score import ScoreFunction
from tellwhy.one_liner.background import LEAST_ROWS
from tellwhy.scoring import EncodedScore, NetworkOutput
from tellwhy.scoring.ordinary_rows import Kept

if TYPE_CHECKING:
    from tellwhy.evaluation import Choice


OWN = ("background", "method", "output", "progress", "target", "task")  # what `explain` takes itself


def named_card(method: object) -> Card | None:
    """Return the card of a method given by name or class; None for 'auto' and for an explainer itself."""
    if isinstance(method, str):
        return None if method.lower() == "auto" else explainer_card(method)
    if isinstance(method, type):
        return _card_of_class(method)
    if isinstance(method, Explains):
        return None
    raise InvalidParameter(
        "method must be the name of an explainer (tellwhy.methods() lists them), its class, or one that is "
        f"already made. Got {method!r} instead."
    )


def _card_of_class(cls: type) -> Card:
    """Return the card of a class; one that was never registered gets a card of its own."""
    known = card_of(cls)
    if known is not None:
        return known
    if not callable(getattr(cls, "explain", None)):
        raise InvalidParameter(
            f"method={cls.__name__} is not an explainer: it has no explain(X). tellwhy.methods() lists them."
        )
    return Card(cls.__name__, "explainer", "", "", "", "", "", cls)


def chosen_card(score: ScoreFunction, method: str) -> Card:
    """Return the explainer of that name; for 'auto' the first that applies, the cheapest first."""
    if method != "auto":
        return card("explainer", method)
    if isinstance(score, NetworkOutput):  # explained from zero; what is missing is stated
        return card("explainer", "IntegratedGradients")
    seen = score.inner if isinstance(score, EncodedScore) and score.owner is not None else score
    for candidate in considered():
        if candidate.applies is not None and candidate.applies(seen):
            return candidate
    raise UnsupportedModel(f"No explainer applies to {score.describes}.")


def considered() -> list[Card]:
    """The methods that `method="auto"` considers, the cheapest first; of equally cheap ones by name."""
    return sorted((c for c in cards("explainer") if c.automatic is not None), key=lambda c: c.automatic or 0)


def made(chosen: Card, model: object, params: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return an explainer of a model, and those of the parameters that its `explain` takes."""
    params = warned_names(chosen.cls, params)
    taken = list(inspect.signature(chosen.cls.__init__).parameters)[2:]  # after the explainer and the model
    at_explain = list(inspect.signature(chosen.cls.explain).parameters)[2:]
    for name in params:
        if name not in taken and name not in at_explain:
            _refuse_parameter(chosen.name, name, [*taken, *at_explain])
    _check_required(chosen, params)
    explainer = chosen.cls(model, **{name: params[name] for name in params if name in taken})
    return explainer, {name: params[name] for name in params if name not in taken}


def _check_required(chosen: Card, params: Mapping[str, Any]) -> None:
    """Raise where a method has a parameter without a default that was not given."""
    signature = list(inspect.signature(chosen.cls.__init__).parameters.values())[2:]
    for parameter in signature:
        is_plain = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_plain and parameter.default is parameter.empty and parameter.name not in params:
            raise InvalidParameter(
                f"{chosen.name} needs the parameter {parameter.name!r}: "
                f"tellwhy.explain(model, X, {chosen.name!r}, {parameter.name}=…)."
            )


def with_background(chosen: Card, params: Mapping[str, Any], background: Any) -> dict[str, Any]:
    """Return the parameters with the background, for a method that takes it when it is made."""
    takes = "background" in inspect.signature(chosen.cls.__init__).parameters
    is_learned = isinstance(chosen.cls, type) and hasattr(chosen.cls, "fit")
    return {**params, "background": background} if takes and not is_learned else dict(params)


def _refuse_parameter(method: str, name: str, taken: list[str]) -> None:
    known = [*taken, *OWN]
    own = [parameter for parameter in taken if parameter not in OWN]
    listed = ", ".join(own) if own else "none of its own"
    raise InvalidParameter(
        f"{method} has no parameter {name!r}{nearest(name, known)} It takes: {listed}; and explain itself "
        f"takes {', '.join(OWN)}."
    )


def check_instance(method: Any, model: object, params: Mapping[str, Any]) -> None:
    """Raise for an explainer of another model, or parameters that come too late for it."""
    own = getattr(method, "model", model)
    if own is not model:
        raise InvalidParameter(
            f"method is a {type(method).__name__} of another model ({type(own).__name__}). Make it for the "
            f"model that you explain, or pass its class: method={type(method).__name__}."
        )
    if params:
        raise InvalidParameter(
            f"method is a {type(method).__name__} that is already made, so that {', '.join(params)} cannot "
            f"be set any more. Pass its class instead: method={type(method).__name__}, "
            f"{next(iter(params))}=…."
        )


FIRST = "AnomalyShapley"  # the method that is tried against others, and stays in doubt
SECONDS = 3.0  # that the trial may take
N_MOVED = 50  # rows, one cell moved in each
MOST_ROWS = 5_000  # that reference rows are looked for in: more cost time, and tell hardly more
_PILOT = 2  # rows that tell what all of them would take
_FEW_SCORED = 64  # rows scored first, whose time tells whether more may be scored
_MANY_SCORED = 2_048  # rows scored together: what a call costs once is shared by these
_REFERENCES = 8  # scores for each set of columns, of both kinds of kernel SHAP
_SETS = 256  # of columns, besides two for each column: enough to see which column is first

CANDIDATES: dict[str, tuple[str, dict[str, object]]] = {
    FIRST: (FIRST, {}),
    "KernelShap(baseline='neighbours')": ("KernelShap", {"baseline": "neighbours"}),
    "KernelShap": ("KernelShap", {}),
}


@dataclass(frozen=True)
class Trial:
    """The method to take, with its parameters, and what to say of the choice."""

    card: Card
    params: dict[str, Any]
    words: str
    most_rows: int | None = None  # ordinary rows that it learns from, at most


def tried(score: ScoreFunction, ordinary: Kept, params: Mapping[str, Any]) -> Trial:
    """Return which of three methods for any score to take, by anomalies made from ordinary rows.

    One cell is moved in each of 50 rows; the methods learn from the other rows and rank the columns. Anomaly
    Shapley is taken unless another one ranks the moved cells better by more than two standard errors. Without
    enough rows, with a score that takes too long, or with parameters that only Anomaly Shapley has, nothing
    is tried, and the words say so.
    """
    first = Trial(explainer_card(FIRST), dict(params), "")
    reason = _why_not(score, ordinary, params)
    if reason is None:
        try:
            return _chosen(score, ordinary, params)
        except _TooLong as slow:
            reason = str(slow)
        except InvalidInput as error:  # no cell can be moved, or moved rows are none that the model takes
            reason = f"ordinary rows could not be changed ({error})"
    return replace(
        first, words=f"automatically: the first of those for any score; others were not tried: {reason}"
    )


class _TooLong(Exception):
    """The trial would take longer than it may."""


def _why_not(score: ScoreFunction, ordinary: Kept, params: Mapping[str, Any]) -> str | None:
    """Say why nothing is to be tried; None where it is."""
    cls = explainer_card("KernelShap").cls
    others = sorted(set(params) - set(inspect.signature(cls.__init__).parameters))
    if others:
        return f"they have no {', '.join(others)}"
    rows = ordinary.rows
    if np.ndim(rows) != 2 or len(getattr(score, "feature_shape", None) or (1,)) > 1:
        return "rows are no tables"
    n = np.shape(rows)[0]
    if n < N_MOVED + LEAST_ROWS:
        return f"{n} ordinary rows are fewer than the {N_MOVED + LEAST_ROWS} that it takes"
    expected = _seconds_expected(score, rows)
    return None if expected <= SECONDS else _too_long(expected)


def _too_long(seconds: float) -> str:
    return f"that would take about {seconds:.0f} s, and {SECONDS:g} s are allowed"


def _seconds_expected(score: ScoreFunction, rows: Any) -> float:
    """Return what the scores of moved rows take, at least: the rest of the work is timed later."""
    n_scores = N_MOVED * _n_sets(rows) * (2 * _REFERENCES + 1)
    each = _seconds_each(score, rows, _FEW_SCORED)
    if each * _MANY_SCORED < SECONDS / 4 and each * n_scores > SECONDS / 4:
        each = _seconds_each(score, rows, _MANY_SCORED)
    return each * n_scores


def _n_sets(rows: Any) -> int:
    """Return how many sets of columns are tried for a row."""
    return 2 * int(np.shape(rows)[1]) + _SETS


def _seconds_each(score: ScoreFunction, rows: Any, n: int) -> float:
    """Return the time of one score among n; the faster of two calls, for the first may prepare something."""
    some = take_rows(rows, np.arange(n) % np.shape(rows)[0])
    times = []
    for _ in range(2):
        start = time.perf_counter()
        score.value(some)
        times.append(time.perf_counter() - start)
        if times[0] > SECONDS / 4:
            break
    return min(times) / n


def _chosen(score: ScoreFunction, ordinary: Kept, params: Mapping[str, Any]) -> Trial:
    """Try the methods on rows that they have not learned from, which would be found among the nearest."""
    from tellwhy.evaluation import choose_by_injection  # loads much, which other methods do without

    rng = generator(params.get("random_state", 0))
    n = np.shape(ordinary.rows)[0]
    drawn = random_sample(n, N_MOVED + MOST_ROWS, rng)
    rng.shuffle(drawn)
    moved = take_rows(ordinary.rows, np.sort(drawn[:N_MOVED]))
    others = take_rows(ordinary.rows, np.sort(drawn[N_MOVED:]))
    made = {}
    for name, (method, own) in CANDIDATES.items():
        few = {"n_coalitions": _n_sets(others), **params, **own}
        made[name] = explainer_card(method).cls(score, **few).fit(others)
    _check_time(made, moved)
    choice = choose_by_injection(made, moved, rng, n_rows=N_MOVED)
    method, own = CANDIDATES[choice.best]
    most = None if choice.best == FIRST else MOST_ROWS
    return Trial(explainer_card(method), {**params, **own}, _words(choice), most)


def _check_time(made: Mapping[str, Any], moved: Any) -> None:
    """Raise where two rows say that fifty take too long."""
    expected = 0.0
    for explainer in made.values():
        # The first call may load compiled loops, which is no part of what a row takes.
        for n in (1, _PILOT):
            start = time.perf_counter()
            explainer.explain(take_rows(moved, np.arange(n)))
            seconds = time.perf_counter() - start
            if seconds > SECONDS:
                break
        expected += seconds * N_MOVED / n
        if expected > SECONDS:
            raise _TooLong(_too_long(expected))


def _words(choice: Choice) -> str:
    """Say what was tried and found."""
    means = ", ".join(f"{name} {mean:.2f}" for name, mean in choice.means.items())
    verdict = "of the three" if choice.best != FIRST else "for no other is better beyond doubt"
    return (
        f"automatically: {choice.best}, {verdict}. One cell was moved in each of {N_MOVED} of the ordinary "
        f"rows; mean reciprocal rank of its column: {means}"
    )
