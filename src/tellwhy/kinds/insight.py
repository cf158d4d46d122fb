"""From a model's name and a file of rows to what the model has learned."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.data import read_table
from tellwhy.explainers import DMMMEN, Insight
from tellwhy.storage.documents import read_arrays, write_json
from tellwhy.storage.folders import check_new_folder, new_folder

SCHEMA = 1
FILE = "insights.json"


@dataclass(frozen=True, eq=False)
class InsightRun:
    """What was learned: the insights, how far the chains agree, and where the rows came from."""

    insights: list[Insight]
    convergence: dict[str, Any]
    model: str
    source: str
    n_rows: int
    notices: tuple[str, ...] = ()


def learn_insights(
    model: str,
    data: str | os.PathLike[str],
    *,
    top: int = 10,
    checkpoint: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> InsightRun:
    """Fit a `DMMMEN` to a model on the rows of a file.

    Parameters
    ----------
    model
        "module:name" of a function of rows, a fitted model or a network; modules of the working folder are
        found.
    data
        A table (its columns must be numbers), or an .npz file whose array X (or only array) holds the inputs.
    top
        Main features of each insight.
    checkpoint
        Folder in which chains are saved on the way, and from which they go on.
    settings
        Parameters of `DMMMEN`.
    """
    found = load_model(model)
    X, notices = read_rows(Path(data))
    explainer = DMMMEN(found, **settings).fit(X, checkpoint=None if checkpoint is None else Path(checkpoint))
    return InsightRun(explainer.insights(top), explainer.convergence_, model, str(data), len(X), notices)


def load_model(name: str) -> Any:
    """Import what "module:name" names.

    Examples
    --------
    >>> load_model("math:floor")(2.5)
    2
    >>> load_model("math")
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: The model must be given as module:name, ... Got 'math'.
    """
    parts = name.split(":", maxsplit=1)
    module_name = parts[0]
    attribute = parts[-1] if len(parts) == 2 else ""
    if not module_name or not attribute:
        raise InvalidParameter(
            f"The model must be given as module:name, e.g. my_models:predict. Got {name!r}."
        )
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the user's module may raise anything
        what = f"{type(error).__name__}: {error}"
        raise InvalidInput(f"The module {module_name!r} of {name!r} cannot be imported: {what}.") from error
    finally:
        sys.path.remove(here)
    if not hasattr(module, attribute):
        raise InvalidInput(f"The module {module_name!r} has no {attribute!r}.")
    return getattr(module, attribute)


def read_rows(path: Path) -> tuple[Any, tuple[str, ...]]:
    """Read inputs from an .npz file, or a table of numbers."""
    if path.suffix.lower() != ".npz":
        table = read_table(path)
        words = [str(c) for c in table.frame.columns if table.frame[c].dtype.kind not in "biuf"]
        if words:
            raise InvalidInput(
                f"{path}: the columns {words[:5]} do not hold numbers. Encode them, or leave them out."
            )
        return table.frame, table.notices
    arrays = read_arrays(path)
    name = "X" if "X" in arrays else next(iter(arrays), "")
    if name != "X" and len(arrays) != 1:
        raise InvalidInput(f"{path} holds the arrays {list(arrays)}; name the inputs X.")
    if arrays[name].dtype.kind not in "biuf":
        raise InvalidInput(f"The array {name} of {path} does not hold numbers but {arrays[name].dtype}.")
    return arrays[name].astype(np.float64), ()


def insight_record(insight: Insight) -> dict[str, Any]:
    """One insight as JSON holds it."""
    return {
        "target": insight.target,
        "component": insight.component,
        "share": insight.share,
        "share_interval": insight.share_interval,
        "credibility": insight.credibility,
        "r_hat": _finite(insight.r_hat),
        "effective_draws": _finite(insight.n_effective),
        "features": insight.to_frame().to_dict("records"),
        "applies": [{"feature": name, "from": low, "to": high} for name, low, high in insight.applies],
    }


def _finite(number: float) -> float | None:
    """A number that JSON can hold; None for one that is not known, or without end."""
    return float(number) if np.isfinite(number) else None


def run_record(run: InsightRun) -> dict[str, Any]:
    """All of a run as JSON holds it."""
    return {
        "schema": SCHEMA,
        "model": run.model,
        "source": run.source,
        "rows": run.n_rows,
        "convergence": {
            name: {"r_hat": c.r_hat, "ess": c.ess, "tail_ess": c.tail, "ended": c.ended}
            for name, c in run.convergence.items()
        },
        "insights": [insight_record(insight) for insight in run.insights],
    }


def check_place(folder: Path) -> None:
    """Raise now what `save_insights` would raise."""
    check_new_folder(folder, marker=FILE)


def save_insights(run: InsightRun, folder: Path, *, add: Callable[[Path], object] | None = None) -> Path:
    """Write `insights.json`, and what `add(folder)` writes, whole or not at all."""
    with new_folder(folder, marker=FILE) as work:
        write_json(work / FILE, run_record(run))
        if add is not None:
            add(work)
    return folder
