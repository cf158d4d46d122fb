"""The steps that everything that judges data takes, whatever the data: fit and judge (`tell` is a view).

A kind of data is one file with a class of five methods, entered under its name by `kind`. Those of tellwhy
stand in `PLACES` and are loaded when they are used; those of other packages are declared as entry points of
the group "tellwhy.kinds".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.registry import load_entry_points
from tellwhy.core.score import Floats
from tellwhy.kinds.choose_kind import choose_kind
from tellwhy.results.result import Anomaly, Result

GROUP = "tellwhy.kinds"
PLACES: Mapping[str, str] = {
    "table": "tellwhy.kinds.table",
    "events": "tellwhy.kinds.events",
    "series": "tellwhy.kinds.windows",
    "pictures": "tellwhy.kinds.pictures",
    "texts": "tellwhy.kinds.texts",
    "graph": "tellwhy.kinds.graph",
    "network": "tellwhy.kinds.network",
    "labels": "tellwhy.kinds.labels",
    "insight": "tellwhy.kinds.insight",
    "drift": "tellwhy.kinds.two_tables",
}


class Model(Protocol):
    """What is ordinary in data, learned once: what `fit` returns, a file holds, and `judge` takes."""

    @property
    def kind(self) -> str:
        """The name of its kind."""

    @property
    def source(self) -> str:
        """What it was fitted to."""

    def save(self, path: str | Path) -> Path:
        """Write it to one file, which `tellwhy.load` reads."""


@runtime_checkable
class Kind(Protocol):
    """One kind of data. A batch is whatever its `read` makes of a source; nobody else looks into it."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> Any:
        """Learn what is ordinary in a source; `clean` says that all of it is."""

    def read(self, model: Any, source: Any, settings: Mapping[str, Any]) -> Any:
        """Read what is to be judged, as the model's own data were read; `settings` may change the request."""

    def check(self, model: Any, batch: Any) -> Any:
        """Find what is wrong with a batch as data; cells that a finding explains count as missing then."""

    def score(self, model: Any, batch: Any) -> Floats:
        """Score every part of a batch, each that the model was fitted to as if it were new."""

    def explain(self, model: Any, batch: Any, scores: Floats) -> Result:
        """Draw the line of alarms, and tell of the oddest parts where and why they are odd."""


K = TypeVar("K", bound=type)
_entered: dict[str, Kind] = {}


def kind(name: str) -> Callable[[K], K]:
    """Enter a class as the kind of this name.

    Examples
    --------
    >>> @kind("nothing")
    ... class Nothing: ...
    >>> find_kind("nothing").__class__ is Nothing
    True
    >>> del _entered["nothing"]
    """

    def enter(cls: K) -> K:
        held = _entered.get(name)
        if name in PLACES and PLACES[name] != cls.__module__:
            raise InvalidParameter(f"The kind {name!r} is one of tellwhy's own. Name the new one otherwise.")
        if held is not None and type(held).__module__ != cls.__module__:
            raise InvalidParameter(
                f"The kind {name!r} is taken by {type(held).__module__}; {cls.__module__} enters another. "
                "Rename one of them."
            )
        _entered[name] = cls()
        return cls

    return enter


def find_kind(name: str) -> Kind:
    """Return the kind of this name, or list the names there are."""
    if name in PLACES:
        import_module(PLACES[name])
    elif name not in _entered:
        load_entry_points(GROUP, known=PLACES.values())
    if name not in _entered:
        known = ", ".join(sorted({*PLACES, *_entered}))
        raise InvalidParameter(f"There is no kind of data named {name!r}. There are: {known}.")
    return _entered[name]


def fit(source: Any, *, kind: str | None = None, clean: bool = False, **settings: Any) -> Any:
    """Learn what is ordinary in data of any kind.

    Parameters
    ----------
    source
        A table in any form, a file, a picture or a folder of them.
    kind
        "table", "events", "series", "pictures", "texts", "graph", "network", "labels", "insight", "drift", or
        the name of one that another package brings; by default what the source and the settings say.
    clean
        Whether somebody says that all of it is ordinary; otherwise the oddest are set aside.
    settings
        Those of the kind: `columns`, `by`, `time` and `window`, `edges`, `text`, `patch`, `fdr`, …

    Returns
    -------
    Model
        For `judge`, and for `save`, whose file `tellwhy.load` reads.

    Examples
    --------
    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(300, 3))
    >>> model = fit(rows)
    >>> new = np.random.default_rng(1).normal(size=(50, 3))
    >>> new[7, 1] = 9.0
    >>> found = judge(model, new)
    >>> model.kind, found.anomalies[0].row, found.anomalies[0].reasons[0].feature
    ('table', 7, 'x1')
    """
    name = choose_kind(source, settings) if kind is None else kind
    return find_kind(name).fit(source, settings, clean=clean)


def judge(model: Any, source: Any, **settings: Any) -> Result:
    """Say what is odd in data, and why, by what a model knows to be ordinary.

    Data that the model was fitted to are known by their content: each part is judged as if it were new, and
    `judge(fit(x), x)` says what a run on `x` alone says.

    Parameters
    ----------
    model
        Of `fit`, or read by `tellwhy.load`.
    source
        Data of the same kind and the same columns.
    settings
        What may be asked otherwise than in fitting: `top`, `fdr`, `id_column`, …
    """
    chosen = find_kind(kind_of_model(model))
    batch = chosen.check(model, chosen.read(model, source, settings))
    return chosen.explain(model, batch, chosen.score(model, batch))


def kind_of_model(model: Any) -> str:
    """The name of a model's kind; raise for what is none."""
    name = getattr(model, "kind", None)
    if not isinstance(name, str):
        raise InvalidParameter(
            "judge needs a model that `tellwhy.fit` made, or `tellwhy.load` read. Got "
            f"{type(model).__name__}."
        )
    return name


def change_settings(kept: Any, settings: Mapping[str, Any], changeable: tuple[str, ...]) -> dict[str, Any]:
    """What is asked of new data, as far as it may differ from what was asked in fitting.

    A setting that stays as it was is no change; None asks for nothing.
    """
    asked = {k: v for k, v in settings.items() if v is not None and v != getattr(kept, k, None)}
    fixed = [name for name in asked if name not in changeable]
    if fixed:
        raise InvalidParameter(
            f"{', '.join(fixed)} cannot be changed after fitting; with a model, only "
            f"{', '.join(changeable)} can. Fit the model again."
        )
    return asked


def find_first_place(anomaly: Anomaly) -> dict[str, Any] | None:
    """Return the first reason of an anomaly as plain values, for the headline; None without one."""
    if not anomaly.reasons:
        return None
    reason = anomaly.reasons[0]
    return {"feature": reason.feature, "kind": reason.kind, "share": reason.share, "facts": reason.facts}
