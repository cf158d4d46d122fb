"""One trained network, applied to rows and backwards: numpy arrays or tensors, without recording operations.

A forward step returns its result and a function that takes the slope of a number by the result to its slope
by the input. The slope of a score by its rows is the product of these, from the last step to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.score_function import Floats
from tellwhy.optimise.arrays import Array, Space, namespace

Back = Callable[[Array], Array]
LARGEST_EXPONENT = 80.0  # e^80 is finite in single precision


@dataclass(frozen=True)
class DenseNetwork:
    """Weights (inputs, outputs) and biases (outputs,) by layer.

    Examples
    --------
    >>> from tellwhy.optimise.arrays import HOST
    >>> network = DenseNetwork.of({"code.weight": np.eye(2), "code.bias": np.zeros(2)}, HOST, "float64")
    >>> value, back = network.hidden("code", np.zeros((1, 2)))
    >>> value.round(3), back(np.ones((1, 2)))
    (array([[0.693, 0.693]]), array([[0.5, 0.5]]))
    """

    arrays: Mapping[str, Array]

    @classmethod
    def of(cls, arrays: Mapping[str, Floats], space: Space, dtype: str) -> DenseNetwork:
        """Bring a network's arrays to where they are used."""
        return cls({name: space.array(np.asarray(array, dtype=dtype)) for name, array in arrays.items()})

    @property
    def dtype(self) -> Any:
        """Type of its numbers."""
        return next(iter(self.arrays.values())).dtype

    def linear(self, layer: str, x: Array) -> Array:
        """Return x W + b."""
        found = x @ self.arrays[f"{layer}.weight"]  # fresh memory, which the bias may be added to in place
        found += self.arrays[f"{layer}.bias"]
        return found

    def back(self, layer: str, slope: Array) -> Array:
        """Slope by the input of a linear layer, from the slope by its output."""
        return slope @ self.arrays[f"{layer}.weight"].T

    def hidden(self, layer: str, x: Array) -> tuple[Array, Back]:
        """softplus(x W + b), and back."""
        value, slope = softplus(self.linear(layer, x))

        def back(g: Array) -> Array:
            by_sum = slope()
            by_sum *= g
            return self.back(layer, by_sum)

        return value, back

    def bypass(self, layer: str, x: Array) -> tuple[Array, Back]:
        """Return x W + b, and back, of a layer that not every network has; nothing without it."""
        if f"{layer}.weight" not in self.arrays:
            return 0.0, lambda _: 0.0
        return self.linear(layer, x), lambda g: self.back(layer, g)

    def decoded(self, code: Array) -> tuple[Array, Back]:
        """Rows rebuilt from their codes by two hidden layers and beside them, and back."""
        first, back_first = self.hidden("decode", code)
        second, back_second = self.hidden("refine", first)
        beside, back_beside = self.bypass("bypass_output", code)

        def back(g: Array) -> Array:
            return back_first(back_second(self.back("output", g))) + back_beside(g)

        return self.linear("output", second) + beside, back


def softplus(a: Array) -> tuple[Array, Callable[[], Array]]:
    """log(1 + e^a), and a function that gives its slope 1/(1 + e^−a), to be called once.

    Examples
    --------
    >>> value, slope = softplus(np.array([-99.0, 0.0, 99.0]))
    >>> value.round(1), slope().round(1)
    (array([ 0. ,  0.7, 99. ]), array([0. , 0.5, 1. ]))
    """
    if not isinstance(a, np.ndarray):
        # Beyond its threshold PyTorch returns a itself; the default of 20 would show in double precision.
        torch = namespace(a)
        return torch.nn.functional.softplus(a, threshold=40.0), a.sigmoid
    # Nearly always no number is large, and one exponential serves both the value and the slope, in place.
    if a.max(initial=0.0) <= LARGEST_EXPONENT:
        grown = np.exp(a)
        return np.log1p(grown), lambda: np.divide(grown, 1.0 + grown, out=grown)
    shrunk = np.exp(-np.abs(a))
    return np.log1p(shrunk) + np.maximum(a, 0.0), lambda: np.where(a > 0, 1.0, shrunk) / (1.0 + shrunk)


def like(x: Array, constant: Floats) -> Array:
    """Return an array of constants as one of the kind, type and place of x."""
    if isinstance(x, np.ndarray):
        return np.asarray(constant, dtype=x.dtype)
    return namespace(x).tensor(constant, dtype=x.dtype, device=x.device)
