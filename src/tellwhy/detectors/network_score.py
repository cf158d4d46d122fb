"""Scores that networks compute: values and gradients in batches, on the processor or a graphics card."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.optional import require
from tellwhy.core.parallel import row_batches, thread_map
from tellwhy.core.progress import track
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import as_floats
from tellwhy.core.torch_devices import actual_device, one_thread
from tellwhy.detectors.scaling import Scaling
from tellwhy.detectors.torch_networks import Layout, Stack, Tensor, one_network
from tellwhy.scoring.model_rows import check_columns

BATCH_BYTES = {"cpu": 8 * 2**20, "cuda": 1024 * 2**20}
GROUP = 64  # batches between two reports of progress
Energy = Callable[[Stack, Tensor], Tensor]  # one network and its scaled rows (n, d) -> n numbers


class NetworkScore:
    """A network's score of each row, differentiated by PyTorch.

    Parameters
    ----------
    energy
        Score of scaled rows.
    layout, arrays
        The network.
    scaling
        How rows are scaled before the network sees them.
    errors
        Where the score is a sum over columns: its terms for scaled rows, shape (n, d). The score then has a method
        `feature_errors(X)` that gives them.
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
        layout: Layout,
        arrays: Mapping[str, Floats],
        *,
        scaling: Scaling,
        errors: Energy | None = None,
        device: str = "cpu",
        dtype: str = "float64",
        row_floats: int = 1000,
        unit_interval: bool = False,
        feature_names: Sequence[str] | None = None,
        describes: str = "",
        threshold: float | None = None,
    ):
        self._energy, self._layout, self._arrays, self._errors = energy, layout, arrays, errors
        self.scaling = scaling
        self.unit_interval = unit_interval
        self._device, self._dtype, self._row_bytes = device, dtype, 8 * row_floats
        self.feature_shape = scaling.centre.shape
        self.feature_names = feature_names
        self.describes = describes
        self.threshold = threshold
        if errors is not None:
            self.feature_errors = self._summed_errors

    @cached_property
    def network(self) -> Stack:
        """The network on its device."""
        torch = require("torch", self.describes)
        return one_network(self._layout, self._arrays, actual_device(self._device), getattr(torch, self._dtype))

    def value(self, X: Any) -> Floats:
        """Score of each row."""
        return self._evaluated(X, with_gradient=False)[0]

    def gradient(self, X: Any) -> Floats:
        """Derivative of each row's score by each of its cells."""
        return self._evaluated(X, with_gradient=True)[1]

    def value_and_gradient(self, X: Any) -> tuple[Floats, Floats]:
        """Both, for the cost of the gradient."""
        return self._evaluated(X, with_gradient=True)

    def _summed_errors(self, X: Any) -> Floats:
        """What each column adds to the score, shape (n, d)."""
        X = self._checked(X)
        terms = np.empty_like(X)
        self._in_batches(X, partial(self._fill_errors, terms))
        return terms

    def _evaluated(self, X: Any, *, with_gradient: bool) -> tuple[Floats, Floats]:
        X = self._checked(X)
        values, slopes = np.empty(len(X)), np.empty(X.shape if with_gradient else (0, 0))
        self._in_batches(X, partial(self._fill, values, slopes, with_gradient))
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise InvalidInput(
                f"Row {row} of X is too far from the training rows for a finite score. Scale the columns, or leave "
                "that row out."
            )
        return values, slopes

    def _checked(self, X: Any) -> Floats:
        check_columns(X, self.feature_names)
        return as_floats(X, n_columns=self.feature_shape[0])

    def _in_batches(self, X: Floats, fill: Callable[[slice, Tensor], None]) -> None:
        """Call `fill(rows, scaled rows)` for parts of the rows, in threads where there are several parts."""
        device = self.network.device
        _ = self._scales  # made once, before threads ask for it
        parts = row_batches(len(X), self._row_bytes, BATCH_BYTES[device])

        def one(rows: slice) -> None:
            with one_thread():
                fill(rows, self._scaled(X[rows], device))

        n_jobs = -1 if device == "cpu" else 1
        groups = [parts[i : i + GROUP] for i in range(0, len(parts), GROUP)]
        for group in track(groups, len(groups), "scoring rows"):
            thread_map(one, group, n_jobs)

    def _scaled(self, X: Floats, device: str) -> Tensor:
        import torch

        # A copy: memory that PyTorch aligns itself gives the same bits every time.
        centre, scale = self._scales
        rows = torch.tensor(np.ascontiguousarray(X), device=device)
        return ((rows - centre) / scale).to(getattr(torch, self._dtype))

    @cached_property
    def _scales(self) -> tuple[Tensor, Tensor]:
        import torch

        device = self.network.device
        return torch.tensor(self.scaling.centre, device=device), torch.tensor(self.scaling.scale, device=device)

    def _fill(self, values: Floats, slopes: Floats, with_gradient: bool, rows: slice, Z: Tensor) -> None:
        from torch import autograd, set_grad_enabled

        with set_grad_enabled(with_gradient):
            scores = self._energy(self.network, Z.requires_grad_(with_gradient))
        values[rows] = _to_numpy(scores)
        if with_gradient:
            slopes[rows] = _to_numpy(autograd.grad(scores.sum(), Z)[0].double() / self._scales[1])

    def _fill_errors(self, terms: Floats, rows: slice, Z: Tensor) -> None:
        from torch import no_grad

        with no_grad():
            terms[rows] = _to_numpy(self._errors(self.network, Z))  # type: ignore[misc]


def _to_numpy(tensor: Tensor) -> Floats:
    return np.asarray(tensor.detach().double().cpu().numpy())
