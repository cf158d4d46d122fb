"""Deep Taylor decomposition of latent-class outlierness, and how much of it is the context's doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.arrays import Capability
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.explanation import Explanation
from tellwhy.core.explanation_parts import Extras
from tellwhy.core.params import Rules, boolean, validate_parameters
from tellwhy.core.progress import shown
from tellwhy.core.score import Floats, Integers
from tellwhy.data.graphs import Graph
from tellwhy.explainers.decomposition.one_class_dtd import OneClassDTD


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Nodes to explain, in the graph that they belong to.

    Attributes
    ----------
    rows, graph
        All nodes of the graph.
    numbers
        Those that are explained.
    X, classes
        Their rows and classes.
    is_training
        Whether the model was fitted on this graph: then a node is judged without itself.
    """

    rows: NDArray[Any]
    graph: Graph
    numbers: Integers
    X: Floats
    classes: Integers
    is_training: bool


@runtime_checkable
class HasLatentClasses(Protocol, metaclass=Capability):
    """A model that puts nodes into classes by their values and their neighbours, as `LCCAD` does."""

    def checked(self, X: Any, graph: Any) -> tuple[NDArray[Any], Graph]:
        """Return rows and graph, after checking that they fit together and to the model."""
        ...

    def predict(self, X: Any, graph: Any = None) -> NDArray[Any]:
        """Return the class of each node."""
        ...

    def received(self, X: Any, graph: Any = None) -> Floats:
        """Return what the neighbours of each node send to it in all, as costs of its classes."""
        ...

    def received_from(self, node: int) -> tuple[Integers, Floats]:
        """Return the neighbours of a fitted node, and what each sends to it."""
        ...


class LatentClassDTD:
    """Explain why a node is odd for its class, by feature, and whether its value or its context is to blame.

    A node's class h is chosen by its own value and by its neighbours, so that it may be in a class where its
    value is odd. With o_k the outlierness for class k, values R^(h) share o_h among the features: (x − c_h)²
    where o = ‖x − c_h‖² is the squared distance to the centre (they sum to o), else the formula of
    `OneClassDTD` over the rows x_j of the class, Δ_j = p_j min(o_h, ‖x − x_j‖²/2σ²), the node itself left
    out. The part of o_h that would be there in any class is intrinsic = min_k o_k; the rest is there only
    because the neighbours put the node into h.

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
    >>> from tellwhy.detectors import LCCAD
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2)) + np.repeat([[0.0, 0.0], [3.0, 0.0], [0.0, 0.0]], 100, axis=0)
    >>> X[50] = [3.0, 0.2]
    >>> model = LCCAD(2, theta=0.15, gamma=1.0, prior="mrf", random_state=0).fit(X, chain(300))
    >>> explanation = LatentClassDTD(model).explain()
    >>> bool(explanation.extras["context_share"][50] > 0.9), int(explanation.values[50].argmax())
    (True, 0)
    """

    kind: ClassVar[str] = "attribution"
    _parameters: ClassVar[dict[str, Rules]] = {"neighbour_pull": boolean}

    def __init__(self, model: HasLatentClasses, *, neighbour_pull: bool = True):
        self.model: Any = model
        self.neighbour_pull = neighbour_pull
        if not isinstance(model, HasLatentClasses):
            raise UnsupportedModel(f"LatentClassDTD explains a fitted LCCAD; got {type(model).__name__}.")
        check_is_fitted(model)
        validate_parameters(self)

    def explain(
        self,
        X: ArrayLike | None = None,
        graph: Any = None,
        *,
        nodes: ArrayLike | None = None,
        progress: bool | None = None,
    ) -> Explanation:
        """Explain nodes of the graph that the model was fitted on, or of a new one.

        Parameters
        ----------
        X, graph
            A new graph; by default, and where X is what the model was fitted on, the fitted one.
        nodes
            Numbers of the nodes to explain; by default all that are there.
        progress
            Whether to show how far it is; None: on a terminal and in notebooks, after two seconds.
        """
        with shown(progress):
            return self._explained(X, graph, nodes)

    def _explained(self, X: ArrayLike | None, graph: Any, nodes: ArrayLike | None) -> Explanation:
        validate_parameters(self)
        chosen = self._nodes(X, graph, nodes)
        values, scores = self._relevance(chosen, chosen.classes)
        return Explanation(
            values=values,
            scores=scores,
            data=chosen.X,
            feature_names=self.model.feature_names_,
            method=type(self).__name__,
            params={"explains": self._describes(), "neighbour_pull": self.neighbour_pull},
            kind=self.kind,
            extras=self._extras(chosen, values, scores),
        )

    def _nodes(self, X: ArrayLike | None, graph: Any, nodes: ArrayLike | None) -> _Nodes:
        model = self.model
        is_training = X is None or (graph is None and np.array_equal(X, model.training_X_))
        rows, graph = (model.training_X_, model.graph_) if is_training else model.checked(X, graph)
        labels = model.labels_ if is_training else model.predict(rows, graph)
        numbers = _chosen(nodes, labels)
        own = rows[numbers].astype(np.float64)  # large graphs are kept in float32
        return _Nodes(rows, graph, numbers, own, labels[numbers].astype(np.int64), is_training)

    def _extras(self, nodes: _Nodes, values: Floats, scores: Floats) -> Extras:
        """Whether its value or its context makes each node odd, and which class would suit it."""
        of_classes = self.model.scores_.all(nodes.X, is_training=nodes.is_training, rows=nodes.numbers)
        other = of_classes.argmin(axis=1)
        extras = _context(scores, of_classes.min(axis=1)) | {
            "class": nodes.classes,
            "other_class": other,
            "feature_contrast": values - self._relevance(nodes, other)[0],
            "row": nodes.numbers,
        }
        if self.neighbour_pull:
            extras["neighbour_pull"] = self._pull(nodes, other)
        return Extras(extras)

    def pulls(self, node: int) -> list[tuple[int, float]]:
        """Return each neighbour of a fitted node, and how much it prefers the node's class to the next best.

        The next best class is the one for which the node is least odd among the others.
        """
        model = self.model
        chosen = self._nodes(None, None, [node])
        of_classes = model.scores_.all(chosen.X, is_training=True, rows=chosen.numbers)[0]
        h = int(chosen.classes[0])
        of_classes[h] = np.inf
        neighbours, arriving = model.received_from(node)
        # messages are costs: a neighbour that prefers h has sent less for h than for the next best class
        pulls = arriving[:, int(of_classes.argmin())] - arriving[:, h]
        return [(int(j), float(pull)) for j, pull in zip(neighbours, pulls, strict=True)]

    def _describes(self) -> str:
        if self.model.scores_.kernels is None:
            return "squared distance to the centre of the node's latent class"
        return "outlierness o(x) = −log f_h(x) of the node's latent class h"

    def _relevance(self, nodes: _Nodes, classes: Integers) -> tuple[Floats, Floats]:
        """R and o of each node for a class of each."""
        kernels = self.model.scores_.kernels
        if kernels is None:
            values = (nodes.X - self.model.centres_[classes]) ** 2
            return values, values.sum(axis=1)
        values = np.zeros_like(nodes.X)
        scores = np.zeros(len(nodes.X))
        for k in np.unique(classes):
            own = np.flatnonzero(classes == k)
            training = nodes.numbers[own] if nodes.is_training else None
            found = OneClassDTD(kernels[k], training_rows=training).explain(nodes.X[own])
            values[own] = found.values
            scores[own] = found.scores
        return values, scores

    def _pull(self, nodes: _Nodes, other: Integers) -> Floats:
        """Σ_j M_ji(h) − M_ji(k*): in costs, what is received for k* minus what is received for h."""
        total = self.model.received(nodes.rows, nodes.graph)[nodes.numbers].astype(np.float64)
        place = np.arange(len(nodes.numbers))
        return np.asarray(total[place, other] - total[place, nodes.classes])


def _context(scores: Floats, least: Floats) -> dict[str, Any]:
    # the score of a class is computed twice, in two ways: rounding must not make the context negative
    intrinsic = np.minimum(least, scores)
    context = scores - intrinsic
    share = np.divide(context, scores, out=np.zeros_like(scores), where=scores > 0)
    return {"intrinsic": intrinsic, "context": context, "context_share": share}


def _chosen(nodes: ArrayLike | None, labels: NDArray[Any]) -> Integers:
    """Numbers of the nodes to explain, checked; all that are there by default."""
    if nodes is None:
        return np.flatnonzero(labels >= 0)
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
