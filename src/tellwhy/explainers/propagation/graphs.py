"""Explanations as graphs: that can be differentiated, looked at, and written into files.

All that is done for a batch, up the network and down again, is written down as one graph of operators
(`engine.program`). It is a function of the rows and of the parameters like any other, and autograd knows its
derivatives. A file holds the graph for any number of rows, with the weights, and PyTorch loads it without
this package: `torch.export.load("explain.pt2").module()(x)`. Where its operators exist there, the same is
written as ONNX.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor
from torch.fx import Graph
from torch.nn import Module

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.optional import require
from tellwhy.explainers.propagation.batches import batches, finish, share_forward
from tellwhy.explainers.propagation.engine.graph_passes import simplified
from tellwhy.explainers.propagation.engine.program import (
    NotTraceable,
    first_line,
    quiet,
    traced,
    with_derivatives,
    written_down,
)
from tellwhy.explainers.propagation.programs import key_of
from tellwhy.explainers.propagation.results import Result
from tellwhy.scoring.network_inputs import Inputs
from tellwhy.scoring.network_passes import CheckedTarget, check_target, of_rows, tensor_of, untouched
from tellwhy.storage.folders import check_new_file, new_file
from tellwhy.storage.overwriting import NEVER

if TYPE_CHECKING:
    from tellwhy.explainers.propagation.base import NetworkExplainer


def explain_differentiably(explainer: NetworkExplainer, X: Any) -> Any:
    """Explain X; values and scores are tensors whose history goes back to X and to the parameters."""
    model, rows = explainer.prepare(X)
    _check(explainer, model)
    rows = _attached(rows, X)
    target = check_target(explainer.target, len(rows))
    parts = []
    label = f"explaining with {type(explainer).__name__}"
    with untouched(rows.tensors[0].device), torch.enable_grad():
        for batch, part in batches(rows, explainer.rows_at_once, label):
            parts.append(_written(explainer, model, batch, of_rows(target, part)).result(batch))
            if not all(bool(v.detach().isfinite().all()) for v in (*parts[-1].values, parts[-1].scores)):
                explainer.raise_not_finite(model, batch)
    return finish(explainer, X, rows, reduce(Result.followed_by, parts), target)


def _check(explainer: NetworkExplainer, model: Module) -> None:
    """Refuse what has no derivative, or one that would not reach the parameters."""
    name = type(explainer).__name__
    if not explainer.goes_down_only:
        raise InvalidInput(
            f"An explanation by {name} cannot be differentiated. Gradient, InputTimesGradient, LRP, "
            "DeepTaylor, ExcitationBackprop and DeepLift can be."
        )
    if any(way.method.own for way in explainer.passes()):
        raise InvalidInput(
            f"{name} with functions of your own (own=...) cannot be differentiated: leave them out, or write "
            "a Rule."
        )
    if not {id(p) for p in explainer.model.parameters()} <= {id(p) for p in model.parameters()}:
        raise InvalidInput(
            f"{name}(device={str(explainer.device)!r}) works on a copy of the model, whose parameters are "
            "other ones: move the model there yourself (model.to(...)) to differentiate the explanation."
        )


def _attached(rows: Inputs, X: Any) -> Inputs:
    """The inputs with the histories that they were given with."""
    given = [
        g.to(t.device) if isinstance(g, Tensor) and g.requires_grad else t
        for g, t in zip(rows.given(X), rows.tensors, strict=True)
    ]
    return replace(rows, tensors=tuple(given))


@dataclass(frozen=True)
class _Written:
    """All that is done for a batch as a graph; `like` says what its tensors are.

    `settings` are those of the explainer: they are known by which objects they are, which are kept here.
    """

    graph: Module
    like: Result
    settings: tuple[Any, ...]

    def result(self, rows: Inputs) -> Result:
        """What the graph gives for some rows."""
        return self.like.holding(self.graph(*rows.tensors))


_known: WeakKeyDictionary[Module, dict[Any, _Written]] = WeakKeyDictionary()


def _written(explainer: NetworkExplainer, model: Module, rows: Inputs, target: CheckedTarget) -> _Written:
    """The graph of a batch, which is kept for others of its shape as long as the model lives."""
    key = type(explainer), key_of(explainer, model, rows, [target], len(rows))
    kept = _known.setdefault(model, {})
    if key in kept:
        return kept[key]
    told: list[Result] = []

    def explained(*tensors: Tensor) -> list[Tensor]:
        told.append(share_forward([explainer], model, replace(rows, tensors=tensors), [target])[0])
        return told[-1].tensors

    given = [t.detach() for t in rows.tensors]
    graph, serves_others = with_derivatives(explained, given)
    settings = tuple(value for value in vars(explainer).values() if value is not explainer.model)
    made = _Written(graph, told[-1].holding([given[0][:0]] * len(told[-1].tensors)), settings)
    if serves_others and key[1] is not None:
        kept[key] = made
    return made


MOST_ROWS = 2**20
N_ROWS = 61  # of the tensors that stand for all others while a program is written
_SUFFIXES = (".pt2", ".onnx")


class Explaining(Module):
    """Prediction and explanation of rows, as the graph of a program gives them.

    Returns a dict: "prediction", what the network gives; "values", shaped like the input (of several inputs
    a list, in their order); "scores", the explained number of each row; "outputs", which output that is;
    and "base", that number of the reference, where rows are compared with one.
    """

    def __init__(self, graph: Module, n_inputs: int):
        super().__init__()
        self.steps = graph  # `graph` would be taken for that of the whole, once it is written
        self.n_inputs = n_inputs

    def forward(self, *inputs: Tensor) -> dict[str, Any]:
        """Prediction and explanation of some rows."""
        found = self.steps(*inputs)
        n = self.n_inputs
        values = found[1] if n == 1 else list(found[1 : 1 + n])
        named = zip(("scores", "outputs", "base"), found[1 + n :], strict=False)
        return {"prediction": found[0], "values": values, **dict(named)}


def export(explainer: NetworkExplainer, path: str | Path, X: Any) -> Path:
    """Write the program that explains rows like X; see `NetworkExplainer.export`."""
    target = Path(path)
    if target.suffix not in _SUFFIXES:
        raise InvalidParameter(f"path must end in .pt2 or .onnx. Got {str(path)!r}.")
    check_new_file(target, sign=NEVER)
    model, rows = explainer.prepare(X)
    wanted = _checked(explainer, rows)
    with untouched(rows.tensors[0].device), torch.enable_grad():
        try:
            made = _program(explainer, model, rows, wanted)
            _compare(explainer, model, rows, made)
        except NotTraceable as reason:
            raise UnsupportedModel(
                f"{type(model).__name__} cannot be exported: {reason}. What it does has to be the same for "
                "all rows."
            ) from None
        sizes = [{0: torch.export.Dim("rows", min=1, max=MOST_ROWS)} for _ in rows.tensors]
        with quiet(), torch.no_grad():
            program = torch.export.export(made, _several(rows), dynamic_shapes={"inputs": tuple(sizes)})
    (_write_onnx if target.suffix == ".onnx" else _write)(program, target)
    return target


def graphs(explainer: NetworkExplainer, X: Any) -> dict[str, Graph]:
    """The graph of a batch as it is written down, and after each pass; see `NetworkExplainer.graphs`."""
    model, rows = explainer.prepare(X)
    wanted = check_target(explainer.target, len(rows))
    found: dict[str, Graph] = {}

    def explained(*tensors: Tensor) -> list[Tensor]:
        return share_forward([explainer], model, replace(rows, tensors=tensors), [wanted])[0].tensors

    def look(name: str, graph: Graph) -> None:
        found[f"{len(found)} {name}"] = copy.deepcopy(graph)

    with untouched(rows.tensors[0].device), torch.enable_grad():
        try:
            made = written_down(explained, rows.tensors)
            look("written_down", made.graph)
            with torch.no_grad():
                simplified(made, look)
        except NotTraceable as reason:
            raise UnsupportedModel(f"{type(model).__name__} has no graph: {reason}.") from None
    return found


def _checked(explainer: NetworkExplainer, rows: Inputs) -> Any:
    """The target, one for all rows; refuse explainers that do more than go down."""
    if not explainer.goes_down_only:
        raise InvalidInput(
            f"{type(explainer).__name__} looks at other rows than those it explains, and cannot be exported. "
            "Gradient, InputTimesGradient, LRP and DeepLift can."
        )
    wanted = check_target(explainer.target, len(rows))
    if isinstance(wanted, np.ndarray):
        raise InvalidInput(
            "A program explains rows that come later, so that their target cannot be a number for each row. "
            "Use 'max' or the number of one output."
        )
    return wanted


def _program(explainer: NetworkExplainer, model: Module, rows: Inputs, wanted: Any) -> Explaining:
    def explained(*tensors: Tensor) -> list[Tensor]:
        batch = replace(rows, tensors=tensors)
        found = share_forward([explainer], model, batch, [wanted])[0]
        given = tensor_of(model, batch.apply(model, [t.clone() for t in tensors]))
        return [given.detach(), *found.tensors]

    graph = copy.deepcopy(traced(explained, _several(rows), any_rows=True).graph)
    for name, tensor in [*graph.named_parameters(), *graph.named_buffers()]:
        # Each tensor whole and alone: some are views of others.
        *owner, own_name = name.split(".")
        module = graph.get_submodule(".".join(owner))
        if own_name in module._parameters:
            module._parameters[own_name] = torch.nn.Parameter(tensor.detach().clone(), requires_grad=False)
        else:
            module._buffers[own_name] = tensor.detach().clone()
    return Explaining(graph, len(rows.tensors))


def _several(rows: Inputs) -> tuple[Tensor, ...]:
    """As many rows as hardly another size of a network is: PyTorch then knows which sizes go with them."""
    return tuple(torch.cat([t] * -(-N_ROWS // len(t)))[:N_ROWS] for t in rows.tensors)


def _compare(explainer: NetworkExplainer, model: Module, rows: Inputs, made: Module) -> None:
    """Refuse a program that gives something else than the explainer, for these rows or for the first."""
    for part in (slice(None), slice(0, 1)):
        batch = rows.rows(part)
        right = share_forward([explainer], model, batch, [check_target(explainer.target, 1)])[0].values
        with torch.no_grad():
            found = made(*batch.tensors)["values"]
        for a, b in zip([found] if isinstance(found, Tensor) else found, right, strict=True):
            far = torch.linalg.vector_norm(a.double() - b.double())
            if far > 1e-2 * torch.linalg.vector_norm(b.double()):
                raise NotTraceable("its program gives other values than following its operations")


def _write(program: Any, target: Path) -> None:
    with quiet(), new_file(target, sign=NEVER) as place:
        torch.export.save(program, place)


def _write_onnx(program: Any, target: Path) -> None:
    require("onnxscript", "writing ONNX")
    with quiet():
        try:
            made: Any = torch.onnx.export(program, dynamo=True, verbose=False)
        except Exception as error:
            raise UnsupportedModel(
                f"ONNX has not all operators of this explanation: {first_line(error)} Export it as .pt2."
            ) from error
    with new_file(target, sign=NEVER) as place:
        made.save(place)
