"""Optional dependencies: imported when used, with an error that says which install brings them."""

from __future__ import annotations

import importlib
from types import ModuleType

from tellwhy.core.errors import MissingExtra

_INSTALLS = {
    "torch": "tellwhy[torch]",
    "mpi4py": "tellwhy[mpi]",
    "openpyxl": "tellwhy[excel]",
    "duckdb": "tellwhy[sql]",
    "PIL": "tellwhy[images]",
    "ray": "tellwhy[ray]",
}


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
