"""What explainers of networks share: settings, checking them, the form of the result, and forward passes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.fx import Graph
from torch.nn import Module

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explainer import Explains
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Extras
from tellwhy.core.old_names import TakesOldNames
from tellwhy.core.params import (
    Rule as ParameterRule,
    Rules,
    boolean,
    instance_of,
    integer,
    none,
    one_of,
    validate_parameters,
    validate_value,
)
from tellwhy.core.progress import shown
from tellwhy.core.running import NETWORK_BATCH
from tellwhy.core.score import Floats
from tellwhy.explainers.base import refuse_unknown
from tellwhy.explainers.propagation.batches import Explained, explain_together, warn_if_lost
from tellwhy.explainers.propagation.composites import Composite, check_operations
from tellwhy.explainers.propagation.engine.passes import first_not_finite
from tellwhy.explainers.propagation.engine.steps import Method, relevance_method
from tellwhy.explainers.propagation.graphs import explain_differentiably, export, graphs
from tellwhy.explainers.propagation.ledger import latent_relevance, ledger, relevance_from_outputs
from tellwhy.explainers.propagation.programs import Work
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs, read_inputs, readable
from tellwhy.scoring.network_passes import CheckedTarget, Device, Target, check_model, placed

if TYPE_CHECKING:
    import pandas as pd


def _are_devices(value: Any) -> bool:
    listed = value if isinstance(value, (list, tuple)) else [value]
    return bool(listed) and all(isinstance(each, (str, torch.device)) for each in listed)


NETWORK_PARAMETERS: dict[str, Rules] = {
    "target": ParameterRule(
        "'max', an output's number, one per row, or a function", lambda value: value is not None
    ),
    "batch_size": (none, integer(1)),
    "device": (none, ParameterRule("a device, or a list of them", _are_devices)),
}
RELEVANCE_PARAMETERS: dict[str, Rules] = {
    **NETWORK_PARAMETERS,
    "operations": (none, instance_of(Mapping, words="a dict from names of operations to their kinds")),
}


@dataclass(frozen=True)
class Pass:
    """One way down: a method, and what each row's score hands down.

    An explanation is the sum of its explainer's passes, each times its `weight`.
    """

    method: Method
    seed: Callable[[Tensor], Tensor] = torch.ones_like
    weight: float = 1.0


class NetworkExplainer(TakesOldNames, ABC):
    """Base of the explainers of networks: `explain(X)` gives an `Explanation` of one output of each row.

    A subclass says in `passes` what goes down through the network. Parameters are those of
    `tellwhy.scoring.NetworkOutput`; `device` may be a list, whose devices share the batches.
    """

    kind: ClassVar[str] = "attribution"
    random_state: Any = 0  # of the methods that draw random numbers
    _parameters: ClassVar[dict[str, Rules]] = NETWORK_PARAMETERS

    def __init__(
        self, model: Module, *, target: Target = "max", batch_size: int | None = None, device: Device = None
    ):
        self.model = model
        self.target = target
        self.batch_size = batch_size
        self.device = device

    @classmethod
    def _check_given(cls, given: Mapping[str, Any]) -> None:
        """Answer a slip in the name of a parameter with the nearest one."""
        refuse_unknown(cls, given)

    def explain(
        self,
        X: Any,
        *,
        progress: bool | None = None,
        output: str = "numpy",
        differentiable: bool = False,
        compile: bool | str = "auto",
    ) -> Any:
        """Explain the model's output for each row of X.

        Parameters
        ----------
        X
            A tensor or an array (n, *shape); for models of several inputs a tuple of them, or a dict by the
            names of forward's arguments.
        progress
            Whether to show how far it is; None: on a terminal and in notebooks, after two seconds.
        output
            "numpy", or "torch": values stay on the device, in the network's own type, as a
            `TensorExplanation`.
        differentiable
            Whether the values, as tensors (`output="torch"`), can be differentiated with respect to X and to
            the model's parameters. All rows' computations are then kept in memory.
        compile
            "auto": where many batches are alike, all that is done for one becomes a program, and where that
            pays it is compiled. True: at once, for later batches and later calls. False: never.

        Returns
        -------
        An `Explanation`; for several inputs one of each, in a tuple or a dict like X. There the residual of
        each is that of the whole, and its `base_values` are what the other inputs got.
        """
        validate_value(type(self).__name__, "output", output, one_of("numpy", "torch"))
        validate_value(type(self).__name__, "differentiable", differentiable, boolean)
        validate_value(type(self).__name__, "compile", compile, (boolean, one_of("auto")))
        if differentiable and output != "torch":
            raise InvalidParameter('differentiable=True gives tensors: use it with output="torch".')
        with shown(progress):
            if differentiable:
                return explain_differentiably(self, X)
            return explain_together([self], X, output=output, compile=compile)[0]

    def ledger(self, X: Any) -> pd.DataFrame:
        """Relevance that arrived at each operation, that it handed on, and that it absorbed.

        Each is summed over the rows. What all operations absorbed adds up to the residual of `explain(X)`
        where the output is what is handed down.
        """
        return ledger(self, X)

    def export(self, path: str | Path, X: Any) -> Path:
        """Write prediction and explanation as a program that PyTorch runs without this package.

        `torch.export.load(path).module()(x)` then gives a dict of tensors: "prediction", "values", "scores"
        and "outputs", for any number of rows like X; of DeepLift "base" as well. The weights are in the file.

        Parameters
        ----------
        path
            A file that is not there yet: .pt2, or .onnx where ONNX has all operators (needs `onnxscript`).
        X
            Rows like those to come: what `explain` takes. Several inputs go to the program by place.
        """
        return export(self, path, X)

    def graphs(self, X: Any) -> dict[str, Graph]:
        """The graph of operators of a program for rows like X: as it is written down, and after each pass.

        Parameters
        ----------
        X
            Rows of a batch: what `explain` takes.

        Returns
        -------
        Graphs of `torch.fx` by the names of the passes, in their order. Printed, one shows each operator in a
        line.
        """
        return graphs(self, X)

    def latent(self, X: Any, at: str | Sequence[str]) -> dict[str, np.ndarray]:
        """Relevance at the outputs of modules inside the network, shaped like those outputs.

        Parameters
        ----------
        X
            What `explain` takes.
        at
            Names of modules, as in `model.named_modules()`, or of operations in them as "path:operation"
            (`coverage(model, x)` lists both): "layers.0.attention:scaled_dot_product_attention" has one
            entry per head.
        """
        if self.kind != "attribution":
            raise InvalidInput(f"{type(self).__name__} hands no relevance down: it has no latent relevance.")
        return latent_relevance(self, X, [at] if isinstance(at, str) else at)

    def from_outputs(self, X: Any, relevance: Floats) -> Floats:
        """Relevance of the inputs, from relevance of every output that was found behind the network.

        `relevance` is shaped like what the network gives for X.
        """
        if self.kind != "attribution":
            raise InvalidInput(f"{type(self).__name__} hands no relevance down.")
        return relevance_from_outputs(self, X, relevance)

    @property
    def rows_at_once(self) -> int:
        """Rows that go through the network at once."""
        return self.batch_size or NETWORK_BATCH

    @property
    def devices(self) -> list[Any]:
        """Where to compute; the first is where everything is prepared."""
        return list(self.device) if isinstance(self.device, (list, tuple)) else [self.device]

    @property
    def goes_down_only(self) -> bool:
        """Whether the ways down of `passes` are all it does; SmoothGrad explains a batch in its own way."""
        return type(self).explain_batch is NetworkExplainer.explain_batch

    @abstractmethod
    def passes(self) -> list[Pass]:
        """Return the ways down through the network whose sum is the explanation."""

    def explain_batch(
        self,
        model: Module,  # noqa: ARG002
        rows: Inputs,
        target: CheckedTarget,
        *,
        rng: np.random.Generator,  # noqa: ARG002
        down: Work,
    ) -> Result:
        """Explain some rows of a model; `down` goes the ways of `passes`."""
        return down(rows, [target])[0]

    def assemble(
        self, x: Any, values: Floats, scores: Floats, *, others: Floats, what: Explained
    ) -> Explanation:
        """Make an explanation of one input; `others` is what the other inputs got."""
        return Explanation(
            values=values,
            scores=scores,
            base_values=others,
            data=readable(x),
            method=type(self).__name__,
            params={"explains": what.explains, **self.settings()},
            kind=self.kind,
            extras=Extras(what.extras | self._extras(scores)),
        )

    def settings(self) -> dict[str, Any]:
        """Parameters as an explanation is saved with them."""
        return {name: _plain(getattr(self, name)) for name in self._parameters if name != "target"}

    def _extras(self, scores: Floats) -> dict[str, Any]:  # noqa: ARG002
        """Further results per row."""
        return {}

    def handed_down(self, scores: Floats) -> Floats | None:  # noqa: ARG002
        """What goes down from each output, for methods whose rules may promise that all of it arrives."""
        return None

    def warn(self, found: Result) -> None:
        """Warn where not all arrived that was promised to; the results are those of all rows."""
        expected = self.handed_down(found.scores.numpy()) if found.conserves else None
        if expected is not None:
            attributed = sum(value.flatten(1).sum(dim=1) for value in found.values)
            warn_if_lost(type(self).__name__, expected, np.asarray(attributed))

    def check(self) -> None:
        """Refuse settings that are out of range."""
        validate_parameters(self)

    def prepare(self, X: Any) -> tuple[Module, Inputs]:
        """Check settings, model and input; bring both to one device."""
        self.check()
        check_model(self.model)
        weights = next((p for p in self.model.parameters() if p.is_floating_point()), None)
        rows = read_inputs(X, None if weights is None else weights.dtype)
        there = placed(self.model, self.devices[0], rows.tensors[0].device)
        return there.model, rows.to(there.device)

    def raise_not_finite(self, model: Module, rows: Inputs) -> None:
        """Say where values that are not finite arose."""
        operation = first_not_finite(model, rows, [way.method for way in self.passes()])
        if operation is None:
            raise InvalidInput(
                f"{type(self).__name__} found values that are not finite although every activation is: "
                f"relevance overflows {rows.tensors[0].dtype}. Use a wider type (model.double()) or another "
                "rule."
            )
        raise InvalidInput(
            f"The output of {operation.where} (operation {operation.index}) is not finite. "
            "Check the weights and the scale of x."
        )


class RelevanceExplainer(NetworkExplainer):
    """Base of the explainers that need a rule for every operation of the network.

    `operations` gives the kinds of operations that are not known, by name, as `register_operation` does for
    all explainers.
    """

    _parameters: ClassVar[dict[str, Rules]] = RELEVANCE_PARAMETERS

    def __init__(
        self,
        model: Module,
        *,
        target: Target = "max",
        operations: Mapping[str, str] | None = None,
        batch_size: int | None = None,
        device: Device = None,
    ):
        super().__init__(model, target=target, batch_size=batch_size, device=device)
        self.operations = operations

    def check(self) -> None:
        """Refuse settings that are out of range."""
        super().check()
        check_operations(self.operations or {})

    def method(self, composite: Composite, **choices: Any) -> Method:
        """Method of a composite, with this explainer's kinds of operations."""
        return relevance_method(composite, operations=self.operations, **choices)


def explain_all(explainers: Sequence[Explains] | Mapping[str, Explains], X: Any) -> Any:
    """Explain X by several explainers; those of the same model share its forward pass.

    Gradients of one model, device and batch size go down one pass, one after the other, so that memory does
    not grow with their number; so do rectified gradients, and relevance methods of one treatment of batch
    norm. Methods that look at other rows than X (SmoothGrad, IntegratedGradients) run on their own.

    Parameters
    ----------
    explainers
        A list of explainers, or a dict of them by any names.
    X
        What each explainer's `explain` takes.

    Returns
    -------
    A list of explanations in the same order, or a dict by the same names.

    Examples
    --------
    >>> import torch
    >>> from tellwhy.explainers import LRP, Gradient, explain_all
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()
    >>> found = explain_all({"gradient": Gradient(model), "LRP": LRP(model)}, torch.ones(5, 3))
    >>> found["LRP"].method, found["gradient"].values.shape
    ('LRP', (5, 3))
    """
    listed = list(explainers.values()) if isinstance(explainers, Mapping) else list(explainers)
    for explainer in listed:
        if not isinstance(explainer, Explains):
            raise InvalidInput(f"explain_all takes explainers. Got {explainer!r}, which has no `explain`.")
        if isinstance(explainer, NetworkExplainer):
            explainer.check()
    found: dict[int, Any] = {}
    for places in _groups(listed):
        together = [e for e in (listed[k] for k in places) if isinstance(e, NetworkExplainer)]
        explained = explain_together(together, X) if together else [listed[places[0]].explain(X)]
        found.update(zip(places, explained, strict=True))
    results = [found[k] for k in range(len(listed))]
    return dict(zip(explainers, results, strict=True)) if isinstance(explainers, Mapping) else results


def _groups(explainers: list[Any]) -> list[list[int]]:
    """Places in the list of explainers that share a forward pass."""
    groups: dict[Any, list[int]] = {}
    for k, explainer in enumerate(explainers):
        key: Any = k
        if isinstance(explainer, NetworkExplainer) and explainer.goes_down_only:
            asked = explainer.passes()[0].method.forward_choices
            key = (id(explainer.model), str(explainer.device), explainer.rows_at_once, asked)
        groups.setdefault(key, []).append(k)
    return list(groups.values())


def _plain(value: Any) -> Any:
    """A setting as an explanation can be saved with it: numbers and words as they are, all else in words."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
