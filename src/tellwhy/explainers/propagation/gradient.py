"""Derivatives of a network's output: the gradient, its product with the input, its mean over noisy inputs.

DeconvNet and guided backprop rectify what comes down to a ReLU: c is what comes, z its input, a its output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.params import Rules, integer, none, one_of, real, seed
from tellwhy.explainers.propagation.base import NETWORK_PARAMETERS, NetworkExplainer, Pass
from tellwhy.explainers.propagation.engine.passes import run_forward
from tellwhy.explainers.propagation.engine.steps import Method
from tellwhy.explainers.propagation.programs import Work
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_passes import Device, Target, choose_outputs, pick_scores


class Gradient(NetworkExplainer):
    """∂f/∂x: how fast the output changes with each input.

    Simonyan, Vedaldi, Zisserman, ICLR Workshop (2014).

    Parameters
    ----------
    model
        A `torch.nn.Module` in evaluation mode. It is not changed.
    target, batch_size, device
        The explained output, the rows that go through the model at once, and where to compute: as in
        `tellwhy.scoring.NetworkOutput`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1, bias=False).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[2.0, -1.0]]))
    >>> Gradient(model).explain([[3.0, 1.0]]).values
    array([[ 2., -1.]])
    """

    kind = "sensitivity"

    def passes(self) -> list[Pass]:
        """One way down, by derivatives."""
        return [Pass(Method("gradient"))]


class InputTimesGradient(NetworkExplainer):
    """x · ∂f/∂x: the share of each input in a network that is linear around x; LRP-0 on networks of ReLUs.

    Shrikumar, Greenside, Kundaje, ICML (2017). Parameters as in `Gradient`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1, bias=False).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[2.0, -1.0]]))
    >>> InputTimesGradient(model).explain([[3.0, 1.0]]).values
    array([[ 6., -1.]])
    """

    def passes(self) -> list[Pass]:
        """One way down, by derivatives."""
        return [Pass(Method("gradient", multiply=True))]


class SmoothGrad(NetworkExplainer):
    """Mean of the gradients at noisy copies of the input, each first made absolute or squared if wanted.

    The noise is normal with a standard deviation of `noise` times the range of the row. The explained output
    is chosen at the row itself. Smilkov et al., arXiv:1706.03825 (2017).

    Parameters
    ----------
    model, target, batch_size, device
        As in `Gradient`.
    n_samples
        Noisy copies per row.
    noise
        Standard deviation of the noise, as a share of the range (largest − smallest value) of each row.
    postprocess
        None, "abs" or "square": what is done to each gradient before the mean.
    random_state
        Seed of the noise.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1, bias=False).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[2.0, -1.0]]))
    >>> SmoothGrad(model, postprocess="square", random_state=0).explain([[3.0, 1.0]]).values
    array([[4., 1.]])
    """

    kind = "sensitivity"
    _parameters: ClassVar[dict[str, Rules]] = {
        **NETWORK_PARAMETERS,
        "n_samples": integer(1),
        "noise": real(0, closed="left"),
        "postprocess": (none, one_of("abs", "square")),
        "random_state": seed,
    }

    def __init__(
        self,
        model: Module,
        *,
        target: Target = "max",
        batch_size: int | None = None,
        device: Device = None,
        n_samples: int = 50,
        noise: float = 0.1,
        postprocess: str | None = None,
        random_state: Any = 0,
    ):
        super().__init__(model, target=target, batch_size=batch_size, device=device)
        self.n_samples = n_samples
        self.noise = noise
        self.postprocess = postprocess
        self.random_state = random_state

    def passes(self) -> list[Pass]:
        """One way down from each noisy copy, by derivatives."""
        return [Pass(Method("gradient"))]

    def explain_batch(
        self, model: Module, rows: Inputs, target: Any, *, rng: np.random.Generator, down: Work
    ) -> Result:
        """Explain some rows, one after the other: noisy copies of a row fill a batch."""
        forward = run_forward(model, rows, [Method("gradient")])
        outputs = forward.outputs.detach()
        chosen = choose_outputs(outputs, target)
        # The output that is largest at the row itself, also where noise makes another one larger.
        own = chosen.cpu().numpy()
        means = []
        for i in range(len(rows)):
            wanted = target if callable(target) else own[i : i + 1]
            means.append(self._smooth(rows.rows(slice(i, i + 1)), wanted, rng, down))
        values = [torch.cat(parts) for parts in zip(*means, strict=True)]
        return Result(values, pick_scores(outputs, target), chosen, forward.softmax)

    def _smooth(self, row: Inputs, target: Any, rng: np.random.Generator, down: Work) -> list[Tensor]:
        """Mean over noisy copies of one row."""
        totals: list[Tensor] = []
        for start in range(0, self.n_samples, self.rows_at_once):
            n = min(self.rows_at_once, self.n_samples - start)
            copies = tuple(_noisy(t, n, self.noise, rng) for t in row.tensors)
            noisy = replace(row, tensors=copies, nonnegative=())  # noise may have made values negative
            found = down(noisy, [target if callable(target) else np.repeat(target, n)])[0].values
            sums = [_PROCESS[self.postprocess](value).sum(dim=0, keepdim=True) for value in found]
            totals = [a + b for a, b in zip(totals, sums, strict=True)] if totals else sums
        return [total / self.n_samples for total in totals]


def _noisy(row: Tensor, n: int, noise: float, rng: np.random.Generator) -> Tensor:
    """Copies of one row (1, *shape) with noise in proportion to its range; tokens as they are."""
    if not row.is_floating_point():
        return row.expand(n, *row.shape[1:])
    # Drawn by numpy, so that a seed gives the same noise on every device.
    drawn = torch.from_numpy(rng.standard_normal((n, *row.shape[1:]))).to(row)
    return row + noise * (row.max() - row.min()) * drawn


_PROCESS: dict[str | None, Callable[[Tensor], Tensor]] = {
    None: lambda g: g,
    "abs": torch.abs,
    "square": torch.square,
}


def deconvolution(c: Tensor, z: Tensor, a: Tensor) -> Tensor:  # noqa: ARG001
    """Rectify what comes down, whether the unit was active or not: ReLU is applied to the signal itself."""
    return c.clamp(min=0)


def guided(c: Tensor, z: Tensor, a: Tensor) -> Tensor:
    """Rectify what comes down, through active units only."""
    return c.clamp(min=0) * ((z > 0) & (a == z))  # above its bound ReLU6 is not active either


class DeconvNet(NetworkExplainer):
    """The gradient with another backward pass of ReLU: negative parts of what comes down are cut off.

    Zeiler, Fergus, ECCV (2014). Parameters as in `Gradient`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 1, bias=False)).eval()
    >>> _ = model[1].weight.data.copy_(torch.tensor([[2.0, -1.0]]))
    >>> DeconvNet(model).explain([[-3.0, 1.0]]).values
    array([[2., 0.]])
    """

    kind = "signal"

    def passes(self) -> list[Pass]:
        """One way down, by derivatives with another ReLU."""
        return [Pass(Method("gradient", rectifier=deconvolution))]


class GuidedBackprop(NetworkExplainer):
    """The gradient with another backward pass of ReLU: only positive parts, only through active units.

    Springenberg et al., ICLR Workshop (2015). Parameters as in `Gradient`.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 1, bias=False)).eval()
    >>> _ = model[1].weight.data.copy_(torch.tensor([[2.0, -1.0]]))
    >>> GuidedBackprop(model).explain([[-3.0, 1.0]]).values
    array([[0., 0.]])
    """

    kind = "signal"

    def passes(self) -> list[Pass]:
        """One way down, by derivatives with another ReLU."""
        return [Pass(Method("gradient", rectifier=guided))]
