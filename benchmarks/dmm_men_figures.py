"""The published figures of DMM-MEN on images: patterns of classes and components, and inputs made from them."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from _results import machine

from _dmm_men import Clock, Results, Work, trained, work_off
from _dmm_men_patterns import file_of, fit_class
from tellwhy.explainers import DMMMEN


def fits(settings: argparse.Namespace, results: Results) -> None:
    """Fit the classes that have no file yet, for as long as there is time."""
    for name in settings.sets:
        trained(name, settings.cache)
    how = (settings.rows, settings.pixels, settings.sweeps, settings.chains)
    waiting: list[Work] = []
    for target in range(settings.classes):
        for name in settings.sets:
            if not file_of(settings.cache, name, target).exists():
                arguments = (name, str(settings.cache), target, *how)
                waiting.append((f"fit:{name}:{target}", fit_class, arguments))
    if waiting:
        _compile()
    clock = Clock(settings.minutes)
    left = work_off(waiting, results, clock, workers=settings.workers, place=machine())
    print(f"{left} classes left for want of time", flush=True)


def _compile() -> None:
    """Compile what fits need, once: the workers read it."""
    X = np.random.default_rng(0).normal(size=(40, 3))
    DMMMEN(lambda rows: rows[:, 0], n_components=2, n_sweeps=8, n_burn=8, n_jobs=1).fit(X)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("dmm-men-cache"), help="networks and results")
    parser.add_argument("--sets", nargs="+", default=["mnist", "fashion"])
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1600, help="the most images of a class")
    parser.add_argument(
        "--pixels", type=int, help="use only so many pixels, the most correlated; default: all"
    )
    parser.add_argument("--sweeps", type=int, default=300, help="of each chain, after as many of burn-in")
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9, help="start no new fit after this time")
    chosen = parser.parse_args()
    fits(chosen, Results(chosen.cache / "figures.jsonl"))


if __name__ == "__main__":
    main()
