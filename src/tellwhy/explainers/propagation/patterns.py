"""PatternNet and PatternAttribution, and the statistics of layers that their patterns follow from.

A unit computes y = wᵀx (without its bias). Its pattern a is the direction of x that y tells about:
a = cov(x, y) / wᵀcov(x, y), so that wᵀa = 1. For rectified units the moments are those over the rows in which
the unit is active. Kindermans et al., ICLR (2018).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.params import Rules, one_of
from tellwhy.explainers.propagation.base import NETWORK_PARAMETERS, NetworkExplainer, Pass
from tellwhy.explainers.propagation.batches import forwards, share_forward
from tellwhy.explainers.propagation.composites import Composite
from tellwhy.explainers.propagation.engine.calls import Operation
from tellwhy.explainers.propagation.engine.layers import LinearMap
from tellwhy.explainers.propagation.engine.passes import run_backward, run_forward
from tellwhy.explainers.propagation.engine.steps import Method
from tellwhy.explainers.propagation.programs import Work
from tellwhy.explainers.propagation.results import Result
from tellwhy.explainers.propagation.rules import Rule, quotient, z
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_passes import Device, Target
from tellwhy.storage.folders import new_file

KINDS = ("relu", "relu_centred", "linear")
Group = tuple[Tensor, Tensor, Tensor]  # inputs, outputs, activity of the units of a group of channels
_ROWS = 2**22  # elements of unfolded pictures at a time


@dataclass
class Moments:
    """Sums over rows, and for pictures over places: of all of them, and of those where a unit is active.

    Inputs and outputs are counted from those of one row, so that the covariance of a constant is zero and
    not what rounding leaves of it.

    Attributes
    ----------
    x_from, y_from
        Inputs (d,) and outputs (k,) of that row.
    n, n_active
        How many there are; one number, and one per unit.
    x, x_active
        Sums of the inputs: (d,), and (k, d) over the rows where each unit is active.
    y, y_active
        Sums of the outputs (k,).
    xy, xy_active
        Sums of the products (k, d).
    """

    x_from: Tensor
    y_from: Tensor
    n: float
    n_active: Tensor
    x: Tensor
    x_active: Tensor
    y: Tensor
    y_active: Tensor
    xy: Tensor
    xy_active: Tensor

    def __add__(self, other: Moments) -> Moments:
        sums = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return replace(Moments(**sums), x_from=self.x_from, y_from=self.y_from)

    def pattern(self, weight: Tensor, kind: str) -> Tensor:
        """The pattern (k, d) of each unit; zeros where nothing was seen of it."""
        if kind == "linear":
            mean_y = (self.y / self.n)[:, None]
            covariance = self.xy / self.n - self.x / self.n * mean_y
        else:
            n = self.n_active.clamp(min=1)[:, None]
            whole = self.y[:, None] / self.n
            mean_y = self.y_active[:, None] / n if kind == "relu_centred" else whole
            covariance = self.xy_active / n - self.x_active / n * mean_y
            # The mean over all rows is none of the active ones: then it matters from where inputs count.
            apart = (self.y_active[:, None] / n - mean_y) * (self.n_active > 0)[:, None]
            covariance = covariance + self.x_from * apart
        along = (weight * covariance).sum(dim=1, keepdim=True)
        return quotient(covariance, along.expand_as(covariance))


def moments_of(x: Tensor, y: Tensor, active: Tensor, before: Moments | None = None) -> Moments:
    """Moments of inputs x (n, d) and outputs y (n, k), counted as `before` them.

    `active` tells where units pass their rectifier.
    """
    x = x.detach().double()
    y = y.detach().double()
    x_from = x[0] if before is None else before.x_from
    y_from = y[0] if before is None else before.y_from
    x = x - x_from
    y = y - y_from
    on = active.double()
    sums = (on.sum(0), x.sum(0), on.T @ x, y.sum(0), (on * y).sum(0), y.T @ x, (on * y).T @ x)
    return Moments(x_from, y_from, float(len(x)), *sums)


def layer_moments(
    layer: LinearMap, x: Tensor, z: Tensor, before: list[Moments] | None = None
) -> list[Moments]:
    """Moments of one layer on some rows, added to those before; one of them for each group of channels."""
    z = z.detach()
    if layer.name == "linear":
        outputs = z if layer.bias is None else z - layer.bias
        return _added(before, [(x.flatten(0, -2), outputs.flatten(0, -2), z.flatten(0, -2) > 0)])
    if layer.name != "conv2d" or isinstance(layer.geometry["padding"], str):
        raise UnsupportedModel(f"Patterns of {layer.name!r} layers cannot be estimated.")
    shift = 0 if layer.bias is None else layer.bias[:, None, None]
    size = max(1, _ROWS // (z[0].numel() // len(z[0]) * layer.weight[0].numel()))
    total = before
    for part in range(0, len(x), size):
        rows = slice(part, part + size)
        total = _added(total, _patches(layer, x[rows], (z[rows] - shift), z[rows] > 0))
    return total or []


def _added(before: list[Moments] | None, groups: Sequence[Group]) -> list[Moments]:
    """Moments of each group of channels, added to those before."""
    if not before:
        return [moments_of(x, y, on) for x, y, on in groups]
    return [kept + moments_of(x, y, on, kept) for kept, (x, y, on) in zip(before, groups, strict=True)]


def _patches(layer: LinearMap, x: Tensor, y: Tensor, active: Tensor) -> list[Group]:
    """Inputs, outputs and activity of each group of channels, place by place."""
    geometry: Mapping[str, Any] = layer.geometry
    groups = geometry["groups"]
    settings = {name: geometry[name] for name in ("stride", "padding", "dilation")}
    patches = torch.nn.functional.unfold(x, layer.weight.shape[2:], **settings).transpose(1, 2)
    outputs = y.flatten(2).transpose(1, 2)
    on = active.flatten(2).transpose(1, 2)
    parts = [t.flatten(0, 1).chunk(groups, dim=1) for t in (patches, outputs, on)]
    return list(zip(*parts, strict=True))


def pattern_of(moments: list[Moments], weight: Tensor, kind: str) -> Tensor:
    """Pattern of a layer, in the shape of its weights."""
    rows = weight.detach().double().flatten(1).chunk(len(moments))
    parts = [found.pattern(own, kind) for found, own in zip(moments, rows, strict=True)]
    return torch.cat(parts).reshape(weight.shape).to(weight)


_FORMAT = "tellwhy patterns 1"
_FOLLOWED = ("layer", "rectifier", "copying", "pooling")
Choose = Callable[[Operation], Rule]


@dataclass(frozen=True)
class _ByLayer(Composite):
    """A rule for each layer, made when the layer is known."""

    entries: list[Any] = field(default_factory=list)
    make: Choose = field(default=lambda operation: z(), repr=False)  # noqa: ARG005

    @property
    def needs_input(self) -> bool:
        return True

    def choose(self, operation: Operation) -> Rule:
        return self.make(operation)


def _name(operation: Operation) -> str:
    return f"{operation.index}:{operation.path}"


class PatternNet(NetworkExplainer):
    """The signal: which part of the input the output responds to, layer by layer, by learned patterns.

    The weights of a layer say which direction of its input its output is read from, not which direction makes
    it: they also cancel what distracts. `fit` learns from rows that direction for each unit, its pattern.
    `explain` goes down from the output with patterns in place of weights. For networks whose operations are
    fully connected layers, 2-D convolutions (with batch norm), ReLU and pools. Kindermans et al., ICLR
    (2018).

    Parameters
    ----------
    model, target, batch_size, device
        As in `Gradient`.
    pattern
        Of hidden layers: "relu", over the rows in which a unit is active; "relu_centred", which takes the
        mean of its output over the same rows and so also copes with a distractor whose mean is not zero; or
        "linear". The last layer always has linear patterns.

    Examples
    --------
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> signal, distractor = torch.randn(500, 1), torch.randn(500, 1)
    >>> x = torch.cat([signal + distractor, distractor], dim=1)
    >>> model = torch.nn.Linear(2, 1, bias=False).eval()
    >>> _ = model.weight.data.copy_(torch.tensor([[1.0, -1.0]]))  # cancels the distractor
    >>> found = PatternNet(model).fit(x).explain([[1.0, 0.0]]).values
    >>> bool(abs(found - [[1.0, 0.0]]).max() < 0.1)  # the signal is in the first input only
    True
    """

    kind = "signal"
    _parameters: ClassVar[dict[str, Rules]] = {**NETWORK_PARAMETERS, "pattern": one_of(*KINDS)}
    patterns_: dict[str, Tensor] | None = None

    def __init__(
        self,
        model: Module,
        *,
        target: Target = "max",
        pattern: str = "relu",
        batch_size: int | None = None,
        device: Device = None,
    ):
        super().__init__(model, target=target, batch_size=batch_size, device=device)
        self.pattern = pattern

    def fit(self, X: Any) -> PatternNet:
        """Learn the patterns of all layers.

        Parameters
        ----------
        X
            Rows as `explain` takes them, or a loader: an iterable of such rows, or of (rows, labels).
        """
        self.check()
        sums: dict[str, list[Moments]] = {}
        layers: dict[str, tuple[Tensor, bool]] = {}
        for rows in _loaded(X):
            self._gather(rows, sums, layers)
        self.patterns_ = {}
        for name, moments in sums.items():
            weight, is_last = layers[name]
            self.patterns_[name] = pattern_of(moments, weight, "linear" if is_last else self.pattern)
        return self

    def _gather(self, X: Any, sums: dict[str, list[Moments]], layers: dict[str, tuple[Tensor, bool]]) -> None:
        """Add the moments of every layer on some rows."""

        def look(operation: Operation) -> Rule:
            def function(layer: LinearMap, x: Tensor, out: Tensor, c: Tensor) -> Tensor:
                name = _name(operation)
                sums[name] = layer_moments(layer, x, out, sums.get(name))
                layers[name] = (layer.weight, operation.last)
                return layer.backward(x, layer.weight, c)

            return Rule("look", function)

        way = Pass(Method("contribution", _ByLayer(make=look)))
        label = f"learning patterns for {type(self).__name__}"
        for forward, pick, _ in forwards(self, X, way, label, target=lambda out: out.flatten(1).sum(1)):
            _check_followed(forward.capture.operations)
            run_backward(forward, way.method, pick, way.seed)

    def passes(self) -> list[Pass]:
        """One way down, with patterns in place of weights."""
        if self.patterns_ is None:
            raise InvalidInput(
                f"{type(self).__name__} has no patterns yet: call fit(X) with rows or a loader, or "
                "load(path)."
            )
        method = Method("contribution", _ByLayer(make=self._rule), multiply=False)
        return [Pass(method, lambda scores: scores)]

    def _rule(self, operation: Operation) -> Rule:
        patterns = self.patterns_ or {}

        def function(layer: LinearMap, x: Tensor, out: Tensor, c: Tensor) -> Tensor:  # noqa: ARG001
            learned = patterns.get(_name(operation))
            if learned is None or learned.shape != layer.weight.shape:
                raise InvalidInput(f"There is no pattern for {operation.where}: fit on the same model first.")
            return layer.backward(x, self.directions(layer, learned.to(layer.weight)), c)

        return Rule("pattern", function)

    def directions(self, layer: LinearMap, pattern: Tensor) -> Tensor:  # noqa: ARG002
        """What stands in for the weights of a layer on the way down."""
        return pattern

    def explain_batch(
        self,
        model: Module,
        rows: Inputs,
        target: Any,
        *,
        rng: np.random.Generator,  # noqa: ARG002
        down: Work,  # noqa: ARG002
    ) -> Result:
        """Explain some rows, of a model whose operations all have a meaning for patterns."""
        method = self.passes()[0].method
        _check_followed(run_forward(model, rows.rows(slice(0, 1)), [method]).capture.operations)
        return share_forward([self], model, rows, [target])[0]

    def save(self, path: str | Path) -> None:
        """Write the patterns to one file (npz)."""
        if self.patterns_ is None:
            raise InvalidInput(f"{type(self).__name__} has no patterns to save: call fit(loader) first.")
        arrays: dict[str, Any] = {
            f"p{k}": value.cpu().numpy() for k, value in enumerate(self.patterns_.values())
        }
        about = {"format": _FORMAT, "pattern": self.pattern, "layers": list(self.patterns_)}
        with new_file(Path(path), sign=_FORMAT.encode("utf-32-le")) as work, work.open("wb") as file:
            np.savez(file, about=np.array(json.dumps(about)), **arrays)

    def load(self, path: str | Path) -> PatternNet:
        """Read patterns that `save` wrote."""
        try:
            with np.load(Path(path), allow_pickle=False) as kept:
                about = json.loads(str(kept["about"]))
                found = {name: torch.from_numpy(kept[f"p{k}"]) for k, name in enumerate(about["layers"])}
        except (KeyError, ValueError, TypeError, OSError) as error:
            raise InvalidInput(f"{path} is no file of patterns that save() wrote: {error}.") from error
        if about.get("format") != _FORMAT or about.get("pattern") not in KINDS:
            raise InvalidInput(f"{path} holds no patterns that this version can read.")
        self.pattern = about["pattern"]
        self.patterns_ = found
        return self


class PatternAttribution(PatternNet):
    """Relevance with the patterns' directions as roots: deep Taylor decomposition with learned roots.

    The root of a unit is x − a·wᵀx, the input without its signal, so that input i gets w_i a_i of the
    relevance. These shares of a unit add up to one, and so the values to the output where all units on the
    way are active. Kindermans et al., ICLR (2018). Parameters are those of `PatternNet`.

    Examples
    --------
    >>> import torch
    >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> model = torch.nn.Linear(2, 1, bias=False).eval()
    >>> found = PatternAttribution(model).fit(x).explain([[2.0, 1.0]])
    >>> bool(abs(found.residual).max() < 1e-5)
    True
    """

    kind = "attribution"

    def directions(self, layer: LinearMap, pattern: Tensor) -> Tensor:
        """Weights times patterns: the shares of the inputs."""
        return layer.weight * pattern


def _check_followed(operations: list[Operation]) -> None:
    """Refuse operations for which patterns say nothing."""
    for operation in operations:
        if operation.kind not in _FOLLOWED and operation.name not in ("dropout", "batch_norm"):
            raise UnsupportedModel(
                f"Patterns say nothing of {operation.where}: they are defined for fully connected layers, "
                "2-D convolutions, ReLU and pools. Use LRP."
            )


def _loaded(X: Any) -> Iterator[Any]:
    """The rows of an array, or of each batch of a loader."""
    if isinstance(X, (Tensor, np.ndarray)) or not isinstance(X, Iterable):
        yield X
        return
    for batch in X:
        yield batch[0] if isinstance(batch, (tuple, list)) else batch
