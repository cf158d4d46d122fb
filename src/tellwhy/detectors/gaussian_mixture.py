"""Gaussian mixture scored by its energy, −log p(x).

Thresholds are drawn from training rows as if each were new: their energy under the mixture re-estimated
without them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture as ExpectationMaximisation
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.arrays import Scaling
from tellwhy.core.errors import InvalidInput, NotConverged
from tellwhy.core.params import Rule, Rules, Seed, generator, integer, one_of, real, seed
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats
from tellwhy.detectors.base import Detector, choose_calibration_rows
from tellwhy.scoring import MixtureScore, ScaledMixture
from tellwhy.scoring.mixture_scores import log_sum
from tellwhy.scoring.moved_columns import MovedCells

_LEAST_SHRINKAGE = 1e-9  # a row that holds a component alone would have an infinite distance without it
_LEAST_COUNT = 1e-6  # rows that a component must still have without the row that is left out


def compute_left_out_energies(score: MixtureScore, X: Floats, n_training: int) -> Floats:
    """Energy of each training row under the mixture as it would be without that row.

    Weights, means and covariances are estimated again without the row, while the shares r of the other rows
    in the components stay as they are. That changes each covariance by a matrix of rank one, so that nothing
    has to be fitted again: with N_k = Σ r and N′ = N_k − r_ik, the row's squared distance q in component k
    becomes (N_k/N′)·q/(1 − r q/N′), and the determinant gains the factor (N_k/N′)^d (1 − r q/N′).
    """
    energies = np.empty(len(X))
    for rows in track_batches(len(X), 16 * X.shape[1] * (len(score.log_peaks) + 2), "scoring training rows"):
        energies[rows] = _compute_left_out_batch(score, X[rows], n_training)
    return energies


def _compute_left_out_batch(score: MixtureScore, X: Floats, n_training: int) -> Floats:
    squares = [Y**2 for Y in score.whitened(X)]
    totals = np.stack([square.sum(axis=1) for square in squares], axis=1)
    log_terms = score.log_peaks - 0.5 * totals
    shares = np.exp(log_terms - log_sum(log_terms)[:, None])
    left_out = np.empty_like(log_terms)
    for k, share in enumerate(shares.T):
        # N_k is at least the row's own share, whatever the rounding of the weights says.
        count = np.maximum(np.exp(score.parts.log_weights[k]) * n_training, share)
        # Diagonal covariances change column by column, full ones as a whole.
        square = squares[k] if score.parts.factors.ndim == 2 else totals[:, [k]]
        term = _log_term_without(square, share, count, n_training, X.shape[1])
        left_out[:, k] = score.log_peaks[k] - score.parts.log_weights[k] + term
    return -log_sum(left_out)


def _log_term_without(squares: Floats, share: Floats, count: Floats, n_training: int, d: int) -> Floats:
    """log π′ and the exponent of N(x; μ′, Σ′), relative to the peak of the component with the row."""
    rest = count - share
    with np.errstate(divide="ignore", invalid="ignore"):
        grown = count / rest
        shrunk = np.maximum(1.0 - share[:, None] * squares / rest[:, None], _LEAST_SHRINKAGE)
        distance = grown * (squares / shrunk).sum(axis=1)
        log_volume = d * np.log(grown) + np.log(shrunk).sum(axis=1)
        term = np.log(rest / (n_training - 1)) - 0.5 * (distance + log_volume)
    return np.where(rest > _LEAST_COUNT, term, -np.inf)  # a component that was this row alone is gone


_DOUBT = 2.0  # standard errors: a strength within them of the best may be as good
STRENGTHS = (1e-3, 1e-2, 1e-1)  # of regularisation, that 'auto' compares

component_counts = Rule(
    "a sequence of ints of at least 1",
    lambda value: (
        isinstance(value, Sequence) and len(value) > 0 and all(integer(1).accepts(k) for k in value)
    ),
)


class GaussianMixture(Detector):
    """Mixture of Gaussians whose outlierness is the energy e(x) = −log Σ_k π_k N(x; μ_k, Σ_k).

    Columns are standardised inside, so that offsets and units do not matter; energies are in the units of the
    data.

    Parameters
    ----------
    n_components
        Number of components K; 'auto' takes the candidate with the highest likelihood of rows held out.
    candidates
        Values of K that 'auto' compares.
    covariance
        'full' or 'diag'.
    regularisation
        Added to the variance of every column in every component, as a share of the column's variance.
        Differences below √regularisation column standard deviations (3 % by default) then hardly count: a
        component that sits on a repeated value, or on columns that nearly determine each other, gains at most
        −½ log(regularisation), 3.5 nats, in each such direction. At 1e-6 it would gain 6.9, and a cell that
        is off by a hundredth of a standard deviation would cost 50. A hundred evenly spread values lie 3 % of
        a standard deviation apart, so that columns with as many or more are seen as continuous. 'auto'
        compares 0.001, 0.01 and 0.1 on rows held out, in which one cell is moved by one to two standard
        deviations. It takes the least of them for which the mean reciprocal rank of that cell, among the
        conditional surprises of the row's cells, is within two standard errors of the best. Likelihoods
        cannot choose it: those of repeated values grow without end. Nor can the cell's share: where columns
        nearly determine each other, few rows with huge surprises elsewhere decide it.
    validation_share
        Share of the rows held out to choose K and the regularisation; the chosen mixture is then fitted to
        all rows.
    contamination
        Share of training rows, each scored as if it were new, above the threshold that `fit` sets.
    random_state
        Seed of the split and of the starting points.

    Attributes
    ----------
    n_components_, regularisation_
        Those in use.
    validation_energies_
        Pairs (K, mean energy of the rows held out), where K was chosen.
    validation_ranks_
        Pairs (regularisation, mean reciprocal rank of the moved cells), where it was chosen.
    parts_
        The mixture in standardised coordinates; `to_score().mixture` has it in the units of the data.
    training_scores_
        Energy of training rows (at most 20,000) under the mixture re-estimated without each one.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> GaussianMixture().fit(X).predict([[0.0, 0.0], [9.0, 9.0]])
    array([ 1, -1])
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "n_components": (one_of("auto"), integer(1)),
        "candidates": component_counts,
        "covariance": one_of("full", "diag"),
        "regularisation": (one_of("auto"), real(0, 1)),
        "validation_share": real(0, 1),
        "contamination": real(0, 0.5, closed="right"),
        "random_state": seed,
    }

    def __init__(
        self,
        n_components: str | int = "auto",
        candidates: Sequence[int] = (1, 2, 3, 4),
        covariance: str = "full",
        *,
        regularisation: str | float = 1e-3,
        validation_share: float = 0.2,
        contamination: float = 0.1,
        random_state: Seed = 0,
    ):
        self.n_components = n_components
        self.candidates = candidates
        self.covariance = covariance
        self.regularisation = regularisation
        self.validation_share = validation_share
        self.contamination = contamination
        self.random_state = random_state

    def _fit(self, X: Floats) -> None:
        rng = generator(self.random_state)
        scaling = Scaling.of(X)
        Z = scaling.apply(X)
        self.validation_energies_: tuple[tuple[int, float], ...] = ()
        self.validation_ranks_: tuple[tuple[float, float], ...] = ()
        model = self._chosen(Z, rng)
        model = self._maximise_likelihood(model, Z)
        if not model.converged_:
            message = f"The mixture did not settle in {model.max_iter} rounds of expectation maximisation."
            warnings.warn(message, NotConverged, stacklevel=3)
        self.n_components_ = int(model.n_components)
        self.parts_ = _parts(model, scaling)
        self.training_scores_ = compute_left_out_energies(
            self.to_score(), X[choose_calibration_rows(len(X))], len(X)
        )
        self.set_threshold(contamination=self.contamination)

    def _chosen(self, Z: Floats, rng: np.random.Generator) -> ExpectationMaximisation:
        """Return the mixture that is to be fitted to all rows, after the choices that were left to `fit`."""
        is_open = isinstance(self.regularisation, str)
        self.regularisation_ = STRENGTHS[0] if is_open else float(self.regularisation)
        held, kept = self._split(Z, rng)
        asked = self.candidates if isinstance(self.n_components, str) else [int(self.n_components)]
        counts = sorted({k for k in asked if 2 * k <= len(kept)})
        if is_open and counts:
            return _continue_mixture(self._find_pointing(held, kept, counts, rng))
        if len(counts) < 2:  # nothing to choose between, or too few rows to compare on
            return self._start(Z, counts[0] if counts else min(asked), rng)
        return _continue_mixture(self._find_likeliest(held, kept, counts, rng))

    def _split(self, Z: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Return rows held out, and the others."""
        order = rng.permutation(len(Z))
        n_held = max(1, round(self.validation_share * len(Z)))
        return Z[order[:n_held]], Z[order[n_held:]]

    def _find_likeliest(
        self, held: Floats, kept: Floats, counts: list[int], rng: np.random.Generator
    ) -> ExpectationMaximisation:
        """Return the mixture under which rows held out are likeliest."""
        fitted = [self._maximise_likelihood(self._start(kept, k, rng), kept) for k in counts]
        energies = [float(-model.score_samples(held).mean()) for model in fitted]
        if len(counts) > 1:
            self.validation_energies_ = tuple(zip(counts, energies, strict=True))
        return fitted[int(np.argmin(energies))]

    def _find_pointing(
        self, held: Floats, kept: Floats, counts: list[int], rng: np.random.Generator
    ) -> ExpectationMaximisation:
        """Return the least regularised mixture that points at cells that were moved as well as any."""
        cells = MovedCells.drawn(len(held), held.shape[1], rng)
        moved = cells.applied(held)
        fitted = []
        energies = []
        ranks = []
        for strength in STRENGTHS:
            self.regularisation_ = strength
            fitted.append(self._find_likeliest(held, kept, counts, rng))
            energies.append(self.validation_energies_)
            score = MixtureScore(_parts(fitted[-1], Scaling.none(held.shape[1])))
            ranks.append(cells.reciprocal_ranks(compute_conditional_surprises(score, moved)))
        self.validation_ranks_ = tuple(
            (strength, float(found.mean())) for strength, found in zip(STRENGTHS, ranks, strict=True)
        )
        best = ranks[int(np.argmax([found.mean() for found in ranks]))]
        gaps = [best - found for found in ranks]
        first = next(i for i, gap in enumerate(gaps) if gap.mean() <= _DOUBT * cells.standard_error(gap))
        self.regularisation_ = STRENGTHS[first]
        self.validation_energies_ = energies[first]
        return fitted[first]

    def _start(self, Z: Floats, n_components: int, rng: np.random.Generator) -> ExpectationMaximisation:
        if n_components > len(Z):
            raise InvalidInput(
                f"n_components={n_components} needs as many rows; X has {len(Z)}. Take fewer components or "
                "more rows."
            )
        return ExpectationMaximisation(
            n_components,
            covariance_type=self.covariance,
            reg_covar=self.regularisation_,
            max_iter=500,
            random_state=int(rng.integers(2**31 - 1)),
        )

    def _maximise_likelihood(self, model: ExpectationMaximisation, Z: Floats) -> ExpectationMaximisation:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # asked of the model itself
            try:
                return model.fit(Z)
            except ValueError as error:
                raise InvalidInput(
                    f"A component's covariance is singular at regularisation={self.regularisation_:g} "
                    f"({error}) Raise the regularisation, or take fewer components."
                ) from error

    def to_score(self) -> MixtureScore:
        """Return the energy as a score function with its mixture."""
        check_is_fitted(self)
        return MixtureScore(
            self.parts_,
            feature_names=self._names,
            describes=f"energy e(x) = −log p(x) of {type(self).__name__}",
            threshold=self._known_threshold,
        )


def _continue_mixture(model: ExpectationMaximisation) -> ExpectationMaximisation:
    """Return a mixture that goes on from where this one, which learned from some of the rows, has come to."""
    return model.set_params(
        weights_init=model.weights_, means_init=model.means_, precisions_init=model.precisions_
    )


def _parts(model: ExpectationMaximisation, scaling: Scaling) -> ScaledMixture:
    factors = model.precisions_cholesky_
    return ScaledMixture(np.log(model.weights_), model.means_, factors, scaling.centre, scaling.scale)


def compute_conditional_surprises(score: MixtureScore, X: Floats) -> Floats:
    """How odd each cell is, given the other cells of its row; shape (n, d).

    In a component with mean μ and precision matrix P it is ½(P(x − μ))_i² / P_ii: by how much −log p falls
    when x_i takes the value that is likeliest given the other cells. The components are averaged by their
    shares in the row.
    """
    whitened = score.whitened(X)
    log_terms = score.log_peaks - 0.5 * np.stack([(Y**2).sum(axis=1) for Y in whitened], axis=1)
    shares = np.exp(log_terms - log_sum(log_terms)[:, None])
    surprises = np.zeros_like(X)
    for Y, W, share in zip(whitened, score.parts.factors, shares.T, strict=True):
        pulls = Y * W if W.ndim == 1 else Y @ W.T
        surprises += share[:, None] * 0.5 * pulls**2 / (W**2 if W.ndim == 1 else (W**2).sum(axis=1))
    return surprises
