"""Explanations in rows and columns: outputs, pictures, networks or settings against methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.old_names import takes_old_names
from tellwhy.core.progress import track
from tellwhy.kinds.networks.network import find_methods

Make = Callable[[Any, Any], Any]  # an explainer of a network and one of its outputs
Methods = str | Mapping[str, Make]
BATCH_NORM = ("merged", "one_linear", "two_linear", "four_coefficients")


@dataclass(frozen=True, eq=False)
class ExplanationGrid:
    """Explanations in rows and columns, with what stands beside them.

    Attributes
    ----------
    title
        What is compared.
    rows, columns
        Their names.
    cells
        One explained input each, `cells[i][j]` in row i and column j; None where a method refused it.
    notes
        What is said of each row: outputs and probabilities.
    pictures
        The input of each row.
    refusals
        What a method said that refused, by row and column.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    cells: Sequence[Sequence[Explanation | None]]
    notes: Sequence[str]
    pictures: Sequence[np.ndarray]
    refusals: Mapping[tuple[int, int], str] = field(default_factory=dict)


@takes_old_names
def neuron_grid(
    model: Any,
    x: Any,
    outputs: Sequence[int],
    *,
    methods: Methods = "lrp",
    names: Sequence[str] | None = None,
) -> ExplanationGrid:
    """Explain several outputs for one input by several methods: what speaks for each class, and against it.

    Parameters
    ----------
    model
        A network.
    x
        One input.
    outputs
        Numbers of the outputs, one row each.
    methods
        Names that `tellwhy network` knows, separated by commas; or functions that make an explainer of
        (network, target), by any names.
    names
        Of the classes.
    """
    rows = [_Row(model, x, int(k), _name_class(names, int(k))) for k in outputs]
    return _make_grid("Outputs × methods", rows, methods)


def image_grid(
    model: Any, X: Any, methods: Methods = "lrp", *, labels: Sequence[str] | None = None, target: Any = "max"
) -> ExplanationGrid:
    """Explain several inputs by several methods.

    Parameters
    ----------
    model, methods
        As in `neuron_grid`.
    X
        Inputs, one row each.
    labels
        What to write beside each.
    target
        The explained output: "max", or its number.
    """
    said = [f"input {k}" for k in range(len(X))] if labels is None else list(labels)
    if len(said) != len(X):
        raise InvalidInput(f"There are {len(said)} labels for {len(X)} inputs.")
    return _make_grid(
        "Inputs × methods", [_Row(model, X[k], target, said[k]) for k in range(len(X))], methods
    )


def architecture_grid(
    models: Mapping[str, Any], x: Any, methods: Methods = "lrp", *, target: Any = "max"
) -> ExplanationGrid:
    """Explain one input of several networks by several methods; a method that refuses a network says so."""
    rows = [_Row(model, x, target, name) for name, model in models.items()]
    return _make_grid("Architectures × methods", rows, methods)


def batch_norm_grid(
    models: Mapping[str, Any],
    x: Any,
    *,
    composite: str = "preset_a",
    variants: Sequence[str] = BATCH_NORM,
    target: Any = "max",
) -> ExplanationGrid:
    """Explain one input of several networks by LRP with each treatment of batch norm."""

    def made(variant: str) -> Make:
        def make(model: Any, output: Any) -> Any:
            from tellwhy.explainers import LRP

            return LRP(model, target=output, composite=composite, batch_norm=variant)

        return make

    rows = [_Row(model, x, target, name) for name, model in models.items()]
    return _make_grid("Treatments of batch norm", rows, {v.replace("_", " "): made(v) for v in variants})


def sweep_grid(
    make: Mapping[str, Callable[[Any], Any]],
    values: Sequence[Any],
    x: Any,
    *,
    names: Sequence[str] | None = None,
) -> ExplanationGrid:
    """Explain one input with a setting from low to high, in each row by another explainer.

    Parameters
    ----------
    make
        By the name of each row, a function that makes an explainer of the setting's value.
    values
        Values of the setting, one column each.
    x
        One input.
    names
        What to write above the columns; by default the values.
    """
    columns = [str(value) for value in values] if names is None else list(names)
    cells = [[made(value).explain(_make_batch(x)) for value in values] for made in make.values()]
    blank = [""] * len(cells)
    return ExplanationGrid(
        "Settings", list(make), columns, cells, blank, [np.asarray(_make_batch(x)[0])] * len(cells)
    )


@dataclass(frozen=True, eq=False)
class _Row:
    """What one row explains."""

    model: Any
    x: Any
    target: Any
    name: str


def _make_batch(x: Any) -> Any:
    return x[None]


def _name_class(names: Sequence[str] | None, k: int) -> str:
    return f"output {k}" if names is None else str(names[k])


def _make_grid(title: str, rows: Sequence[_Row], methods: Methods) -> ExplanationGrid:
    """Explain every row by every method."""
    if not rows:
        raise InvalidParameter("A grid needs at least one row.")
    made = _list_makers(methods)
    cells: list[list[Explanation | None]] = []
    refusals = {}
    for i, row in enumerate(track(rows, len(rows), "explaining rows of the grid")):
        cells.append([])
        for j, make in enumerate(made.values()):
            try:
                cells[-1].append(make(row.model, row.target).explain(_make_batch(row.x)))
            except UnsupportedModel as refusal:  # of one method: the others still have their say
                refusals[i, j] = str(refusal)
                cells[-1].append(None)
    notes = [_note(row) for row in rows]
    pictures = [np.asarray(row.x) for row in rows]
    return ExplanationGrid(title, [row.name for row in rows], list(made), cells, notes, pictures, refusals)


def _list_makers(methods: Methods) -> dict[str, Make]:
    if not isinstance(methods, str):
        return {
            name: _make_by_keyword(make) if isinstance(make, type) else make for name, make in methods.items()
        }

    def with_box(make: Callable[..., Any]) -> Make:
        return lambda model, target: make(model, target, (None, None))

    return {named.title: with_box(named.make) for named in find_methods(methods).values()}


def _make_by_keyword(cls: Callable[..., Any]) -> Make:
    return lambda model, target: cls(model, target=target)


def _note(row: _Row) -> str:
    """Output and probability of what a row explains."""
    from tellwhy.scoring import NetworkOutput

    x = np.asarray(_make_batch(row.x))
    score = NetworkOutput(row.model, row.target)
    chosen = score.fixed(x)
    output = float(score.value(x, *chosen)[0])
    if not chosen:
        return f"{output:.2f}"
    every = _compute_outputs(row.model, x)
    powers = np.exp(every - every.max())
    return f"{output:.2f} ({100 * powers[int(chosen[0][0])] / powers.sum():.1f} %)"


def _compute_outputs(model: Any, x: np.ndarray) -> np.ndarray:
    from tellwhy.kinds.networks.network import compute_outputs

    return compute_outputs(model, x.astype(np.float32) if x.dtype.kind == "f" else x, 1, ()).values[0]
