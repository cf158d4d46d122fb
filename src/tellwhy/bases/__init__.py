"""Kernel bases: features whose inner products approximate a kernel.

The class is loaded when first used: what trains bases in PyTorch needs none of the compiled code behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tellwhy.bases.kernel_basis import KernelBasis

__all__ = ["KernelBasis"]


def __getattr__(name: str) -> Any:
    if name == "KernelBasis":
        from tellwhy.bases.kernel_basis import KernelBasis

        return KernelBasis
    raise AttributeError(f"module 'tellwhy.bases' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
