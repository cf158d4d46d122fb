"""Prior distributions of the mixture, and the published settings."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tellwhy.core.params import real, validate_value
from tellwhy.explainers.surrogate.conditionals.state import Numbers


@dataclass(frozen=True)
class Priors:
    """Prior distributions, for a target of variance 1 and columns of variance about 1.

    Parameters
    ----------
    alpha_shape, alpha_rate
        α ~ Gamma(e, rate f) of the stick breaking: larger, more components.
    lambda1_shape, lambda2_shape, lambda_rate
        λ1 ~ Gamma(R, rate V/2) and λ2 ~ Gamma(L, rate V/2) of every elastic net.
    variance_shape, variance_scale
        σ² ~ InverseGamma(a, b); a mean exists for a > 1.
    intercept_variance
        Intercepts are N(0, κσ²).

    Examples
    --------
    >>> Priors(alpha_shape=5.0).numbers().alpha_shape
    5.0
    """

    alpha_shape: float = 1.0
    alpha_rate: float = 1.0
    lambda1_shape: float = 2.5
    lambda2_shape: float = 1.0
    lambda_rate: float = 0.5
    variance_shape: float = 2.0
    variance_scale: float = 0.25
    intercept_variance: float = 100.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            validate_value("Priors", name, value, real(0.0))

    def numbers(self) -> Numbers:
        """Return what the compiled code takes; the prior of the gates is weak and fixed."""
        own = {name: float(value) for name, value in asdict(self).items()}
        return Numbers(**own, gate_count=0.1, gate_shape=2.0, gate_scale=0.5)


def _published(J: int, e: float, R: float, a: float) -> dict[str, Any]:
    """One line of the table, in its letters; in all of them f = L = V = 1 and b = a."""
    priors = Priors(alpha_shape=e, lambda1_shape=R, variance_shape=a, variance_scale=a)
    return {"n_components": J, "n_elastic_nets": 3, "priors": priors}


PRESETS: dict[str, dict[str, Any]] = {
    "random forest": _published(5, 1.0, 4.0, 0.5),
    "svm": _published(5, 5.0, 5.0, 1.0),
    "mnist": _published(6, 5.0, 2.5, 0.5),
    "fashion-mnist": _published(10, 5.0, 2.5, 0.5),
    "imagenet": _published(10, 5.0, 2.5, 0.5),
}
"""Settings of Guo et al. (2018), supplement, table 4: `DMMMEN(model, **PRESETS["mnist"])`."""
