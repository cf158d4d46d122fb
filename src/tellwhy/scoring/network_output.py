"""One output of a PyTorch network as a score, with its gradient; PyTorch is loaded when it is used."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.optional import require
from tellwhy.core.params import instance_of, integer, none, validate_value
from tellwhy.core.progress import track
from tellwhy.core.running import NETWORK_BATCH
from tellwhy.core.score import Floats, Integers, IsTensor

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module

    from tellwhy.scoring.network_passes import CheckedTarget, Device, Placed, Target


class NetworkOutput:
    """One output of a network for each row. A softmax at the network's end is left out.

    The output may be chosen by its size, or given per row. `fixed(X)` tells which one each row has; handing
    that to `value` and `gradient` keeps the same output when the row is changed.

    Parameters
    ----------
    model
        A `torch.nn.Module` in evaluation mode. It is not changed.
    target
        The explained output: "max" (the largest one), its number, one number per row, or a function from the
        outputs (n, k) to one number per row.
    batch_size
        Rows that go through the model at once; None: 32.
    device
        Where to compute; by default where the model is. Elsewhere a copy of the model is used.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 2, bias=False).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[2.0, -1.0], [0.0, 1.0]]))
    >>> score = NetworkOutput(model)
    >>> X = np.array([[3.0, 1.0], [0.0, 2.0]])
    >>> score.value(X), score.fixed(X)[0], score.value(np.zeros((2, 2)), *score.fixed(X))
    (array([5., 2.]), array([0, 1]), array([0., 0.]))
    >>> score.gradient(X)
    array([[ 2., -1.],
           [ 0.,  1.]])
    """

    any_shape = True  # rows may be images, sequences, …
    feature_shape: tuple[int, ...] | None = None
    feature_names: list[str] | None = None
    threshold: float | None = None

    has_levels = False  # True: rows are tokens, whole numbers that stand for something

    def __init__(
        self, model: Module, target: Target = "max", *, batch_size: int | None = None, device: Device = None
    ):
        self.model = model
        self.target = target
        self.batch_size = NETWORK_BATCH if batch_size is None else batch_size
        self.device = device
        self._softmax = ""  # name of a trailing softmax, once one was met

    @cached_property
    def _placed(self) -> Placed:
        """The model where it computes, its device and its type."""
        torch = require("torch", "explaining a network")
        from tellwhy.scoring.network_passes import check_model, placed

        device = (none, instance_of(str, torch.device, words="a device"))
        validate_value("NetworkOutput", "batch_size", self.batch_size, integer(1))
        validate_value("NetworkOutput", "device", self.device, device)
        check_model(self.model)
        return placed(self.model, self.device)

    @property
    def describes(self) -> str:
        """Which output it is."""
        from tellwhy.scoring.network_passes import describe

        if isinstance(self.target, str) or callable(self.target):
            return describe(self.target, self._softmax)
        target = np.asarray(self.target)
        return describe(int(target) if target.ndim == 0 else target, self._softmax)

    def fixed(self, X: Any) -> tuple[Integers, ...]:
        """Further arguments of `value` and `gradient` that keep each row's output: its number.

        None for a function of the outputs, which is the same for all rows anyway.
        """
        from tellwhy.scoring.network_passes import check_target, choose_outputs

        X = np.asarray(X)
        target = check_target(self.target, len(X))
        if callable(target):
            return ()
        if not isinstance(target, str):
            return (np.broadcast_to(np.asarray(target, dtype=np.int64), len(X)).copy(),)
        found = [choose_outputs(outputs, target).cpu().numpy() for outputs in self._outputs(X)]
        return (np.concatenate(found),)

    def value(self, X: Any, outputs: Integers | None = None) -> Floats:
        """Return the explained number of each row; tensors stay where they are until they are scored."""
        from tellwhy.scoring.network_passes import of_rows, pick_scores

        X = X if isinstance(X, IsTensor) else np.asarray(X)
        wanted = self._targets(len(X), outputs)
        values = np.empty(len(X))
        for found, rows in zip(self._outputs(X), self._slices(len(X)), strict=True):
            values[rows] = _numbers(pick_scores(found, of_rows(wanted, rows)))
        return self._finite(values)

    def place(self, X: Any) -> Tensor:
        """Return rows as the network takes them, on its device: rows made of them there need no copy."""
        return self._tensor(np.asarray(X))

    def gradient(self, X: Any, outputs: Integers | None = None) -> Floats:
        """Derivative of each row's number by each of its cells."""
        return self.value_and_gradient(X, outputs)[1]

    def value_and_gradient(self, X: Any, outputs: Integers | None = None) -> tuple[Floats, Floats]:
        """Both, for the cost of the gradient."""
        from tellwhy.scoring.network_passes import compute_slopes_of, of_rows, pick_scores, untouched

        X = np.asarray(X)
        wanted = self._targets(len(X), outputs)
        values = np.empty(len(X))
        slopes = np.empty(X.shape)
        with untouched(self._placed.device):
            for rows in self._slices(len(X)):
                pick = partial(pick_scores, target=of_rows(wanted, rows))
                scores, gradients = compute_slopes_of(self._placed.model, self._tensor(X[rows]), pick)
                values[rows] = _numbers(scores)
                slopes[rows] = _numbers(gradients)
        self._finite(slopes)
        return self._finite(values), slopes

    def _targets(self, n_rows: int, outputs: Integers | None) -> CheckedTarget:
        from tellwhy.scoring.network_passes import check_target

        return check_target(self.target if outputs is None else outputs, n_rows)

    def _outputs(self, X: Any) -> Iterator[Tensor]:
        """Outputs of each batch, one after the other."""
        import torch

        from tellwhy.scoring.network_passes import compute_outputs_of, untouched

        model = self._placed.model
        batches = self._slices(len(X))
        for rows in track(batches, len(batches), f"applying {type(model).__name__}"):
            # Left again before the yield: what the caller does meanwhile is not to run inside.
            with untouched(self._placed.device), torch.no_grad():
                outputs, self._softmax = compute_outputs_of(model, self._tensor(X[rows]))
            yield outputs

    def _slices(self, n_rows: int) -> list[slice]:
        return [slice(start, start + self.batch_size) for start in range(0, n_rows, self.batch_size)]

    def _tensor(self, X: Any) -> Any:
        from tellwhy.scoring.network_passes import as_tensor

        there: Any = X
        if isinstance(X, IsTensor) and not self.has_levels and there.is_floating_point():
            # A copy of it: a model may work in place.
            return there.detach().to(self._placed.device, self._placed.dtype, copy=True)
        X = np.asarray(X)
        rows = np.rint(X).astype(np.int64) if self.has_levels else X
        return as_tensor(np.ascontiguousarray(rows), self._placed.device, self._placed.dtype)

    def _finite(self, numbers: Floats) -> Floats:
        finite = np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise InvalidInput(
                f"{self.describes}, or its gradient, is not finite for row {row}. Check the weights, the "
                "scale of the rows, and whether the type of the weights is wide enough."
            )
        return numbers


def has_parts(model: Any, X: Any) -> bool:
    """Whether a network gets more than one array of numbers: several inputs, or tokens for an embedding."""
    if isinstance(X, (tuple, dict)):
        return True
    from torch.nn import Embedding

    if not any(isinstance(module, Embedding) for module in model.modules()):
        return False
    kind = str(getattr(X, "dtype", "")) or str(np.asarray(X).dtype)
    return "int" in kind


def _numbers(tensor: Tensor) -> Floats:
    return np.asarray(tensor.detach().double().cpu().numpy())
