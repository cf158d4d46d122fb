"""The two scores of a variational autoencoder, with their slopes by the rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tellwhy.core.score_function import Floats
from tellwhy.detectors.networks.dense_network import Back, DenseNetwork, like, softplus
from tellwhy.optimise.arrays import Array, namespace, row_dot

LEAST_VARIANCE = 1e-6  # of a code: its logarithm must stay finite


@dataclass(frozen=True)
class ReconstructionError:
    """‖x − x̂‖² of scaled rows, x̂ decoded from the mean of the code."""

    likelihood: str

    def terms(self, network: DenseNetwork, x: Array) -> Array:
        """(x_i − x̂_i)² of each cell."""
        return self._misses(network, x)[0] ** 2

    def __call__(self, network: DenseNetwork, x: Array, with_gradient: bool) -> tuple[Array, Array | None]:
        """Score of each row, and its slope where it is asked for."""
        missed, back = self._misses(network, x)
        return row_dot(missed, missed), 2.0 * (missed - back(missed)) if with_gradient else None

    def _misses(self, network: DenseNetwork, x: Array) -> tuple[Array, Back]:
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
        return self._misfits(x, network.decoded(self._draws(code))[0])

    def __call__(self, network: DenseNetwork, x: Array, with_gradient: bool) -> tuple[Array, Array | None]:
        """Score of each row, and its slope where it is asked for."""
        xp = namespace(x)
        code = _encoded(network, x)
        mean = code.mean
        variance = code.variance
        output, back_output = network.decoded(self._draws(code))
        divergence = 0.5 * (row_dot(mean, mean) + (variance - 1.0 - xp.log(variance)).sum(-1))
        value = self._surprise(self._misfits(x, output), x.shape[-1]) + divergence + self.constant
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
        drawn = mean + namespace(mean).sqrt(code.variance) * like(mean, self.noise)[:, None]
        return drawn.reshape(-1, mean.shape[-1])

    def _misfits(self, x: Array, output: Array) -> Array:
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
