"""Anomaly Shapley of a VAE's two scores on a GPU: 10,000 rows of musk, and the processor beside it on some of them.

python -m benchmarks.shapley.anomaly_shapley_gpu --save figures.json      measures, and keeps the figures
python -m benchmarks.shapley.anomaly_shapley_gpu --from figures.json   writes their page
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import time
from copy import copy
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch

from benchmarks.shared.arguments import arguments, option
from tellwhy.data import fetch
from tellwhy.detectors import VAE
from tellwhy.explainers import AnomalyShapley


def many_rows(n: int) -> np.ndarray:
    """Test rows of musk, again and again, each time with a little noise."""
    test = fetch("takeishi_splits_musk")["test"]
    rng = np.random.default_rng(0)
    return np.asarray(test[rng.integers(len(test), size=n)] + 0.01 * rng.normal(size=(n, test.shape[1])))


def network(options: argparse.Namespace) -> VAE:
    """The detector that is saved at `--model`, or a new one."""
    if options.model and options.model.exists():
        return VAE.load(options.model)
    data, started = fetch("takeishi_splits_musk"), time.perf_counter()
    detector = VAE("elbo", device=options.device).fit(np.vstack([data["train"], data["valid"]]))
    print(f"fitted in {time.perf_counter() - started:.0f} s", flush=True)
    if options.model:
        detector.save(options.model)
    return detector


def explainer(detector: VAE, score: str, device: str, dtype: str) -> AnomalyShapley:
    chosen = copy(detector).set_params(score=score, device=device, dtype=dtype)
    made = AnomalyShapley(chosen).fit(fetch("takeishi_splits_musk")["train"])
    made.explain(many_rows(2))  # what is done once
    return made


def measure(made: AnomalyShapley, X: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """Figures of one call, and its values."""
    detector = made.model
    is_gpu = detector.device == "cuda"
    if is_gpu:
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    explanation = made.explain(X)
    seconds = time.perf_counter() - started
    line = {
        "score": detector.score,
        "device": torch.cuda.get_device_name() if is_gpu else f"CPU, {joblib.effective_n_jobs(-1)} cores",
        "arithmetic": detector.dtype,
        "rows": len(X),
        "seconds": seconds,
        "ms a row": 1e3 * seconds / len(X),
        "GPU memory, GiB": torch.cuda.max_memory_allocated() / 2**30 if is_gpu else None,
        "not settled": int(explanation.params["minima_not_settled"]),
        "largest residual": float(np.abs(explanation.residual).max() / np.abs(explanation.scores).max()),
    }
    return line, explanation.values


def apart(values: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """Largest difference of each row, against its largest value: median and maximum over rows."""
    share = np.abs(values - others).max(axis=1) / np.abs(others).max(axis=1)
    return float(np.median(share)), float(share.max())


def on_processor(
    detector: VAE, options: argparse.Namespace, keep: Any
) -> dict[str, tuple[float, np.ndarray]]:
    """Milliseconds a row and values of some rows, by score."""
    found = {}
    for score in options.scores:
        line, values = measure(
            explainer(detector, score, "cpu", "float64"), many_rows(options.rows)[: options.cpu_rows]
        )
        keep(line)
        found[score] = line["ms a row"], values
    return found


def on_device(detector: VAE, options: argparse.Namespace, keep: Any, beside: Any) -> None:
    """The same rows and many more, float64 first."""
    X = many_rows(options.rows)
    for dtype in ("float64", "float32"):
        for score in options.scores:
            made, (slow, expected) = explainer(detector, score, options.device, dtype), beside[score]
            for n in (options.trial, options.rows):
                line, values = measure(made, X[:n])
                line["times faster"] = slow / line["ms a row"]
                line["apart, median"], line["apart, most"] = apart(values[: len(expected)], expected)
                keep(line)


def figures(options: argparse.Namespace) -> dict[str, Any]:
    where = torch.cuda.get_device_name() if options.device == "cuda" else platform.processor()
    found: dict[str, Any] = {
        "where": f"{where}, Python {platform.python_version()}, torch {torch.__version__}, numpy {np.__version__}",
        "date": str(datetime.date.today()),
        "cpu_rows": options.cpu_rows,
        "lines": [],
    }

    def keep(line: dict[str, Any]) -> None:
        found["lines"].append(line)
        print(json.dumps(line), flush=True)
        if options.save:
            options.save.write_text(json.dumps(found, indent=1))

    detector = network(options)
    found["network"] = f"{detector.hidden_} hidden units, codes of {detector.latent_}"
    on_device(detector, options, keep, on_processor(detector, options, keep))
    return found


def publish_figures(found: dict[str, Any], note: str) -> None:
    import pandas as pd

    from benchmarks.shared.results import publish

    table = pd.DataFrame(found["lines"])
    table = table.astype(object).where(table.notna(), "")
    text = (
        f"Measured on {found['date']} on {found['where']}, with the defaults (polished, γ balanced): a VAE fitted to musk "
        f"(166 columns; {found['network']}); 2d + 2048 coalitions a row, one call of `explain` for all rows, values in "
        f"numpy at its end. 'times faster': a row, against the same machine's processor on {found['cpu_rows']} rows. "
        "'apart': largest difference of a row's values from those of the processor in float64, against the row's largest "
        "value, median and maximum over these rows; 'not settled': minima that were given up."
        + (f" {note}" if note else "")
    )
    publish("anomaly_shapley_gpu", "Anomaly Shapley on a GPU", [(text, table)])


def main() -> None:
    options = arguments(
        __doc__,
        "save",
        "note",
        rows=10_000,
        trial=option(500, "rows of a first measurement"),
        cpu_rows=option(48, "rows that the processor explains too"),
        device=option("cuda", choices=("cpu", "cuda")),
        scores=["reconstruction", "elbo"],
        model=option(Path, "a saved VAE; where there is none, one is fitted and saved"),
        kept=option(Path, "write the page of figures that were saved"),
    )
    found = json.loads(options.kept.read_text()) if options.kept else figures(options)
    if not options.save:
        publish_figures(found, options.note)


if __name__ == "__main__":
    main()
