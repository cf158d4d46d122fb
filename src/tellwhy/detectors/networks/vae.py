"""Variational autoencoder scored by its reconstruction error or its negative evidence bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Rules, Seed, boolean, integer, one_of, store_parameters, validate_value
from tellwhy.core.registry import register
from tellwhy.core.rows.scaling import Scaling
from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.networks.moved_cells import MovedCells
from tellwhy.detectors.networks.network_detector import NETWORK_PARAMETERS, NetworkDetector, scores_as_if_new
from tellwhy.detectors.networks.network_score import NetworkScore
from tellwhy.detectors.networks.torch_networks import Layout
from tellwhy.detectors.networks.vae_scores import NegativeBound, ReconstructionError
from tellwhy.detectors.networks.vae_training import LEAST_NOISE, EvidenceBound, LocatingBound

LAYERS: Layout = {
    "encode": ("column", "hidden"),
    "mean": ("hidden", "latent"),
    "variance": ("hidden", "latent"),
    "decode": ("latent", "hidden"),
    "refine": ("hidden", "hidden"),
    "output": ("hidden", "column"),
}
BYPASSES: Layout = {"bypass_mean": ("column", "latent"), "bypass_output": ("latent", "column")}


@register(
    "detector",
    needs="numeric columns, PyTorch; a thousand rows or more",
    cost="fit O(n (d + h) h) per pass; score O(n (d + h) h)",
    exactness="a local optimum, stopped early",
    citation="Kingma, Welling, International Conference on Learning Representations (2014)",
)
class VAE(NetworkDetector):
    """Variational autoencoder: a network squeezes a row into a few numbers and rebuilds the row from them.

    The few numbers are called the code. Rows that are rebuilt badly are odd. The encoder has one hidden layer
    and the decoder two, with softplus units, and there is a linear map beside each: the mean of the code is
    V x + f(x) and the reconstruction W z + g(z), f and g being the layers. Without V and W, training on a few
    hundred rows ends early at networks that rebuild new rows badly. With them it starts near principal
    components and bends from there.

    Columns are standardised inside (not for likelihood='bernoulli'); errors are in standardised units.

    Parameters
    ----------
    score
        'reconstruction': ‖x − x̂‖² with x̂ decoded from the mean of the code. 'elbo': the negative evidence
        lower bound, its expectation taken over noise that is drawn once, so that equal rows have equal
        scores. Training does not depend on it: `set_params(score=...)` turns a fitted detector to the other
        score, which has its own threshold.
    likelihood
        'gaussian', or 'bernoulli' for columns of 0 and 1.
    latent, hidden
        Width of the code and of the hidden layers. 'auto' compares 0.2, 0.4, 0.6, 0.8 and 0.5, 1, 2 times the
        number of columns on rows held out; the better half of the candidates goes on after 100, 200, 400, …
        steps.
    criterion
        What sizes are compared by and what training stops on, for rows held out. 'localisation': one cell of
        each row is moved by one to two standard deviations (flipped for 'bernoulli'), and the mean logarithm
        of its share in the row's squared error counts: a network that rebuilds too little has errors
        elsewhere, one that copies its input has none there. 'bound': the evidence lower bound, for the
        density rather than for errors that point at cells; it takes narrow codes where rows are few, and is
        used for a single column, whose share is always 1. Either way, weights descend on the bound.
    bypass
        Whether there are linear maps beside the layers; False is the plain network.
    n_samples
        Draws of noise in the bound, in pairs of opposite sign.
    learning_rate, batch_size
        Steps of Adam.
    max_epochs
        Passes over the rows at most; 'auto' is 300, and on small tables, where a pass has few steps, as many
        as make 2,000 steps.
    patience
        Passes without a gain on the rows held out after which training stops; 'auto' is 20, or what makes 200
        steps.
    validation_share
        Share of the rows held out, for stopping, for choosing sizes and for the threshold.
    device
        'cpu', 'cuda', or 'auto' for the latter where there is one.
    dtype
        Arithmetic of the scores: 'float64', or 'float32' (training always uses the latter).
    contamination
        Share of training rows, as if each were new, above the threshold that `fit` sets.
    random_state
        Seed of everything drawn.

    Attributes
    ----------
    latent_, hidden_
        Widths in use.
    validation_losses_
        Sizes of each candidate and its lowest loss on the rows held out.
    network_
        Weights and biases by layer.
    output_variance_
        Variance of the standardised columns around their reconstruction, learned; 1 for 'bernoulli'.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> VAE(latent=1, hidden=3, max_epochs=20).fit(X).predict([[0.0, 0.0, 0.0], [9.0, -9.0, 9.0]])
    array([ 1, -1])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        **NETWORK_PARAMETERS,
        "score": one_of("reconstruction", "elbo"),
        "likelihood": one_of("gaussian", "bernoulli"),
        "criterion": one_of("localisation", "bound"),
        "bypass": boolean,
        "n_samples": integer(1),
    }

    score: str
    likelihood: str
    criterion: str
    bypass: bool
    n_samples: int

    def __init__(
        self,
        score: str = "reconstruction",
        likelihood: str = "gaussian",
        latent: str | int = "auto",
        hidden: str | int = "auto",
        *,
        criterion: str = "localisation",
        bypass: bool = True,
        n_samples: int = 2,
        learning_rate: float = 1e-3,
        batch_size: int = 128,
        max_epochs: str | int = "auto",
        patience: str | int = "auto",
        validation_share: float = 0.2,
        device: str = "auto",
        dtype: str = "float64",
        contamination: float = 0.1,
        random_state: Seed = 0,
    ):
        store_parameters(self, locals())

    @property
    def _layout(self) -> Layout:
        return {**LAYERS, **BYPASSES} if self.bypass else LAYERS

    def _learned_scaling(self, X: Floats) -> Scaling:
        return Scaling.of(X) if self.likelihood == "gaussian" else Scaling.none(X.shape[1])

    def _validated(self, X: Any, *, reset: bool) -> Floats:
        array = super()._validated(X, reset=reset)
        outside = (array < 0) | (array > 1)
        if self.likelihood == "bernoulli" and outside.any():
            first = np.argwhere(outside)[0]
            raise InvalidInput(
                f"VAE(likelihood='bernoulli') takes values between 0 and 1; X holds {array[tuple(first)]:g} "
                f"in row {first[0]}, column {first[1]}. Use likelihood='gaussian' for other numbers."
            )
        return array

    def _objective(self, n_held: int, widths: Mapping[str, int], rng: np.random.Generator) -> EvidenceBound:
        noise = rng.standard_normal((n_held, widths["latent"]))
        if self.criterion == "bound" or widths["column"] == 1:  # the share of a single column is always 1
            return EvidenceBound(self.likelihood, noise)
        return LocatingBound(self.likelihood, noise, MovedCells.drawn(n_held, widths["column"], rng))

    def _finish(self, Z: Floats, rng: np.random.Generator) -> None:
        # Pairs of opposite sign: their mean is exactly that of the noise, which steadies the bound.
        half = rng.standard_normal(((self.n_samples + 1) // 2, self.latent_))
        self.noise_ = np.concatenate([half, -half])[: self.n_samples]
        self.output_variance_ = 1.0
        if self.likelihood == "gaussian":
            bound = NegativeBound(self.likelihood, self.noise_)
            misfit_of_rows = self._network_score(
                lambda network, x, _: (bound.misfits(network, x), None),
                row_floats=self._row_floats * self.n_samples,
                scaling=Scaling.none(Z.shape[1]),
            )
            self.output_variance_ = max(float(misfit_of_rows.value(Z).mean()) / Z.shape[1], LEAST_NOISE)

    def to_score(self) -> NetworkScore:
        """Return the outlierness as a score function."""
        check_is_fitted(self)
        validate_value("VAE", "score", self.score, self._parameters["score"])
        return self._score_named(self.score)

    def _calibrate(self, X: Floats, kept: Integers, held: Integers) -> None:
        self.threshold_of_: dict[str, float] = {}  # none while the rows are scored to find them
        self.training_scores_of_ = {
            kind: scores_as_if_new(self._score_named(kind), X, kept, held)
            for kind in ("reconstruction", "elbo")
        }
        level = 1 - self.contamination
        self.threshold_of_ = {
            kind: float(np.quantile(s, level)) for kind, s in self.training_scores_of_.items()
        }

    @property
    def training_scores_(self) -> Floats:  # type: ignore[override]
        """Outlierness of the training rows, as if they were new, by the score in use."""
        return self.training_scores_of_[self.score]

    @property
    def threshold_(self) -> float:
        """Threshold of the score in use."""
        return self.threshold_of_[self.score]

    @threshold_.setter
    def threshold_(self, value: float) -> None:
        self.threshold_of_ = {**self.threshold_of_, self.score: value}

    def _score_named(self, kind: str) -> NetworkScore:
        is_error = kind == "reconstruction"
        error = ReconstructionError(self.likelihood)
        constant = float(np.log(self.scaling_.scale).sum())  # undoes the scaling
        bound = NegativeBound(self.likelihood, self.noise_, self.output_variance_, constant)
        return self._network_score(
            error if is_error else bound,
            row_floats=self._row_floats * (1 if is_error else self.n_samples),
            terms=error.terms if is_error else None,
            unit_interval=self.likelihood == "bernoulli",
            feature_names=self._names,
            describes="squared reconstruction error of VAE"
            if is_error
            else "negative evidence lower bound of VAE",
            threshold=self.threshold_of_.get(kind),
        )

    @property
    def _row_floats(self) -> int:
        """Numbers that a row needs on its way through the network."""
        return 4 * (self.hidden_ + self.n_features_in_)
