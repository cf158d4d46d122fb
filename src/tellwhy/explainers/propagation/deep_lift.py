"""DeepLIFT, its mean over reference rows, and the mean gradient on random ways from them (GradientShap).

The multipliers stand in `engine/differences.py`: they follow operations, so that networks with attention,
norms and gates add up as feed-forward ones do.
"""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.arrays import draw_sample
from tellwhy.core.errors import InvalidInput, InvalidParameter, NotConverged
from tellwhy.core.params import Rule, Rules, integer, real, seed
from tellwhy.explainers.propagation.base import NETWORK_PARAMETERS, NetworkExplainer, Pass
from tellwhy.explainers.propagation.batches import share_forward
from tellwhy.explainers.propagation.engine.differences import FURTHER
from tellwhy.explainers.propagation.engine.passes import run_forward
from tellwhy.explainers.propagation.engine.steps import Method
from tellwhy.explainers.propagation.programs import Work
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs, read_inputs
from tellwhy.scoring.network_passes import Device, Target, choose_outputs, pick_scores

_MISSING = 0.05  # share of a difference that may be missing without a warning
_baseline_rule = Rule(
    "a number, or what one input holds (one of each, in a tuple)", lambda value: value is not None
)


class _FromReferences(NetworkExplainer):
    """Base of the methods that compare rows with references: what these score is the base value."""

    @abstractmethod
    def _find_references(self, rows: Inputs) -> tuple[Tensor, ...]:
        """Return the references that all rows are compared with, (k, *shape) of each input."""
        ...

    def warn(self, found: Result) -> None:
        """Warn where values do not add up: an operation on the way was taken at its derivative."""
        assert found.base is not None
        change = found.scores - found.base
        gaps = (change - sum(value.flatten(1).sum(dim=1) for value in found.values)).abs()
        bad = (gaps > _MISSING * change.abs()) & (gaps > 1e-5 * (1 + found.scores.abs()))
        if bool(bad.any()):
            warnings.warn(
                f"{type(self).__name__} leaves more than {_MISSING:.0%} of the difference to the reference "
                f"unattributed in {int(bad.sum())} of {len(bad)} rows: an operation that it does not know "
                "was taken at its derivative. `explanation.residual` says how much.",
                NotConverged,
                stacklevel=3,
            )


class DeepLift(_FromReferences):
    """Differences of the output to that of a reference, handed down to the inputs' differences.

    Every operation that is not linear hands down a multiplier, so that values add up to f(x) − f(reference):
    the rescale rule for functions of each element, both halves of a product, and what a maximum gains or
    loses. Softmax, norms and attention are taken apart into these; a softmax at the end is left out, as
    everywhere here. Shrikumar, Greenside, Kundaje, ICML (2017).

    Parameters
    ----------
    model, target, batch_size, device
        As in `Gradient`.
    baseline
        The reference: a number for all cells, or one input (of several inputs one each, in a tuple).

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 1, bias=False), torch.nn.Sigmoid()).eval()
    >>> _ = model[0].weight.data.copy_(torch.tensor([[3.0, -1.0]]))
    >>> found = DeepLift(model).explain([[1.0, 1.0]])
    >>> found.values.round(3), float(found.base_values[0]), bool(abs(found.residual[0]) < 1e-6)
    (array([[ 0.571, -0.19 ]]), 0.5, True)
    """

    _parameters: ClassVar[dict[str, Rules]] = {**NETWORK_PARAMETERS, "baseline": _baseline_rule}

    def __init__(
        self,
        model: Module,
        *,
        target: Target = "max",
        baseline: Any = 0.0,
        batch_size: int | None = None,
        device: Device = None,
    ):
        super().__init__(model, target=target, batch_size=batch_size, device=device)
        self.baseline = baseline

    def passes(self) -> list[Pass]:
        """One way down, by multipliers of differences."""
        return [Pass(Method("difference", operations=FURTHER, references=self._find_references))]

    def _find_references(self, rows: Inputs) -> tuple[Tensor, ...]:
        """Return the one reference."""
        given: Any = self.baseline
        several = list(given) if isinstance(given, (tuple, list)) and not rows.alone else None
        if several is None:
            several = [given] * len(rows.tensors)
        if len(several) != len(rows.tensors):
            raise InvalidParameter(
                f"baseline holds {len(several)} parts, and the network takes {len(rows.tensors)} inputs."
            )
        return tuple(_as_reference(b, t) for b, t in zip(several, rows.tensors, strict=True))


def _as_reference(given: Any, rows: Tensor) -> Tensor:
    """Return one input (1, *shape) of a number or an array."""
    if not rows.is_floating_point():
        raise InvalidInput(
            "DeepLift and GradientShap compare numbers, and X holds tokens. Use IntegratedGradients or LRP, "
            "which explain tokens by the vectors that stand for them."
        )
    shape = rows.shape[1:]
    try:
        values = torch.as_tensor(given, dtype=rows.dtype, device=rows.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidParameter(f"baseline must be a number, or an array. Got {given!r} instead.") from error
    if values.ndim and tuple(values.shape) not in (tuple(shape), (1, *shape)):
        raise InvalidParameter(
            f"baseline must be a number, or an array like one input, of shape {tuple(shape)}. Got shape "
            f"{tuple(values.shape)} instead."
        )
    return values.expand((1, *shape)) if values.ndim <= len(shape) else values


class _KeepsReferences(_FromReferences):
    """Base of the methods whose references are rows that `fit` is given."""

    max_background: int
    random_state: Any
    references_: Any = None

    def fit(self, X: Any) -> Self:
        """Keep reference rows.

        Parameters
        ----------
        X
            Rows like those to explain.

        Returns
        -------
        Self
            The explainer.
        """
        self.check()
        given = read_inputs(X, None)
        rng = np.random.default_rng(self.random_state)
        self.references_ = given.take(np.sort(draw_sample(len(given), self.max_background, rng)))
        return self

    def _find_references(self, rows: Inputs) -> tuple[Tensor, ...]:
        """Return the rows that were kept."""
        kept = self.references_
        if kept is None:
            raise InvalidInput(
                f"{type(self).__name__} compares rows with others: call fit(X) with them first, or "
                "tellwhy.explain(…, background=rows)."
            )
        if len(kept.tensors) != len(rows.tensors):
            raise InvalidInput(
                f"fit got {len(kept.tensors)} inputs, and X holds {len(rows.tensors)}. Give both the same."
            )
        pairs = list(zip(kept.tensors, rows.tensors, strict=True))
        for some, t in pairs:
            _as_reference(some[:1], t)  # refuses what is no reference for these rows
        return tuple(some.to(t) for some, t in pairs)


class DeepLiftShap(_KeepsReferences, DeepLift):
    """The mean of DeepLift over reference rows: near to Shapley values where features act apart.

    Lundberg, Lee, NeurIPS (2017).

    Parameters
    ----------
    model, target, batch_size, device
        As in `Gradient`.
    max_background
        Reference rows that are used at most, drawn at random from those of `fit`.
    random_state
        Seed of that draw.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1, bias=False).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[2.0, -1.0]]))
    >>> DeepLiftShap(model).fit([[0.0, 0.0], [2.0, 2.0]]).explain([[3.0, 2.0]]).values
    array([[ 4., -1.]])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        **NETWORK_PARAMETERS,
        "max_background": integer(1),
        "random_state": seed,
    }

    def __init__(
        self,
        model: Module,
        *,
        target: Target = "max",
        max_background: int = 100,
        batch_size: int | None = None,
        device: Device = None,
        random_state: Any = 0,
    ):
        super().__init__(model, target=target, batch_size=batch_size, device=device)
        self.max_background = max_background
        self.random_state = random_state

    def explain_batch(
        self,
        model: Module,
        rows: Inputs,
        target: Any,
        *,
        rng: np.random.Generator,  # noqa: ARG002
        down: Work,  # noqa: ARG002
    ) -> Result:
        """Explain some rows: as many references at once as there is room for copies of the rows."""
        self._find_references(rows)
        kept = self.references_
        together = max(1, self.rows_at_once // len(rows))
        totals: list[Tensor] = []
        for start in range(0, len(kept), together):
            some = np.arange(start, min(start + together, len(kept)))
            one = copy.copy(self)
            one.references_ = kept.take(np.repeat(some, len(rows)))
            copies = rows.take(np.tile(np.arange(len(rows)), len(some)))
            wanted = np.tile(target, len(some)) if isinstance(target, np.ndarray) else target
            found = share_forward([one], model, copies, [wanted])[0]
            assert found.base is not None
            sums = [t.unflatten(0, (len(some), -1)).sum(dim=0) for t in (*found.values, found.base)]
            totals = [a + b for a, b in zip(totals, sums, strict=True)] if totals else sums
        *values, base = [total / len(kept) for total in totals]
        return replace(found.rows(slice(len(rows))), values=values, base=base)


class GradientShap(_KeepsReferences):
    """Mean of gradient times difference, at random places on the ways from random reference rows.

    E[(x − r) ∇f(r + a(x − r))], with r drawn from the rows of `fit` and a from [0, 1]: integrated gradients
    averaged over reference rows, known as expected gradients too. Lundberg, Lee, NeurIPS (2017); Erion,
    Janizek, Sturmfels, Lundberg, Lee, Nature Machine Intelligence 3 (2021).

    Parameters
    ----------
    model, target, batch_size, device
        As in `Gradient`.
    n_samples
        Draws for each row. References are gone through in turn, and the places a are spread evenly with a
        random shift, so that errors are smaller than those of independent draws.
    noise
        Standard deviation of noise that is added to x in each draw, as a share of the row's range.
    max_background
        Reference rows that are used at most.
    random_state
        Seed of the draws.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Linear(2, 1, bias=False).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[2.0, -1.0]]))
    >>> GradientShap(model, n_samples=4).fit([[0.0, 0.0], [2.0, 2.0]]).explain([[3.0, 1.0]]).values
    array([[4., 0.]])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        **NETWORK_PARAMETERS,
        "n_samples": integer(1),
        "noise": real(0, closed="left"),
        "max_background": integer(1),
        "random_state": seed,
    }

    def __init__(
        self,
        model: Module,
        *,
        target: Target = "max",
        n_samples: int = 64,
        noise: float = 0.0,
        max_background: int = 100,
        batch_size: int | None = None,
        device: Device = None,
        random_state: Any = 0,
    ):
        super().__init__(model, target=target, batch_size=batch_size, device=device)
        self.n_samples = n_samples
        self.noise = noise
        self.max_background = max_background
        self.random_state = random_state

    def passes(self) -> list[Pass]:
        """One way down from each place, by derivatives."""
        return [Pass(Method("gradient"))]

    def explain_batch(
        self, model: Module, rows: Inputs, target: Any, *, rng: np.random.Generator, down: Work
    ) -> Result:
        """Explain some rows: all of them at once, one draw after the other."""
        references = self._find_references(rows)
        at_rows = run_forward(model, rows, [Method("gradient")])
        outputs = at_rows.outputs.detach()
        chosen = choose_outputs(outputs, target)
        wanted = target if callable(target) else chosen.cpu().numpy()
        start = rng.integers(len(references[0]))
        shift = rng.random()  # the same for all rows, which are explained alike whatever stands beside them
        totals = [torch.zeros_like(t) for t in rows.tensors]
        for draw in range(self.n_samples):
            own = [r[(start + draw) % len(r)] for r in references]
            share = (shift + draw * _GOLDEN) % 1.0
            ways = [self._noisy(t, rng) - r for t, r in zip(rows.tensors, own, strict=True)]
            places = tuple(r + share * way for r, way in zip(own, ways, strict=True))
            slopes = down(replace(rows, tensors=places, nonnegative=()), [wanted])[0].values
            totals = [a + slope * way for a, slope, way in zip(totals, slopes, ways, strict=True)]
        values = [total / self.n_samples for total in totals]
        base = self._score_references(model, rows, references, wanted)
        return Result(values, pick_scores(outputs, target), chosen, at_rows.softmax, base=base)

    def _noisy(self, t: Tensor, rng: np.random.Generator) -> Tensor:
        if not self.noise:
            return t
        ranges = (t.flatten(1).amax(1) - t.flatten(1).amin(1)).reshape(-1, *[1] * (t.ndim - 1))
        return t + self.noise * ranges * torch.from_numpy(rng.standard_normal(tuple(t.shape))).to(t)

    def _score_references(
        self, model: Module, rows: Inputs, references: tuple[Tensor, ...], wanted: Any
    ) -> Tensor:
        """Return the mean score of the references, for the output that each row is explained for."""
        every = replace(rows, tensors=references)
        parts = [
            run_forward(model, every.rows(slice(at, at + self.rows_at_once)), [Method("gradient")]).outputs
            for at in range(0, len(every), self.rows_at_once)
        ]
        found = torch.cat(parts).detach()
        if callable(wanted):
            return pick_scores(found, wanted).mean().expand(len(rows))
        return found.reshape(len(found), -1).mean(dim=0)[torch.as_tensor(wanted, device=found.device)]

    def warn(self, found: Result) -> None:
        """Say nothing: a mean of draws is not exact."""


_GOLDEN = 0.6180339887498949  # multiples of the golden section fill [0, 1] evenly, however many there are
