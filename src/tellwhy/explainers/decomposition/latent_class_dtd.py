"""Deep Taylor decomposition of latent-class outlierness, and how much of it is the context's doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.extras import Extras
from tellwhy.core.params import Rules, boolean, validate_parameters
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.data.graphs import Graph
from tellwhy.detectors import LCCAD
from tellwhy.detectors.map_inference import max_marginals, received_by, received_in_all
from tellwhy.explainers.decomposition.one_class_dtd import OneClassDTD


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Nodes to explain: their numbers, rows and classes, and whether the model was fitted on them."""

    numbers: NDArray[np.int64]
    X: Floats
    classes: NDArray[np.int64]
    is_training: bool


@register(
    "graph explainer",
    family="decomposition",
    needs="a fitted LCCAD",
    cost="O(n K d) for squared distances, O(n m d) with a kernel; some passes of messages for the neighbours' pull",
    exactness="closed form; what is not attributed is stated",
    citation="Kauffmann, Montavon, Lima, Nakajima, Müller, Görnitz (2018)",
)
class LatentClassDTD:
    """Explain why a node is odd for its class, by feature, and whether its value or its context is to blame.

    With o_k the outlierness for class k and h the node's class: values are R^(h), (x − c_h)² where o = ‖x −
    c_h‖² (they sum to o), else part 1's formula with Δ_j = p_j min(o_h, ‖x − x_j‖²/2σ²) over the class's rows
    x_j, the node itself left out. The part of o_h that would be there in any class is intrinsic = min_k o_k;
    the rest is there only because the neighbours put the node into h.

    Parameters
    ----------
    model
        A fitted `LCCAD`.
    neighbour_pull
        Whether to tell how strongly neighbours hold a node in its class; costs some passes of messages.

    Notes
    -----
    `extras` of the explanation, one entry per node: "class" h; "other_class" k*, the class for which the node
    is least odd; "intrinsic" and "context", whose sum is the score; "context_share", context/score;
    "feature_contrast", R^(h) − R^(k*), which features speak for the other class; "neighbour_pull", Σ_j
    [M_ji(h) − M_ji(k*)], how much the neighbours j prefer h to k* (`pulls` tells it by neighbour); "row", the
    number of the node.

    Examples
    --------
    >>> from tellwhy.data.graphs import chain
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)) + np.repeat([[0.0, 0.0], [3.0, 0.0], [0.0, 0.0]], 100, axis=0)
    >>> X[50] = [3.0, 0.2]
    >>> model = LCCAD(2, theta=0.15, gamma=1.0, model="mrf", random_state=0).fit(X, chain(300))
    >>> explanation = LatentClassDTD(model).explain()
    >>> bool(explanation.extras["context_share"][50] > 0.9), int(explanation.values[50].argmax())
    (True, 0)
    """

    kind: ClassVar[str] = "attribution"
    _parameters: ClassVar[dict[str, Rules]] = {"neighbour_pull": boolean}

    def __init__(self, model: Any, *, neighbour_pull: bool = True):
        self.model = model
        self.neighbour_pull = neighbour_pull
        if not isinstance(model, LCCAD):
            raise UnsupportedModel(f"LatentClassDTD explains a fitted LCCAD; got {type(model).__name__}.")
        check_is_fitted(model)
        validate_parameters(self)

    def explain(self, X: Any = None, graph: Any = None, *, nodes: Any = None) -> Explanation:
        """Explain nodes of the graph that the model was fitted on, or of a new one.

        Parameters
        ----------
        X, graph
            A new graph; by default the fitted one.
        nodes
            Numbers of the nodes to explain; by default all that are there.
        """
        model, is_training = self.model, X is None
        rows, graph = (model.training_X_, model.graph_) if is_training else model.checked(X, graph)
        labels = model.labels_ if is_training else model.predict(rows, graph)
        numbers = _chosen(nodes, labels)
        chosen = _Nodes(
            numbers, rows[numbers].astype(np.float64), labels[numbers].astype(np.int64), is_training
        )
        everything = model.scores_.all(chosen.X, is_training=is_training, rows=numbers)
        other = everything.argmin(axis=1)
        values, scores = self._relevance(chosen, chosen.classes)
        extras = _context(scores, everything.min(axis=1)) | {
            "class": chosen.classes,
            "other_class": other,
            "feature_contrast": values - self._relevance(chosen, other)[0],
            "row": numbers,
        }
        if self.neighbour_pull:
            extras["neighbour_pull"] = self._pull(rows, graph, numbers, chosen.classes, other)
        return Explanation(
            values=values,
            scores=scores,
            data=chosen.X,
            feature_names=model.feature_names_,
            method=type(self).__name__,
            params={"explains": self._describes(), "neighbour_pull": self.neighbour_pull},
            extras=Extras(extras),
        )

    def pulls(self, node: int) -> list[tuple[int, float]]:
        """Return each neighbour of a fitted node with how much it prefers the node's class to the next best one.

        The next best class is the one for which the node is least odd among the others.
        """
        model = self.model
        graph, h = model.graph_, int(model.labels_[int(_chosen([node], model.labels_)[0])])
        everything = model.scores_.all(
            model.training_X_[[node]].astype(np.float64), is_training=True, rows=np.array([node])
        )[0]
        everything[h] = np.inf
        field = model.field(model.training_X_, graph)
        neighbours, arriving = received_by(graph, max_marginals(field), node)
        pulls = arriving[:, int(everything.argmin())] - arriving[:, h]
        return [(int(j), float(pull)) for j, pull in zip(neighbours, pulls, strict=True)]

    def _describes(self) -> str:
        if self.model.scores_.kernels is None:
            return "squared distance to the centre of the node's latent class"
        return "outlierness o(x) = −log f_h(x) of the node's latent class h"

    def _relevance(self, nodes: _Nodes, classes: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """R and o of each node for a class of each."""
        kernels = self.model.scores_.kernels
        if kernels is None:
            values = (nodes.X - self.model.centres_[classes]) ** 2
            return values, values.sum(axis=1)
        values, scores = np.zeros_like(nodes.X), np.zeros(len(nodes.X))
        for k in np.unique(classes):
            own = np.flatnonzero(classes == k)
            training = nodes.numbers[own] if nodes.is_training else None
            found = OneClassDTD(kernels[k], training_rows=training).explain(nodes.X[own])
            values[own], scores[own] = found.values, found.scores
        return values, scores

    def _pull(self, rows: Any, graph: Graph, numbers: Any, own: Any, other: Any) -> Floats:
        """Σ_j M_ji(h) − M_ji(k*): in costs, what is received for k* minus what is received for h."""
        field = self.model.field(rows, graph)
        arriving = max_marginals(field)
        total = received_in_all(graph, arriving)[numbers].astype(np.float64)
        place = np.arange(len(numbers))
        return total[place, other] - total[place, own]


def _context(scores: Floats, least: Floats) -> dict[str, Any]:
    intrinsic = np.minimum(least, scores)
    context = scores - intrinsic
    share = np.divide(context, scores, out=np.zeros_like(scores), where=scores > 0)
    return {"intrinsic": intrinsic, "context": context, "context_share": share}


def _chosen(nodes: Any, labels: NDArray[Any]) -> NDArray[np.int64]:
    there = np.flatnonzero(labels >= 0)
    if nodes is None:
        return there
    numbers = np.atleast_1d(np.asarray(nodes))
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise InvalidInput(f"nodes must be numbers of nodes. Got {numbers.dtype} of shape {numbers.shape}.")
    wrong = (numbers < 0) | (numbers >= len(labels))
    if wrong.any():
        raise InvalidInput(
            f"There is no node {numbers[wrong][0]}; expected numbers from 0 to {len(labels) - 1}."
        )
    if (labels[numbers] < 0).any():
        raise InvalidInput(
            f"Node {numbers[labels[numbers] < 0][0]} is missing (masked) and cannot be explained."
        )
    return numbers.astype(np.int64)
