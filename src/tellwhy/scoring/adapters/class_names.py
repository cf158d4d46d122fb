"""Classes recognised by their public names, so that no third party has to be imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def public_name(cls: type) -> str:
    """Return the name a class is imported by: its module without private parts, and its own name.

    Examples
    --------
    >>> from sklearn.svm import OneClassSVM
    >>> OneClassSVM.__module__, public_name(OneClassSVM)
    ('sklearn.svm._classes', 'sklearn.svm.OneClassSVM')
    """
    # Private modules move between versions of a library; the public name stays.
    parts = [part for part in cls.__module__.split(".") if not part.startswith("_")]
    return ".".join([*parts, cls.__qualname__])


def lookup(table: Mapping[str, T], obj: Any) -> T | None:
    """Return the entry of the object's class, or of the nearest of its bases that has one."""
    for cls in type(obj).__mro__:
        entry = table.get(public_name(cls))
        if entry is not None:
            return entry
    return None
