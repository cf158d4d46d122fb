"""Fitted explainers in a file: their parameters, the model that they explain, and what they learned."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from tellwhy.core.errors import CannotWrite
from tellwhy.core.params import validate_parameters
from tellwhy.core.registry import cards
from tellwhy.explainers.perturbation.anomaly_contribution import Neighbours
from tellwhy.explainers.shapley.neighbourhood import Neighbourhood
from tellwhy.explainers.surrogate.convergence import Convergence
from tellwhy.explainers.surrogate.mixture import Columns, Surrogate
from tellwhy.explainers.surrogate.sampler import Posterior
from tellwhy.explainers.surrogate.state import Priors
from tellwhy.kinds.model_parts import stored_rows_parts
from tellwhy.kinds.table_rows import StoredRows
from tellwhy.storage.codec import Fit, Part, Parts
from tellwhy.storage.documents import Misfit
from tellwhy.storage.sklearn_classes import PARTS as SKLEARN

ROLES = ("explainer", "graph explainer", "classifier explainer", "patch explainer", "ensemble")
_LEARNED = (Neighbours, Neighbourhood, Surrogate, Columns, Posterior, Convergence, Priors)
PREFIX = "tellwhy."


class Joined(Mapping[str, Part]):
    """Several tables of parts as one; the first that has a name counts. Nothing is looked up early."""

    def __init__(self, *tables: Parts):
        self._tables = tables

    def __getitem__(self, name: str) -> Part:
        for table in self._tables:
            if name in table:
                return table[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name for table in self._tables for name in table))

    def __len__(self) -> int:
        return len(list(iter(self)))


def explainer_classes() -> dict[str, type]:
    """The explainers that can be saved, by name: all of the catalogue but those of networks."""
    return {card.name: card.cls for role in ROLES for card in cards(role)}


def _params(cls: type) -> list[str]:
    """Names of the parameters of an explainer but for what it explains."""
    constructor: Callable[..., Any] = cls.__init__  # type: ignore[misc]
    return [name for name in inspect.signature(constructor).parameters if name not in ("self", "model")]


def taken(explainer: Any) -> dict[str, Any]:
    """What a file holds of an explainer."""
    params = {name: getattr(explainer, name) for name in _params(type(explainer))}
    learned = {
        name: None if isinstance(value, Path) else value
        for name, value in vars(explainer).items()
        if name.endswith("_") and not name.startswith("_") and name not in params
    }
    model = vars(explainer).get("model")
    if callable(model) and not hasattr(model, "fit"):
        raise CannotWrite(
            f"This {type(explainer).__name__} explains a function, which no file can hold. Save one that "
            "explains a fitted model of tellwhy or scikit-learn."
        )
    return {"model": model, "params": params, "learned": learned}


def made(cls: Any, fields: Mapping[str, Any]) -> Any:
    """The explainer that `taken` was given."""
    params = dict(fields["params"])
    if sorted(params) != sorted(_params(cls)):
        raise Misfit(f"its parameters are {sorted(params)}, expected {sorted(_params(cls))}", "params")
    explainer = cls(**params) if fields["model"] is None else cls(fields["model"], **params)
    validate_parameters(explainer)
    for name, value in fields["learned"].items():
        held = getattr(cls, name, None)
        # Only what `fit` sets may come from a file: no method, no property, nothing private.
        if not name.endswith("_") or name.startswith("_") or callable(held) or isinstance(held, property):
            raise Misfit(f"{name!r} is nothing that it learns", f"learned.{name}")
        setattr(explainer, name, value)
    # From now on the model must stay as it is (see `explainers.model_state`).
    explainer._has_learned = bool(fields["learned"])
    return explainer


def _no_checks(_: Any) -> Iterator[Fit]:
    yield from ()


def _neighbourhood(found: Neighbourhood) -> Iterator[Fit]:
    n = len(found.scales)
    yield "constant", found.constant.shape, (n,)
    yield "binary", found.binary.shape, (n,)


def _neighbours(found: Neighbours) -> Iterator[Fit]:
    yield "weights", found.weights.shape, found.noise.shape[:1]


def _posterior(found: Posterior) -> Iterator[Fit]:
    n_draws, n_components = found.log_pi.shape
    yield "coef", found.coef.shape[:2], (n_draws, n_components)
    yield "sigma2", found.sigma2.shape, (n_draws, n_components)
    yield "z", len(found.z), n_draws


_CHECKS: dict[type, Callable[[Any], Iterator[Fit]]] = {
    Neighbourhood: _neighbourhood,
    Neighbours: _neighbours,
    Posterior: _posterior,
}


def _table_taken(frame: pd.DataFrame) -> dict[str, Any]:
    if not all(isinstance(name, str) for name in frame.columns):
        raise CannotWrite("Rows whose columns are not named by text cannot be saved: rename them.")
    return {"rows": StoredRows.of(frame.reset_index(drop=True))}


def _table_made(fields: Mapping[str, Any]) -> pd.DataFrame:
    frame: pd.DataFrame = fields["rows"].frame()
    return frame


def _own_parts() -> dict[str, Part]:
    """Explainers, and what they learn; names begin with the package, as others have such classes too."""
    parts = {
        PREFIX + name: Part(cls, _no_checks, taken=taken, made=partial(made, cls))
        for name, cls in explainer_classes().items()
    }
    parts |= {PREFIX + cls.__name__: Part(cls, _CHECKS.get(cls, _no_checks)) for cls in _LEARNED}
    parts["pandas.DataFrame"] = Part(pd.DataFrame, _no_checks, taken=_table_taken, made=_table_made)
    return parts


def explainer_parts() -> Parts:
    """Everything that a saved explainer may be made of."""
    from tellwhy.bases import basis_io
    from tellwhy.classifiers import model_io as classifier_io
    from tellwhy.detectors import model_io as detector_io

    kinds = (detector_io.KIND, classifier_io.KIND, basis_io.KIND)
    tables = [table for kind in kinds for table in (kind.models(), kind.parts)]
    return Joined(_own_parts(), stored_rows_parts(), *tables, SKLEARN)
