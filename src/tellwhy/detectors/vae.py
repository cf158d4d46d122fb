"""Variational autoencoder scored by its reconstruction error or its negative evidence bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import InvalidInput
from tellwhy.core.parallel import row_batches
from tellwhy.core.params import Rules, integer, one_of, validate_value
from tellwhy.core.registry import register_detector
from tellwhy.core.score_function import Floats, Integers
from tellwhy.detectors.network_detector import NETWORK_PARAMETERS, NetworkDetector, scores_as_if_new
from tellwhy.detectors.network_score import NetworkScore
from tellwhy.detectors.scaling import Scaling
from tellwhy.detectors.torch_networks import Layout, Stack, Tensor
from tellwhy.detectors.vae_scores import LEAST_VARIANCE, NegativeBound, ReconstructionError

LEAST_NOISE = 1e-4  # variance of standardised columns around their reconstruction


@register_detector(
    needs="numeric columns, PyTorch; a thousand rows or more",
    cost="fit O(n (d + h) h) per pass; score O(n (d + h) h)",
    exactness="a local optimum, stopped early",
    citation="Kingma, Welling, International Conference on Learning Representations (2014)",
)
class VAE(NetworkDetector):
    """Variational autoencoder: encoder with one hidden layer, decoder with two, softplus.

    Columns are standardised inside (not for likelihood='bernoulli'); errors are in standardised units.

    Parameters
    ----------
    score
        'reconstruction': ‖x − x̂‖² with x̂ decoded from the mean of the code. 'elbo': the negative evidence lower bound,
        its expectation taken over noise that is drawn once, so that equal rows have equal scores. Training does not
        depend on it: `set_params(score=...)` turns a fitted detector to the other score, which has its own threshold.
    likelihood
        'gaussian', or 'bernoulli' for columns of 0 and 1.
    latent, hidden
        Width of the code and of the hidden layers. 'auto' compares 0.2, 0.4, 0.6, 0.8 and 0.5, 1, 2 times the number of
        columns by the bound on rows held out; the better half of the candidates goes on after 100, 200, 400, … steps.
    n_samples
        Draws of noise in the bound, in pairs of opposite sign.
    learning_rate, batch_size
        Steps of Adam.
    max_epochs
        Passes over the rows at most; 'auto' is 300, and on small tables, where a pass has few steps, as many as make
        2,000 steps.
    patience
        Passes without a gain on the rows held out after which training stops; 'auto' is 20, or what makes 200 steps.
    validation_share
        Share of the rows held out, for stopping, for choosing sizes and for the threshold.
    device
        'cpu', 'cuda', or 'auto' for the latter where there is one.
    dtype
        Arithmetic of the scores: 'float64', or 'float32' (training always uses the latter).
    false_alarms
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
        "n_samples": integer(1),
    }
    _layout: ClassVar[Layout] = {
        "encode": ("column", "hidden"),
        "mean": ("hidden", "latent"),
        "variance": ("hidden", "latent"),
        "decode": ("latent", "hidden"),
        "refine": ("hidden", "hidden"),
        "output": ("hidden", "column"),
    }

    def __init__(
        self,
        score: str = "reconstruction",
        likelihood: str = "gaussian",
        latent: str | int = "auto",
        hidden: str | int = "auto",
        *,
        n_samples: int = 2,
        learning_rate: float = 1e-3,
        batch_size: int = 128,
        max_epochs: str | int = "auto",
        patience: str | int = "auto",
        validation_share: float = 0.2,
        device: str = "auto",
        dtype: str = "float64",
        false_alarms: float = 0.1,
        random_state: Any = 0,
    ):
        self.score = score
        self.likelihood = likelihood
        self.latent = latent
        self.hidden = hidden
        self.n_samples = n_samples
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_share = validation_share
        self.device = device
        self.dtype = dtype
        self.false_alarms = false_alarms
        self.random_state = random_state

    def _learned_scaling(self, X: Floats) -> Scaling:
        return Scaling.of(X) if self.likelihood == "gaussian" else Scaling.none(X.shape[1])

    def _validated(self, X: Any, *, reset: bool) -> Floats:
        array = super()._validated(X, reset=reset)
        outside = (array < 0) | (array > 1)
        if self.likelihood == "bernoulli" and outside.any():
            row, column = (int(i) for i in np.argwhere(outside)[0])
            raise InvalidInput(
                f"VAE(likelihood='bernoulli') takes values between 0 and 1; X holds {array[row, column]:g} in row "
                f"{row}, column {column}. Use likelihood='gaussian' for other numbers."
            )
        return array

    def _objective(self, n_held: int, widths: Mapping[str, int], rng: np.random.Generator) -> EvidenceBound:
        return EvidenceBound(self.likelihood, rng.standard_normal((n_held, widths["latent"])))

    def _finish(self, Z: Floats, rng: np.random.Generator) -> None:
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
        self.training_scores_of_ = {
            kind: scores_as_if_new(self._score_named(kind), X, kept, held) for kind in ("reconstruction", "elbo")
        }
        level = 1 - self.false_alarms
        self.threshold_of_ = {kind: float(np.quantile(s, level)) for kind, s in self.training_scores_of_.items()}

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
            describes="squared reconstruction error of VAE" if is_error else "negative evidence lower bound of VAE",
            threshold=getattr(self, "threshold_of_", {}).get(kind),
        )

    @property
    def _row_floats(self) -> int:
        """Numbers that a row needs on its way through the network."""
        return 4 * (self.hidden_ + self.n_features_in_)


def encoded(stack: Stack, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the code, shape (E, n, latent); a variance that is positive and grows at most like x."""
    from torch.nn.functional import softplus

    hidden = stack.hidden("encode", x)
    return stack.linear("mean", hidden), softplus(stack.linear("variance", hidden)) + LEAST_VARIANCE


def decoded(stack: Stack, code: Tensor) -> Tensor:
    """Reconstruction of the rows from their code; logits where the likelihood is Bernoulli's."""
    return stack.linear("output", stack.hidden("refine", stack.hidden("decode", code)))


def misfit(likelihood: str, x: Tensor, output: Tensor) -> Tensor:
    """Sum over columns of (x − x̂)² for 'gaussian', of the cross-entropy for 'bernoulli'."""
    from torch.nn.functional import softplus

    if likelihood == "bernoulli":
        return (softplus(output) - x * output).sum(-1)
    return (x - output).square().sum(-1)


def minus_log_likelihood(likelihood: str, misfit: Tensor, d: int, variance: Any) -> Tensor:
    """−log p(x|z) of d columns: N(x̂, variance) for 'gaussian', where the variance is one number for all columns."""
    import torch

    if likelihood == "bernoulli":
        return misfit
    return 0.5 * misfit / variance + 0.5 * d * torch.log(2.0 * math.pi * torch.as_tensor(variance, dtype=misfit.dtype))


def divergence(mean: Tensor, variance: Tensor, mask: Tensor) -> Tensor:
    """KL(N(mean, variance) ‖ N(0, 1)), summed over the units of the code that are in use."""
    return 0.5 * ((mean.square() + variance - 1.0 - variance.log()) * mask).sum(-1)


class EvidenceBound:
    """The negative evidence lower bound, with one draw of noise a row.

    The Gaussian's variance is the one that makes the bound tightest, the mean squared error of the rows at hand
    (Rybkin, Daniilidis and Levine, International Conference on Machine Learning, 2021): with a variance fixed at 1 a
    network learns no direction in which standardised rows vary less than that.
    """

    def __init__(self, likelihood: str, held_noise: Floats):
        self.likelihood = likelihood
        self.held_noise = held_noise

    def _sums(self, stack: Stack, x: Tensor, noise: Floats) -> tuple[Tensor, Tensor]:
        """Misfit and divergence, each summed over the rows, shape (E,)."""
        import torch

        rows = x.expand(len(stack), -1, -1)
        mean, variance = encoded(stack, rows)
        drawn = torch.tensor(noise[:, : mean.shape[-1]], dtype=x.dtype, device=x.device)
        mask = stack.masks["latent"]
        code = (mean + variance.sqrt() * drawn) * mask
        return misfit(self.likelihood, rows, decoded(stack, code)).sum(1), divergence(mean, variance, mask).sum(1)

    def _mean(self, misfits: Tensor, divergences: Tensor, n: int, d: int) -> Tensor:
        variance = (misfits / (n * d)).clamp(min=LEAST_NOISE)
        return minus_log_likelihood(self.likelihood, misfits / n, d, variance) + divergences / n

    def batch_loss(self, stack: Stack, batch: Tensor, rng: np.random.Generator) -> Tensor:
        """Mean over a batch, shape (E,)."""
        noise = rng.standard_normal((len(batch), self.held_noise.shape[1]))
        return self._mean(*self._sums(stack, batch, noise), *batch.shape)

    def held_loss(self, stack: Stack, kept: Tensor, held: Tensor) -> Tensor:  # noqa: ARG002
        """Mean over the rows held out, shape (E,), always with the same noise."""
        row_bytes = 32 * len(stack) * (stack.widths["hidden"] + stack.widths["column"])
        parts = row_batches(len(held), row_bytes, 64 * 2**20)
        sums = [self._sums(stack, held[part], self.held_noise[part]) for part in parts]
        return self._mean(sum(m for m, _ in sums), sum(k for _, k in sums), *held.shape)
