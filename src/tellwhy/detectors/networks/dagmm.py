"""Deep autoencoding Gaussian mixture: the energy of a row's code and of how well it is reconstructed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.params import Rules, Seed, integer, one_of, real, store_parameters
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.detectors.networks.dagmm_score import LatentEnergy
from tellwhy.detectors.networks.dagmm_training import JointLoss, Settings, mixture_of
from tellwhy.detectors.networks.network_detector import NETWORK_PARAMETERS, NetworkDetector
from tellwhy.detectors.networks.network_score import NetworkScore
from tellwhy.detectors.networks.torch_networks import Layout, Sizes, one_network

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


@register(
    "detector",
    needs="numeric columns, PyTorch; a thousand rows or more",
    cost="fit O(n (d + h) h + n K l²) per pass; score O(n (d + h) h + n K l²)",
    exactness="a local optimum, stopped early",
    citation=(
        "Zong, Song, Min, Cheng, Lumezanu, Cho, Chen, "
        "International Conference on Learning Representations (2018)"
    ),
)
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

        network = one_network(self._layout, self.network_, "cpu", torch.float64)
        with torch.no_grad():
            fitted = mixture_of(network, torch.tensor(Z[:MOST_ROWS]), self._settings(Z.shape[1]))
        self.n_components_ = len(self.network_["share.bias"])
        # The variances are the diagonals of what the factors stand for, and only training needs them.
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
            threshold=self._known_threshold,
        )
