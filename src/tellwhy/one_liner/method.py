"""The method that was named, the cheapest, or the best of several tried.

The method: by its name, by its class, as an explainer that is already made, or chosen automatically.

Methods for any score, tried on cells that are moved in the user's own ordinary rows.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.arrays import draw_sample, take_rows
from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.explainer import Explains
from tellwhy.core.old_names import update_names_and_warn
from tellwhy.core.params import generator, nearest, simplify_name
from tellwhy.core.registry import Card, card, card_of, cards, find_explainer
from tellwhy.core.score import HasGradient, HasMixture, IsPrediction, ScoreFunction
from tellwhy.one_liner.background import LEAST_ROWS
from tellwhy.one_liner.known_names import SHAPLEY
from tellwhy.scoring import EncodedScore, NetworkOutput
from tellwhy.scoring.reference_rows import SourcedRows

if TYPE_CHECKING:
    from tellwhy.evaluation import Choice


AUTO = "auto"
OWN = ("ask", "background", "method", "output", "progress", "target", "task")  # what `explain` takes itself


def find_card(method: object) -> Card | None:
    """Return the card of a method given by name or class; None for a rule, and for an explainer itself."""
    if isinstance(method, str):
        return None if simplify_name(method) in (AUTO, TRIED, *SHAPLEY) else find_explainer(method)
    if isinstance(method, type):
        return _make_card(method)
    if isinstance(method, Explains):
        return None
    raise InvalidParameter(
        "method must be the name of an explainer (tellwhy.methods() lists them), its class, or one that is "
        f"already made. Got {method!r} instead."
    )


def _make_card(cls: type) -> Card:
    """Return the card of a class; one that was never registered gets a card of its own."""
    known = card_of(cls)
    if known is not None:
        return known
    if not callable(getattr(cls, "explain", None)):
        raise InvalidParameter(
            f"method={cls.__name__} is not an explainer: it has no explain(X). tellwhy.methods() lists them."
        )
    return Card(cls.__name__, "explainer", "", "", "", "", "", cls)


def choose_card(score: ScoreFunction, method: str, *, n_columns: int = 0) -> Card:
    """Return the explainer of that name; for 'auto' the first that applies, the cheapest first.

    Shapley values by sets take seconds a row where there are many columns: then it is integrated gradients,
    or of scores without a gradient occlusion, whose residual says what columns do together.
    For 'shap' it is the first of those that give exact Shapley values of the score, else `KernelShap`.
    """
    if simplify_name(method) in SHAPLEY:
        exact = [card("explainer", name) for name in ("TreeShapley", "LinearShapley")]
        seen = _find_inner(score)
        return next(
            (c for c in exact if c.applies is not None and c.applies(seen)), card("explainer", "KernelShap")
        )
    if method != AUTO:
        return card("explainer", method)
    if isinstance(score, NetworkOutput):  # explained from zero; what is missing is stated
        return card("explainer", "IntegratedGradients")
    seen = _find_inner(score)
    for candidate in list_considered():
        if candidate.applies is not None and candidate.applies(seen):
            is_slow = n_columns > WIDE and candidate.name in (FIRST, "KernelShap")
            return _choose_for_wide(seen) if is_slow else candidate
    raise UnsupportedModel(f"No explainer applies to {score.describes}.")


def _choose_for_wide(score: Any) -> Card:
    """Return the method for scores of many columns."""
    return card("explainer", "IntegratedGradients" if isinstance(score, HasGradient) else "Occlusion")


def is_mixture(score: ScoreFunction) -> bool:
    """Whether a score is the energy of a Gaussian mixture, whose cells are wrong with known probability."""
    seen: Any = _find_inner(score)
    return isinstance(seen, HasMixture) and seen.mixture.means.shape[1:] == tuple(seen.feature_shape or ())


def _find_inner(score: ScoreFunction) -> Any:
    """The score below an encoding that keeps columns apart, which says what methods apply."""
    return score.inner if isinstance(score, EncodedScore) and score.owner is not None else score


def list_considered() -> list[Card]:
    """The methods that `method="auto"` considers, the cheapest first; of equally cheap ones by name."""
    return sorted((c for c in cards("explainer") if c.automatic is not None), key=lambda c: c.automatic or 0)


def make_explainer(chosen: Card, model: object, params: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return an explainer of a model, and those of the parameters that its `explain` takes."""
    params = update_names_and_warn(chosen.cls, params)
    taken = list(inspect.signature(chosen.cls.__init__).parameters)[2:]  # after the explainer and the model
    at_explain = list(inspect.signature(chosen.cls.explain).parameters)[2:]
    for name in params:
        if name not in taken and name not in at_explain:
            _refuse_parameter(chosen, name, [*taken, *at_explain])
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


def add_background(chosen: Card, params: Mapping[str, Any], background: Any) -> dict[str, Any]:
    """Return the parameters with the background, for a method that takes it when it is made."""
    takes = "background" in inspect.signature(chosen.cls.__init__).parameters
    is_learned = isinstance(chosen.cls, type) and hasattr(chosen.cls, "fit")
    return {**params, "background": background} if takes and not is_learned else dict(params)


def _refuse_parameter(chosen: Card, name: str, taken: list[str]) -> None:
    method = chosen.name
    if hasattr(chosen.cls, "_answer_unknown"):  # it may know what is meant
        chosen.cls._answer_unknown(name)
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
TRIED = "tried"  # the name that asks for a trial
BLAME = "blame"  # the question for the cell that is wrong
WIDE = 500  # columns above which sets of them take more than a second a row
OF_WIDE: dict[str, dict[str, Any]] = {"Occlusion": {"max_background": 10}}  # settings of it there
N_MOVED = 50  # rows, one cell moved in each
MOST_ROWS = 5_000  # that reference rows are looked for in: more cost time, and tell hardly more
_SETS = 256  # of columns, besides two for each column: enough to see which column is first

CANDIDATES: dict[str, tuple[str, dict[str, object]]] = {
    FIRST: (FIRST, {}),
    "KernelShap(baseline='neighbours')": ("KernelShap", {"baseline": "neighbours"}),
    "KernelShap": ("KernelShap", {"baseline": "kmeans"}),
}


@dataclass(frozen=True)
class Trial:
    """The method to take, with its parameters, and what to say of the choice."""

    card: Card
    params: dict[str, Any]
    words: str
    most_rows: int | None = None  # ordinary rows that it learns from, at most


def try_methods(score: ScoreFunction, ordinary: SourcedRows, params: Mapping[str, Any]) -> Trial:
    """Return which of three methods for any score to take, by anomalies made from ordinary rows.

    One cell is moved in each of 50 rows; the methods learn from the other rows and rank the columns. Anomaly
    Shapley is taken unless another one ranks the moved cells better by more than two standard errors.
    """
    _check_trial(score, ordinary, params)
    try:
        return _choose_by_trial(score, ordinary, params)
    except InvalidInput as error:  # no cell can be moved, or moved rows are none that the model takes
        raise InvalidInput(
            f"Methods cannot be tried on these ordinary rows: {error} Leave method='tried' out."
        ) from error


def _check_trial(score: ScoreFunction, ordinary: SourcedRows, params: Mapping[str, Any]) -> None:
    """Raise where nothing can be tried."""
    if isinstance(score, IsPrediction):
        raise InvalidParameter(
            f"method='tried' moves cells of ordinary rows to see which method names them, and "
            f"{score.describes} is a prediction, not an anomaly score. Leave the method out."
        )
    cls = find_explainer("KernelShap").cls
    others = sorted(set(params) - set(inspect.signature(cls.__init__).parameters))
    if others:
        raise InvalidParameter(
            f"method='tried' compares methods, and not all have the parameter {others[0]!r}. Leave it out, "
            f"or pass method={FIRST!r}."
        )
    rows = ordinary.rows
    if np.ndim(rows) != 2 or len(getattr(score, "feature_shape", None) or (1,)) > 1:
        raise InvalidInput("method='tried' moves cells of tables, and these rows are none. Name a method.")
    n = np.shape(rows)[0]
    if n < N_MOVED + LEAST_ROWS:
        raise InvalidInput(
            f"method='tried' needs {N_MOVED + LEAST_ROWS} ordinary rows, {N_MOVED} of which it changes. "
            f"Got {n}. Pass more as background=…, or leave the method out."
        )


def _choose_by_trial(score: ScoreFunction, ordinary: SourcedRows, params: Mapping[str, Any]) -> Trial:
    """Try the methods on rows that they have not learned from, which would be found among the nearest."""
    from tellwhy.evaluation import choose_by_injection  # loads much, which other methods do without

    rng = generator(params.get("random_state", 0))
    n = np.shape(ordinary.rows)[0]
    drawn = draw_sample(n, N_MOVED + MOST_ROWS, rng)
    rng.shuffle(drawn)
    moved = take_rows(ordinary.rows, np.sort(drawn[:N_MOVED]))
    others = take_rows(ordinary.rows, np.sort(drawn[N_MOVED:]))
    few = {"n_coalitions": 2 * int(np.shape(others)[1]) + _SETS, **params}
    made = {}
    for name, (method, own) in CANDIDATES.items():
        made[name] = find_explainer(method).cls(score, **few, **own).fit(others)
    choice = choose_by_injection(made, moved, rng, n_rows=N_MOVED)
    method, own = CANDIDATES[choice.best]
    most = None if choice.best == FIRST else MOST_ROWS
    return Trial(find_explainer(method), {**params, **own}, _tell_choice(choice), most)


def _tell_choice(choice: Choice) -> str:
    """Say what was tried and found."""
    means = ", ".join(f"{name} {mean:.2f}" for name, mean in choice.means.items())
    verdict = "of the three" if choice.best != FIRST else "for no other is better beyond doubt"
    return (
        f"by trial: {choice.best}, {verdict}. One cell was moved in each of {N_MOVED} of the ordinary "
        f"rows; mean reciprocal rank of its column: {means}"
    )
