"""Which explainer to trust on this model and data: one table of measurements, with intervals.

Tables are measured on anomalies made on purpose, and on what of a score no value of an explanation accounts
for; networks and models of pictures on regions that are taken away.
"""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.arrays import take_rows
from tellwhy.core.errors import InvalidParameter
from tellwhy.core.explainer import Explains, LearnsFromRows
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import measure_unattributed_share
from tellwhy.core.params import Seed, generator, integer, real, seed, simplify_name, validate_value
from tellwhy.core.progress import stage, track
from tellwhy.core.registry import card, cards
from tellwhy.core.score import Floats, ScoreFunction
from tellwhy.evaluation.flipping import flipping
from tellwhy.evaluation.injection import (
    Mask,
    inject_anomalies,
    is_frame,
    numbers_of,
)
from tellwhy.evaluation.localisation import localisation
from tellwhy.evaluation.region_flipping import RegionFlipping, region_flipping
from tellwhy.evaluation.removal import irof, road
from tellwhy.scoring import NetworkOutput, as_score
from tellwhy.scoring.moved_columns import find_binary_columns, measure_column_scales

if TYPE_CHECKING:
    import pandas as pd


CHECKS: dict[str, Callable[..., RegionFlipping]] = {"flipping": region_flipping, "irof": irof, "road": road}
CHANCE = "(random order)"


@dataclass(frozen=True)
class Pictures:
    """What every method explains, and how its explanations are judged."""

    model: Any
    X: Any
    background: Any
    target: Any
    seed: int
    confidence: float


def rank(entries: Sequence[tuple[str, Any]], asked: Pictures) -> pd.DataFrame:
    """Explain pictures with several methods, take regions away in their orders, and rank them.

    `entries` are labels and explainers: instances, or classes.
    """
    import pandas as pd

    shown = track(entries, len(entries), "comparing methods")
    lines = [_line(label, partial(_judge_pictures, entry, asked)) for label, entry in shown]
    chance = next((line["chance"] for line in lines if "chance" in line), None)
    if chance is not None:
        lines.append({"method": CHANCE, **chance, "note": "what is left to chance"})
    columns = ["method"]
    for check in CHECKS:
        columns += [check, f"{check}_low", f"{check}_high"]
    table = pd.DataFrame(lines).reindex(columns=[*columns, "unattributed", "seconds_per_row", "note"])
    return table.sort_values("flipping", kind="stable", na_position="last", ignore_index=True)


def _judge_pictures(entry: Any, asked: Pictures) -> dict[str, Any]:
    """Explain pictures by one method, and take regions away in the order that it gives."""
    explainer = _make_ready(entry, asked)
    needs_rows = getattr(explainer, "needs_rows", True)
    explanation, seconds = _explain(explainer, asked.X, asked.background if needs_rows else None)
    curves = {name: _checked(check, explanation, asked) for name, check in CHECKS.items()}
    areas = {name: found.areas for name, found in curves.items()}
    chance = {name: found.random.areas for name, found in curves.items() if found.random is not None}
    return {
        **_measure_means(areas, asked),
        "unattributed": measure_unattributed_share(explanation),
        "seconds_per_row": seconds,
        "note": "",
        "chance": _measure_means(chance, asked),
    }


def _make_ready(entry: Any, asked: Pictures) -> Any:
    """An explainer that can be used at once."""
    if not isinstance(entry, type):
        return copy.copy(entry)  # the user's own is not fitted again
    taken = inspect.signature(entry).parameters
    given: dict[str, Any] = {"random_state": asked.seed} if "random_state" in taken else {}
    model = asked.model
    target = asked.target
    if "target" in taken:
        return entry(model, **given) if target is None else entry(model, target=target, **given)
    is_network = target is not None or isinstance(as_score(model), NetworkOutput)
    whole = NetworkOutput(model, "max" if target is None else target) if is_network else model
    return entry(model if isinstance(model, NetworkOutput) else whole, **given)


def _checked(
    check: Callable[..., RegionFlipping], explanation: Explanation, asked: Pictures
) -> RegionFlipping:
    sizes = [n for n in np.shape(asked.X)[1:] if n > 4]
    settings: dict[str, Any] = {"target": asked.target, "random_state": asked.seed}
    if check is region_flipping:  # about as many regions as IROF has segments
        settings["patch_size"] = max(1, round(min(sizes or [8]) / 8))
    return check(explanation, asked.model, **settings)


def _measure_means(areas: dict[str, Floats], asked: Pictures) -> dict[str, float]:
    """Means, each with a bootstrap interval over pictures; the same resamples for every method."""
    found: dict[str, float] = {}
    for name, per_row in areas.items():
        known = per_row[np.isfinite(per_row)]
        found[name] = float(known.mean()) if len(known) else float("nan")
        low, high = _resample_interval(per_row[None], asked.seed, asked.confidence)
        found[f"{name}_low"] = low
        found[f"{name}_high"] = high
    return found


COLUMNS = (
    "method",
    "mrr",
    "mrr_low",
    "mrr_high",
    "hits@3",
    "auroc",
    "flipping",
    "flipping_low",
    "flipping_high",
    "unattributed",
    "seconds_per_row",
    "note",
)
RESAMPLES = 1_000


@dataclass(frozen=True)
class _Trial:
    """The anomalies that every method explains, and how its explanations are judged.

    Attributes
    ----------
    score
        What is explained.
    X
        The anomalies: all normal rows made odd once, then all of them again, and so on.
    truth
        The cells of X that were changed.
    n_rows
        Number of normal rows.
    background
        Normal rows, for methods that learn from them and for flipping.
    seed
        For explainers that take one, and for the resamples of the intervals.
    confidence
        Of the intervals.
    """

    score: ScoreFunction
    X: Any
    truth: Mask
    n_rows: int
    background: Any
    seed: int
    confidence: float


def compare(
    explainers: Sequence[Explains | type | str] | Mapping[str, Explains | type | str],
    model: object,
    X: Any,
    *,
    n_features: int = 1,
    n_repeats: int = 2,
    background: Any = None,
    target: Any = None,
    random_state: Seed = 0,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Explain injected anomalies with several methods, and measure how well each one does.

    Each normal row is made odd `n_repeats` times in `n_features` random features (see `inject_anomalies`;
    units and binary columns are those of the background). All methods explain the same rows.

    Pictures, and other inputs of two axes or more, are explained as they are; nothing is injected. Regions,
    segments and pixels are then taken away in the order of each explanation: lines are ranked by `flipping`
    (see `region_flipping`; lower is better), beside `irof` and `road`, and one line holds what random orders
    give.

    Parameters
    ----------
    explainers
        Explainers ready to use, classes (called with the model), or names of registered explainers; a mapping
        gives them labels. Those with a `fit` method are fitted on the background: a copy, not the one that
        was passed in.
    model
        The model to explain.
    X
        Normal rows.
    n_features
        How many features of each row are made odd.
    n_repeats
        How often each row is made odd.
    background
        Normal rows for explainers that need them and for flipping of scores without support points; X by
        default.
    target
        Of pictures: the output of a network that is explained, as in `LRP`.
    random_state
        Seed of the anomalies, of the explainers that take one, and of the intervals.
    confidence
        Of the intervals.

    Returns
    -------
    pandas.DataFrame
        One line per method, highest mean reciprocal rank first: `mrr`, `hits@3`, `auroc` (see
        `localisation`), `flipping` (mean normalised area, lower is better; where features are replaced, by
        the same background values for every method), `unattributed` (median |residual| / |score − base|, for
        attributions), `seconds_per_row` (after a first row that is not timed) and `note`: why a method did
        not apply, its numbers then being NaN. `…_low` and `…_high` bound a bootstrap percentile interval:
        1,000 resamples of the normal rows, each with all its repeats, since repeats of a row are not
        independent. With a single row there is no interval.

    Examples
    --------
    >>> from tellwhy.detectors import OneClassSVM
    >>> from tellwhy.explainers import OneClassDTD
    >>> X = np.random.default_rng(0).normal(size=(150, 4))
    >>> table = compare([OneClassDTD], OneClassSVM().fit(X[:100]), X[100:])
    >>> table.loc[0, "method"], bool(table.loc[0, "mrr_low"] > 0.52)  # by chance: 0.52
    ('OneClassDTD', True)
    """
    validate_value("compare", "n_repeats", n_repeats, integer(1))
    validate_value("compare", "random_state", random_state, seed)
    validate_value("compare", "confidence", confidence, real(0, 1))
    entries = _entries(explainers)
    background = X if background is None else background
    if np.ndim(X) > 2 and not is_frame(X):
        _refuse_injection(n_features, n_repeats)
        asked_seed = int(generator(random_state).integers(2**31))
        asked = Pictures(model, X, background, target, asked_seed, float(confidence))
        return rank(entries, asked)
    trial = _run_trial(
        as_score(model),
        X,
        background,
        n_features=n_features,
        n_repeats=int(n_repeats),
        random=generator(random_state),
        confidence=float(confidence),
    )
    entries_shown = track(entries, len(entries), "comparing methods")
    return _table([_line(label, partial(_judge_rows, entry, model, trial)) for label, entry in entries_shown])


def _refuse_injection(n_features: int, n_repeats: int) -> None:
    if (n_features, n_repeats) != (1, 2):
        raise InvalidParameter(
            "compare injects no anomalies into pictures: leave n_features and n_repeats out."
        )


def _entries(explainers: Any) -> list[tuple[str, Any]]:
    """Label and explainer (an instance or a class) of each entry; a single explainer is a list of one."""
    if isinstance(explainers, Mapping):
        return [(str(label), _found(entry)) for label, entry in explainers.items()]
    is_single = isinstance(explainers, (str, type, Explains))
    found = [_found(entry) for entry in ([explainers] if is_single else explainers)]
    return [(entry.__name__ if isinstance(entry, type) else type(entry).__name__, entry) for entry in found]


def _found(entry: Any) -> Any:
    """Return an explainer, or an explainer class, that was given as such or by its registered name."""
    if isinstance(entry, str):
        for role in ("explainer", "network explainer"):
            if any(simplify_name(known.name) == simplify_name(entry) for known in cards(role)):
                return card(role, entry).cls
        return card("explainer", entry).cls
    if not isinstance(entry, Explains):
        raise InvalidParameter(
            f"compare takes explainers, explainer classes or their names. Got {entry!r}, which has no "
            "`explain`."
        )
    return entry


def _run_trial(
    score: ScoreFunction,
    X: Any,
    background: Any,
    *,
    n_features: int,
    n_repeats: int,
    random: np.random.Generator,
    confidence: float,
) -> _Trial:
    rows = X if is_frame(X) else np.asarray(X)
    numbers = numbers_of(background)
    many = take_rows(rows, np.tile(np.arange(len(rows)), n_repeats))  # `_measure` relies on this order
    odd, truth = inject_anomalies(
        many, n_features, random, scale=measure_column_scales(numbers), binary=find_binary_columns(numbers)
    )
    # Rows that the model cannot score fail here, once and with their reason, not in every line of the table.
    score.value(take_rows(odd, np.arange(1)))
    return _Trial(score, odd, truth, len(rows), background, int(random.integers(2**31)), confidence)


def _line(label: str, judge: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """One line of the table: measurements, or the reason why there are none."""
    stage("comparing methods:", label)  # some take many seconds before the next step is counted
    try:
        return {"method": label, **judge()}
    except Exception as error:
        # One method's failure must not cost the others' results: the table tells the reason.
        return {"method": label, "note": f"{type(error).__name__}: {error}"}


def _judge_rows(entry: Any, model: Any, trial: _Trial) -> dict[str, Any]:
    """Explain injected anomalies by one method, and measure how well it does."""
    if isinstance(entry, type):
        seeded = "random_state" in inspect.signature(entry).parameters
        explainer = entry(model, **({"random_state": trial.seed} if seeded else {}))
    else:
        explainer = copy.copy(entry)  # the user's own is not fitted again
    explanation, seconds = _explain(explainer, trial.X, trial.background)
    return {**_measure(explanation, trial), "seconds_per_row": seconds, "note": ""}


def _explain(explainer: Any, X: Any, background: Any) -> tuple[Explanation, float]:
    """Explain all rows; also the seconds that each of them took. Without background nothing is learned."""
    if background is not None and isinstance(explainer, LearnsFromRows):
        explainer.fit(background)
    # One row first: it compiles and caches what all others reuse, which would count as their time otherwise.
    explainer.explain(take_rows(X, np.arange(1)))
    started = time.perf_counter()
    explanation: Explanation = explainer.explain(X)
    return explanation, (time.perf_counter() - started) / len(X)


def _measure(explanation: Explanation, trial: _Trial) -> dict[str, float]:
    found = localisation(explanation, trial.truth, k=3)
    flipped = flipping(explanation, trial.score, background=trial.background)
    of_rows = (-1, trial.n_rows)  # (repeats, normal rows), the order of `_Trial.X`
    asked = (trial.seed, trial.confidence)
    mrr_low, mrr_high = _resample_interval(found.reciprocal_ranks.reshape(of_rows), *asked)
    flipping_low, flipping_high = _resample_interval(flipped.areas.reshape(of_rows), *asked)
    return {
        "mrr": found.mrr,
        "mrr_low": mrr_low,
        "mrr_high": mrr_high,
        "hits@3": found.hits,
        "auroc": found.auroc,
        "flipping": flipped.area,
        "flipping_low": flipping_low,
        "flipping_high": flipping_high,
        "unattributed": measure_unattributed_share(explanation),
    }


def _resample_interval(by_row: Floats, seed: int, confidence: float) -> tuple[float, float]:
    """Percentile bootstrap over rows, each with all its repeats; the same resamples for every method.

    `by_row` has shape (repeats, rows). Repeats of a row are alike, so that resampling each of them by itself
    would make the interval too narrow.
    """
    known = np.isfinite(by_row)
    sums = np.where(known, by_row, 0.0).sum(axis=0)
    counts = known.sum(axis=0)
    if (counts > 0).sum() < 2:
        return float("nan"), float("nan")
    drawn = np.random.default_rng(seed).integers(len(sums), size=(RESAMPLES, len(sums)))
    kept = counts[drawn].sum(axis=1)
    means = sums[drawn].sum(axis=1)[kept > 0] / kept[kept > 0]
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _table(lines: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    table = pd.DataFrame(lines, columns=list(COLUMNS))
    numbers = [name for name in COLUMNS if name not in ("method", "note")]
    table = table.astype(dict.fromkeys(numbers, np.float64))
    return table.sort_values("mrr", ascending=False, kind="stable", na_position="last", ignore_index=True)
