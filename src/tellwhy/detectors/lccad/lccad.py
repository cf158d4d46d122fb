"""LCCAD: latent-class contextual anomaly detection.

The neighbours of a node tell which class it is in; a node that is far from the centre of that class is odd,
even if it would be ordinary in another one. `alternation` holds what is minimised, `costs` the balls,
`couplings` how classes go together, `class_scores` how odd a node is for each class, `theta` the weight of
the two.

Kauffmann, Montavon, Lima, Nakajima, Müller and Görnitz, "Unsupervised detection and explanation of
latent-class contextual anomalies" (2018).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import copy
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.arrays import Capability, check_finite, list_columns, unpack_mask
from tellwhy.core.errors import DataNotice, InvalidInput, NotConverged
from tellwhy.core.params import (
    Fit,
    Rule,
    Rules,
    Seed,
    boolean,
    function,
    generator,
    integer,
    one_of,
    real,
    seed,
    validate_parameters,
)
from tellwhy.core.progress import track
from tellwhy.core.score import Floats, Integers
from tellwhy.data.graphs import Graph, Grid, as_graph
from tellwhy.detectors.lccad.alternation import Alternation, Settings, State
from tellwhy.detectors.lccad.class_scores import class_scores
from tellwhy.detectors.lccad.costs import Balls, Loss, find_loss
from tellwhy.detectors.lccad.couplings import Couplings
from tellwhy.detectors.lccad.theta import suggest_theta
from tellwhy.detectors.map_inference import (
    METHODS,
    Field,
    Labelling,
    best_labelling,
    max_marginals,
    received_by,
    received_in_all,
)
from tellwhy.storage.model_file import SavedModel


@runtime_checkable
class Transformer(Protocol, metaclass=Capability):
    """Makes features from rows, as scikit-learn's transformers do."""

    def fit(self, X: ArrayLike) -> Any:
        """Learn from rows."""
        ...

    def transform(self, X: ArrayLike) -> Any:
        """Return one line of features per row."""
        ...


def check_nodes(X: ArrayLike, graph: Any, names: list[str] | None) -> tuple[NDArray[Any], Graph]:
    """Return rows as finite floats (missing nodes aside) and a graph of as many nodes."""
    rows = _as_rows(X, graph)
    checked = as_graph(graph, len(rows))
    try:
        check_finite(take_rows_there(rows, checked), names)
    except InvalidInput as error:
        raise InvalidInput(
            f"{error} Or mask those nodes: graph(…, mask=~np.isnan(X).any(axis=1))."
        ) from error
    return rows, checked


def take_rows_there(rows: NDArray[Any], graph: Graph) -> NDArray[Any]:
    """Return the rows of nodes that are not missing."""
    return rows if graph.mask is None else rows[graph.mask]


def find_middle(rows: NDArray[Any], graph: Graph) -> Floats:
    """Mean of the rows, after checking that squared distances from it stay finite."""
    present = take_rows_there(rows, graph)
    middle = present.mean(axis=0, dtype=np.float64)
    reach = max(float(present.max()), -float(present.min()))
    # A margin of 1e4 below the root of the largest number leaves room for sums over many columns.
    if not reach < np.sqrt(float(np.finfo(rows.dtype).max)) / 1e4:
        raise InvalidInput(
            f"X holds values up to {reach:.1e}, whose squared distances leave the range of {rows.dtype}. "
            "Scale the columns first, for example with a StandardScaler."
        )
    return np.asarray(middle)


def compute_node_features(
    transformer: Transformer | None, middle: Floats | float, rows: NDArray[Any], graph: Graph
) -> NDArray[Any]:
    """φ of each row: the row itself, centred, or what a transformer makes of it; 0 for missing nodes."""
    present = take_rows_there(rows, graph)
    if transformer is None:
        found = present - np.asarray(middle, dtype=rows.dtype)
    else:
        found = np.asarray(transformer.transform(present))
    if graph.mask is None:
        return found
    features = np.zeros((len(rows), found.shape[1]), dtype=found.dtype)
    features[graph.mask] = found
    return features


def check_enough_nodes(n_nodes: int, n_classes: int) -> None:
    """Raise if there are more classes than nodes."""
    if n_classes > n_nodes:
        raise InvalidInput(
            f"n_classes={n_classes} needs as many nodes; there are {n_nodes}. Take fewer classes."
        )


def warn_of_empty_classes(n_used: int, n_classes: int) -> None:
    """Say that fewer classes were found than asked for."""
    if n_used < n_classes:
        warnings.warn(
            f"Only {n_used} of {n_classes} classes have nodes: the couplings outweigh the distances. "
            "Raise theta, take fewer classes, or ask tellwhy.detectors.suggest_lccad for both.",
            NotConverged,
            stacklevel=3,
        )


def warn_of_emissions(prior: str, *, normalised: bool) -> None:
    """Say that the paper's model makes little of the graph, unless its objective is the printed one."""
    if prior == "crf" and not normalised:
        warnings.warn(
            "prior='crf' learns linear scores that repeat the classes it starts from, so that the graph adds "
            "little; prior='mrf', the default, finds what is odd beside its neighbours.",
            DataNotice,
            stacklevel=3,
        )


def warn_of_lonely_nodes(graph: Graph) -> None:
    """Say that some nodes, but not all, have no neighbours."""
    if isinstance(graph, Grid):  # its nodes have neighbours, but for gaps
        return
    alone = graph.degrees() == 0
    n_alone = int((alone if graph.mask is None else alone & graph.mask).sum())
    if 0 < n_alone < graph.n_nodes:  # a graph without any edges is meant to be one
        warnings.warn(
            f"{n_alone} of {graph.n_nodes} nodes have no neighbours: only their values tell their class.",
            DataNotice,
            stacklevel=3,
        )


def _as_rows(X: ArrayLike, graph: Any) -> NDArray[Any]:
    """Return one row per node; float32 stays float32, which halves the memory of large grids."""
    raw = np.asarray(unpack_mask(X))
    if isinstance(graph, Grid) and raw.ndim == len(graph.shape) + 1 and raw.shape[:-1] == graph.shape:
        raw = raw.reshape(graph.n_nodes, raw.shape[-1])
    if raw.ndim != 2 or 0 in raw.shape:
        raise InvalidInput(
            "X must have one row per node and at least one column: shape (n, d), or (*shape, d) for a grid. "
            f"Got {raw.shape}."
        )
    if raw.dtype in (np.float32, np.float64):
        return raw
    if np.iscomplexobj(raw):
        raise InvalidInput(f"Complex data not supported: X has dtype {raw.dtype}; expected real numbers.")
    try:
        return raw.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"X cannot be read as numbers ({error}). Encode text and categories first."
        ) from error


_transformer = Rule("a transformer with fit and transform", lambda v: isinstance(v, Transformer))
_centres = Rule("an array of centres, one line per class", lambda v: np.ndim(v) == 2)


class LCCAD(SavedModel, BaseEstimator):
    """Nodes of a graph fall into hidden classes, and a node far from the centre of its own class is odd.

    Each class k has a ball with centre c_k and squared radius t_k. Couplings v say which classes go together
    on neighbouring nodes: they give the classes H of all nodes a probability p(H | X). Minimised over the
    classes h_i, the balls and the couplings is

        θ Σ_i [ν t_{h_i} + ℓ(‖c_{h_i} − φ_i‖² − t_{h_i})] + (1 − θ) [γ/2·‖v‖² − log p(H | X)].

    φ_i are the features of node i, and the loss ℓ says what it costs to lie outside of the ball.

    θ = 1 ignores the graph: with ν = 1 it is k-means, with one class SVDD. θ = 0 is a conditional random
    field. The squared distances count as they are, so that columns should be on comparable scales;
    `suggest_lccad` proposes θ and the number of classes.

    Parameters
    ----------
    n_classes
        Number of latent classes K.
    theta
        Weight of the balls against the graph, 0 to 1. For classes of variance σ² in each column, 1/(1 + 2σ²)
        weighs them as a Gaussian model would: 'auto' estimates σ² first, and keeps the weight as `theta_`.
    nu
        Share of each class that its ball may leave out; 1 makes the centres class means.
    loss
        Of the excess ‖c − φ‖² − t: 'hinge', 'squared' (of the positive part), or a function that never falls.
    gamma
        Strength of the regulariser; 'auto' makes ‖v‖ = 1 after the first update.
    features
        'identity', or a transformer of rows such as a `KernelBasis`, fitted by `fit` on a clone.
    inference
        'auto' (exact on chains and trees and for small two-class graphs, else TRW-S), 'exact', 'trws', 'lbp',
        'icm'.
    learn
        'pseudo_likelihood', 'marginals' (sum-product; exact on chains and trees), or 'fixed' (see
        `coupling`).
    prior
        'mrf': p(H | X) depends on the couplings and on one number per class alone. 'crf', the paper's: it
        also depends on the features, by a linear score for each class. Unless the objective is `normalised`,
        these scores learn to repeat the classes that k-means starts from, and the graph adds little.
    n_init
        Number of starts; the lowest objective is kept.
    init
        'auto': centres by k-means, or an array of centres, shape (K, D), for a single start.
    coupling
        V_ss for learn='fixed' (V_st = 0 for s ≠ t).
    normalised
        Use the objective as printed in the paper, which divides each loss by n_k ν, n_k being the size of the
        class. Large classes then attract nodes.
    max_iter
        The most alternations of a start.
    random_state
        Seed of the starts, and of the sample of nodes that couplings of large graphs are learned from.

    Attributes
    ----------
    labels_
        Class of each node, −1 where it is missing.
    objective_
        What is minimised, for the start that was kept. Where costs of nodes are restrained (below θ = 1,
        unless `normalised`), no node costs more in one class than in another by above six times the variance
        of a column: the number is then that of these costs, at most the printed formula's. log p(H | X) is
        exact on chains and trees. Elsewhere it is the logarithm of the pseudo-likelihood, or approximate with
        learn='marginals'.
    gap_
        How much lower the cost of other labels could be at most, for the parameters that `labels_` were found
        with: 0 for the best labels, infinite for 'lbp' and 'icm', which cannot tell.
    centres_, squared_radii_
        The balls, in feature space.
    couplings_, emissions_
        How well each two classes go together, shape (K, K), and the linear scores of each class: for features
        minus `middle_`, and in the last column a constant.
    theta_, gamma_, n_iter_
        θ and γ in use, and the number of alternations of the kept start.

    Examples
    --------
    >>> from tellwhy.data.graphs import chain
    >>> rng = np.random.default_rng(0)
    >>> classes = np.repeat([0, 1, 0], 100)
    >>> X = rng.normal(size=(300, 2)) + 3.0 * classes[:, None]
    >>> X[50] = [3.0, 3.0]  # ordinary for the other class
    >>> model = LCCAD(2, random_state=0).fit(X, chain(300))
    >>> bool(model.labels_[50] == model.labels_[49]), int(model.outlierness().argmax())
    (True, 50)
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "n_classes": integer(1, 127),
        "theta": (one_of("auto"), real(0, 1, closed="both")),
        "nu": real(0, 1, closed="right"),
        "loss": (one_of("hinge", "squared"), function),
        "gamma": (one_of("auto"), real(0, np.inf, closed="left")),
        "features": (one_of("identity"), _transformer),
        "inference": one_of(*METHODS),
        "learn": one_of("pseudo_likelihood", "marginals", "fixed"),
        "prior": one_of("crf", "mrf"),
        "n_init": integer(1),
        "init": (one_of("auto"), _centres),
        "coupling": real(),
        "normalised": boolean,
        "max_iter": integer(1),
        "random_state": seed,
    }

    def __init__(
        self,
        n_classes: int = 2,
        theta: str | float = "auto",
        nu: float = 1.0,
        *,
        loss: str | Loss = "hinge",
        gamma: str | float = 1.0,
        features: str | Transformer = "identity",
        inference: str = "auto",
        learn: str = "pseudo_likelihood",
        prior: str = "mrf",
        n_init: int = 3,
        init: str | ArrayLike = "auto",
        coupling: float = 1.0,
        normalised: bool = False,
        max_iter: int = 100,
        random_state: Seed = 0,
    ):
        self.n_classes = n_classes
        self.theta = theta
        self.nu = nu
        self.loss = loss
        self.gamma = gamma
        self.features = features
        self.inference = inference
        self.learn = learn
        self.prior = prior
        self.n_init = n_init
        self.init = init
        self.coupling = coupling
        self.normalised = normalised
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: ArrayLike, graph: Any = None) -> LCCAD:
        """Learn classes, balls and couplings from the nodes of a graph.

        Parameters
        ----------
        X
            One row per node, shape (n, d); for a grid also (*shape, d). float32 is kept. Rows of missing
            nodes are ignored and may hold NaN.
        graph
            Made by `tellwhy.data.graphs`, a scipy sparse matrix or a networkx graph; None for no edges.
        """
        validate_parameters(self)
        find_loss(self.loss)
        rows, graph = self.checked(X, graph, reset=True)
        rng = generator(self.random_state)
        self.transformer_: Any = None
        if not isinstance(self.features, str):
            self.transformer_ = clone(self.features).fit(take_rows_there(rows, graph))
        # Distances do not change when all rows move; around 0 they keep more digits.
        self.middle_ = find_middle(rows, graph) if self.transformer_ is None else 0.0
        features = self._features(rows, graph)
        check_enough_nodes(len(rows) if graph.mask is None else int(graph.mask.sum()), int(self.n_classes))
        self.theta_ = 1.0
        settings = self.settings()
        if isinstance(self.theta, str):
            centres = None if isinstance(self.init, str) else self._check_given_centres(features.shape[1])
            self.theta_ = suggest_theta(features, graph, settings, rng, centres)
        else:
            self.theta_ = float(self.theta)
        alternation = Alternation(features, graph, self.settings(), rng)
        best = self._find_best_start(alternation, rng)
        self._keep(best)
        self.training_X_ = rows
        self.graph_ = graph
        self.scores_ = class_scores(self, alternation.features, rng)
        warn_of_empty_classes(int((best.sizes > 0).sum()), int(self.n_classes))
        warn_of_lonely_nodes(graph)
        warn_of_emissions(self.prior, normalised=self.normalised)
        return self

    def predict(self, X: ArrayLike, graph: Any = None) -> NDArray[np.int32]:
        """Return the class of each node of a new graph; −1 where a node is missing."""
        return self.labelling(X, graph).labels

    def labelling(self, X: ArrayLike, graph: Any = None) -> Labelling:
        """Return the classes of a new graph with their energy, and the bound that tells how good they are."""
        return best_labelling(self.field(X, graph), self.inference)

    def field(self, X: ArrayLike, graph: Any = None) -> Field:
        """Return the energy that the learned parameters give to the classes of a graph's nodes."""
        check_is_fitted(self)
        rows, graph = self.checked(X, graph)
        alternation = Alternation(
            self._features(rows, graph), graph, self.settings(), np.random.default_rng(0)
        )
        balls = Balls(self.centres_ - self.middle_, self.squared_radii_)
        couplings = Couplings(self.couplings_, self.emissions_)
        closed = np.asarray(self.class_sizes_ == 0)  # a class that no node was in is none
        return alternation.field(balls, couplings, self.class_sizes_, closed)

    def received(self, X: ArrayLike, graph: Any = None) -> Floats:
        """Return what the neighbours of each node send to it in all, shape (nodes, classes).

        Messages are costs: the class that the neighbours favour has received least.
        """
        field = self.field(X, graph)
        return received_in_all(field.graph, max_marginals(field))

    def received_from(self, node: int) -> tuple[Integers, Floats]:
        """Return the neighbours of a fitted node and what each sends to it, shape (neighbours, classes)."""
        field = self.field(self.training_X_, self.graph_)
        return received_by(self.graph_, max_marginals(field), node)

    def outlierness(self, X: ArrayLike | None = None, graph: Any = None) -> Floats:
        """Return how odd each node is for its class (high = anomalous), NaN where it is missing.

        Without arguments, of the nodes the model was fitted on; else of a new graph, with the learned
        parameters.
        """
        check_is_fitted(self)
        if X is None:
            return self.scores_.own(self.training_X_, self.labels_, is_training=True)
        rows, checked = self.checked(X, graph)
        return self.scores_.own(rows, self.predict(rows, checked), is_training=False)

    def _find_best_start(self, alternation: Alternation, rng: np.random.Generator) -> State:
        if not isinstance(self.init, str):
            return alternation.run(self._check_given_centres(alternation.features.shape[1]))
        n = int(self.n_init)
        starts = [alternation.start(rng) for _ in range(n)]
        # One after the other: the states of all starts at once would take much memory on large grids.
        states = (alternation.run(centres) for centres in track(starts, n, "fitting latent classes"))
        return min(states, key=lambda state: state.rank)

    def _check_given_centres(self, n_features: int) -> Floats:
        centres = np.array(self.init, dtype=np.float64)
        expected = (int(self.n_classes), n_features)
        if centres.shape != expected or not np.isfinite(centres).all():
            raise InvalidInput(
                f"init must hold finite centres of shape {expected}. Got shape {centres.shape}."
            )
        return centres - self.middle_

    def _keep(self, best: State) -> None:
        self.labels_ = best.labelling.labels
        self.objective_ = best.objective
        self.gap_ = best.labelling.gap
        self.centres_ = best.balls.centres + self.middle_
        self.squared_radii_ = best.balls.squared_radii
        self.couplings_ = best.couplings.pair
        self.emissions_ = best.couplings.emission
        self.gamma_ = best.gamma
        self.n_iter_ = best.n_iter
        self.class_sizes_ = best.sizes

    def settings(self) -> Settings:
        """Return the parameters as the alternation reads them."""
        return Settings(
            n_classes=int(self.n_classes),
            theta=self.theta_ if isinstance(self.theta, str) else float(self.theta),
            nu=float(self.nu),
            loss=self.loss,
            gamma=None if isinstance(self.gamma, str) else float(self.gamma),
            inference=self.inference,
            learn=self.learn,
            coupling=float(self.coupling),
            on_features=self.prior == "crf",
            normalised=bool(self.normalised),
            max_iter=int(self.max_iter),
        )

    def checked(self, X: ArrayLike, graph: Any, *, reset: bool = False) -> tuple[NDArray[Any], Graph]:
        """Return rows as finite floats (missing nodes aside) and a graph of as many nodes."""
        names = list_columns(X)
        rows, checked = check_nodes(X, graph, names)
        if reset:
            self.n_features_in_ = rows.shape[1]
            self.feature_names_ = names
        elif rows.shape[1] != self.n_features_in_:
            raise InvalidInput(
                f"X has {rows.shape[1]} columns, but LCCAD was fitted on {self.n_features_in_}."
            )
        return rows, checked

    def _features(self, rows: NDArray[Any], graph: Graph) -> NDArray[Any]:
        """φ of each row; zeros where a node is missing."""
        return compute_node_features(self.transformer_, self.middle_, rows, graph)

    def _to_save(self) -> LCCAD:
        """Return the model with zeros for rows of missing nodes, which may hold anything, never read."""
        mask = self.graph_.mask
        if mask is None:
            return self
        kept = copy(self)
        kept.training_X_ = np.where(mask[:, None], self.training_X_, 0)
        return kept

    def _require(self) -> Iterator[Fit]:
        """Check everything that compiled code walks along, then label and score one node."""
        n, d = self.training_X_.shape
        K = int(self.n_classes)
        there = np.ones(n, dtype=bool) if self.graph_.mask is None else self.graph_.mask
        width = d if self.transformer_ is None else self.transformer_.map_.n_features
        n_emissions = width if self.prior == "crf" else 0
        yield "n_features_in_", self.n_features_in_, d
        yield "graph_", self.graph_.n_nodes, n
        yield "labels_", self.labels_.shape, (n,)
        yield "labels_", _are_labels(self.labels_, there, K), True
        yield "centres_", self.centres_.shape, (K, width)
        yield "scores_.centres", self.scores_.centres.shape, (K, width)
        yield "scores_.expansions", len(self.scores_.expansions or range(K)), K
        yield "squared_radii_", self.squared_radii_.shape, (K,)
        yield "class_sizes_", self.class_sizes_.shape, (K,)
        yield "couplings_", self.couplings_.shape, (K, K)
        yield "emissions_", self.emissions_.shape, (K, n_emissions + 1)
        yield "middle_", np.shape(self.middle_), (d,) if self.transformer_ is None else ()
        first = self.training_X_[there][:1]  # a node that is there, with a row that is close to the data
        yield "predict", self.predict(first).shape, (1,)
        own = self.scores_.own(first, self.labels_[there][:1], is_training=False)
        yield "scores_", own.shape, (1,)


def _are_labels(labels: NDArray[Any], there: NDArray[np.bool_], n_classes: int) -> bool:
    """Whether exactly the nodes that are there have a class, and one that exists."""
    return bool(((labels >= 0) == there).all() and (labels < n_classes).all())
