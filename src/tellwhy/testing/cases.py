"""For each role of an explainer, a model and rows to try it on, what it must find, what it must refuse."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation import Explanation
from tellwhy.core.optional import require
from tellwhy.core.score import Floats
from tellwhy.data.graphs import chain
from tellwhy.data.pieces import cut_patches
from tellwhy.detectors import LCCAD, OneClassSVM
from tellwhy.explainers import Occlusion, OneClassDTD, Sensitivity
from tellwhy.scoring import as_score

PATCH = 4


def some_rows() -> Floats:
    """Ordinary rows of four columns in different units."""
    return np.random.default_rng(0).normal(size=(150, 4)) * np.array([1.0, 2.0, 3.0, 0.5])


def odd_rows() -> Floats:
    """Rows that are odd in the first and third column."""
    return np.random.default_rng(1).normal(size=(12, 4)) * np.array([4.0, 2.0, 9.0, 0.5])


def explain_rows(explainer: Any, X: Any) -> Explanation:
    """Explain rows: what nearly every explainer needs nothing else for."""
    explanation: Explanation = explainer.explain(X)
    return explanation


@dataclass(frozen=True, kw_only=True)
class Case:
    """What the contract of an explainer tries it on.

    Attributes
    ----------
    fit
        Makes a model of ordinary rows.
    scores
        What is explained: one number per row, from a model and rows, computed without the explainer.
    ordinary, odd
        Rows to learn from, and rows to explain.
    given
        What the explainer is made from, where that is not the model itself.
    explain
        Calls the explainer for rows.
    settings
        Parameters that the explainer gets, those of them that it has.
    has_columns
        Whether features are the columns of a table, in any order; those of a picture are not.
    takes_frames
        Whether frames are accepted.
    takes_pipelines
        Whether a pipeline around the model is explained in the columns before it.
    is_by_row
        Whether each row is explained for itself; a node depends on its neighbours.
    keeps_rows
        Whether the explanation's data are the rows themselves, not a copy.
    width_word
        What the message about a missing column must mention.
    """

    fit: Callable[[Any], Any]
    scores: Callable[[Any, Any], Floats]
    ordinary: Callable[[], Floats] = some_rows
    odd: Callable[[], Floats] = odd_rows
    given: Callable[[Any], Any] = lambda model: model
    explain: Callable[[Any, Any], Explanation] = explain_rows
    settings: Mapping[str, Any] = field(default_factory=dict)
    has_columns: bool = True
    takes_frames: bool = True
    takes_pipelines: bool = False
    is_by_row: bool = True
    keeps_rows: bool = True
    width_word: str = "column"

    def make(self, factory: Callable[..., Any], model: Any) -> Any:
        """Make an explainer of a model."""
        taken = inspect.signature(factory).parameters
        return factory(self.given(model), **{k: v for k, v in self.settings.items() if k in taken})


def _fit_one_class(X: Any) -> Any:
    return OneClassSVM(nu=0.2).fit(X)


def _score(model: Any, X: Any) -> Floats:
    return as_score(model).value(X)


def _classifier(X: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    array = np.asarray(X)
    return LogisticRegression().fit(X, (array / array.std(axis=0)).argmax(axis=1))


def _lead(model: Any, X: Any) -> Floats:
    """How far the best class is ahead of the second."""
    best = np.sort(model.decision_function(X), axis=1)
    return np.asarray(best[:, -1] - best[:, -2])


def _network(X: Floats) -> Any:
    """A network whose first weights are rows of X: with the columns in another order, so are the weights."""
    torch = require("torch", "testing explainers of networks")
    rng = np.random.default_rng(0)
    network = torch.nn.Sequential(torch.nn.Linear(X.shape[1], 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
    first = X[:6] / np.abs(X).max(axis=0)
    for layer, weights in zip((network[0], network[2]), (first, rng.normal(size=(3, 6))), strict=True):
        layer.weight.data = torch.tensor(weights)
        layer.bias.data = torch.tensor(0.1 * np.arange(1.0, len(weights) + 1))
    return network.double().eval()


def _make_largest_output(model: Any, X: Floats) -> Floats:
    import torch

    with torch.no_grad():
        return np.asarray(model(torch.tensor(X)).max(dim=1).values.numpy())


def _fit_graph_model(X: Any) -> LCCAD:
    return LCCAD(2, theta=0.5, gamma=1.0, prior="mrf", random_state=0).fit(X, chain(len(X)))


def _explain_chain(explainer: Any, X: Any) -> Explanation:
    explanation: Explanation = explainer.explain(X, chain(len(X)))
    return explanation


def _waves() -> Floats:
    """Sequences of twenty samples."""
    start = np.random.default_rng(0).uniform(0.0, 6.0, size=(12, 1))
    return np.sin(start + np.arange(20) / 3)


def _broken_waves() -> Floats:
    waves = 1.5 * _waves()  # no patch of theirs is one that the model was trained on
    waves[np.arange(12), np.arange(12)] += 2.0
    return waves


def _cut_waves(waves: Floats) -> Floats:
    return np.vstack([cut_patches(wave, (PATCH,)) for wave in waves])


def _score_patches(model: Any, waves: Any) -> Floats:
    return np.array([as_score(model).value(cut_patches(wave, (PATCH,))).sum() for wave in np.asarray(waves)])


CASES: dict[str, Case] = {
    "explainer": Case(fit=_fit_one_class, scores=_score, takes_pipelines=True),
    "classifier explainer": Case(fit=_classifier, scores=_lead),
    "network explainer": Case(
        fit=_network,
        scores=_make_largest_output,
        # noise of another row in the batch must not be what tells two explanations of a row apart
        settings={"random_state": 0, "noise": 1e-9},
        takes_frames=False,
        width_word="shape",
    ),
    "graph explainer": Case(
        fit=_fit_graph_model,
        scores=lambda model, X: model.outlierness(X, chain(len(X))),
        explain=_explain_chain,
        is_by_row=False,
        keeps_rows=False,
    ),
    "patch explainer": Case(
        fit=lambda waves: _fit_one_class(_cut_waves(waves)),
        scores=_score_patches,
        ordinary=_waves,
        odd=_broken_waves,
        settings={"patch_size": (PATCH,)},
        has_columns=False,
        takes_frames=False,
    ),
    "ensemble": Case(
        fit=_fit_one_class,
        scores=_score,
        given=lambda model: [OneClassDTD(model), Occlusion(model), Sensitivity(model)],
        takes_pipelines=True,
    ),
}
"""The case of each role in the catalogue (`tellwhy.core.registry.EXPLAINER_ROLES`)."""


def make_bad_rows(X: Floats) -> Iterator[tuple[str, Any]]:
    """Variants of X that must be refused, with their names."""
    for name, cell in (("NaN", np.nan), ("plus infinity", np.inf), ("minus infinity", -np.inf)):
        broken = X.copy()
        broken[len(X) // 2, 0] = cell  # in the middle: a check of the first row alone must not do
        yield name, broken
    text = X.astype(object)
    text[0, 0] = "abc"
    yield "text", text
    yield "complex numbers", X + 1j
    yield "no rows", X[:0]
    yield "no columns", X[:, :0]
    yield "one dimension", X[0]
    yield "three dimensions", X[None]


def assert_refused(call: Callable[[Any], Any], rows: Any, name: str, *, mentions: str = "") -> None:
    """Fail unless the call raises `InvalidInput` with a message."""
    try:
        call(rows)
    except InvalidInput as error:
        assert len(str(error)) > 20, f"{name}: the message says too little: {error}"
        assert mentions.lower() in str(error).lower(), (
            f"{name}: the message does not mention {mentions!r}: {error}"
        )
        return
    raise AssertionError(f"{name} was accepted; expected InvalidInput")
