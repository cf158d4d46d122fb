"""DAGMM, the deep autoencoding Gaussian mixture: the energy of a row's code and of its reconstruction.

`DAGMM` is the detector, the objective below it what networks are trained for, and the energy, with its slope
by the rows, what they are scored by. Several networks are trained side by side, so that tensors have a first
axis E: one entry per network. Smaller networks are padded, and masks say which units are in use (`training`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.params import Rules, Seed, integer, one_of, real, store_parameters
from tellwhy.core.running import cut_batches
from tellwhy.core.score import Floats
from tellwhy.detectors.networks.network_detector import NETWORK_PARAMETERS, NetworkDetector
from tellwhy.detectors.networks.network_score import Back, DenseNetwork, NetworkScore, like
from tellwhy.detectors.networks.training import Layout, Sizes, Stack, Tensor, take_one_network
from tellwhy.optimise.arrays import Array, find_namespace, row_dot

TINY = 1e-12  # under roots and quotients, so that they have a slope at 0 too


@dataclass(frozen=True)
class LatentEnergy:
    """−log Σ_k φ_k N(r(x); μ_k, Σ_k) of scaled rows, r(x) = (relative distance, cosine, code).

    Attributes
    ----------
    mixture
        `log_weights` (K,), `means` (K, s) and `factors` (K, s, s), W with Σ⁻¹ = W Wᵀ.
    anchor
        Constant coordinate that x and x̂ both have when they are compared.
    """

    mixture: Mapping[str, Floats]
    anchor: float

    def __call__(self, network: DenseNetwork, x: Array, with_gradient: bool) -> tuple[Array, Array | None]:
        """Energy of each row, and its slope where it is asked for."""
        xp = find_namespace(x)
        summary, back = self._summary(network, x)
        parts = {name: like(x, array) for name, array in self.mixture.items()}
        whitened = (summary - parts["means"][:, None]) @ parts["factors"]  # (K, n, s)
        peaks = parts["log_weights"] + xp.log(parts["factors"].diagonal(0, 1, 2)).sum(-1)
        flat = whitened.reshape(-1, summary.shape[-1])
        terms = peaks[:, None] - 0.5 * row_dot(flat, flat).reshape(len(whitened), -1)
        top = xp.amax(terms, 0)  # taken out of the sum of exponentials, which could overflow
        shares = xp.exp(terms - top)
        total = shares.sum(0)
        value = 0.5 * math.log(2.0 * math.pi) * summary.shape[-1] - top - xp.log(total)
        if not with_gradient:
            return value, None
        pulls = whitened @ parts["factors"].swapaxes(1, 2)
        return value, back(((shares / total)[..., None] * pulls).sum(0))

    def _summary(self, network: DenseNetwork, x: Array) -> tuple[Array, Back]:
        """r(x), and from slopes by r(x) to slopes by x."""
        hidden, back_hidden = network.hidden("encode", x)
        code = network.linear("code", hidden)
        rebuilt, back_rebuilt = network.decoded(code)
        compared = _Comparison(x, rebuilt, self.anchor)

        def back(g: Array) -> Array:
            by_x, by_rebuilt = compared.slopes(g[:, :1], g[:, 1:2])
            return by_x + back_hidden(network.back("code", g[:, 2:] + back_rebuilt(by_rebuilt)))

        return find_namespace(x).concatenate([compared.distance, compared.cosine, code], -1), back


class _Comparison:
    """Relative distance ‖x − x̂‖/‖x‖ and cosine of x and x̂, shape (n, 1).

    The anchor is a further coordinate of both.
    """

    def __init__(self, x: Array, rebuilt: Array, anchor: float):
        sqrt = find_namespace(x).sqrt
        extra = anchor**2 + TINY
        self.x = x
        self.rebuilt = rebuilt
        self.missed = x - rebuilt
        self.size = sqrt(row_dot(x, x) + extra)[:, None]
        self.rebuilt_size = sqrt(row_dot(rebuilt, rebuilt) + extra)[:, None]
        self.missed_size = sqrt(row_dot(self.missed, self.missed) + TINY)[:, None]
        self.distance = self.missed_size / self.size
        self.cosine = (row_dot(x, rebuilt) + anchor**2)[:, None] / (self.size * self.rebuilt_size)

    def slopes(self, by_distance: Array, by_cosine: Array) -> tuple[Array, Array]:
        """Slopes by x and by x̂, from those by distance and cosine."""
        along = by_distance / (self.missed_size * self.size) * self.missed
        turn = by_cosine / (self.size * self.rebuilt_size)
        shrink = (by_distance * self.distance + by_cosine * self.cosine) / self.size**2
        by_x = along + turn * self.rebuilt - shrink * self.x
        return by_x, turn * self.x - along - by_cosine * self.cosine / self.rebuilt_size**2 * self.rebuilt


MIXTURE_ROWS = 2_048  # training rows that the mixture is estimated from after each pass


@dataclass(frozen=True)
class Settings:
    """How the summary r(x) of a row, and its covariances, are computed."""

    anchor: float  # a constant coordinate that rows and their reconstructions both get
    regularisation: float  # added to variances


@dataclass(frozen=True)
class LatentMixture:
    """Mixtures of K Gaussians over s numbers, one for each of E networks."""

    log_weights: Tensor  # (E, K)
    means: Tensor  # (E, K, s)
    factors: Tensor  # (E, K, s, s), W with Σ⁻¹ = W Wᵀ
    variances: Tensor  # (E, K, s)


def summarise_rows(stack: Stack, x: Tensor, anchor: float) -> tuple[Tensor, Tensor]:
    """Return the reconstruction of rows (E, n, d), and r(x): relative distance, cosine, code."""
    import torch

    code = stack.linear("code", stack.hidden("encode", x))
    rebuilt = stack.linear("output", stack.hidden("refine", stack.hidden("decode", code)))
    extra = anchor**2 + TINY  # TINY keeps roots and quotients smooth at 0
    size = (x.square().sum(-1) + extra).sqrt()
    distance = ((x - rebuilt).square().sum(-1) + TINY).sqrt() / size
    cosine = ((x * rebuilt).sum(-1) + anchor**2) / (size * (rebuilt.square().sum(-1) + extra).sqrt())
    return rebuilt, torch.cat([distance[..., None], cosine[..., None], code], dim=-1)


def compute_shares_of(stack: Stack, summary: Tensor) -> Tensor:
    """Share of each component in each row, shape (E, n, K); 0 for components that are padding."""
    logits = stack.linear("share", stack.hidden("estimate", summary))
    return logits.masked_fill(stack.masks["component"] == 0, -math.inf).softmax(-1)


def imply_mixture(stack: Stack, summary: Tensor, shares: Tensor, regularisation: float) -> LatentMixture:
    """Return the mixture that the shares of some rows imply."""
    import torch

    # In float64: the covariances of wide codes are too close to singular for single precision.
    summary = summary.double()
    shares = shares.double()
    counts = shares.sum(1) + TINY  # (E, K)
    means = shares.transpose(1, 2) @ summary / counts[..., None]
    deviations = summary[:, None] - means[:, :, None]  # (E, K, n, s)
    weighted = deviations * (shares.transpose(1, 2) / counts[..., None])[..., None]
    covariances = weighted.transpose(2, 3) @ deviations
    used = stack.masks["summary"][:, :, None]  # padding has variance 1, which adds nothing
    diagonal = regularisation * used + (1.0 - used)
    covariances = covariances + torch.diag_embed(diagonal.expand(*covariances.shape[:2], 1, -1)[:, :, 0])
    lower = torch.linalg.cholesky_ex(covariances).L
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device).expand_as(lower)
    factors = torch.linalg.solve_triangular(lower, identity, upper=False).transpose(2, 3)
    weights = (counts / summary.shape[1]).clamp_min(TINY)
    hidden = stack.masks["component"][:, 0] == 0
    log_weights = weights.log().masked_fill(hidden, -math.inf)
    return LatentMixture(log_weights, means, factors, torch.diagonal(covariances, dim1=2, dim2=3))


def fit_mixture_of(stack: Stack, rows: Tensor, settings: Settings) -> LatentMixture:
    """Return the mixture that rows (n, d) imply."""
    summary = summarise_rows(stack, rows.expand(len(stack), -1, -1), settings.anchor)[1]
    return imply_mixture(stack, summary, compute_shares_of(stack, summary), settings.regularisation)


def compute_energy(
    summary: Tensor, log_weights: Tensor, means: Tensor, factors: Tensor, n_used: Tensor
) -> Tensor:
    """−log Σ_k φ_k N(r; μ_k, Σ_k), shape (E, n); `n_used` is how many numbers of r are not padding."""
    import torch

    whitened = (summary.to(factors.dtype)[:, None] - means[:, :, None]) @ factors  # (E, K, n, s)
    peaks = log_weights + torch.diagonal(factors, dim1=2, dim2=3).log().sum(-1)
    terms = peaks[..., None] - 0.5 * whitened.square().sum(-1)
    return 0.5 * math.log(2.0 * math.pi) * n_used - terms.logsumexp(1)


class JointLoss:
    """Mean ‖x − x̂‖² + energy_weight · mean energy + covariance_weight · Σ 1/variance.

    The last sum keeps components from shrinking onto single rows, whose energy would fall without end.
    """

    def __init__(self, energy_weight: float, covariance_weight: float, settings: Settings):
        self.energy_weight = energy_weight
        self.covariance_weight = covariance_weight
        self.settings = settings

    def _loss(self, stack: Stack, x: Tensor, mixture: LatentMixture | None) -> Tensor:
        """Return the loss under a mixture, or under the one of these very rows."""
        rows = x.expand(len(stack), -1, -1)
        rebuilt, summary = summarise_rows(stack, rows, self.settings.anchor)
        if mixture is None:
            mixture = imply_mixture(
                stack, summary, compute_shares_of(stack, summary), self.settings.regularisation
            )
        used = stack.masks["summary"]
        energy = compute_energy(summary, mixture.log_weights, mixture.means, mixture.factors, used.sum(-1))
        real = used * stack.masks["component"].transpose(1, 2)
        penalty = (real / mixture.variances).sum((1, 2))
        errors = (rows - rebuilt).square().sum(-1)
        return errors.mean(1) + self.energy_weight * energy.mean(1) + self.covariance_weight * penalty

    def batch_loss(self, stack: Stack, batch: Tensor, rng: np.random.Generator) -> Tensor:  # noqa: ARG002
        """Loss with the mixture of the batch itself, shape (E,)."""
        return self._loss(stack, batch, None)

    def held_loss(self, stack: Stack, kept: Tensor, held: Tensor) -> Tensor:
        """Loss of the rows held out under the mixture of the others, shape (E,)."""
        mixture = fit_mixture_of(stack, kept[:MIXTURE_ROWS], self.settings)
        row_bytes = 8 * 4 * stack.n_weights // max(stack.widths["hidden"], 1)
        total = 0.0
        for part in cut_batches(len(held), row_bytes, 64 * 2**20):
            total = total + self._loss(stack, held[part], mixture) * len(held[part])
        return total / len(held)


LAYERS: Layout = {
    "encode": ("column", "hidden"),
    "code": ("hidden", "latent"),
    "decode": ("latent", "hidden"),
    "refine": ("hidden", "hidden"),
    "output": ("hidden", "column"),
    "estimate": ("summary", "estimator"),
    "share": ("estimator", "component"),
}
ESTIMATOR = 10  # hidden units of the estimation network
MOST_ROWS = 20_000  # training rows that the mixture is estimated from in the end


class DAGMM(NetworkDetector):
    """An autoencoder and a Gaussian mixture that are trained together.

    The autoencoder squeezes a row x into a few numbers, its code, and rebuilds x̂ from them. Each row has a
    summary r(x): the code, the relative distance ‖x − x̂‖/‖x‖ and the cosine of x and x̂. The outlierness is
    the energy of r(x), minus the logarithm of its density under the mixture.

    A second network, the estimation network, gives the share of each component in r(x); weights, means and
    covariances of the mixture follow from the shares. Training minimises mean ‖x − x̂‖² + energy_weight ·
    mean energy + covariance_weight · Σ_kj 1/Σ_kjj.

    Columns are standardised inside. The mean row is then x = 0, where relative distance and cosine are
    undefined, so that ordinary rows would look odd; `anchor` mends that.

    Parameters
    ----------
    latent, hidden
        As in `VAE`; 'auto' compares the same widths, by the loss on rows held out.
    n_components
        Number of components K; 'auto' compares 2, 3 and 4 for each pair of widths.
    energy_weight, covariance_weight
        Weights of the energy and of the penalty on small variances.
    anchor
        Length of a constant coordinate that x and x̂ both have when they are compared; 'auto' is √d, the
        typical length of a row, and 0 compares them as published.
    regularisation
        Added to the variances of r(x).
    learning_rate, batch_size, max_epochs, patience, validation_share, device, dtype, contamination,
    random_state
        As in `VAE`. Batches are larger, because covariances are estimated from each one.

    Attributes
    ----------
    latent_, hidden_, n_components_
        Sizes in use.
    mixture_
        Weights, means and factors of the precisions of the mixture of r(x).
    network_, validation_losses_
        As in `VAE`.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> DAGMM(latent=1, hidden=3, max_epochs=20).fit(X).predict([[30.0, -30.0, 30.0]])
    array([-1])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        **NETWORK_PARAMETERS,
        "n_components": (one_of("auto"), integer(1)),
        "energy_weight": real(0, np.inf, closed="left"),
        "covariance_weight": real(0, np.inf, closed="left"),
        "anchor": (one_of("auto"), real(0, np.inf, closed="left")),
        "regularisation": real(0, 1),
    }

    n_components: str | int
    energy_weight: float
    covariance_weight: float
    anchor: str | float
    regularisation: float

    def __init__(
        self,
        latent: str | int = "auto",
        hidden: str | int = "auto",
        n_components: str | int = 2,
        *,
        energy_weight: float = 0.1,
        covariance_weight: float = 0.005,
        anchor: str | float = "auto",
        regularisation: float = 1e-4,
        learning_rate: float = 1e-4,
        batch_size: int = 256,
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
        return LAYERS

    def _candidates(self, d: int) -> list[Sizes]:
        counts: Sequence[int] = (2, 3, 4) if isinstance(self.n_components, str) else (int(self.n_components),)
        return [
            {**sizes, "summary": sizes["latent"] + 2, "estimator": ESTIMATOR, "component": k}
            for sizes in super()._candidates(d)
            for k in counts
        ]

    def _objective(
        self,
        n_held: int,  # noqa: ARG002
        widths: Mapping[str, int],
        rng: np.random.Generator,  # noqa: ARG002
    ) -> JointLoss:
        return JointLoss(self.energy_weight, self.covariance_weight, self._settings(widths["column"]))

    def _settings(self, d: int) -> Settings:
        anchor = math.sqrt(d) if isinstance(self.anchor, str) else float(self.anchor)
        return Settings(anchor, self.regularisation)

    def _finish(self, Z: Floats, rng: np.random.Generator) -> None:  # noqa: ARG002
        import torch

        network = take_one_network(self._layout, self.network_, "cpu", torch.float64)
        with torch.no_grad():
            fitted = fit_mixture_of(network, torch.tensor(Z[:MOST_ROWS]), self._settings(Z.shape[1]))
        self.n_components_ = len(self.network_["share.bias"])
        # The variances are the diagonals of what the factors stand for, and only training needs them.
        self.mixture_ = {
            name: tensor[0].numpy() for name, tensor in vars(fitted).items() if name != "variances"
        }

    def to_score(self) -> NetworkScore:
        """Return the energy as a score function."""
        check_is_fitted(self)
        return self._make_network_score(
            LatentEnergy(self.mixture_, self._settings(self.n_features_in_).anchor),
            row_floats=4 * (self.hidden_ + self.n_features_in_ + self.n_components_ * (self.latent_ + 2)),
            feature_names=self._names,
            describes="energy of DAGMM: −log p of a row's code and reconstruction features",
            threshold=self._known_threshold,
        )
