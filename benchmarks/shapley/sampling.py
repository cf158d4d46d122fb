"""Claim: with equal calls, Shapley values of drawn sets of columns are nearer the truth than shap's and shapiq's.

A call is the worth of one set. Games are models of seven kinds, a row against one reference row, whose values are known
exactly (trees and one-class SVMs in closed form, others by all sets up to 16 columns, by 40,000 orders beyond). The
relative error is ‖φ − exact‖/‖exact‖, the mean over games of a kind and seeds. Needs shapiq.
"""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import shap
import shapiq
from sklearn.exceptions import ConvergenceWarning

from benchmarks.shapley._games import Game, games
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.explainers.shapley.shapley_values import choose_coalitions, shapley_values

Estimator = Callable[[Game, int, int], np.ndarray]
TIED = 1.1  # times the least error
CHOSEN = (
    "Sizes of sets, the grid of the noise and when pairs are too many were chosen on generated games of the same kinds: "
    "this is no blind test."
)


def ends(game: Game, p: int) -> tuple[np.ndarray, np.ndarray]:
    return game.worth(np.zeros((1, p), dtype=bool)), game.worth(np.ones((1, p), dtype=bool))


def ours(game: Game, budget: int, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    p = len(game.exact)
    sets = choose_coalitions(p, budget - 2, np.random.default_rng(seed))
    found = shapley_values(sets, game.worth(sets.members)[None], *ends(game, p))
    return found.values[0], None if found.stderr is None else found.stderr[0]


def by_shapiq(name: str, **settings: object) -> Estimator:
    def estimate(game: Game, budget: int, seed: int) -> np.ndarray:
        p = len(game.exact)
        method = getattr(shapiq.approximator, name)(n=p, random_state=seed, **settings)
        found = method.approximate(
            budget, lambda members: game.worth(np.atleast_2d(np.asarray(members, dtype=bool)))
        )
        return np.array([found[(i,)] for i in range(p)])

    return estimate


def as_model(game: Game) -> Callable[[np.ndarray], np.ndarray]:
    return lambda rows: game.worth(np.asarray(rows) > 0.5)


def shap_kernel(game: Game, budget: int, seed: int) -> np.ndarray:
    np.random.seed(seed)  # noqa: NPY002  (shap draws from numpy's own numbers)
    p = len(game.exact)
    explainer = shap.KernelExplainer(as_model(game), np.zeros((1, p)))
    return explainer.shap_values(np.ones((1, p)), nsamples=budget, l1_reg=False, silent=True)[0]


def shap_permutation(game: Game, budget: int, seed: int) -> np.ndarray:
    p = len(game.exact)
    masker = shap.maskers.Independent(np.zeros((1, p)))
    explainer = shap.PermutationExplainer(as_model(game), masker, seed=seed)
    return explainer(np.ones((1, p)), max_evals=max(budget, 2 * p + 1), silent=True).values[0]


def shap_sampling(game: Game, budget: int, seed: int) -> np.ndarray:
    np.random.seed(seed)  # noqa: NPY002
    p = len(game.exact)
    explainer = shap.SamplingExplainer(as_model(game), np.zeros((1, p)))
    return explainer.shap_values(np.ones((1, p)), nsamples=budget, silent=True)[0]


PEERS: dict[str, Estimator] = {
    "shapiq KernelSHAP": by_shapiq("KernelSHAP", pairing_trick=True),
    "shapiq k-additive": by_shapiq("kADDSHAP", max_order=2, pairing_trick=True),
    "shapiq k-additive, no pairs": by_shapiq("kADDSHAP", max_order=2),
    "shapiq SVARM": by_shapiq("SVARM"),
    "shapiq permutations": by_shapiq("PermutationSamplingSV"),
    "shapiq ProxySPEX": by_shapiq("ProxySPEX", index="SV", max_order=1),
    "shap Kernel": shap_kernel,
    "shap Permutation": shap_permutation,
    "shap Sampling": shap_sampling,
}


def error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def measure(columns: list[int], budgets: list[int], n_games: int) -> pd.DataFrame:
    """One line for each kind of game, number of columns and budget."""
    lines = []
    for p in columns:
        kinds: dict[str, list[Game]] = defaultdict(list)
        for seed in range(n_games):
            for game in games(p, seed):
                kinds[game.name].append(game)
        for name, several in kinds.items():
            for budget in budgets:
                if 2 * p + 4 <= budget < 2**p:
                    lines.append({"model": name, "columns": p, "calls": budget, **compare(several, budget)})
                    print(json.dumps(lines[-1]), flush=True)
    return pd.DataFrame(lines)


def read(logs: list[str]) -> pd.DataFrame:
    """Lines that were printed before; of the same line in several logs the last one counts."""
    written = [line for log in logs for line in Path(log).read_text(encoding="utf-8").splitlines()]
    lines = [json.loads(line) for line in written if line.startswith("{")]
    return pd.DataFrame({(d["model"], d["columns"], d["calls"]): d for d in lines}.values())


def compare(several: list[Game], budget: int) -> dict[str, float]:
    """Mean relative error of each estimator, and how often 1.96 of our standard errors cover the truth."""
    errors: dict[str, list[float]] = defaultdict(list)
    covered = []
    for seed, game in enumerate(several):
        values, stderr = ours(game, budget, seed)
        errors["tellwhy"].append(error(values, game.exact))
        if stderr is not None:
            covered.append(np.abs(values - game.exact) <= 1.96 * stderr)
        for name, estimate in PEERS.items():
            errors[name].append(attempt(estimate, game, budget, seed))
    means = {name: float(np.mean(each)) for name, each in errors.items()}
    return {**means, "covered": float(np.mean(covered)) if covered else float("nan")}


def attempt(estimate: Estimator, game: Game, budget: int, seed: int) -> float:
    """The error of a peer; infinite where it has no answer for so few calls."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return error(estimate(game, budget, seed), game.exact)
    except (ValueError, ZeroDivisionError, np.linalg.LinAlgError):
        return float("inf")


def sum_up(found: pd.DataFrame) -> pd.DataFrame:
    """For each budget: where ours is first or tied, its error beside the best peer's, and coverage."""
    lines = []
    for calls, part in found.groupby("calls"):
        best = part[[name for name in PEERS if name in part]].min(axis=1)
        lines.append(
            {
                "calls": calls,
                "games": len(part),
                "first": int((part["tellwhy"] <= best).sum()),
                "first or tied": int((part["tellwhy"] <= TIED * best).sum()),
                "best peer's error over ours, median": float((best / part["tellwhy"]).median()),
                "least": float((best / part["tellwhy"]).min()),
                "covered by 1.96 standard errors": float(part["covered"].mean()),
            }
        )
    return pd.DataFrame(lines)


def main() -> None:
    given = arguments(
        __doc__,
        "note",
        kept=option([""], "logs of earlier runs, whose lines the page is written of"),
        columns=option([12, 16, 30, 60], "numbers of columns"),
        calls=option([100, 300, 1000, 3000, 10_000], "budgets"),
        games=option(3, "games of each kind"),
    )
    warnings.filterwarnings("ignore", category=ConvergenceWarning)  # of the network, which need not be good
    found = read(given.kept) if given.kept != [""] else measure(given.columns, given.calls, given.games)
    publish(
        "sampling",
        "Shapley values of drawn sets",
        [
            (
                f"{given.note} {CHOSEN}\n\nKinds of models and numbers of columns where tellwhy's error is the least, "
                f"or within {TIED - 1:.0%} of the least, of all estimators with the same calls:",
                sum_up(found),
            ),
            (f"Relative errors, means over {given.games} games; ∞: no answer for so few calls:", found),
        ],
        peers=("shap", "shapiq"),
    )


if __name__ == "__main__":
    main()
