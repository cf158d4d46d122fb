"""Mercer kernels: exponential and t-Student kernels of the Euclidean distance, and the arc-cosine kernel."""

from tellwhy.kernels.radial import ArcCosine, Exponential, Kernel, Linear, StudentT, is_positive_definite

__all__ = ["ArcCosine", "Exponential", "Kernel", "Linear", "StudentT", "is_positive_definite"]
