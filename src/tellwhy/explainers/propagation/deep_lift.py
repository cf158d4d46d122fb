"""DeepLIFT, its mean over reference rows, and the mean gradient on random ways from them (GradientShap).

The multipliers stand in `engine/differences.py`: they follow operations, so that networks with attention,
norms and gates add up as feed-forward ones do.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.arrays import draw_sample
from tellwhy.core.errors import InvalidInput, InvalidParameter, NotConverged, TellwhyError
from tellwhy.core.params import Rule, Rules, integer, real, seed
from tellwhy.core.score import Floats
from tellwhy.explainers.propagation.base import NETWORK_PARAMETERS, NetworkExplainer, Pass
from tellwhy.explainers.propagation.engine.differences import DifferenceMode, mark_rows
from tellwhy.explainers.propagation.engine.steps import Method
from tellwhy.explainers.propagation.programs import Work
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs, read_inputs
from tellwhy.scoring.network_passes import (
    Device,
    Target,
    TrailingSoftmax,
    choose_outputs,
    pick_scores,
    untouched,
)

_MISSING = 0.05  # share of a difference that may be missing without a warning
_baseline_rule = Rule(
    "a number, or what one input holds (one of each, in a tuple)", lambda value: value is not None
)


class _FromReferences(NetworkExplainer):
    """Base of the methods that compare rows with references: what these score is the base value."""

    shares_forward = False

    def passes(self) -> list[Pass]:
        """Return the derivative: what it hands down is changed on the way."""
        return [Pass(Method("gradient"))]

    @abstractmethod
    def _find_references(self, rows: Inputs) -> list[tuple[Tensor, ...]]:
        """Return the references that all rows are compared with: of each, one tensor an input."""
        ...

    def explain(
        self,
        X: Any,
        *,
        progress: bool | None = None,
        output: str = "numpy",
        differentiable: bool = False,
        compile: bool | str = "auto",
    ) -> Any:
        """Explain the model's output for each row of X, against references.

        Parameters
        ----------
        X
            Rows: a tensor or an array (n, *shape); for models of several inputs a tuple of them, or a dict.
        progress
            As in `Gradient`.
        output, differentiable, compile
            These methods give arrays, and do not become programs: other settings than the usual are refused.

        Returns
        -------
        An `Explanation`, whose base values are the mean score of the references; for several inputs one of
        each.
        """
        usual = {
            "output": (output, "numpy"),
            "differentiable": (differentiable, False),
            "compile": (compile, "auto"),
        }
        for name, (given, expected) in usual.items():
            if given != expected:
                raise InvalidParameter(
                    f"{name}={given!r} is not for {type(self).__name__}, which goes through the network in "
                    "another way. Leave it out."
                )
        found = super().explain(X, progress=progress)
        model, rows = self.prepare(X)
        parts = [found] if rows.alone else list(found.values() if rows.names else found)
        base = self._score_references(model, rows, parts[0].extras.get("output"))
        made = [replace(part, base_values=part.base_values + base) for part in parts]
        self._check_sums(made[0])
        return rows.like_given(made)

    def _score_references(self, model: Module, rows: Inputs, chosen: Any) -> Floats:
        """Return the mean score of the references, for the output that each row is explained for."""
        total = np.zeros(len(rows))
        references = self._find_references(rows)
        with untouched(rows.tensors[0].device), torch.no_grad():
            for reference in references:
                watch = TrailingSoftmax()
                with watch:
                    given = rows.apply(model, [t.clone() for t in reference])
                outputs, _ = watch.left_out(given)
                if callable(self.target):
                    total += float(pick_scores(outputs, self.target)[0])
                else:
                    total += outputs.reshape(-1).double().cpu().numpy()[np.asarray(chosen)]
        return total / len(references)

    def _check_sums(self, found: Any) -> None:
        """Warn where values do not add up: an operation on the way was taken at its derivative."""
        gaps = np.abs(found.residual)
        sizes = np.abs(found.scores - found.base_values)
        bad = (gaps > _MISSING * sizes) & (gaps > 1e-5 * (1 + np.abs(found.scores)))
        if self.promises_sums and bad.any():
            warnings.warn(
                f"{type(self).__name__} leaves more than {_MISSING:.0%} of the difference to the reference "
                f"unattributed in {int(bad.sum())} of {len(bad)} rows: an operation that it does not know "
                "was taken at its derivative. `explanation.residual` says how much.",
                NotConverged,
                stacklevel=3,
            )

    promises_sums: ClassVar[bool] = True


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

    def _find_references(self, rows: Inputs) -> list[tuple[Tensor, ...]]:
        """Return the one reference."""
        given: Any = self.baseline
        several = list(given) if isinstance(given, (tuple, list)) and not rows.alone else None
        if several is None:
            several = [given] * len(rows.tensors)
        if len(several) != len(rows.tensors):
            raise InvalidParameter(
                f"baseline holds {len(several)} parts, and the network takes {len(rows.tensors)} inputs."
            )
        return [tuple(_as_reference(b, t) for b, t in zip(several, rows.tensors, strict=True))]

    def explain_batch(
        self,
        model: Module,
        rows: Inputs,
        target: Any,
        *,
        rng: np.random.Generator,  # noqa: ARG002
        down: Work,  # noqa: ARG002
    ) -> Result:
        """Explain some rows: the mean over references of what each of them gives."""
        references = self._find_references(rows)
        together = max(1, self.rows_at_once // len(rows))
        totals = [torch.zeros_like(t) for t in rows.tensors]
        for start in range(0, len(references), together):
            some = references[start : start + together]
            found = _hand_down(model, rows, some, target)
            totals = [a + b for a, b in zip(totals, found.values, strict=True)]
        return replace(found, values=[total / len(references) for total in totals])


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


def _apply(model: Module, rows: Inputs, tensors: list[Tensor]) -> Any:
    """Apply a network, or say that it does not take these rows."""
    try:
        return rows.apply(model, tensors)
    except TellwhyError:
        raise
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{type(model).__name__} cannot be applied to {rows.words} (rows first): {error}"
        ) from error


def _hand_down(model: Module, rows: Inputs, references: list[tuple[Tensor, ...]], target: Any) -> Result:
    """Hand the differences of some rows to each reference down; values are sums over the references."""
    k = len(references)
    n = k * len(rows)
    leaves = []
    for t, several in zip(rows.tensors, zip(*references, strict=True), strict=True):
        compared = torch.cat([r.expand_as(t) for r in several])
        leaves.append(torch.cat([*[t] * k, compared]).requires_grad_())
    with torch.enable_grad():
        with DifferenceMode():
            watch = TrailingSoftmax()
            with watch:
                given = _apply(model, rows, [mark_rows(leaf.clone()) for leaf in leaves])
        outputs, softmax = watch.left_out(given)
        own = outputs[: len(rows)]
        chosen = choose_outputs(own, target).repeat(k)
        picked = target if callable(target) else torch.cat([chosen, chosen]).cpu().numpy()
        scores = pick_scores(outputs, picked)
        slopes = torch.autograd.grad(scores.sum(), leaves, allow_unused=True)
    values = []
    for leaf, slope in zip(leaves, slopes, strict=True):
        difference = (leaf[:n] - leaf[n:]).detach()
        shares = torch.zeros_like(difference) if slope is None else slope[:n] * difference
        values.append(shares.reshape(k, len(rows), *difference.shape[1:]).sum(dim=0))
    return Result(values, scores[: len(rows)].detach(), chosen[: len(rows)], softmax)


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

    def _find_references(self, rows: Inputs) -> list[tuple[Tensor, ...]]:
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
        return [
            tuple(_as_reference(k[i], t) for k, t in zip(kept.tensors, rows.tensors, strict=True))
            for i in range(len(kept))
        ]


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

    promises_sums = False  # a mean of draws
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

    def explain_batch(
        self,
        model: Module,
        rows: Inputs,
        target: Any,
        *,
        rng: np.random.Generator,
        down: Work,  # noqa: ARG002
    ) -> Result:
        """Explain some rows: all of them at once, one draw after the other."""
        references = self._find_references(rows)
        with torch.no_grad():
            watch = TrailingSoftmax()
            with watch:
                given = _apply(model, rows, [t.clone() for t in rows.tensors])
            outputs, softmax = watch.left_out(given)
        chosen = choose_outputs(outputs, target)
        pick = partial(pick_scores, target=target if callable(target) else chosen.cpu().numpy())
        start = rng.integers(len(references))
        shift = rng.random()  # the same for all rows, which are explained alike whatever stands beside them
        totals = [torch.zeros_like(t) for t in rows.tensors]
        for draw in range(self.n_samples):
            reference = references[(start + draw) % len(references)]
            share = (shift + _spread(draw)) % 1.0
            points = self._draw_points(rows, reference, share, rng)
            parts = _slopes_times_differences(model, rows, points, pick)
            totals = [a + b for a, b in zip(totals, parts, strict=True)]
        values = [total / self.n_samples for total in totals]
        return Result(values, pick(outputs), chosen, softmax)

    def _draw_points(
        self, rows: Inputs, reference: tuple[Tensor, ...], share: float, rng: np.random.Generator
    ) -> list[tuple[Tensor, Tensor]]:
        """Return a place on the way of each row from a reference, and the whole way, for each input."""
        found = []
        for t, r in zip(rows.tensors, reference, strict=True):
            x = t
            if self.noise:
                ranges = (t.flatten(1).amax(1) - t.flatten(1).amin(1)).reshape(-1, *[1] * (t.ndim - 1))
                x = t + self.noise * ranges * torch.from_numpy(rng.standard_normal(tuple(t.shape))).to(t)
            found.append(((r + share * (x - r)).detach().requires_grad_(), x - r))
        return found


def _slopes_times_differences(
    model: Module, rows: Inputs, points: list[tuple[Tensor, Tensor]], pick: Callable[[Tensor], Tensor]
) -> list[Tensor]:
    """Return the gradient at some points, times the ways that they stand on."""
    places = [place for place, _ in points]
    with torch.enable_grad():
        watch = TrailingSoftmax()
        with watch:
            given = rows.apply(model, [place.view_as(place) for place in places])
        outputs, _ = watch.left_out(given)
        slopes = torch.autograd.grad(pick(outputs).sum(), places, allow_unused=True)
    return [
        torch.zeros_like(way) if slope is None else slope * way
        for slope, (_, way) in zip(slopes, points, strict=True)
    ]


def _spread(draw: int) -> float:
    """Return places that fill [0, 1] evenly, however many there are: multiples of the golden section."""
    return (draw * 0.6180339887498949) % 1.0
