"""DMM-MEN: a mixture of regressions with multiple elastic nets, learned to stand in for a model.

One mixture per class (or one for a score) is fitted to all rows, or one per row to its neighbours; `sampler`
holds the model, its priors and the table of its full conditionals; each is drawn by the function of its name
in `_compiled_conditionals` (α by `draw_alpha`), and `_compiled_sweep` calls them in turn.

Guo, Huang, Tao, Xing, Lin, "Explaining deep learning models: a Bayesian non-parametric approach", NeurIPS
(2018).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.errors import DataNotice, InvalidInput, NotConverged
from tellwhy.core.explanation import Explanation
from tellwhy.core.params import (
    Rules,
    Seed,
    generator,
    instance_of,
    integer,
    none,
    one_of,
    real,
    seed,
    validate_value,
)
from tellwhy.core.running import track_batches
from tellwhy.core.score import Floats, Integers
from tellwhy.explainers.base import Condition
from tellwhy.explainers.rows import Attribution, Groups, Rows, groups_rule
from tellwhy.explainers.surrogate.chains import R_HAT, Convergence, Priors
from tellwhy.explainers.surrogate.inputs import (
    InputExplainer,
    fix_seed,
    group_of_columns,
    replacement_rule,
    shaped,
    sum_to_own_columns,
)
from tellwhy.explainers.surrogate.insight import (
    Fitted,
    Insight,
    find_component_insights,
    find_overall_insight,
)
from tellwhy.explainers.surrogate.mixture import Explained, Plan, RowFits, Surrogate, fit_surrogate
from tellwhy.explainers.surrogate.sampler import Settings

LEAST_DRAWS = 20  # effective ones: with fewer, the ends of intervals are a matter of chance


class TargetRows(NamedTuple):
    """What the mixture of one target is fitted to: the rows that the model puts there, and its outputs."""

    name: str
    X: Floats
    y: Floats


def fit_target(
    rows: TargetRows, plan: Plan, *, rng: np.random.Generator, folder: Path | None, label: str
) -> Surrogate:
    """Fit one mixture; say, at the line that called `DMMMEN.fit`, where its intervals cannot be trusted."""
    y = rows.y
    if np.ptp(y) <= 1e-9 * max(1.0, float(np.abs(y).max())):
        warnings.warn(
            f"The model gives {y[0]:.4g} for all {len(y)} rows of {rows.name!r}: no feature can matter "
            "there.",
            DataNotice,
            stacklevel=5,
        )
    fitted = fit_surrogate(rows.X, y, plan, rng=rng, folder=folder, label=label)
    agreement = fitted.posterior.convergence
    if agreement.worst_r_hat > R_HAT or agreement.least_ess < LEAST_DRAWS:
        warnings.warn(
            f"The chains of {rows.name!r} do not agree yet ({agreement.words()}; expected R̂ < {R_HAT} and "
            f"at least {LEAST_DRAWS} effective draws): intervals may be too narrow. Raise n_burn and "
            "n_sweeps, or lower n_components.",
            NotConverged,
            stacklevel=5,
        )
    return fitted


def explain_by_class(
    X: Floats,
    explained: Explained,
    surrogates: Mapping[int, Surrogate],
    *,
    seed: int,
    credibility: float,
    owner: Integers | None,
) -> RowFits:
    """Explain each row by the mixture of its target; rows of a target share the draws of its components."""
    n_draws = len(next(iter(surrogates.values())).coef)
    # The same uniforms for every row: the explanation of a row does not depend on the others.
    uniforms = np.random.default_rng(seed).random(n_draws)
    found = []
    for batch in track_batches(len(X), 8 * n_draws * X.shape[1], "explaining by the mixture"):
        for i in range(batch.start, batch.stop):
            surrogate = surrogates[int(explained.targets[i])]
            found.append(
                surrogate.local(
                    X[i], explained.scores[i], uniforms=uniforms, credibility=credibility, owner=owner
                )
            )
    return RowFits(
        values=np.array([row.values for row in found]),
        stderr=np.array([row.stderr for row in found]),
        base=np.array([row.base for row in found]),
        extras={
            "coefficients": np.array([row.coefficients for row in found]),
            "interval": np.array([row.interval for row in found]),
            "coefficient_interval": np.array([row.coefficient_interval for row in found]),
            "r_hat": np.array([row.r_hat for row in found]),
        },
    )


def check_targets(targets: Integers, surrogates: Mapping[int, Surrogate], names: list[str]) -> None:
    """Raise for the first row of a target that has no mixture."""
    lacking = sorted(set(targets.tolist()) - set(surrogates))
    if lacking:
        row = int(np.argmax(targets == lacking[0]))
        raise InvalidInput(
            f"Row {row} belongs to {names[lacking[0]]!r} by the model, of which fit saw fewer than 2 rows. "
            "Fit with rows of that class."
        )


class DMMMEN(InputExplainer):
    """A Bayesian mixture of sparse regressions, fitted to a model's outputs; its coefficients explain it.

    Rows that the model treats alike share one regression, of which most coefficients are near 0. In formulas,
    y_i | x_i ~ Σ_j π_j N(x_iᵀβ_j, σ_j²). The shares π are pieces of a stick that is broken again and again,
    so that later components get little unless rows need them; each β_j has one of several elastic nets as
    its prior, which draws small coefficients to 0. A row is explained by E[β_z]⊙(x − x̄): z is the component
    that it belongs to, given the model's own output. A classifier gets one mixture per class, of the log-odds
    of the rows that it puts into that class. Everything is drawn by chains of a Gibbs sampler; how far they
    agree (split-R̂, effective draws) is in `convergence_`.

    Parameters
    ----------
    model
        A classifier with probabilities, a regressor, a PyTorch network, a function that gives one number per
        row or the probabilities of classes, or anything that `tellwhy.scoring.as_score` reads.
    n_components, n_elastic_nets
        The most components, and the number of elastic nets they choose from.
    n_sweeps, n_burn, n_chains
        Sweeps kept and thrown away, of each chain. Four chains tell more surely whether they agree.
    max_seconds
        None: so many sweeps and no more. A number: where chains do not agree on what is reported (split-R̂
        above 1.05), they go on in rounds, each longer than the one before, for about as long per class.
    priors
        `Priors`; `PRESETS` has the published ones: `DMMMEN(model, **PRESETS["mnist"])`.
    features
        None: every column. A number: that many columns, those most correlated with the output. "segments" or
        groups of columns (as in `KernelShap`): every row is explained by a mixture of its own, fitted to
        neighbours of the row in which some segments or groups are replaced: for images and other long inputs.
        `LocalInsight` asks better questions there.
    assignment
        "component": a row belongs to one component. "mode": components that overlap count as one, averaged.
    gating
        "gaussian": components also have a place, a Gaussian in the leading principal directions of the rows.
    scale
        "columns": columns are divided by their standard deviations. "common": by one number for all, for
        columns that share a unit (pixels, word counts).
    baseline
        Values that replaced segments take: the "mean" of the rows given to `fit`, a number, or an input.
    n_neighbors, n_segments
        Neighbours of each row, best a power of two, and about how many segments each row has. Seeds agree on
        what comes first from about 4096 neighbours on.
    kept
        Share of the segments that neighbours keep: a large one asks what matters in the row as it is, a small
        one what is enough by itself.
    credibility
        Probability of the intervals.
    n_jobs
        Threads that run chains; None: one per core. Results do not depend on it.
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

    _counts_with: ClassVar[dict[str, Condition]] = {
        "n_segments": ("features='segments'", lambda own: isinstance(own.features, str)),
        **dict.fromkeys(
            ("baseline", "n_neighbors", "kept"),
            ("features='segments' or groups", lambda own: not isinstance(own.features, (int, type(None)))),
        ),
    }
    _parameters: ClassVar[dict[str, Rules]] = {
        "n_components": integer(1, 1000),
        "n_elastic_nets": integer(1, 100),
        "n_sweeps": integer(8),
        "n_burn": integer(0),
        "n_chains": integer(1),
        "max_seconds": (none, real(0.0)),
        "priors": (none, instance_of(Priors, words="a Priors object")),
        "features": (none, integer(1), one_of("segments"), groups_rule),
        "assignment": one_of("component", "mode"),
        "gating": one_of("none", "gaussian"),
        "scale": one_of("columns", "common"),
        "baseline": replacement_rule,
        "n_neighbors": integer(10),
        "n_segments": integer(2),
        "kept": real(0.0, 1.0),
        "credibility": real(0.0, 1.0),
        "n_jobs": (none, integer(-64, 1024)),
        "random_state": seed,
    }

    def __init__(
        self,
        model: object,
        n_components: int = 10,
        n_elastic_nets: int = 3,
        *,
        n_sweeps: int = 1000,
        n_burn: int = 500,
        n_chains: int = 2,
        max_seconds: float | None = None,
        priors: Priors | None = None,
        features: int | str | Groups | None = None,
        assignment: str = "component",
        gating: str = "none",
        scale: str = "columns",
        baseline: ArrayLike = "mean",
        n_neighbors: int = 1024,
        n_segments: int = 50,
        kept: float = 0.75,
        credibility: float = 0.95,
        n_jobs: int | None = None,
        random_state: Seed = 0,
    ):
        super().__init__(model)
        self.n_components = n_components
        self.n_elastic_nets = n_elastic_nets
        self.n_sweeps = n_sweeps
        self.n_burn = n_burn
        self.n_chains = n_chains
        self.max_seconds = max_seconds
        self.priors = priors
        self.features = features
        self.assignment = assignment
        self.gating = gating
        self.scale = scale
        self.baseline = baseline
        self.n_neighbors = n_neighbors
        self.n_segments = n_segments
        self.kept = kept
        self.credibility = credibility
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def is_local(self) -> bool:
        """Whether every row gets a mixture of its own."""
        return not (self.features is None or isinstance(self.features, (int, np.integer)))

    def fit(self, X: ArrayLike, *, checkpoint: str | Path | None = None) -> DMMMEN:
        """Fit the mixtures, one per class; with segments or groups, learn only what replaces them.

        With `checkpoint`, a folder, chains are saved on the way and go on from there when `fit` is called
        again with the same rows, model, settings and seed.
        """
        self.checkpoint_ = None if checkpoint is None else Path(checkpoint)
        return super().fit(X)

    def _fit(self, X: ArrayLike) -> None:
        rows = self.first_rows(X)
        self.surrogates_: dict[int, Surrogate] = {}
        if self.is_local:
            groups = None if isinstance(self.features, (int, str)) else self.features
            self.group_ = group_of_columns(groups, rows, self.names_)
            return
        if len(rows.X) < 2:
            raise InvalidInput(
                "DMMMEN needs at least 2 rows to fit a mixture. Got 1 instead; give more rows to fit."
            )
        outputs = self.outputs(rows, rows.X)
        chosen = outputs.argmax(axis=1)
        self.fitted_rows_ = {t: np.flatnonzero(chosen == t) for t in range(outputs.shape[1])}
        self.X_ = rows.X
        # One stream of random numbers per class, also for those that get no mixture: which rows there are of
        # one class does not change what is drawn for another.
        streams = generator(self.random_state).spawn(outputs.shape[1])
        for target, members in self.fitted_rows_.items():
            if len(members) >= 2:
                name = self.targets_[target]
                self.surrogates_[target] = fit_target(
                    TargetRows(name, rows.X[members], outputs[members, target]),
                    self._plan(),
                    rng=streams[target],
                    folder=None if self.checkpoint_ is None else self.checkpoint_ / f"target-{target}",
                    label="sampling the mixture" + (f" of {name}" if len(self.targets_) > 1 else ""),
                )
        self._say_what_is_missing()

    def _say_what_is_missing(self) -> None:
        """Warn, at the line that called `fit`, of classes that have too few rows for a mixture."""
        lacking = [self.targets_[t] for t in self.fitted_rows_ if t not in self.surrogates_]
        if not lacking:
            return
        warnings.warn(
            f"The model puts fewer than 2 of the rows into {', '.join(lacking[:10])}: these got no mixture, "
            "and rows of theirs cannot be explained.",
            DataNotice,
            stacklevel=5,
        )

    @property
    def convergence_(self) -> dict[str, Convergence]:
        """Split-R̂ and effective draws of each target's mixture."""
        return {self.targets_[t]: s.posterior.convergence for t, s in self.surrogates_.items()}

    def insights(self, k: int = 10, *, per: str = "component") -> list[Insight]:
        """What the model has learned: for each class and component, the k main features and where it applies.

        With `per="target"`, one insight per class: the average over its rows, which does not depend on how
        components are labelled.
        """
        self._check_fitted("surrogates_")
        validate_value("DMMMEN.insights", "k", k, integer(1))
        validate_value("DMMMEN.insights", "per", per, one_of("component", "target"))
        if self.is_local:
            raise InvalidInput("insights need a global fit: use features=None or a number of columns.")
        found: list[Insight] = []
        for target in self.surrogates_:
            fitted = self._fitted(target)
            if per == "component":
                found += find_component_insights(fitted, k=k, credibility=self.credibility)
            else:
                found.append(find_overall_insight(fitted, k=k, credibility=self.credibility))
        return found

    def _fitted(self, target: int) -> Fitted:
        """What insights into one target are read from."""
        mine = self.fitted_rows_[target]
        return Fitted(
            surrogate=self.surrogates_[target],
            X=self.X_[mine],
            others=np.delete(self.X_, mine, axis=0),
            target=self.targets_[target],
            names=self.names_,
            shape=self.shape_,
        )

    def explain(self, X: ArrayLike, *, progress: bool | None = None) -> Explanation:
        """Explain the output of each row: contributions of its features, with credible intervals."""
        self._check_fitted("surrogates_")
        return super().explain(X, progress=progress)

    def _plan(self) -> Plan:
        settings = Settings(
            self.n_components,
            self.n_elastic_nets,
            self.n_sweeps,
            self.n_burn,
            self.n_chains,
            self.max_seconds,
        )
        n_used = int(self.features) if isinstance(self.features, (int, np.integer)) else None
        return Plan(
            settings,
            self.priors or Priors(),
            n_used=n_used,
            scale="common" if self.is_local else self.scale,  # columns of a local fit are all 0 or 1
            gating=self.gating,
            assignment=self.assignment,
            n_jobs=self.n_jobs,
        )

    def _attribute(self, rows: Rows) -> Attribution:
        outputs = self.outputs(rows, rows.X)
        targets = outputs.argmax(axis=1)
        explained = Explained(outputs[np.arange(len(outputs)), targets], targets)
        found = self._explain_locally(rows, explained) if self.is_local else self._by_class(rows, explained)
        params = {"targets": self.targets_, "priors": repr(self.priors or Priors())}
        return Attribution(
            found.values,
            explained.scores,
            found.base,
            stderr=found.stderr,
            extras={
                **{name: shaped(extra, rows) for name, extra in found.extras.items()},
                "target": targets,
            },
            params={**params, "features": str(self.features)} if self.is_local else params,
            per_owner=True,
        )

    def _by_class(self, rows: Rows, explained: Explained) -> RowFits:
        check_targets(explained.targets, self.surrogates_, self.targets_)
        return explain_by_class(
            rows.X,
            explained,
            self.surrogates_,
            seed=fix_seed(self.random_state),
            credibility=self.credibility,
            owner=None if rows.n_owners == rows.X.shape[1] else rows.owner,
        )

    def _explain_locally(self, rows: Rows, explained: Explained) -> RowFits:
        from tellwhy.explainers.surrogate.local_insight import LocalPlan, Neighbourhood, explain_locally

        where = Neighbourhood(
            shape=self.shape_,
            replacement=self.replaced_by(),
            group=self.group_,
            n_neighbours=self.n_neighbors,
            n_segments=self.n_segments,
            kept=self.kept,
        )
        how = LocalPlan(
            outputs=lambda flat: self.outputs(rows, flat),
            where=where,
            plan=self._plan(),
            seed=fix_seed(self.random_state),
            credibility=self.credibility,
        )
        return sum_to_own_columns(explain_locally(rows.X, explained, how), rows)
