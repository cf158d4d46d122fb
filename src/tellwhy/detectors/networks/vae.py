"""Variational autoencoder scored by its reconstruction error or its negative evidence bound.

`VAE` is the detector; below it stand what networks are trained for, how rows held out judge them, and the two
scores with their slopes by the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.arrays import Scaling
from tellwhy.core.errors import InvalidInput
from tellwhy.core.params import Rules, Seed, boolean, integer, one_of, store_parameters, validate_value
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.detectors.networks.network_detector import NETWORK_PARAMETERS, NetworkDetector, score_as_if_new
from tellwhy.detectors.networks.network_score import Back, DenseNetwork, NetworkScore, like, softplus
from tellwhy.detectors.networks.training import Layout, Stack, Tensor
from tellwhy.optimise.arrays import Array, find_namespace, row_dot
from tellwhy.scoring.moved_columns import TINY, MovedCells

LEAST_VARIANCE = 1e-6  # of a code: its logarithm must stay finite


@dataclass(frozen=True)
class ReconstructionError:
    """‖x − x̂‖² of scaled rows, x̂ decoded from the mean of the code."""

    likelihood: str

    def terms(self, network: DenseNetwork, x: Array) -> Array:
        """(x_i − x̂_i)² of each cell."""
        return self._compute_misses(network, x)[0] ** 2

    def __call__(self, network: DenseNetwork, x: Array, with_gradient: bool) -> tuple[Array, Array | None]:
        """Score of each row, and its slope where it is asked for."""
        missed, back = self._compute_misses(network, x)
        return row_dot(missed, missed), 2.0 * (missed - back(missed)) if with_gradient else None

    def _compute_misses(self, network: DenseNetwork, x: Array) -> tuple[Array, Back]:
        """x − x̂, and from slopes by x̂ to slopes by x."""
        hidden, back_hidden = network.hidden("encode", x)
        beside, back_beside = network.bypass("bypass_mean", x)
        output, back_output = network.decoded(network.linear("mean", hidden) + beside)

        def back(g: Array) -> Array:
            by_mean = back_output(g)
            return back_hidden(network.back("mean", by_mean)) + back_beside(by_mean)

        if self.likelihood != "bernoulli":
            return x - output, back
        share = softplus(output)[1]()  # the slope of softplus is the logistic function, 1/(1 + e^−a)
        return x - share, lambda g: back(g * share * (1.0 - share))


@dataclass(frozen=True)
class NegativeBound:
    """The negative evidence lower bound of scaled rows: an upper bound of −log p(x).

    It has two terms: how badly codes drawn with the given noise explain the row, and how far the code's
    distribution N(mean, variance) is from the standard one, KL(N(mean, variance) ‖ N(0, 1)).

    Attributes
    ----------
    likelihood
        'gaussian' or 'bernoulli'.
    noise
        Draws, shape (samples, latent).
    variance
        Of the columns around their reconstruction; 'bernoulli' has none.
    constant
        Added to every score.
    """

    likelihood: str
    noise: Floats
    variance: float = 1.0
    constant: float = 0.0

    def misfits(self, network: DenseNetwork, x: Array) -> Array:
        """‖x − x̂‖² (cross-entropy for 'bernoulli') of each row, averaged over the drawn codes."""
        code = _encoded(network, x)
        return self._compute_misfits(x, network.decoded(self._draws(code))[0])

    def __call__(self, network: DenseNetwork, x: Array, with_gradient: bool) -> tuple[Array, Array | None]:
        """Score of each row, and its slope where it is asked for."""
        xp = find_namespace(x)
        code = _encoded(network, x)
        mean = code.mean
        variance = code.variance
        output, back_output = network.decoded(self._draws(code))
        divergence = 0.5 * (row_dot(mean, mean) + (variance - 1.0 - xp.log(variance)).sum(-1))
        value = self._surprise(self._compute_misfits(x, output), x.shape[-1]) + divergence + self.constant
        if not with_gradient:
            return value, None
        by_x, by_output = self._slopes(x, output)
        # A drawn code is mean + √variance · noise: slopes by it, times noise, are slopes by √variance.
        by_code = back_output(by_output).reshape(len(self.noise), *mean.shape)
        by_deviation = (by_code * like(x, self.noise)[:, None]).sum(0)
        by_variance = 0.5 * (by_deviation / xp.sqrt(variance) + 1.0 - 1.0 / variance)
        return value, by_x + code.back(by_code.sum(0) + mean, by_variance)

    def _draws(self, code: _Code) -> Array:
        """Codes drawn for n rows, shape (samples·n, latent)."""
        mean = code.mean
        drawn = mean + find_namespace(mean).sqrt(code.variance) * like(mean, self.noise)[:, None]
        return drawn.reshape(-1, mean.shape[-1])

    def _compute_misfits(self, x: Array, output: Array) -> Array:
        output = output.reshape(len(self.noise), *x.shape)
        if self.likelihood == "bernoulli":
            return (softplus(output)[0] - x * output).sum(-1).mean(0)
        missed = (x - output).reshape(-1, x.shape[-1])
        return row_dot(missed, missed).reshape(len(self.noise), -1).mean(0)

    def _surprise(self, misfits: Array, d: int) -> Array:
        if self.likelihood == "bernoulli":
            return misfits
        return 0.5 * misfits / self.variance + 0.5 * d * math.log(2.0 * math.pi * self.variance)

    def _slopes(self, x: Array, output: Array) -> tuple[Array, Array]:
        """Slopes of the surprise by the rows themselves, and by what the codes are decoded to."""
        n_draws = len(self.noise)
        output = output.reshape(n_draws, *x.shape)
        if self.likelihood == "bernoulli":
            return -output.mean(0), ((softplus(output)[1]() - x) / n_draws).reshape(-1, x.shape[-1])
        missed = (x - output) / (n_draws * self.variance)
        return missed.sum(0), -missed.reshape(-1, x.shape[-1])


@dataclass(frozen=True)
class _Code:
    """Mean and variance of the codes of rows; `back` takes slopes by both to slopes by the rows."""

    mean: Array
    variance: Array
    back: Callable[[Array, Array], Array]


def _encoded(network: DenseNetwork, x: Array) -> _Code:
    hidden, back_hidden = network.hidden("encode", x)
    beside, back_beside = network.bypass("bypass_mean", x)
    variance, slope = softplus(network.linear("variance", hidden))

    def back(by_mean: Array, by_variance: Array) -> Array:
        by_hidden = network.back("mean", by_mean) + network.back("variance", by_variance * slope())
        return back_hidden(by_hidden) + back_beside(by_mean)

    return _Code(network.linear("mean", hidden) + beside, variance + LEAST_VARIANCE, back)


LEAST_NOISE = 1e-4  # variance of standardised columns around their reconstruction


def encoded(stack: Stack, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the code, shape (E, n, latent)."""
    from torch.nn.functional import softplus

    hidden = stack.hidden("encode", x)
    # softplus keeps the variance positive, and lets it grow no faster than the rows do; exp would overflow.
    mean = stack.linear("mean", hidden) + stack.bypass("bypass_mean", x)
    return mean, softplus(stack.linear("variance", hidden)) + LEAST_VARIANCE


def decoded(stack: Stack, code: Tensor) -> Tensor:
    """Reconstruction of the rows from their code; logits where the likelihood is Bernoulli's."""
    bent = stack.linear("output", stack.hidden("refine", stack.hidden("decode", code)))
    return bent + stack.bypass("bypass_output", code)


def misfit(likelihood: str, x: Tensor, output: Tensor) -> Tensor:
    """Sum over columns of (x − x̂)² for 'gaussian', of the cross-entropy for 'bernoulli'."""
    from torch.nn.functional import softplus

    if likelihood == "bernoulli":
        return (softplus(output) - x * output).sum(-1)
    return (x - output).square().sum(-1)


def compute_minus_log_likelihood(likelihood: str, misfit: Tensor, d: int, variance: Any) -> Tensor:
    """−log p(x|z) of d columns: N(x̂, variance) for 'gaussian', with one variance for all columns."""
    import torch

    if likelihood == "bernoulli":
        return misfit
    return 0.5 * misfit / variance + 0.5 * d * torch.log(
        2.0 * math.pi * torch.as_tensor(variance, dtype=misfit.dtype)
    )


def divergence(mean: Tensor, variance: Tensor, mask: Tensor) -> Tensor:
    """KL(N(mean, variance) ‖ N(0, 1)), summed over the units of the code that are in use."""
    return 0.5 * ((mean.square() + variance - 1.0 - variance.log()) * mask).sum(-1)


def _batches(stack: Stack, n: int) -> list[slice]:
    """Parts of n rows that go through all networks at once."""
    row_bytes = 32 * len(stack) * (stack.widths["hidden"] + stack.widths["column"])
    return cut_batches(n, row_bytes, 64 * 2**20)


class EvidenceBound:
    """The negative evidence lower bound, with one draw of noise a row.

    The Gaussian's variance is the one that makes the bound tightest, the mean squared error of the rows at
    hand (Rybkin, Daniilidis and Levine, International Conference on Machine Learning, 2021): with a variance
    fixed at 1 a network learns no direction in which standardised rows vary less than that.
    """

    def __init__(self, likelihood: str, held_noise: Floats):
        self.likelihood = likelihood
        self.held_noise = held_noise

    def _sums(self, stack: Stack, x: Tensor, noise: Floats) -> tuple[Tensor, Tensor]:
        """Misfit and divergence, each summed over the rows, shape (E,)."""
        import torch

        rows = x.expand(len(stack), -1, -1)  # the same rows for every network, without copies
        mean, variance = encoded(stack, rows)
        drawn = torch.tensor(noise[:, : mean.shape[-1]], dtype=x.dtype, device=x.device)
        mask = stack.masks["latent"]
        code = (mean + variance.sqrt() * drawn) * mask
        misfits = misfit(self.likelihood, rows, decoded(stack, code))
        return misfits.sum(1), divergence(mean, variance, mask).sum(1)

    def _mean(self, misfits: Tensor, divergences: Tensor, n: int, d: int) -> Tensor:
        variance = (misfits / (n * d)).clamp(min=LEAST_NOISE)  # perfect copies would have none at all
        return compute_minus_log_likelihood(self.likelihood, misfits / n, d, variance) + divergences / n

    def batch_loss(self, stack: Stack, batch: Tensor, rng: np.random.Generator) -> Tensor:
        """Mean over a batch, shape (E,)."""
        noise = rng.standard_normal((len(batch), self.held_noise.shape[1]))
        return self._mean(*self._sums(stack, batch, noise), *batch.shape)

    def held_loss(self, stack: Stack, kept: Tensor, held: Tensor) -> Tensor:  # noqa: ARG002
        """Mean over the rows held out, shape (E,), always with the same noise."""
        sums = [self._sums(stack, held[part], self.held_noise[part]) for part in _batches(stack, len(held))]
        return self._mean(sum(m for m, _ in sums), sum(k for _, k in sums), *held.shape)


class LocatingBound(EvidenceBound):
    """The bound to descend on; the rows held out say how much of the error falls on cells that were moved."""

    def __init__(self, likelihood: str, held_noise: Floats, cells: MovedCells):
        super().__init__(likelihood, held_noise)
        self.cells = cells

    def held_loss(self, stack: Stack, kept: Tensor, held: Tensor) -> Tensor:  # noqa: ARG002
        """Return the mean −log share of moved cells in their row's squared error, shape (E,)."""
        n = len(self.cells.rows)
        return sum(self._surprises(stack, held, part).sum(1) for part in _batches(stack, n)) / n

    def _surprises(self, stack: Stack, held: Tensor, part: slice) -> Tensor:
        """−log share of the moved cell of some rows, shape (E, n)."""
        import torch

        rows = torch.as_tensor(self.cells.rows[part], device=held.device)
        columns = torch.as_tensor(self.cells.columns[part], device=held.device)
        moved = held[rows]
        each = torch.arange(len(rows), device=held.device)
        before = moved[each, columns]
        shifts = torch.as_tensor(self.cells.shifts[part], device=held.device, dtype=held.dtype)
        moved[each, columns] = 1.0 - before if self.likelihood == "bernoulli" else before + shifts
        mean, _ = encoded(stack, moved.expand(len(stack), -1, -1))
        output = decoded(stack, mean * stack.masks["latent"])
        rebuilt = output.sigmoid() if self.likelihood == "bernoulli" else output
        errors = (moved - rebuilt).square() + TINY
        return errors.sum(-1).log() - errors[:, each, columns].log()


LAYERS: Layout = {
    "encode": ("column", "hidden"),
    "mean": ("hidden", "latent"),
    "variance": ("hidden", "latent"),
    "decode": ("latent", "hidden"),
    "refine": ("hidden", "hidden"),
    "output": ("hidden", "column"),
}
BYPASSES: Layout = {"bypass_mean": ("column", "latent"), "bypass_output": ("latent", "column")}


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
        *,
        hidden: str | int = "auto",
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
            misfit_of_rows = self._make_network_score(
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
            kind: score_as_if_new(self._score_named(kind), X, kept, held)
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
        return self._make_network_score(
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
