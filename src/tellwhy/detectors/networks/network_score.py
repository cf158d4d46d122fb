"""Scores that networks compute: values and gradients in batches, on the processor or a graphics card.

A forward step returns its result and a function that takes the slope of a number by the result to its slope
by the input. The slope of a score by its rows is the product of these, from the last step to the first: rows
are numpy arrays or tensors, and no operation is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from threadpoolctl import ThreadpoolController

from tellwhy.core.arrays import Scaling, as_floats, check_columns
from tellwhy.core.errors import InvalidInput
from tellwhy.core.progress import track
from tellwhy.core.running import choose_device, cut_batches, map_in_threads
from tellwhy.core.score import Floats
from tellwhy.optimise.arrays import HOST, Array, Space, filled, find_namespace, on_host

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
        torch = find_namespace(a)
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
    return find_namespace(x).tensor(constant, dtype=x.dtype, device=x.device)


BLOCK_BYTES = 4 * 2**20  # what rows need on the way stays in the processor's cache
DEVICE_BYTES = 1024 * 2**20  # a graphics card is busy only with many rows at once
TOGETHER = 2  # blocks that a thread takes at once
GROUP = 64  # such parts between two reports of progress


class Energy(Protocol):
    """A network's score of scaled rows (n, d): n numbers and, where asked for, their slopes (n, d)."""

    def __call__(self, network: DenseNetwork, x: Array, with_gradient: bool) -> tuple[Array, Array | None]:
        """Return values and slopes."""
        ...


class NetworkScore:
    """A network's score of each row.

    Parameters
    ----------
    energy
        Score of scaled rows, and its slope.
    arrays
        The network.
    scaling
        How rows are scaled before the network sees them.
    terms
        Where the score is a sum over columns: its terms for scaled rows, shape (n, d). The score then has a
        method `feature_errors(X)` that gives them.
    device, dtype
        Where and in which arithmetic.
    row_floats
        Numbers that one row needs on the way, for the size of batches.
    unit_interval
        Whether cells lie between 0 and 1: outside, the score means nothing and may fall without end.
    """

    feature_errors: Callable[[Any], Floats]

    def __init__(
        self,
        energy: Energy,
        arrays: Mapping[str, Floats],
        *,
        scaling: Scaling,
        terms: Callable[[DenseNetwork, Array], Array] | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        row_floats: int = 1000,
        unit_interval: bool = False,
        feature_names: Sequence[str] | None = None,
        describes: str = "",
        threshold: float | None = None,
    ):
        self._energy = energy
        self._arrays = arrays
        self.scaling = scaling
        self.unit_interval = unit_interval
        self._device = device
        self._dtype = dtype
        self._row_bytes = 8 * row_floats
        self.feature_shape = scaling.centre.shape
        self.feature_names = feature_names
        self.describes = describes
        self.threshold = threshold
        if terms is not None:  # only then is it a score with errors of features (`HasFeatureErrors`)
            self.feature_errors = lambda X: self._compute_terms(terms, X)

    @cached_property
    def space(self) -> Space:
        """Where it computes."""
        device = "cpu" if self._device == "cpu" else choose_device(self._device, self.describes)
        return HOST if device == "cpu" else Space(device)

    @cached_property
    def network(self) -> DenseNetwork:
        """The network where it computes."""
        return DenseNetwork.of(self._arrays, self.space, self._dtype)

    @cached_property
    def _scales(self) -> tuple[Array, Array]:
        return self.space.array(self.scaling.centre), self.space.array(self.scaling.scale)

    def value(self, X: ArrayLike) -> Floats:
        """Score of each row."""
        return on_host(self.evaluate_arrays(self._checked(X), with_gradient=False)[0])

    def gradient(self, X: ArrayLike) -> Floats:
        """Derivative of each row's score by each of its cells."""
        return self.value_and_gradient(X)[1]

    def value_and_gradient(self, X: ArrayLike) -> tuple[Floats, Floats]:
        """Both, for the cost of the gradient."""
        value, slope = self.evaluate_arrays(self._checked(X), with_gradient=True)
        return on_host(value), on_host(slope)

    def evaluate_arrays(self, X: Array, *, with_gradient: bool) -> tuple[Array, Array]:
        """Values, and gradients where they are asked for, of rows in its `space`."""
        values = filled(X, (len(X),), 0.0)
        slopes = find_namespace(X).empty_like(X) if with_gradient else values[:0]

        def fill(rows: slice, Z: Array) -> None:
            values[rows], slope = self._energy(self.network, Z, with_gradient)
            if slope is not None:
                slopes[rows] = slope / self._scales[1]  # by the cells as they came, not by scaled ones

        self._in_batches(X, fill)
        finite = find_namespace(X).isfinite(values)
        if not finite.all():
            row = int(on_host(finite).argmin())
            raise InvalidInput(
                f"Row {row} of X is too far from the training rows for a finite score. Scale the columns, or "
                "leave that row out."
            )
        return values, slopes

    def _compute_terms(self, terms: Callable[[DenseNetwork, Array], Array], X: ArrayLike) -> Floats:
        """What each column adds to the score, shape (n, d)."""
        X = self._checked(X)
        found = find_namespace(X).empty_like(X)

        def fill(rows: slice, Z: Array) -> None:
            found[rows] = terms(self.network, Z)

        self._in_batches(X, fill)
        return on_host(found)

    def _checked(self, X: ArrayLike) -> Array:
        check_columns(X, self.feature_names)
        return self.space.array(as_floats(X, n_columns=self.feature_shape[0]))

    def _in_batches(self, X: Array, fill: Callable[[slice, Array], None]) -> None:
        """Call `fill(rows, scaled rows)` for parts of the rows, in threads where there are several parts."""
        _ = self.network, self._scales  # made once, before threads ask for them
        blocks = cut_batches(len(X), self._row_bytes, BLOCK_BYTES if self.space.is_host else DEVICE_BYTES)

        def one(some: list[slice]) -> None:
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is said afterwards
                for rows in some:
                    fill(rows, self._scaled(X[rows]))

        if len(blocks) == 1 or not self.space.is_host:
            for block in track(blocks, len(blocks), "scoring rows"):
                one([block])
            return
        parts = [blocks[i : i + TOGETHER] for i in range(0, len(blocks), TOGETHER)]
        groups = [parts[i : i + GROUP] for i in range(0, len(parts), GROUP)]
        with _look_up_blas().limit(limits=1):
            for group in track(groups, len(groups), "scoring rows"):
                map_in_threads(one, group)

    def _scaled(self, X: Array) -> Array:
        centre, scale = self._scales
        rows = (X - centre) / scale
        return rows.astype(self._dtype, copy=False) if self.space.is_host else rows.to(self.network.dtype)


@cache
def _look_up_blas() -> Any:
    """Threads of matrix products: looked up once, which takes longer than many a product."""
    return ThreadpoolController().select(user_api="blas")
