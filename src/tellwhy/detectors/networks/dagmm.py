"""Deep autoencoding Gaussian mixture: the energy of a row's code and of how well it is reconstructed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.parallel import row_batches
from tellwhy.core.params import Rules, integer, one_of, real
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.detectors.networks.dagmm_score import TINY, LatentEnergy
from tellwhy.detectors.networks.network_detector import NETWORK_PARAMETERS, NetworkDetector
from tellwhy.detectors.networks.network_score import NetworkScore
from tellwhy.detectors.networks.torch_networks import Layout, Sizes, Stack, Tensor, one_network

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
MIXTURE_ROWS = 2_048  # training rows that the mixture is estimated from after each pass
MOST_ROWS = 20_000  # and after the last one


@register(
    "detector",
    needs="numeric columns, PyTorch; a thousand rows or more",
    cost="fit O(n (d + h) h + n K l²) per pass; score O(n (d + h) h + n K l²)",
    exactness="a local optimum, stopped early",
    citation="Zong, Song, Min, Cheng, Lumezanu, Cho, Chen, International Conference on Learning Representations (2018)",
)
class DAGMM(NetworkDetector):
    """Autoencoder and Gaussian mixture trained together; the energy of r(x) under the mixture is the outlierness.

    r(x) holds the code of x, the relative distance ‖x − x̂‖/‖x‖ and the cosine of x and x̂. An estimation
    network gives the share of each component in r(x); weights, means and covariances follow from the shares.
    Trained to minimise mean ‖x − x̂‖² + energy_weight · mean energy + covariance_weight · Σ_kj 1/Σ_kjj.

    Columns are standardised inside, so that the mean row is x = 0, where relative distance and cosine are
    undefined and ordinary rows would look odd; `anchor` mends that.

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
    learning_rate, batch_size, max_epochs, patience, validation_share, device, dtype, false_alarms,
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
        false_alarms: float = 0.1,
        random_state: Any = 0,
    ):
        self.latent = latent
        self.hidden = hidden
        self.n_components = n_components
        self.energy_weight = energy_weight
        self.covariance_weight = covariance_weight
        self.anchor = anchor
        self.regularisation = regularisation
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_share = validation_share
        self.device = device
        self.dtype = dtype
        self.false_alarms = false_alarms
        self.random_state = random_state

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

    def _objective(self, n_held: int, widths: Mapping[str, int], rng: np.random.Generator) -> JointLoss:  # noqa: ARG002
        return JointLoss(self.energy_weight, self.covariance_weight, self._settings(widths["column"]))

    def _settings(self, d: int) -> Settings:
        return Settings(
            math.sqrt(d) if isinstance(self.anchor, str) else float(self.anchor), self.regularisation
        )

    def _finish(self, Z: Floats, rng: np.random.Generator) -> None:  # noqa: ARG002
        import torch

        network = one_network(self._layout, self.network_, "cpu", torch.float64)
        with torch.no_grad():
            fitted = mixture_of(network, torch.tensor(Z[:MOST_ROWS]), self._settings(Z.shape[1]))
        self.n_components_ = len(self.network_["share.bias"])
        self.mixture_ = {
            name: tensor[0].numpy() for name, tensor in vars(fitted).items() if name != "variances"
        }

    def to_score(self) -> NetworkScore:
        """Return the energy as a score function."""
        check_is_fitted(self)
        return self._network_score(
            LatentEnergy(self.mixture_, self._settings(self.n_features_in_).anchor),
            row_floats=4 * (self.hidden_ + self.n_features_in_ + self.n_components_ * (self.latent_ + 2)),
            feature_names=self._names,
            describes="energy of DAGMM: −log p of a row's code and reconstruction features",
            threshold=getattr(self, "threshold_", None),
        )


@dataclass(frozen=True)
class Settings:
    """How r(x) and its covariances are computed."""

    anchor: float
    regularisation: float


@dataclass(frozen=True)
class LatentMixture:
    """Mixtures of E networks: log weights (E, K), means and variances (E, K, s), factors W with Σ⁻¹ = W Wᵀ."""

    log_weights: Tensor
    means: Tensor
    factors: Tensor
    variances: Tensor


def summarised(stack: Stack, x: Tensor, anchor: float) -> tuple[Tensor, Tensor]:
    """Reconstruction and r(x) = (relative distance, cosine, code) of rows (E, n, d)."""
    import torch

    code = stack.linear("code", stack.hidden("encode", x))
    rebuilt = stack.linear("output", stack.hidden("refine", stack.hidden("decode", code)))
    extra = anchor**2 + TINY
    size = (x.square().sum(-1) + extra).sqrt()
    distance = ((x - rebuilt).square().sum(-1) + TINY).sqrt() / size
    cosine = ((x * rebuilt).sum(-1) + anchor**2) / (size * (rebuilt.square().sum(-1) + extra).sqrt())
    return rebuilt, torch.cat([distance[..., None], cosine[..., None], code], dim=-1)


def shares_of(stack: Stack, summary: Tensor) -> Tensor:
    """Share of each component in each row, shape (E, n, K); none for components that are padding."""
    logits = stack.linear("share", stack.hidden("estimate", summary))
    return logits.masked_fill(stack.masks["component"] == 0, -math.inf).softmax(-1)


def mixture_from(stack: Stack, summary: Tensor, shares: Tensor, regularisation: float) -> LatentMixture:
    """Return the mixture that the shares of some rows imply; in float64, which covariances of wide codes need."""
    import torch

    summary, shares = summary.double(), shares.double()
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


def mixture_of(stack: Stack, rows: Tensor, settings: Settings) -> LatentMixture:
    """Return the mixture that rows (n, d) imply."""
    summary = summarised(stack, rows.expand(len(stack), -1, -1), settings.anchor)[1]
    return mixture_from(stack, summary, shares_of(stack, summary), settings.regularisation)


def energy_of(summary: Tensor, log_weights: Tensor, means: Tensor, factors: Tensor, n_used: Tensor) -> Tensor:
    """−log Σ_k φ_k N(r; μ_k, Σ_k), shape (E, n); `n_used` is the number of columns of r that are not padding."""
    import torch

    whitened = (summary.to(factors.dtype)[:, None] - means[:, :, None]) @ factors  # (E, K, n, s)
    peaks = log_weights + torch.diagonal(factors, dim1=2, dim2=3).log().sum(-1)
    terms = peaks[..., None] - 0.5 * whitened.square().sum(-1)
    return 0.5 * math.log(2.0 * math.pi) * n_used - terms.logsumexp(1)


class JointLoss:
    """Mean ‖x − x̂‖² + λ₁ · mean energy + λ₂ · Σ 1/variance."""

    def __init__(self, energy_weight: float, covariance_weight: float, settings: Settings):
        self.energy_weight = energy_weight
        self.covariance_weight = covariance_weight
        self.settings = settings

    def _loss(self, stack: Stack, x: Tensor, mixture: LatentMixture | None) -> Tensor:
        """Return the loss under a mixture, or under the one of these very rows."""
        rows = x.expand(len(stack), -1, -1)
        rebuilt, summary = summarised(stack, rows, self.settings.anchor)
        if mixture is None:
            mixture = mixture_from(stack, summary, shares_of(stack, summary), self.settings.regularisation)
        used = stack.masks["summary"]
        energy = energy_of(summary, mixture.log_weights, mixture.means, mixture.factors, used.sum(-1))
        real = used * stack.masks["component"].transpose(1, 2)
        penalty = (real / mixture.variances).sum((1, 2))
        errors = (rows - rebuilt).square().sum(-1)
        return errors.mean(1) + self.energy_weight * energy.mean(1) + self.covariance_weight * penalty

    def batch_loss(self, stack: Stack, batch: Tensor, rng: np.random.Generator) -> Tensor:  # noqa: ARG002
        """Loss with the mixture of the batch itself, shape (E,)."""
        return self._loss(stack, batch, None)

    def held_loss(self, stack: Stack, kept: Tensor, held: Tensor) -> Tensor:
        """Loss of the rows held out under the mixture of the others, shape (E,)."""
        mixture = mixture_of(stack, kept[:MIXTURE_ROWS], self.settings)
        total = 0.0
        for part in row_batches(
            len(held), 8 * 4 * stack.n_weights // max(stack.widths["hidden"], 1), 64 * 2**20
        ):
            total = total + self._loss(stack, held[part], mixture) * len(held[part])
        return total / len(held)
