"""The energy of each feature on its own (MARG), and features in the order that convinces a reader (SFE).

Scores whose features can be looked at one by one are reconstruction errors, Gaussian mixtures and models with
a Gaussian kernel. An energy is a negative log-density, or an error: high = odd.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.params import Rules, integer, none
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats, HasExpansion, HasFeatureErrors, HasMixture, Integers, KernelExpansion
from tellwhy.explainers.base import ScoreExplainer
from tellwhy.explainers.decomposition import _compiled_marginal as _compiled
from tellwhy.explainers.rows import Attribution, Rows
from tellwhy.kernels import Exponential
from tellwhy.scoring.mixture_scores import Mixture, MixtureScore


@dataclass(frozen=True)
class Sequence:
    """Order of the user's columns (0 first), and the energy of each given those picked before it."""

    position: Integers
    energies: Floats


class MarginalModel(Protocol):
    """Energies of some columns alone, whatever the values of the others."""

    adds_up: bool  # whether the energies of single columns sum to the score

    def energies(self) -> Floats:
        """Energy of each of the user's columns, shape (n, n_owners)."""
        ...

    def sequence(self, n_picked: int) -> Sequence:
        """Pick columns one by one, each with the largest energy given those before it.

        After `n_picked` of them the others follow by their energy.
        """
        ...


def has_marginals(score: Any) -> bool:
    """Whether the energy of one feature of a score is known in closed form."""
    return _kind(score) is not None


def choose_marginal_model(rows: Rows, explainer: str) -> MarginalModel:
    """Return the marginals of a score at some rows, or say which method does without them."""
    kind = _kind(rows.score)
    if kind is None:
        raise UnsupportedModel(
            f"{explainer} needs a score whose features can be looked at one by one: a Gaussian mixture, a "
            "model with a Gaussian kernel, or a reconstruction error. "
            f"{rows.score.describes} is none of them; "
            "AnomalyContribution and Occlusion explain any score."
        )
    return kind(rows)


def _kind(score: Any) -> Any:
    if isinstance(score, HasFeatureErrors):
        return ErrorTerms
    # A mixture may be one of features that a network computed, not of the columns themselves.
    if isinstance(score, HasMixture) and score.mixture.means.shape[1:] == tuple(score.feature_shape or ()):
        return MixtureMarginals
    expansion = score.expansion if isinstance(score, HasExpansion) else None
    kernel = expansion.kernel if isinstance(expansion, KernelExpansion) else None
    return KernelMarginals if isinstance(kernel, Exponential) and kernel.q == 2 else None


@dataclass(frozen=True)
class ErrorTerms:
    """A score that is a sum of one error per feature: the features do not depend on each other."""

    rows: Rows
    adds_up = True

    def energies(self) -> Floats:
        """Error of each of the user's columns."""
        return self.rows.by_owner(np.asarray(self.rows.score.feature_errors(self.rows.X)))

    def sequence(self, n_picked: int) -> Sequence:  # noqa: ARG002
        """Largest error first: no column changes the error of another."""
        errors = self.energies()
        return Sequence(_places(-errors), errors)


@dataclass(frozen=True)
class MixtureMarginals:
    """p(x_S) of a Gaussian mixture: the sub-blocks of its means and covariances that belong to S."""

    rows: Rows
    adds_up = False

    @property
    def mixture(self) -> Mixture:
        """The mixture in the columns that the score sees."""
        found: Mixture = self.rows.score.mixture
        return found

    def energies(self) -> Floats:
        """−log p of each of the user's columns, together where several score columns were made from one."""
        single = self._compute_single_energies()
        found = np.zeros((len(self.rows.X), self.rows.n_owners))
        for owner, columns in enumerate(_list_columns_of(self.rows)):
            if len(columns) == 1:
                found[:, owner] = single[:, columns[0]]
            elif len(columns) > 1:
                block = MixtureScore.of(self.mixture.marginal(columns.tolist()))
                found[:, owner] = block.value(self.rows.X[:, columns])
        return found

    def _compute_single_energies(self) -> Floats:
        """−log Σ_k π_k N(x_i; μ_ki, Σ_k,ii), shape (n, d)."""
        X = self.rows.X
        mixture = self.mixture
        # the covariance's own diagonal; 1/precision would be the variance given all other features
        variance = np.diagonal(mixture.covariances, axis1=1, axis2=2)
        with np.errstate(divide="ignore"):  # a component of weight 0 adds exp(−∞), nothing
            peak = np.log(mixture.weights)[:, None] - 0.5 * np.log(2 * np.pi * variance)
        found = np.empty_like(X)
        for batch in track_batches(len(X), 24 * mixture.means.size, "marginal energies"):
            terms = peak - 0.5 * (X[batch, None, :] - mixture.means) ** 2 / variance
            found[batch] = -np.logaddexp.reduce(terms, axis=1)
        return found

    def sequence(self, n_picked: int) -> Sequence:
        """Pick score columns by the energy −log p(x_i | x_S) given those picked before."""
        X = self.rows.X
        mixture = self.mixture
        position = np.empty(X.shape, dtype=np.int64)
        energies = np.empty(X.shape)
        with np.errstate(divide="ignore"):
            log_weights = np.log(mixture.weights)
        for batch in track_batches(len(X), 8 * mixture.covariances.size, "picking features"):
            _compiled.pick_mixture_sequence(
                X[batch],
                log_weights,
                mixture.means,
                mixture.covariances,
                min(n_picked, X.shape[1]),
                position[batch],
                energies[batch],
            )
        return _tell_of_owners(self.rows, position, energies)


class KernelMarginals:
    """−log Σ_j α_j k(x_S, u_jS) of a Gaussian kernel, which is a product over features.

    Rows that the model was trained on are judged without themselves.
    """

    adds_up = False

    def __init__(self, rows: Rows):
        self.rows = rows
        self.score = rows.score
        # one line per column, as the compiled loops go through them
        self.points = np.ascontiguousarray(rows.score.points.scaled.T)

    def energies(self) -> Floats:
        """Energy of each of the user's columns.

        The constant of the score (a kernel's normalisation) belongs to no column: it is spread evenly over
        the score's columns.
        """
        found = np.zeros((len(self.rows.X), self.rows.n_owners))
        groups = _list_columns_of(self.rows)
        starts = np.cumsum([0, *(len(columns) for columns in groups)])
        for batch, Z in self._batches("marginal energies", self.rows.n_owners):
            _compiled.compute_kernel_energies(
                Z,
                self.points,
                self.score.expansion.weights,
                self.rows.skipped[batch],
                starts,
                np.concatenate(groups),
                found[batch],
            )
        return found + self.score.offset / len(self.points) * np.diff(starts)

    def sequence(self, n_picked: int) -> Sequence:
        """Pick score columns by their energy given those picked before."""
        shape = self.rows.X.shape
        position = np.empty(shape, dtype=np.int64)
        energies = np.empty(shape)
        for batch, Z in self._batches("picking features", shape[1]):
            _compiled.pick_kernel_sequence(
                Z,
                self.points,
                self.score.expansion.weights,
                self.rows.skipped[batch],
                min(n_picked, shape[1]),
                position[batch],
                energies[batch],
            )
        return _tell_of_owners(self.rows, position, energies + self.score.offset / shape[1])

    def _batches(self, label: str, n_results: int) -> Any:
        """Rows in the coordinates of the scaled support points."""
        per_row = 8 * (self.rows.X.shape[1] + n_results)
        # time, not memory, is what a row costs here: small batches let progress be seen
        for batch in track_batches(len(self.rows.X), per_row * 64, label):
            yield batch, self.score.points.rescale(self.rows.X[batch])


def _list_columns_of(rows: Rows) -> list[Integers]:
    """Score columns made from each of the user's columns."""
    return [np.flatnonzero(rows.owner == owner) for owner in range(rows.n_owners)]


def _tell_of_owners(rows: Rows, position: Integers, energies: Floats) -> Sequence:
    """Tell a sequence of score columns in the user's columns.

    A column of the user's is picked together with the first score column made from it.
    """
    n, d = position.shape
    # columns that were not picked come after all that were, the largest energy first
    place = _places(np.where(position >= 0, position, d), -energies)
    first = np.full((n, rows.n_owners), d)
    for column, owner in enumerate(rows.owner):
        first[:, owner] = np.minimum(first[:, owner], place[:, column])
    return Sequence(_places(first), rows.by_owner(energies))


def _places(*keys: Any) -> Integers:
    """Place of each column when each row is sorted by the first key, then the next; equal ones by column."""
    order = np.lexsort(keys[::-1], axis=-1)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(order.shape[1])[None], axis=1)
    return np.asarray(place)


class Marginal(ScoreExplainer):
    """R_i = how odd feature i is by itself, whatever the others are.

    - Gaussian mixtures: R_i = −log Σ_k π_k N(x_i; μ_ki, Σ_k,ii), with the variance that the feature has by
      itself, not the one that is left once all other features are known.
    - Gaussian kernels: R_i = −log Σ_j α_j exp(−(x_i − u_ji)²/2σ²). Training rows are left out, as in
      `OneClassDTD`.
    - Reconstructions: R_i = (x_i − x̂_i)², which add up to the score.

    A feature that is odd only together with others is not found. Where a pipeline makes several columns from
    one of the user's (one-hot encoding), R is the energy of all of them together.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.mixture import GaussianMixture
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> Marginal(GaussianMixture(1).fit(X)).explain(np.array([[0.0, 5.0, 1.0]])).values.round()
    array([[ 1., 14.,  1.]])
    """

    kind = "ranking"
    leaves_rows_out = True

    def _attribute(self, rows: Rows) -> Attribution:
        model = choose_marginal_model(rows, "Marginal")
        # energies of single features leave out what features share: only errors add up to the score
        kind = "attribution" if model.adds_up else "ranking"
        return Attribution(model.energies(), rows.scores(), per_owner=True, kind=kind)


class SequentialFeature(ScoreExplainer):
    """R = 1 − t/d for the feature that is picked at step t = 0, 1, …, d − 1.

    This is the sequential feature explanation, SFE: the features in the order in which a reader should look
    at them to be convinced by as few as possible. Step t picks the feature with the largest energy
    −log p(x_i | x_S) given the features S picked before, that is, the one with which the picked features are
    most odd together. `extras["conditional_energy"]` holds these energies in the columns of the features;
    when all are picked, they add up to the score. Scores that can be explained are those of `Marginal`; for
    reconstruction errors, whose terms do not depend on each other, both give the same order.

    Where a pipeline makes several columns from one of the user's, it is picked with the first of them.

    Parameters
    ----------
    model
        A model with marginals (see `Marginal`).
    n_picked
        How many features to pick one by one; the others follow in the order of their energies given those.
        None: all. The cost grows with its square.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.mixture import GaussianMixture
    >>> covariance = [[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]]
    >>> X = np.random.default_rng(0).multivariate_normal([0, 0, 0], covariance, size=500)
    >>> explanation = SequentialFeature(GaussianMixture(1).fit(X)).explain(np.array([[4.0, 3.5, 2.0]]))
    >>> explanation.values.round(2)
    array([[1.  , 0.33, 0.67]])
    """

    kind = "ranking"
    leaves_rows_out = True
    _parameters: ClassVar[dict[str, Rules]] = {"n_picked": (none, integer(1))}

    def __init__(self, model: object, *, n_picked: int | None = None):
        super().__init__(model)
        self.n_picked = n_picked

    def _attribute(self, rows: Rows) -> Attribution:
        model = choose_marginal_model(rows, "SequentialFeature")
        found = model.sequence(rows.X.shape[1] if self.n_picked is None else self.n_picked)
        values = 1.0 - found.position / rows.n_owners
        extras = {"conditional_energy": found.energies}
        return Attribution(values, rows.scores(), extras=extras, per_owner=True)
