"""Mercer kernels of the Euclidean distance: exponential and t-Student."""

from tellwhy.kernels.radial import Exponential, Kernel, Linear, StudentT, is_positive_definite

__all__ = ["Exponential", "Kernel", "Linear", "StudentT", "is_positive_definite"]
