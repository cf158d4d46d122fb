"""Words that parameters and calls had before: they still work, warn, and go in a later release.

One table holds the old names of parameters (`OLD_NAMES`), one the orders in which calls used to take what is
a keyword now (`OLD_ORDERS`). Constructors of classes that are a `TakesOldNames`, functions and methods below
`takes_old_names`, and files of saved models read them.
"""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from tellwhy.core.errors import InvalidParameter

GONE_IN = "1.1"

# class or function → the old name of a parameter → its name now
OLD_NAMES: dict[str, dict[str, str]] = {
    "DMMMEN": {"replacement": "baseline", "n_neighbours": "n_neighbors"},
    "Detector": {"false_alarms": "contamination"},
    "IntegratedGradients": {"reference": "baseline", "tolerance": "tol", "max_steps": "max_iter"},
    "KernelBasisClassifier": {"tolerance": "tol"},
    "KernelShap": {"references": "baseline"},
    "LCCAD": {"model": "prior"},
    "LinearRelevance": {"of": "target"},
    "LinearScores.explain": {"of": "target"},
    "LocalInsight": {"replacement": "baseline"},
    "Neighbourhood": {"anchors": "reference_rows"},  # a part of saved models
    "Occlusion": {"patch": "patch_size", "n_background": "max_background"},
    "PatchDTD": {"patch": "patch_size"},
    "PredictionDifference": {"patch": "patch_size"},
    "DriftModel": {"notices": "said"},
    "SeriesModel": {"notices": "said"},
    "TableEncoder": {"notices_": "said_"},
    "TextClassifier.explain": {"of": "target"},
    "TextLabels": {"notes": "said", "order": "ordering"},
    "irof": {"fill": "baseline"},
    "keep_top": {"background": "baseline"},
    "region_flipping": {"fill": "baseline", "region": "patch_size"},
    # a model was a folder before it was a file
    "PatchModel.load": {"folder": "path"},
    "SavedAsFile.load": {"folder": "path"},
    "SavedAsFile.save": {"folder": "path"},
    "load": {"folder": "path"},
}

# class or function → the names, as they are now, of what it took by place; self and cls are not counted
_RADIAL = ("kernel", "q", "bandwidth", "a", "nu")
OLD_ORDERS: dict[str, tuple[str, ...]] = {
    "IntegratedGradients": ("model", "target"),
    "KernelBasis": ("kernel", "basis", "n_features", "bandwidth", "structure"),
    "KernelDensity": _RADIAL[:4],
    "MulticlassSVM.path": ("X", "y", "Cs", "sample_weight"),
    "NetworkExplainer": ("model", "target"),
    "OneClassSVM": _RADIAL,
    "PatchModel": ("detector", "patch_size", "stride", "n_train_patches"),
    "SVDD": _RADIAL,
    "VAE": ("score", "likelihood", "latent", "hidden"),
    "explain": ("model", "X", "method", "background"),
    "neuron_grid": ("model", "x", "outputs", "methods"),
}

F = TypeVar("F", bound=Callable[..., Any])


# what a method took before, and is a parameter of the constructor now: its old name → its name there
MOVED: dict[str, dict[str, str]] = {
    "LinearRelevance.explain": {"against": "against", "of": "target"},
}


class TakesOldNames:
    """A class whose constructor takes the old names of its parameters.

    The constructor's signature holds the new names alone, so that scikit-learn's `get_params`, `set_params`
    and `clone` know nothing of the old ones.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = _wrap_constructor(cls)  # type: ignore[method-assign]

    @classmethod
    def _check_given(cls, given: Mapping[str, Any]) -> None:
        """Refuse names of parameters that the constructor does not take."""


def _wrap_constructor(owner: type) -> Any:
    """Return the constructor that a class defines, called with the new names of what it is given."""
    original = vars(owner)["__init__"]
    n_by_place = _count_taken_by_place(original) - 1

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **given: Any) -> None:
        call = _Call(type(self).__name__, _collect_old_names(owner), _order_of(owner), n_by_place)
        args, given = call.renewed(args, given)
        if type(self).__init__ is __init__:  # a base class is given what the subclass chose
            type(self)._check_given(given)
        original(self, *args, **given)

    return __init__


def takes_old_names(function: F) -> F:
    """Decorate a function or method of `OLD_NAMES` or `OLD_ORDERS`, which are asked by its qualified name."""
    name = function.__qualname__
    n_own = 1 if list(inspect.signature(function).parameters)[:1] in (["self"], ["cls"]) else 0
    n_by_place = _count_taken_by_place(function) - n_own

    @functools.wraps(function)
    def renewing(*args: Any, **given: Any) -> Any:
        call = _Call(name, OLD_NAMES.get(name, {}), OLD_ORDERS.get(name, ()), n_by_place)
        rest, given = call.renewed(args[n_own:], given)
        return function(*args[:n_own], *rest, **given)

    return renewing  # type: ignore[return-value]


def takes_moved(function: F) -> F:
    """Decorate a method of `MOVED`: what belongs to the constructor now is set on a copy of the object."""
    name = function.__qualname__

    @functools.wraps(function)
    def moving(self: Any, *args: Any, **given: Any) -> Any:
        moved = {old: new for old, new in MOVED[name].items() if old in given}
        if moved:
            self = copy.copy(self)
            for old, new in moved.items():
                cls = type(self).__name__
                _warn(
                    f"{name} takes {old!r} until tellwhy {GONE_IN}: write {cls}(model, {new}=…).explain(X)."
                )
                setattr(self, new, given.pop(old))
        return function(self, *args, **given)

    return moving  # type: ignore[return-value]


def explanation_first(function: F) -> F:
    """Decorate a metric whose first two arguments used to come the other way round."""

    @functools.wraps(function)
    def ordered(*args: Any, **given: Any) -> Any:
        from tellwhy.core.explanation import Explanation

        if [isinstance(each, Explanation) for each in args[:2]] == [False, True]:
            _warn(
                f"{function.__name__} takes the explanation first, then the model, as all metrics do. The "
                f"other order goes in tellwhy {GONE_IN}."
            )
            args = (args[1], args[0], *args[2:])
        return function(*args, **given)

    return ordered  # type: ignore[return-value]


def update_names(cls: type, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters under their names of today, without a warning: what a saved model was told.

    Examples
    --------
    >>> from tellwhy.detectors import KernelDensity
    >>> update_names(KernelDensity, {"false_alarms": 0.1, "q": 2})
    {'contamination': 0.1, 'q': 2}
    """
    names = _collect_old_names(cls)
    return {names.get(name, name): value for name, value in params.items()}


def update_names_and_warn(cls: type, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters under their names of today, and warn of the old ones."""
    return _rename_given(cls.__name__, _collect_old_names(cls), params)


def _collect_old_names(cls: type) -> dict[str, str]:
    """Old names of the parameters of a class, with those of its base classes."""
    names: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        names |= OLD_NAMES.get(base.__name__, {})
    return names


def _order_of(cls: type) -> tuple[str, ...]:
    """The old order of what a constructor takes; that of a base class where it has none of its own."""
    orders = (OLD_ORDERS[base.__name__] for base in cls.__mro__ if base.__name__ in OLD_ORDERS)
    return next(orders, ())


def _count_taken_by_place(function: Callable[..., Any]) -> int:
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in by_place for parameter in inspect.signature(function).parameters.values())


@dataclass(frozen=True)
class _Call:
    """What is called, and how it was called before."""

    owner: str
    names: Mapping[str, str]
    order: tuple[str, ...]
    n_by_place: int

    def renewed(self, args: tuple[Any, ...], given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as they are given today."""
        if self.n_by_place < len(args) <= len(self.order):
            args, given = args[: self.n_by_place], {**self._name_arguments(args, given), **given}
        if self.names.keys().isdisjoint(given):
            return args, given
        return args, _rename_given(self.owner, self.names, given)

    def _name_arguments(self, args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
        """What was given by place and is taken by name now."""
        by_name = dict(zip(self.order[self.n_by_place :], args[self.n_by_place :], strict=False))
        for name in by_name:
            if name in given:
                raise TypeError(f"{self.owner} got multiple values for argument {name!r}")
        listed = ", ".join(by_name)
        written = ", ".join(f"{name}=…" for name in by_name)
        _warn(
            f"{self.owner} takes {listed} by name now: write {written}. By place goes in tellwhy {GONE_IN}."
        )
        return by_name


def _rename_given(owner: str, names: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given under the names of today."""
    renewed = {}
    for name, value in given.items():
        new = names.get(name, name)
        if new != name:
            if new in given:
                raise InvalidParameter(f"{owner} was given {name!r} and {new!r}, the same parameter twice.")
            _warn(
                f"The {name!r} parameter of {owner} is called {new!r} now; the old name goes in tellwhy "
                f"{GONE_IN}."
            )
        renewed[new] = value
    return renewed


def _warn(words: str) -> None:
    """Warn at the line outside of this package that asked for it: Python shows it for that line once."""
    frame = inspect.currentframe()
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tellwhy":
        frame = frame.f_back
        level += 1
    warnings.warn(words, DeprecationWarning, stacklevel=level)
