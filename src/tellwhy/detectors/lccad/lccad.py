"""Latent-class contextual anomaly detection: a node is odd for the class that its neighbours give it away to be in.

Kauffmann, Montavon, Lima, Nakajima, Müller and Görnitz, "Unsupervised detection and explanation of
latent-class contextual anomalies" (2018).
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import DataNotice, InvalidInput, NotConverged
from tellwhy.core.params import (
    Rule,
    Rules,
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
from tellwhy.core.score_function import Floats
from tellwhy.core.storage.saved_models import SavedModel
from tellwhy.core.tables import check_finite, column_names
from tellwhy.data.graphs import Graph, Grid, as_graph
from tellwhy.detectors.lccad.alternation import Alternation, Settings, State
from tellwhy.detectors.lccad.balls import Balls, Loss, named_loss
from tellwhy.detectors.lccad.class_scores import class_scores
from tellwhy.detectors.lccad.couplings import Couplings
from tellwhy.detectors.map_inference import METHODS, Field, Labelling, best_labelling

_transformer = Rule(
    "a transformer with fit and transform", lambda v: hasattr(v, "fit") and hasattr(v, "transform")
)
_centres = Rule("an array of centres, one line per class", lambda v: np.ndim(v) == 2)


class LCCAD(SavedModel, BaseEstimator):
    """Latent classes on a graph, each with a ball around its nodes; far from the centre of its own class is odd.

    Minimised over the classes h_i of the nodes, the balls (c_k, t_k) and the log-linear part v:

        θ Σ_i [ν t_{h_i} + ℓ(‖c_{h_i} − φ_i‖² − t_{h_i})] + (1 − θ) [γ/2 ‖v‖² − ⟨v, ψ(X, H)⟩ + log Z(X, v)]

    θ = 1 ignores the graph: with ν = 1 it is k-means, with one class SVDD. θ = 0 is a conditional random
    field. The squared distances count as they are, so that columns should be on comparable scales;
    `suggest_lccad` proposes θ and the number of classes.

    Parameters
    ----------
    n_classes
        Number of latent classes K.
    theta
        Weight of the balls against the graph, 0 to 1. For classes of variance σ² in each column, 1/(1 + 2σ²)
        weighs them as a Gaussian model would.
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
    model
        'crf': classes also have linear scores of the features in the log-linear part. 'mrf': couplings and
        class weights alone, so that Z does not depend on X.
    n_init
        Number of starts; the lowest objective is kept.
    init
        'auto': centres by k-means, or an array of centres, shape (K, D), for a single start.
    coupling
        V_ss for learn='fixed' (V_st = 0 for s ≠ t).
    normalised
        Use the objective as printed in the paper, whose 1/(n_k ν) makes large classes attract nodes.
    max_iter
        The most alternations of a start.
    random_state
        Seed of the starts, and of the sample of nodes that couplings of large graphs are learned from.

    Attributes
    ----------
    labels_
        Class of each node, −1 where it is missing.
    objective_
        Of the kept start and iterate. log p(H | X) is exact on chains and trees; elsewhere it is the
        logarithm of the pseudo-likelihood, or has Bethe's log Z with learn='marginals'.
    gap_
        The most by which the energy of `labels_` may exceed the least one, for the parameters that they were
        found with; infinite for 'lbp' and 'icm', which have no bound.
    centres_, squared_radii_
        The balls, in feature space.
    couplings_, emissions_
        V and W (last column: the constant; the others for features minus `middle_`).
    gamma_, n_iter_
        γ in use, and the number of alternations of the kept start.

    Examples
    --------
    >>> from tellwhy.data.graphs import chain
    >>> rng = np.random.default_rng(0)
    >>> classes = np.repeat([0, 1, 0], 100)
    >>> X = rng.normal(size=(300, 2)) + 3.0 * classes[:, None]
    >>> X[50] = [3.0, 3.0]  # ordinary for the other class
    >>> model = LCCAD(2, theta=0.15, gamma=1.0, model="mrf", random_state=0).fit(X, chain(300))
    >>> bool(model.labels_[50] == model.labels_[49]), int(model.outlierness().argmax())
    (True, 50)
    """

    _model_io = "tellwhy.detectors.model_io"
    _parameters: ClassVar[dict[str, Rules]] = {
        "n_classes": integer(1, 127),
        "theta": real(0, 1, closed="both"),
        "nu": real(0, 1, closed="right"),
        "loss": (one_of("hinge", "squared"), function),
        "gamma": (one_of("auto"), real(0, np.inf, closed="left")),
        "features": (one_of("identity"), _transformer),
        "inference": one_of(*METHODS),
        "learn": one_of("pseudo_likelihood", "marginals", "fixed"),
        "model": one_of("crf", "mrf"),
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
        theta: float = 0.5,
        nu: float = 1.0,
        *,
        loss: str | Loss = "hinge",
        gamma: str | float = "auto",
        features: Any = "identity",
        inference: str = "auto",
        learn: str = "pseudo_likelihood",
        model: str = "crf",
        n_init: int = 3,
        init: Any = "auto",
        coupling: float = 1.0,
        normalised: bool = False,
        max_iter: int = 100,
        random_state: Any = None,
    ):
        self.n_classes = n_classes
        self.theta = theta
        self.nu = nu
        self.loss = loss
        self.gamma = gamma
        self.features = features
        self.inference = inference
        self.learn = learn
        self.model = model
        self.n_init = n_init
        self.init = init
        self.coupling = coupling
        self.normalised = normalised
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, graph: Any = None) -> LCCAD:
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
        named_loss(self.loss)
        rows, graph = self.checked(X, graph, reset=True)
        rng = generator(self.random_state)
        self.transformer_ = (
            None if isinstance(self.features, str) else _fitted_transformer(self.features, rows, graph)
        )
        self.middle_ = _middle(rows, graph) if self.transformer_ is None else 0.0
        alternation = Alternation(self._features(rows, graph), graph, self.settings(), rng)
        self._check_size(alternation)
        best = self._best_start(alternation, rng)
        self._keep(best)
        self.training_X_, self.graph_ = rows, graph
        self.scores_ = class_scores(self, alternation.features, rng)
        self._warn(best, graph)
        return self

    def predict(self, X: Any, graph: Any = None) -> NDArray[np.int32]:
        """Return the class of each node of a new graph, with the learned parameters; −1 where a node is missing."""
        return self.labelling(X, graph).labels

    def labelling(self, X: Any, graph: Any = None) -> Labelling:
        """Return the classes of a new graph with their energy, and the bound that tells how good they are."""
        return best_labelling(self.field(X, graph), self.inference)

    def field(self, X: Any, graph: Any = None) -> Field:
        """Return the energy that the learned parameters give to the classes of a graph's nodes."""
        check_is_fitted(self)
        rows, graph = self.checked(X, graph)
        alternation = Alternation(
            self._features(rows, graph), graph, self.settings(), np.random.default_rng(0)
        )
        balls = Balls(self.centres_ - self.middle_, self.squared_radii_)
        return alternation.field(balls, Couplings(self.couplings_, self.emissions_), self.class_sizes_)

    def outlierness(self, X: Any = None, graph: Any = None) -> Floats:
        """Return how odd each node is for its class (high = anomalous), NaN where it is missing.

        Without arguments, of the nodes the model was fitted on; else of a new graph, with the learned
        parameters.
        """
        check_is_fitted(self)
        if X is None:
            return self.scores_.own(self.training_X_, self.labels_, is_training=True)
        rows, checked = self.checked(X, graph)
        return self.scores_.own(rows, self.predict(rows, checked), is_training=False)

    def _best_start(self, alternation: Alternation, rng: np.random.Generator) -> State:
        if not isinstance(self.init, str):
            return alternation.run(self._given_centres(alternation))
        n = int(self.n_init)
        starts = [alternation.start(rng) for _ in range(n)]
        return min(
            (alternation.run(c) for c in track(starts, n, "fitting latent classes")), key=lambda s: s.rank
        )

    def _given_centres(self, alternation: Alternation) -> Floats:
        centres = np.array(self.init, dtype=np.float64)
        expected = (int(self.n_classes), alternation.features.shape[1])
        if centres.shape != expected or not np.isfinite(centres).all():
            raise InvalidInput(
                f"init must hold finite centres of shape {expected}. Got shape {centres.shape}."
            )
        return centres - self.middle_

    def _keep(self, best: State) -> None:
        self.labels_ = best.labelling.labels
        self.objective_, self.gap_ = best.objective, best.labelling.gap
        self.centres_, self.squared_radii_ = best.balls.centres + self.middle_, best.balls.squared_radii
        self.couplings_, self.emissions_ = best.couplings.pair, best.couplings.emission
        self.gamma_, self.n_iter_, self.class_sizes_ = best.gamma, best.n_iter, best.sizes

    def settings(self) -> Settings:
        """Return the parameters as the alternation reads them."""
        return Settings(
            n_classes=int(self.n_classes),
            theta=float(self.theta),
            nu=float(self.nu),
            loss=self.loss,
            gamma=None if isinstance(self.gamma, str) else float(self.gamma),
            inference=self.inference,
            learn=self.learn,
            coupling=float(self.coupling),
            on_features=self.model == "crf",
            normalised=bool(self.normalised),
            max_iter=int(self.max_iter),
        )

    def checked(self, X: Any, graph: Any, *, reset: bool = False) -> tuple[NDArray[Any], Graph]:
        """Return rows as finite floats (missing nodes aside) and a graph of as many nodes."""
        names = column_names(X)
        rows = _as_rows(X, graph)
        graph = as_graph(graph, len(rows))
        if reset:
            self.n_features_in_ = rows.shape[1]
            self.feature_names_ = names
        elif rows.shape[1] != self.n_features_in_:
            raise InvalidInput(
                f"X has {rows.shape[1]} columns, but LCCAD was fitted on {self.n_features_in_}."
            )
        if graph.mask is None:
            _check_nodes(rows, names)
        else:
            _check_nodes(rows[graph.mask], names)
        return rows, graph

    def _features(self, rows: NDArray[Any], graph: Graph) -> NDArray[Any]:
        """φ of each row (centred, where it is the row itself); zeros where a node is missing."""
        present = slice(None) if graph.mask is None else graph.mask
        if self.transformer_ is None:
            found = rows[present] - np.asarray(self.middle_, dtype=rows.dtype)
        else:
            found = np.asarray(self.transformer_.transform(rows[present]))
        if graph.mask is None:
            return found
        features = np.zeros((len(rows), found.shape[1]), dtype=found.dtype)
        features[graph.mask] = found
        return features

    def _check_size(self, alternation: Alternation) -> None:
        if self.n_classes > alternation.n_present:
            n = alternation.n_present
            raise InvalidInput(
                f"n_classes={self.n_classes} needs as many nodes; there are {n}. Take fewer classes."
            )

    def _warn(self, best: State, graph: Graph) -> None:
        n_used = int((best.sizes > 0).sum())
        if n_used < self.n_classes:
            warnings.warn(
                f"Only {n_used} of {self.n_classes} classes have nodes: the couplings outweigh the distances. Raise "
                "theta, take fewer classes, or ask tellwhy.detectors.suggest_lccad for both.",
                NotConverged,
                stacklevel=3,
            )
        alone = graph.degrees() == 0 if not isinstance(graph, Grid) else np.zeros(1, bool)
        n_alone = int((alone if graph.mask is None else alone & graph.mask).sum()) if alone.any() else 0
        if 0 < n_alone < graph.n_nodes:
            warnings.warn(
                f"{n_alone} of {graph.n_nodes} nodes have no neighbours: only their values tell their class.",
                DataNotice,
                stacklevel=3,
            )


def _as_rows(X: Any, graph: Any) -> NDArray[Any]:
    raw = np.asarray(X)
    if isinstance(graph, Grid) and raw.ndim == len(graph.shape) + 1 and raw.shape[:-1] == graph.shape:
        raw = raw.reshape(graph.n_nodes, raw.shape[-1])
    if raw.ndim != 2 or 0 in raw.shape:
        raise InvalidInput(
            f"X must have one row per node and at least one column: shape (n, d), or (*shape, d) for a grid. Got "
            f"{raw.shape}."
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


def _check_nodes(rows: NDArray[Any], names: list[str] | None) -> None:
    try:
        check_finite(rows, names)
    except InvalidInput as error:
        raise InvalidInput(
            f"{error} Or mask those nodes: graph(…, mask=~np.isnan(X).any(axis=1))."
        ) from error


def _middle(rows: NDArray[Any], graph: Graph) -> Floats:
    """Mean of the rows, after checking that squared distances from it stay finite."""
    present = rows if graph.mask is None else rows[graph.mask]
    middle = present.mean(axis=0, dtype=np.float64)
    reach = max(float(present.max()), -float(present.min()))
    if not reach < np.sqrt(float(np.finfo(rows.dtype).max)) / 1e4:
        raise InvalidInput(
            f"X holds values up to {reach:.1e}, whose squared distances leave the range of {rows.dtype}. Scale the "
            "columns first, for example with a StandardScaler."
        )
    return np.asarray(middle)


def _fitted_transformer(features: Any, rows: NDArray[Any], graph: Graph) -> Any:
    return clone(features).fit(rows if graph.mask is None else rows[graph.mask])
