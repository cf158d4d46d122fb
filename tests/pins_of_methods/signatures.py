"""The public names of methods and data, and how each of them is called."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

FOLDERS = (
    "bases",
    "classifiers",
    "data",
    "detectors",
    "evaluation",
    "explainers",
    "kernels",
    "scoring",
    "testing",
)
"""The folders of methods; those that judge data are asked otherwise."""

MORE = ("tellwhy", "tellwhy.checks", "tellwhy.core.errors", "tellwhy.plot", "tellwhy.workflow")
"""What else is public: docs/reference/public-names.txt lists it with the folders of methods."""


def of_the_package() -> dict[str, dict[str, Any]]:
    """Every public name of every public folder, with its parameters and those of its public methods."""
    packages = [importlib.import_module(f"tellwhy.{name}") for name in FOLDERS]
    return {package.__name__: _of_names(package) for package in packages}


def list_public_names() -> str:
    """Every public name with its parameters, one line each, as docs/reference/public-names.txt holds it."""
    lines = []
    for module in sorted([*MORE, *(f"tellwhy.{name}" for name in FOLDERS)]):
        package = importlib.import_module(module)
        for name, found in _of_names(package).items():
            calls = found if isinstance(found, dict) else {"": found}
            for call, taken in calls.items():
                words = taken if taken.startswith("(") else f": {taken}"
                lines.append(f"{module}.{name}{'' if call in ('', 'made by') else f'.{call}'}{words}")
    return "\n".join(lines) + "\n"


def _of_names(package: Any) -> dict[str, Any]:
    listed = getattr(package, "__all__", None) or [
        name for name, thing in vars(package).items() if inspect.isclass(thing)
    ]
    return {name: _of_one(getattr(package, name)) for name in sorted(listed)}


def _of_one(thing: Any) -> Any:
    if inspect.ismodule(thing):
        return "folder"
    if inspect.isclass(thing):
        return {"made by": parameters(thing), **_of_methods(thing)}
    return parameters(thing) if callable(thing) else f"a {type(thing).__name__}"


def _of_methods(cls: type) -> dict[str, str]:
    """Parameters of the methods that tellwhy itself defines, under the names that users may call."""
    found = {}
    for name in sorted(dir(cls)):
        member = inspect.getattr_static(cls, name)
        is_ours = any(name in vars(c) and c.__module__.startswith("tellwhy") for c in cls.__mro__)
        if name.startswith("_") or not is_ours:
            continue
        if isinstance(member, (classmethod, staticmethod)) or inspect.isfunction(member):
            found[name] = parameters(getattr(cls, name))
    return found


def parameters(call: Callable[..., Any]) -> str:
    """Names, kinds and defaults of the parameters of a call: what a caller has to know, without types."""
    try:
        taken = inspect.signature(call).parameters.values()
    except ValueError:  # of an exception or an enumeration, which Python makes
        return "(unknown)"
    plain = [p.replace(annotation=p.empty, default=_shown(p.default)) for p in taken]
    return str(inspect.Signature(plain))


class _Plain:
    """A default as it is written, without an address."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _shown(default: Any) -> Any:
    is_plain = (
        isinstance(default, (str, int, float, tuple, frozenset, type(None))) or default is inspect._empty
    )
    return default if is_plain else _Plain(f"<{type(default).__name__}>")
