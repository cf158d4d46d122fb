"""What the one-liner found, compared with an oracle: one line of the table of `any_model.py`."""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import NotConverged, TellwhyError

EXACT = 1e-6  # error, as a share of the largest value, below which a result is exact
SINGLE = 1e-4  # the same for libraries that compute in single precision
FIRST = 19  # planted columns, of 20, that must come first


@dataclass(frozen=True)
class Line:
    """One model: what came out, and by which oracle it was checked."""

    family: str
    model: str
    outcome: str  # exact, approximate, refused or wrong
    method: str
    oracle: str
    error: str
    seconds: float

    def cells(self) -> dict[str, Any]:
        """The line as a row of the table."""
        return {
            "family": self.family,
            "model": self.model,
            "outcome": self.outcome,
            "method": self.method,
            "checked by": self.oracle,
            "error or sentence": self.error,
            "seconds": round(self.seconds, 2),
        }


Check = Callable[[Any], tuple[str, str, str]]  # explanation -> outcome, oracle, error
Value = Callable[[np.ndarray], np.ndarray]  # a score, by the model's own library
Lowest = Callable[[np.ndarray, float, tuple[int, ...]], np.ndarray]  # row, γ, kept columns -> minimum nearby


def tried(family: str, name: str, call: Callable[[], Any], check: Check) -> Line:
    """Run the one-liner once, and judge what it gives: an explanation, a sentence, or anything else."""
    started = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = call()
    except TellwhyError as refusal:
        return Line(family, name, "refused", "", "", str(refusal), time.perf_counter() - started)
    except Exception as error:  # what no sentence of ours explains is a defect
        return Line(family, name, "wrong", "", "", f"{type(error).__name__}: {error}", 0.0)
    took = time.perf_counter() - started
    outcome, oracle, error = check(found)
    if any(isinstance(w.message, NotConverged) for w in caught):
        error += "; warned"
    first = (
        found
        if hasattr(found, "method")
        else next(iter(found.values() if isinstance(found, dict) else found))
    )
    return Line(family, name, outcome, first.method, oracle, error, took)


def shapley(
    value: Callable[[Any], np.ndarray], x: Any, background: Any, swap: Callable[..., Any]
) -> np.ndarray:
    """Shapley values by their definition; `swap(background, x, members)` puts cells of x into the background."""
    d = background.shape[1]
    worth = {}
    for size in range(d + 1):
        for members in itertools.combinations(range(d), size):
            worth[members] = float(np.mean(value(swap(background, x, members))))
    values = np.zeros(d)
    for i in range(d):
        for members, gain in worth.items():
            if i not in members:
                weight = (
                    math.factorial(len(members)) * math.factorial(d - len(members) - 1) / math.factorial(d)
                )
                values[i] += weight * (worth[tuple(sorted((*members, i)))] - gain)
    return values


def swap_array(background: np.ndarray, x: np.ndarray, members: tuple[int, ...]) -> np.ndarray:
    """Background rows with some cells of a row."""
    mixed = background.copy()
    mixed[:, list(members)] = x[list(members)]
    return mixed


def swap_frame(background: Any, x: Any, members: tuple[int, ...]) -> Any:
    """Background rows of a frame with some cells of a row, types kept."""
    mixed = background.copy()
    for c in members:
        name = background.columns[c]
        mixed[name] = type(background[name])([x.iloc[c]] * len(mixed), index=mixed.index).astype(
            background[name].dtype
        )
    return mixed


def by_enumeration(
    value: Callable[[int], Callable[[Any], np.ndarray]],
    rows: Any,
    background: Any,
    *,
    tolerance: float = EXACT,
) -> Check:
    """A check against Shapley values by their definition; `value(k)` gives output k of the model."""
    is_frame = hasattr(rows, "columns")

    def check(found: Any) -> tuple[str, str, str]:
        numbers = found.extras["output"] if "output" in found.extras else _places(found)
        worst = 0.0
        for i in range(len(rows)):
            function = value(int(numbers[i]))
            x = rows.iloc[i] if is_frame else rows[i]
            exact = shapley(function, x, background, swap_frame if is_frame else swap_array)
            scale = max(np.abs(exact).max(), 1e-9)
            score = float(np.ravel(function(rows[i : i + 1]))[0])
            base = float(np.mean(function(background)))
            gaps = [np.abs(found.values[i] - exact).max(), abs(found.scores[i] - score)]
            gaps.append(abs(found.base_values[i] - base))
            worst = max(worst, max(gaps) / scale)
        outcome = "exact" if worst < tolerance else "wrong"
        return outcome, "enumeration", f"{worst:.0e}"

    return check


def _places(found: Any) -> np.ndarray:
    """Number of the class of each row, where trees name it; 0 for one output."""
    if "explained" not in found.extras:
        return np.zeros(len(found.scores), dtype=int)
    classes = np.asarray(found.extras["explained"])
    return classes.astype(int) if classes.dtype.kind in "iu" else np.searchsorted(["a", "b", "c"], classes)


def by_planting(truth: np.ndarray, value: Value | None = None, background: Any = None) -> Check:
    """A check of a detector: values add up to its own score, and the planted column comes first.

    With a background, the first two rows are compared with the definition too, its minima found by another
    optimiser: how far that is off is told, not judged, for it searches in another way.
    """

    def check(found: Any) -> tuple[str, str, str]:
        first = int((found.values.argmax(axis=1) == truth).sum())
        rest = "values are no shares"  # relevance beside what is usual of each column
        if found.residual is not None:
            missing = np.abs(found.residual).max() / np.abs(found.scores - found.base_values).max()
            rest = f"{float(missing):.0%} unattributed"
        gap = 0.0 if value is None else float(np.abs(found.scores - value(np.asarray(found.data))).max())
        outcome = "approximate" if first >= FIRST and gap < EXACT else "wrong"
        words = f"first in {first} of 20; {rest}"
        if value is not None and background is not None and "gamma_used" in found.params:
            error = _gap_to_definition(found[:2], value, powell(value, background.std(axis=0)))
            return outcome, "planted columns, definition", f"{words}; {error:.0e} from the definition"
        return outcome, "planted columns", words

    return check


def powell(value: Value, scales: np.ndarray) -> Lowest:
    """Minima of e(y) + γ/|free| Σ ((y − x)/s)² in some columns, by a search without derivatives."""
    from scipy.optimize import minimize

    def lowest(x: np.ndarray, gamma: float, kept: tuple[int, ...]) -> np.ndarray:
        free = np.array([i for i in range(len(x)) if i not in kept])

        def cost(moved: np.ndarray) -> float:
            y = x.copy()
            y[free] = x[free] + moved * scales[free]
            return float(value(y[None])[0]) + gamma * float(np.mean(moved**2))

        found = minimize(cost, np.zeros(len(free)), method="Powell", options={"maxfev": 400})
        y = x.copy()
        y[free] = x[free] + found.x * scales[free]
        return y

    return lowest


def _gap_to_definition(found: Any, value: Value, lowest: Lowest) -> float:
    """Largest difference to `AnomalyShapley` by its definition, as a share of the largest value."""
    worst = 0.0
    for x, values in zip(np.asarray(found.data), found.values, strict=True):
        gamma = found.params["gamma_used"]  # what moving costs, which the explanation tells
        alone = [lowest(x, gamma, ()), *(lowest(x, gamma, (i,)) for i in range(len(x)))]

        def mixed(_b: Any, x: Any, members: tuple[int, ...], alone: Any = alone) -> np.ndarray:
            usual = np.mean([alone[0], *(alone[i + 1] for i in members)], axis=0)
            return swap_array(usual[None], x, members)

        exact = shapley(value, x, np.empty((1, len(x))), mixed)
        worst = max(worst, float(np.abs(values - exact).max() / np.abs(exact).max()))
    return worst


def by_quadratic(mean: np.ndarray, form: np.ndarray, background: np.ndarray) -> Check:
    """A check of `AnomalyShapley` for the score (x − m)ᵀP(x − m), whose minima nearby have a closed form."""

    def value(rows: np.ndarray) -> np.ndarray:
        return np.einsum("ni,ij,nj->n", rows - mean, form, rows - mean)

    scales = background.std(axis=0)

    def lowest(x: np.ndarray, gamma: float, kept: tuple[int, ...]) -> np.ndarray:
        free = np.array([i for i in range(len(x)) if i not in kept])
        y = x.copy()
        if len(free):
            ridge = gamma / len(free) * np.diag(1.0 / scales[free] ** 2)
            y[free] -= np.linalg.solve(form[np.ix_(free, free)] + ridge, (form @ (x - mean))[free])
        return y

    def check(found: Any) -> tuple[str, str, str]:
        worst = _gap_to_definition(found, value, lowest)
        return ("exact" if worst < EXACT else "wrong"), "definition, minima in closed form", f"{worst:.0e}"

    return check
