"""What the units of a layer inside a network do for its output: conductance and its relatives.

The network is run as it is; the output of one module is watched, or another tensor is put into its place, by
a hook of the process that is gone after the call. So it makes no difference which operations come before or
after it, or beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_hook

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyError, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Extras
from tellwhy.core.params import Rule, Rules, instance_of, integer, one_of
from tellwhy.core.progress import shown, track
from tellwhy.explainers.propagation.base import NETWORK_PARAMETERS, NetworkExplainer, Pass
from tellwhy.explainers.propagation.engine.steps import Method
from tellwhy.explainers.propagation.programs import Work
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_passes import (
    CheckedTarget,
    Device,
    Target,
    TrailingSoftmax,
    check_target,
    choose_outputs,
    describe,
    of_rows,
    pick_scores,
    tensor_of,
    untouched,
)

KINDS = {
    "conductance": "attribution",
    "integrated_gradients": "attribution",
    "gradient": "sensitivity",
    "activation_times_gradient": "attribution",
    "activation": "signal",
    "ablation": "attribution",
}
"""The methods, and what their values are."""


class Run(NamedTuple):
    """Explained numbers of some rows, which outputs they are, and the layer's output."""

    scores: Tensor
    outputs: Tensor
    units: Tensor
    softmax: str


@contextmanager
def at_layer(module: Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """A block in which a module's output goes through a function, in this thread; the first time it runs."""
    here = threading.get_ident()
    met: list[bool] = []

    def hook(ran: Module, _args: Any, output: Any) -> Any:
        if ran is not module or threading.get_ident() != here or met:
            return None
        if not isinstance(output, Tensor) or not output.is_floating_point():
            raise UnsupportedModel(
                f"The layer gives {type(output).__name__}, not one tensor of numbers. Name another layer."
            )
        met.append(True)
        return change(output)

    handle = register_module_forward_hook(hook)  # of the process: nothing is attached to the network
    try:
        yield
    finally:
        handle.remove()
    if not met:
        raise InvalidInput("The module that was named does not run when the network is applied.")


class LayerAttribution(NetworkExplainer):
    """Shares of the output among the units of a layer, or what those units are, for each row.

    With h(x) the layer's output, h' that of the baseline, and f the explained output:

    - "conductance": ∫ ∂f/∂h · dh/dt dt while all inputs go straight from the baseline to x (Dhamdhere,
      Sundararajan, Yan, ICLR 2019). Where everything passes through the layer, values add up to f(x) − f(x').
    - "integrated_gradients": (h − h') ∫ ∂f/∂h dt while the layer's output goes from h' to h and inputs stay.
    - "activation_times_gradient": h · ∂f/∂h, and "gradient": ∂f/∂h.
    - "activation": h itself.
    - "ablation": how much f falls when a unit alone is as in the baseline.

    What the base value is the output of: the baseline's inputs for conductance, inputs with the layer's
    output h' for integrated gradients and ablation, nothing for the others. Values, and `data` (h), have the
    shape of the layer's output. For a neuron as the output that is explained, see
    `tellwhy.scoring.UpToLayer`.

    Parameters
    ----------
    model, target, batch_size, device
        As in `Gradient`.
    layer
        Name of the module, as in `model.named_modules()`.
    method
        One of the above.
    baseline
        A number for all cells of all inputs, or one input (of several inputs one each, in a tuple).
    n_steps
        Points of the way, for conductance and integrated gradients.

    Examples
    --------
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 1)).eval()
    >>> for layer, weights in ((0, [[1.0, 0.0], [0.0, 1.0]]), (2, [[2.0, -1.0]])):
    ...     _ = model[layer].weight.data.copy_(torch.tensor(weights))
    ...     _ = model[layer].bias.data.zero_()
    >>> LayerAttribution(model, layer="1").explain([[3.0, 1.0]]).values
    array([[ 6., -1.]])
    """

    kind = "attribution"
    _parameters: ClassVar[dict[str, Rules]] = {
        **NETWORK_PARAMETERS,
        "layer": instance_of(str, words="a module's name"),
        "method": one_of(*KINDS),
        "baseline": Rule("a number, or one input (of several, one each in a tuple)", lambda v: v is not None),
        "n_steps": integer(1),
    }

    def __init__(
        self,
        model: Module,
        *,
        layer: str,
        method: str = "conductance",
        target: Target = "max",
        baseline: Any = 0.0,
        n_steps: int = 32,
        batch_size: int | None = None,
        device: Device = None,
    ):
        super().__init__(model, target=target, batch_size=batch_size, device=device)
        self.layer = layer
        self.method = method
        self.baseline = baseline
        self.n_steps = n_steps

    def passes(self) -> list[Pass]:
        """Return the derivative."""
        return [Pass(Method("gradient"))]

    def explain(self, X: Any, *, progress: bool | None = None) -> Explanation:  # type: ignore[override]
        """Explain the output for each row of X by the units of the layer.

        Parameters
        ----------
        X
            A tensor or an array (n, *shape); for models of several inputs a tuple of them, or a dict.
        progress
            Whether to show how far it is; None: on a terminal and in notebooks, after two seconds.

        Returns
        -------
        Explanation
            Of values shaped like the layer's output.
        """
        model, rows = self.prepare(X)
        modules = dict(model.named_modules())
        if self.layer not in modules:
            near = [name for name in modules if name][:12]
            raise InvalidInput(f"The network has no module {self.layer!r}; some of its modules are {near}.")
        target = check_target(self.target, len(rows))
        parts = []
        with shown(progress):
            starts = range(0, len(rows), self.rows_at_once)
            for start in track(starts, len(starts), f"explaining layer {self.layer}"):
                part = slice(start, start + self.rows_at_once)
                some = rows.rows(part)
                with untouched(some.tensors[0].device):
                    way = _Way(model, modules[self.layer], some, of_rows(target, part))
                    parts.append(self._explain_some(way))
        return self._put_together(parts, target)

    def explain_batch(
        self,
        model: Module,  # noqa: ARG002
        rows: Inputs,  # noqa: ARG002
        target: Any,  # noqa: ARG002
        *,
        rng: np.random.Generator,  # noqa: ARG002
        down: Work,  # noqa: ARG002
    ) -> Result:
        """Refuse: units of a layer have another shape than the rows, whose ways down others share."""
        raise UnsupportedModel(
            "LayerAttribution explains by the units of a layer: call its explain(X), by itself."
        )

    def _explain_some(self, way: _Way) -> _Part:
        """Values and base values of some rows."""
        run = way.at(way.rows.tensors)
        zero = torch.zeros_like(run.scores)
        if self.method == "activation":
            return _Part(run.units.detach(), run, zero)
        if self.method in ("gradient", "activation_times_gradient"):
            slope = way.slope_at(run.units.detach(), run)
            return _Part(slope * run.units.detach() if self.method != "gradient" else slope, run, zero)
        nothing = self._read_baseline(way.rows)
        held = way.holding(run)
        start = held.at(nothing)
        if self.method == "conductance":
            return _Part(_conduct(held, nothing, self.n_steps), run, start.scores)
        base = held.with_units(start.units)
        if self.method == "ablation":
            return _Part(_ablate(held, run, start.units, self.rows_at_once), run, base)
        return _Part(_integrate(held, run, start.units, self.n_steps), run, base)

    def _read_baseline(self, rows: Inputs) -> list[Tensor]:
        """Return the inputs that stand for nothing, one row of each for each row."""
        given: Any = self.baseline
        several = given if isinstance(given, tuple) else [given] * len(rows.tensors)
        if len(several) != len(rows.tensors):
            raise InvalidParameter(
                f"baseline holds {len(several)} parts, and the network takes {len(rows.tensors)} inputs."
            )
        found = []
        for each, like in zip(several, rows.tensors, strict=True):
            try:
                values = torch.as_tensor(each, device=like.device).to(like.dtype)
                found.append(values.expand(like.shape))
            except (RuntimeError, TypeError, ValueError) as error:
                got = f"shape {np.shape(each)}" if isinstance(each, (np.ndarray, Tensor)) else repr(each)
                raise InvalidParameter(
                    "baseline must be a number, or an array like one input, of shape "
                    f"{tuple(like.shape[1:])}. Got {got} instead."
                ) from error
        return found

    def _put_together(self, parts: list[_Part], target: CheckedTarget) -> Explanation:
        values = _numbers([part.values for part in parts])
        units = _numbers([part.run.units for part in parts])
        outputs = torch.cat([part.run.outputs for part in parts]).cpu().numpy()
        words = describe(target if not isinstance(target, np.ndarray) else outputs, parts[0].run.softmax)
        return Explanation(
            values=values,
            scores=_numbers([part.run.scores for part in parts]),
            base_values=_numbers([part.base for part in parts]),
            data=units,
            method=type(self).__name__,
            params={"explains": f"{words}, by the units of {self.layer!r}", **self.settings()},
            kind=KINDS[self.method],
            extras=Extras({} if callable(target) else {"output": outputs}),
        )


class _Part(NamedTuple):
    """What was found for some rows."""

    values: Tensor
    run: Run
    base: Tensor


class _Way:
    """A network seen from one of its modules, for some rows."""

    def __init__(self, model: Module, module: Module, rows: Inputs, target: Any):
        self.model = model
        self.module = module
        self.rows = rows
        self.target = target

    def holding(self, run: Run) -> _Way:
        """The same for the outputs that were chosen at the rows themselves."""
        held = self.target if callable(self.target) else run.outputs.cpu().numpy()
        return _Way(self.model, self.module, self.rows, held)

    def some(self, part: slice) -> _Way:
        """The same for some of the rows."""
        return _Way(self.model, self.module, self.rows.rows(part), of_rows(self.target, part))

    def at(self, inputs: Any) -> Run:
        """Run on other inputs."""
        seen: list[Tensor] = []

        def keep(output: Tensor) -> Tensor:
            seen.append(output)
            return output

        with torch.no_grad():
            return self._run(inputs, keep, seen)

    def _run(self, inputs: Any, change: Callable[[Tensor], Tensor], seen: list[Tensor]) -> Run:
        watch = TrailingSoftmax()
        with at_layer(self.module, change), watch:
            given = self._apply(inputs)
        outputs, softmax = watch.left_out(tensor_of(self.model, given))
        chosen = choose_outputs(outputs, self.target)
        return Run(pick_scores(outputs, self.target), chosen, seen[0], softmax)

    def _apply(self, inputs: Any) -> Any:
        try:
            return self.rows.apply(self.model, [t.clone() for t in inputs])
        except TellwhyError:
            raise
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise InvalidInput(
                f"{type(self.model).__name__} cannot be applied to {self.rows.words} (rows first): {error}"
            ) from error

    def with_units(self, units: Tensor) -> Tensor:
        """Explained numbers where the layer's output is another one."""
        with torch.no_grad():
            return self._run(self.rows.tensors, lambda _: units, [units]).scores

    def slope_at(self, units: Tensor, run: Run, inputs: Any = None) -> Tensor:
        """Derivative of the explained number by the layer's output, where that is another one."""
        leaf = units.clone().requires_grad_()
        held = self.holding(run)
        with torch.enable_grad():
            found = held._run(self.rows.tensors if inputs is None else inputs, lambda _: leaf.clone(), [leaf])
            slope = torch.autograd.grad(found.scores.sum(), leaf, allow_unused=True)[0]
        return torch.zeros_like(units) if slope is None else slope


def _conduct(way: _Way, nothing: list[Tensor], n_steps: int) -> Tensor:
    """Σ ∂f/∂h at the middle of each step times what h changes by in it."""

    def between(share: float) -> list[Tensor]:
        return [
            (a + share * (b - a)) if b.is_floating_point() else b
            for a, b in zip(nothing, way.rows.tensors, strict=True)
        ]

    before = way.at(between(0.0))
    total = torch.zeros_like(before.units)
    for step in range(n_steps):
        after = way.at(between((step + 1) / n_steps))
        inputs = between((step + 0.5) / n_steps)
        middle = way.at(inputs)
        total += way.slope_at(middle.units, middle, inputs) * (after.units - before.units)
        before = after
    return total


def _integrate(way: _Way, run: Run, start: Tensor, n_steps: int) -> Tensor:
    """(h − h') ∫ ∂f/∂h dt, by Gauss–Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(n_steps)
    total = torch.zeros_like(start)
    for share, weight in zip((nodes + 1.0) / 2.0, weights / 2.0, strict=True):
        total += float(weight) * way.slope_at(start + float(share) * (run.units - start), run)
    return total * (run.units - start)


def _ablate(way: _Way, run: Run, start: Tensor, at_once: int) -> Tensor:
    """f(h) − f(h with one unit of h'), for each unit of each row."""
    values = torch.empty_like(run.units)
    for row in range(len(values)):
        units = run.units[row].reshape(-1)
        other = start[row].reshape(-1)
        fallen = torch.empty_like(units)
        for first in range(0, len(units), at_once):
            some = torch.arange(first, min(first + at_once, len(units)), device=units.device)
            many = units.repeat(len(some), 1)
            many[torch.arange(len(some)), some] = other[some]
            alone = way.some(slice(row, row + 1))
            repeated = alone.rows.take(np.zeros(len(some), dtype=np.int64))
            target = alone.target if callable(alone.target) else np.repeat(alone.target, len(some))
            changed = _Way(way.model, way.module, repeated, target)
            fallen[some] = run.scores[row] - changed.with_units(many.reshape(-1, *run.units.shape[1:]))
        values[row] = fallen.reshape(run.units.shape[1:])
    return values


def _numbers(parts: list[Tensor]) -> Any:
    return torch.cat([part.detach().double().cpu() for part in parts]).numpy()
