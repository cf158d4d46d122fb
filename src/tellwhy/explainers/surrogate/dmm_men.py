"""DMM-MEN: a Dirichlet-process mixture of regressions with multiple elastic nets that stands in for a model."""

from __future__ import annotations

import warnings
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tellwhy.core.errors import DataNotice, InvalidInput, InvalidParameter, NotConverged
from tellwhy.core.explanation import Explanation
from tellwhy.core.parallel import tracked_batches
from tellwhy.core.params import (
    Rule,
    Rules,
    generator,
    instance_of,
    integer,
    none,
    one_of,
    real,
    seed,
    validate_value,
)
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import check_finite, column_names
from tellwhy.explainers.base import Attribution, BackgroundExplainer, Rows
from tellwhy.explainers.column_groups import group_numbers, groups_rule
from tellwhy.explainers.surrogate.insight import Fitted, Insight, component_insights, overall_insight
from tellwhy.explainers.surrogate.local_fit import Neighbourhood, explain_locally
from tellwhy.explainers.surrogate.mixture import Local, Plan, Surrogate, fit_surrogate
from tellwhy.explainers.surrogate.priors import Priors
from tellwhy.explainers.surrogate.sampler import Settings
from tellwhy.scoring.class_scores import as_class_scores, as_outputs, with_known_outputs

R_HAT = 1.1
LEAST_DRAWS = 20

_background_rule = Rule(
    "'mean', a number, or an array shaped like one input",
    lambda value: value == "mean" if isinstance(value, str) else isinstance(value, (int, float, np.ndarray)),
)


@register(
    "explainer",
    family="surrogate",
    needs="any score, or a classifier with probabilities; background rows",
    cost="one fit (seconds to minutes), then some matrix products per row",
    exactness="posterior mean of an approximation, with credible intervals; what it misses is stated as residual",
    citation="Guo, Huang, Tao, Xing, Lin, NeurIPS (2018)",
    applies=lambda _: True,
)
class DMMMEN(BackgroundExplainer):
    """A Bayesian mixture of sparse regressions, fitted to a model's outputs; its coefficients explain the model.

    y_i | x_i ~ Σ_j π_j N(x_iᵀβ_j, σ_j²), with stick-breaking weights π and one of several elastic nets as the
    prior of each β_j. A row is explained by E[β_z]⊙(x − x̄), z ~ p(z | x, y) given the model's own output y.
    A classifier gets one mixture per class, of the log-odds of the rows it puts into that class. Components
    are told apart by chains of a Gibbs sampler with slice steps, whose agreement (split-R̂, effective draws)
    is in `convergence_`.

    Parameters
    ----------
    model
        A classifier with probabilities, a regressor, a PyTorch network, a function that gives one number per
        row or the probabilities of classes, or anything that `tellwhy.scoring.as_score` reads.
    n_components, n_elastic_nets
        The most components, and the number of elastic nets they choose from.
    n_sweeps, n_burn, n_chains
        Sweeps kept and thrown away, of each chain.
    priors
        `Priors`; `PRESETS` has the published ones: `DMMMEN(model, **PRESETS["mnist"])`.
    features
        None: every column. A number: that many columns, those most correlated with the output. "segments" or
        groups of columns (as in `KernelShap`): every row is explained by a mixture of its own, fitted to
        neighbours of the row in which some segments or groups are replaced by the background: for images and
        other long inputs.
    assignment
        "component": a row belongs to one component. "mode": components that overlap count as one, averaged.
    gating
        "gaussian": components also have a place, a Gaussian in the leading principal directions of the rows.
    scale
        "columns": columns are divided by their standard deviations. "common": by one number for all, for
        columns that share a unit (pixels, word counts).
    background
        Values that replaced segments take: the "mean" of the rows given to `fit`, a number, or an input.
    n_neighbours, n_segments
        Neighbours of each row, best a power of two, and about how many segments each row has. Seeds agree on
        what comes first from about 4096 neighbours on.
    kept
        Share of the segments that neighbours keep: a large one asks what matters in the row as it is, a small
        one what is enough by itself.
    credibility
        Probability of the intervals.
    n_jobs
        Threads that run chains; results do not depend on it.
    random_state
        Seed of all draws.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> explainer = DMMMEN(lambda X: np.where(X[:, 0] > 0, 3 * X[:, 1], -X[:, 2]), n_components=4).fit(X)
    >>> explanation = explainer.explain(X[:1])
    >>> explanation.extras["interval"].shape
    (1, 3, 2)
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "n_components": integer(1, 1000),
        "n_elastic_nets": integer(1, 100),
        "n_sweeps": integer(8),
        "n_burn": integer(0),
        "n_chains": integer(1),
        "priors": (none, instance_of(Priors, words="a Priors object")),
        "features": (none, integer(1), one_of("segments"), groups_rule),
        "assignment": one_of("component", "mode"),
        "gating": one_of("none", "gaussian"),
        "scale": one_of("columns", "common"),
        "background": _background_rule,
        "n_neighbours": integer(10),
        "n_segments": integer(2),
        "kept": real(0.0, 1.0),
        "credibility": real(0.0, 1.0),
        "n_jobs": integer(-64, 1024),
        "random_state": seed,
    }

    def __init__(
        self,
        model: Any,
        n_components: int = 10,
        n_elastic_nets: int = 3,
        *,
        n_sweeps: int = 1000,
        n_burn: int = 500,
        n_chains: int = 2,
        priors: Priors | None = None,
        features: Any = None,
        assignment: str = "component",
        gating: str = "none",
        scale: str = "columns",
        background: Any = "mean",
        n_neighbours: int = 1024,
        n_segments: int = 50,
        kept: float = 0.75,
        credibility: float = 0.95,
        n_jobs: int = -1,
        random_state: Any = 0,
    ):
        super().__init__(model)
        self.n_components = n_components
        self.n_elastic_nets = n_elastic_nets
        self.n_sweeps = n_sweeps
        self.n_burn = n_burn
        self.n_chains = n_chains
        self.priors = priors
        self.features = features
        self.assignment = assignment
        self.gating = gating
        self.scale = scale
        self.background = background
        self.n_neighbours = n_neighbours
        self.n_segments = n_segments
        self.kept = kept
        self.credibility = credibility
        self.n_jobs = n_jobs
        self.random_state = random_state

    @cached_property
    def score(self) -> Any:
        """The log-odds of the preferred class, or the score, that is explained."""
        return as_class_scores(self.model)

    @property
    def is_local(self) -> bool:
        """Whether every row gets a mixture of its own."""
        return not (self.features is None or isinstance(self.features, (int, np.integer)))

    def fit(self, X: Any, *, checkpoint: str | Path | None = None) -> DMMMEN:
        """Fit the mixtures, one per class; with segments or groups, learn the background only.

        With `checkpoint`, a folder, chains are saved on the way and go on from there when `fit` is called
        again with the same rows, model, settings and seed.
        """
        self.checkpoint_ = None if checkpoint is None else Path(checkpoint)
        return super().fit(X)

    def _fit(self, X: Any) -> None:
        self._read_shape(X)
        rows = self.rows(X)
        self.names_ = self._names(X, rows)
        self.mean_ = rows.X.mean(axis=0)
        self.surrogates_: dict[int, Surrogate] = {}
        if self.is_local:
            self.group_ = self._groups(rows)
            return
        if len(rows.X) < 2:
            raise InvalidInput(
                "DMMMEN needs at least 2 rows to fit a mixture. Got 1 instead; give more rows to fit."
            )
        outputs = self._outputs(rows, rows.X)
        chosen = outputs.argmax(axis=1)
        self.fitted_rows_ = {t: np.flatnonzero(chosen == t) for t in range(outputs.shape[1])}
        self.X_ = rows.X
        streams = generator(self.random_state).spawn(outputs.shape[1])
        for target, members in self.fitted_rows_.items():
            if len(members) >= 2:
                folder = None if self.checkpoint_ is None else self.checkpoint_ / f"target-{target}"
                y = outputs[members, target]
                self._fit_target(target, rows.X[members], y, streams[target], folder)
        self._say_what_is_missing()

    def _fit_target(
        self, target: int, X: Floats, y: Floats, rng: np.random.Generator, folder: Path | None
    ) -> None:
        name = self.targets_[target]
        if np.ptp(y) <= 1e-9 * max(1.0, float(np.abs(y).max())):
            text = (
                f"The model gives {y[0]:.4g} for all {len(y)} rows of {name!r}: no feature can matter there."
            )
            warnings.warn(text, DataNotice, stacklevel=5)
        label = f"sampling the mixture of {name}" if len(self.targets_) > 1 else "sampling the mixture"
        fitted = fit_surrogate(X, y, self._plan(), rng=rng, folder=folder, label=label)
        self.surrogates_[target] = fitted
        agreement = fitted.posterior.convergence
        if agreement.worst_r_hat > R_HAT or agreement.least_ess < LEAST_DRAWS:
            warnings.warn(
                f"The chains of {name!r} do not agree yet ({agreement.words()}; expected R̂ < {R_HAT} and at "
                f"least {LEAST_DRAWS} effective draws): intervals may be too narrow. Raise n_burn and "
                "n_sweeps, or lower n_components.",
                NotConverged,
                stacklevel=5,
            )

    @property
    def convergence_(self) -> dict[str, Any]:
        """Split-R̂ and effective draws of each target's mixture."""
        return {self.targets_[t]: s.posterior.convergence for t, s in self.surrogates_.items()}

    def insights(self, k: int = 10, *, per: str = "component") -> list[Insight]:
        """What the model has learned, per class and component: the k main features with intervals, where it applies.

        With `per="target"`, one insight per class: the average over its rows, which does not depend on how
        components are labelled.
        """
        self._check_fitted("surrogates_")
        validate_value("DMMMEN.insights", "k", k, integer(1))
        validate_value("DMMMEN.insights", "per", per, one_of("component", "target"))
        if self.is_local:
            raise InvalidInput("insights need a global fit: use features=None or a number of columns.")
        found: list[Insight] = []
        for target, surrogate in self.surrogates_.items():
            mine = self.fitted_rows_[target]
            others = np.delete(self.X_, mine, axis=0)
            name = self.targets_[target]
            fitted = Fitted(surrogate, self.X_[mine], others, name, self.names_, self.shape_)
            if per == "component":
                found += component_insights(fitted, k=k, credibility=self.credibility)
            else:
                found.append(overall_insight(fitted, k=k, credibility=self.credibility))
        return found

    def explain(self, X: Any) -> Explanation:
        """Explain the output of each row: contributions of its features, with credible intervals."""
        self._check_fitted("surrogates_")
        return super().explain(X)

    def rows(self, X: Any) -> Rows:
        """Bring rows into the columns that the model sees; inputs of other shapes are flattened."""
        shape = np.shape(X)
        if len(shape) <= 2:
            found = super().rows(X)
            self._check_shape(found.X.shape[1:])
            return found
        self._check_shape(shape[1:])
        if 0 in shape:
            raise InvalidInput(f"X is empty: its shape is {shape}; at least 1 input with 1 cell is needed.")
        array = np.asarray(X, dtype=np.float64).reshape(shape[0], -1)
        check_finite(array)
        return Rows(self.score, array, np.arange(array.shape[1]), array.shape[1], shape[1:])

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if shape != getattr(self, "shape_", shape):
            raise InvalidInput(
                f"X has rows of shape {shape} (columns, …), but fit saw rows of shape {self.shape_}."
            )

    def _read_shape(self, X: Any) -> None:
        """Learn the shape of an input, and whether a function gives probabilities."""
        vars(self).pop("shape_", None)
        shape = np.shape(X)[1:]
        if len(shape) > 1:
            self.shape_ = shape
        rows = self.rows(X).X[:2]  # of a table, in the columns that the model sees: there may be more of them
        self.score = with_known_outputs(self.score, rows.reshape(-1, *shape) if len(shape) > 1 else rows)
        self.targets_ = list(as_outputs(self.score).names)

    def _names(self, X: Any, rows: Rows) -> list[str]:
        if not hasattr(self, "shape_"):
            self.shape_ = (rows.X.shape[1],)
        given = self.score.feature_names or column_names(X)
        if given is not None and len(given) == rows.X.shape[1]:
            return list(given)
        if given is not None:
            return [f"{given[o]} ({i})" for i, o in enumerate(rows.owner)]
        places = np.ndindex(*self.shape_)
        return ["x" + "_".join(str(i) for i in place) for place in places]

    def _outputs(self, rows: Rows, flat: Floats) -> Floats:
        """Outputs of the model for flattened inputs, shape (n, targets)."""
        shaped = flat.reshape(len(flat), *self.shape_) if len(self.shape_) > 1 else flat
        return as_outputs(rows.score).outputs(shaped)

    def _plan(self) -> Plan:
        settings = Settings(self.n_components, self.n_elastic_nets, self.n_sweeps, self.n_burn, self.n_chains)
        n_used = int(self.features) if isinstance(self.features, (int, np.integer)) else None
        return Plan(
            settings,
            self.priors or Priors(),
            n_used=n_used,
            scale="common" if self.is_local else self.scale,
            gating=self.gating,
            assignment=self.assignment,
            n_jobs=self.n_jobs,
        )

    def _groups(self, rows: Rows) -> Any:
        if isinstance(self.features, str):
            return None
        return group_numbers(self.features, rows.n_owners, self.names_)[rows.owner]

    def _say_what_is_missing(self) -> None:
        lacking = [self.targets_[t] for t in self.fitted_rows_ if t not in self.surrogates_]
        if not lacking:
            return
        warnings.warn(
            f"The model puts fewer than 2 of the rows into {', '.join(lacking[:10])}: these got no mixture, "
            "and rows of theirs cannot be explained.",
            DataNotice,
            stacklevel=5,
        )

    def _attribute(self, rows: Rows) -> Attribution:
        outputs = self._outputs(rows, rows.X)
        targets = outputs.argmax(axis=1)
        scores = outputs[np.arange(len(outputs)), targets]
        if self.is_local:
            return self._explain_locally(rows, scores, targets)
        lacking = sorted(set(targets.tolist()) - set(self.surrogates_))
        if lacking:
            row = int(np.argmax(targets == lacking[0]))
            raise InvalidInput(
                f"Row {row} belongs to {self.targets_[lacking[0]]!r} by the model, of which fit saw fewer "
                "than 2 rows. Fit with rows of that class."
            )
        n_draws = len(next(iter(self.surrogates_.values())).coef)
        uniforms = generator(_fixed(self.random_state)).random(n_draws)
        owner = None if rows.n_owners == rows.X.shape[1] else rows.owner
        found = []
        for batch in tracked_batches(len(rows.X), 8 * n_draws * rows.X.shape[1], "explaining by the mixture"):
            for i in range(batch.start, batch.stop):
                surrogate = self.surrogates_[int(targets[i])]
                found.append(
                    surrogate.local(
                        rows.X[i], scores[i], uniforms=uniforms, credibility=self.credibility, owner=owner
                    )
                )
        return Attribution(
            np.array([f.values for f in found]),
            scores,
            np.array([f.base for f in found]),
            stderr=np.array([f.stderr for f in found]),
            extras={**_stacked(found, rows), "target": targets},
            params={"targets": self.targets_, "priors": repr(self.priors or Priors())},
            per_owner=True,
        )

    def _background(self) -> Floats:
        """Values of replaced segments, one per column."""
        if isinstance(self.background, str):
            return np.asarray(self.mean_)
        given = np.asarray(self.background, dtype=np.float64)
        if (given.ndim and given.shape != self.shape_) or not np.isfinite(given).all():
            raise InvalidParameter(
                f"The 'background' parameter of DMMMEN must be a finite number, or an array of them of shape "
                f"{self.shape_}. Got shape {given.shape} instead."
            )
        return np.broadcast_to(given.ravel() if given.ndim else given, self.mean_.shape)

    def _explain_locally(self, rows: Rows, scores: Floats, targets: Any) -> Attribution:
        where = Neighbourhood(
            shape=self.shape_,
            background=self._background(),
            group=self.group_,
            n_neighbours=self.n_neighbours,
            n_segments=self.n_segments,
            kept=self.kept,
        )
        found = explain_locally(
            rows.X,
            (scores, targets),
            lambda flat: self._outputs(rows, flat),
            where,
            self._plan(),
            seed=_fixed(self.random_state),
            credibility=self.credibility,
        )
        return Attribution(
            found.values,
            scores,
            found.base,
            stderr=found.stderr,
            extras={
                **{name: _shaped(extra, rows) for name, extra in found.extras.items()},
                "target": targets,
            },
            params={
                "targets": self.targets_,
                "priors": repr(self.priors or Priors()),
                "features": str(self.features),
            },
        )


def _stacked(found: list[Local], rows: Rows) -> dict[str, Floats]:
    names = ("coefficients", "interval", "coefficient_interval")
    return {name: _shaped(np.array([getattr(f, name) for f in found]), rows) for name in names}


def _shaped(extra: Floats, rows: Rows) -> Floats:
    """Give an array per cell the shape of the inputs."""
    if rows.shape is None or extra.ndim < 2:
        return extra
    return extra.reshape(len(extra), *rows.shape, *extra.shape[2:])


def _fixed(random_state: Any) -> Any:
    """Return a seed that gives every row the same draws, whatever was drawn before."""
    return random_state if isinstance(random_state, (int, np.integer)) else 0
