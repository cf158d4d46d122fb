"""Kernel bases: features whose inner products approximate a kernel."""

from typing import TYPE_CHECKING

from tellwhy.core.optional import lazy_names

if TYPE_CHECKING:
    from tellwhy.bases.kernel_basis import KernelBasis as KernelBasis

_PLACES = {
    "KernelBasis": "kernel_basis",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
__all__ = list(_PLACES)
