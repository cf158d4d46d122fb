"""Which explainer of a network, or of any model of pictures, to trust: one table with intervals."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.explainer import LearnsFromRows
from tellwhy.core.explanation import Explanation
from tellwhy.core.progress import stage, track
from tellwhy.core.score_function import Floats
from tellwhy.evaluation.networks.region_flipping import RegionFlipping, region_flipping
from tellwhy.evaluation.networks.removal import irof, road
from tellwhy.evaluation.residuals import unattributed_share
from tellwhy.scoring import NetworkOutput, as_score

if TYPE_CHECKING:
    import pandas as pd

CHECKS: dict[str, Callable[..., RegionFlipping]] = {"flipping": region_flipping, "irof": irof, "road": road}
CHANCE = "(random order)"
RESAMPLES = 1_000


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
    lines = [_line(label, entry, asked) for label, entry in shown]
    chance = next((line["chance"] for line in lines if "chance" in line), None)
    if chance is not None:
        lines.append({"method": CHANCE, **chance, "note": "what is left to chance"})
    columns = ["method"]
    for check in CHECKS:
        columns += [check, f"{check}_low", f"{check}_high"]
    table = pd.DataFrame(lines).reindex(columns=[*columns, "unattributed", "seconds_per_row", "note"])
    return table.sort_values("flipping", kind="stable", na_position="last", ignore_index=True)


def _line(label: str, entry: Any, asked: Pictures) -> dict[str, Any]:
    """One line of the table: measurements, or the reason why there are none."""
    stage(f"comparing methods: {label}")
    try:
        explanation, seconds = _explained(_ready(entry, asked), asked)
        curves = {name: _checked(check, explanation, asked) for name, check in CHECKS.items()}
    except Exception as error:
        # One method's failure must not cost the others' results: the table tells the reason.
        return {"method": label, "note": f"{type(error).__name__}: {error}"}
    areas = {name: found.areas for name, found in curves.items()}
    chance = {name: found.random.areas for name, found in curves.items() if found.random is not None}
    return {
        "method": label,
        **_measured(areas, asked),
        "unattributed": unattributed_share(explanation),
        "seconds_per_row": seconds / len(explanation.values),
        "note": "",
        "chance": _measured(chance, asked),
    }


def _ready(entry: Any, asked: Pictures) -> Any:
    """An explainer that can be used at once."""
    if not isinstance(entry, type):
        return copy.copy(entry)  # the user's own is not fitted again
    taken = inspect.signature(entry).parameters
    given: dict[str, Any] = {"random_state": asked.seed} if "random_state" in taken else {}
    model = asked.model
    target = asked.target
    if "target" in taken:
        return entry(model, **given) if target is None else entry(model, target, **given)
    is_network = target is not None or isinstance(as_score(model), NetworkOutput)
    whole = NetworkOutput(model, "max" if target is None else target) if is_network else model
    return entry(model if isinstance(model, NetworkOutput) else whole, **given)


def _explained(explainer: Any, asked: Pictures) -> tuple[Explanation, float]:
    """Explain all pictures; also the seconds that took, after a first picture that is not timed."""
    if isinstance(explainer, LearnsFromRows) and getattr(explainer, "needs_rows", True):
        explainer.fit(asked.background)
    explainer.explain(asked.X[:1])
    started = time.perf_counter()
    found: Explanation = explainer.explain(asked.X)
    return found, time.perf_counter() - started


def _checked(
    check: Callable[..., RegionFlipping], explanation: Explanation, asked: Pictures
) -> RegionFlipping:
    sizes = [n for n in np.shape(asked.X)[1:] if n > 4]
    settings: dict[str, Any] = {"target": asked.target, "random_state": asked.seed}
    if check is region_flipping:  # about as many regions as IROF has segments
        settings["region"] = max(1, round(min(sizes or [8]) / 8))
    return check(explanation, asked.model, **settings)


def _measured(areas: dict[str, Floats], asked: Pictures) -> dict[str, float]:
    """Means, each with a bootstrap interval over pictures; the same resamples for every method."""
    found: dict[str, float] = {}
    for name, per_row in areas.items():
        known = per_row[np.isfinite(per_row)]
        found[name] = float(known.mean()) if len(known) else float("nan")
        low, high = _interval(per_row, asked)
        found[f"{name}_low"] = low
        found[f"{name}_high"] = high
    return found


def _interval(per_row: Floats, asked: Pictures) -> tuple[float, float]:
    if np.isfinite(per_row).sum() < 2:
        return float("nan"), float("nan")
    drawn = np.random.default_rng(asked.seed).integers(len(per_row), size=(RESAMPLES, len(per_row)))
    some = per_row[drawn]
    counts = np.isfinite(some).sum(axis=1)
    means = np.nansum(some[counts > 0], axis=1) / counts[counts > 0]
    low, high = np.quantile(means, [(1 - asked.confidence) / 2, (1 + asked.confidence) / 2])
    return float(low), float(high)
