"""Kernel bases: features whose inner products approximate a kernel."""

from tellwhy.bases.kernel_basis import KernelBasis

__all__ = ["KernelBasis"]
