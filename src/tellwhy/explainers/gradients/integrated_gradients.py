"""Gradients of a score, integrated along the straight line from a reference row."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.capabilities import HasGradient, IsTensor
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.params import Rule, Rules, integer, none, one_of, real, validate_parameters
from tellwhy.core.progress import shown
from tellwhy.core.registry import register
from tellwhy.core.score_function import Floats, ScoreFunction
from tellwhy.explainers.base import Attribution, BackgroundExplainer, Rows, lacks
from tellwhy.explainers.gradients.line_integrals import Integrated, Limits, Lines, integrate_well
from tellwhy.explainers.in_batches import BATCH_PARAMETERS
from tellwhy.scoring import NetworkOutput, as_score
from tellwhy.scoring.scores.network_output import has_parts

_NETWORK_BATCH = 32
_USUAL = Limits(tolerance=1e-6, max_steps=1024, rounding=1e-12)
# gradients of networks jump, so that accuracy is dear; their numbers are float32, so that it is also bounded
_OF_NETWORKS = Limits(tolerance=0.01, max_steps=128, rounding=1e-6)


@register(
    "explainer",
    family="gradients",
    needs="a score with a gradient, or a network; a reference row, or background rows for their mean",
    cost="n_steps gradients per row, more where the score bends sharply (at most max_steps)",
    exactness="exact up to the error of the integral, which is stated as residual",
    citation="Sundararajan, Taly, Yan, ICML (2017)",
    applies=lambda score: isinstance(score, HasGradient),
)
class IntegratedGradients(BackgroundExplainer):
    """R_i = (x_i − r_i) ∫₀¹ ∂o/∂x_i(r + t(x − r)) dt, from a reference row r to the row x.

    The base value is the score of the reference; values add up to the difference between the two scores. The
    integral is a Gauss–Legendre sum of `n_steps` gradients. Because the values of any part of the line must
    add up to the difference of the scores at its ends, each part's error is known: parts whose error is too
    large are cut in half and integrated again. What is left after `max_steps` gradients is the residual.

    Training rows of a kernel model are left out of it, as in `OneClassDTD`. Of a network, the output that is
    explained is chosen at the row itself and stays the same along the line.

    Parameters
    ----------
    model
        A model whose score has a gradient, or a `torch.nn.Module` in evaluation mode with inputs of any
        shape.
    target
        The explained output of a network: "max", its number, one number per row, or a function of the
        outputs.
    reference
        Where the line starts: "mean" of the background rows that `fit` was given, "zero", or one row in the
        user's columns. None is the mean where `fit` was called, else zero for a network; anything else needs
        `fit`.
    n_steps
        Gradients per part of the line.
    tolerance
        Largest error of a part, as a share of the difference between the scores of row and reference. By
        default 1e-6, and 0.01 for networks, whose gradients jump.
    max_steps
        Gradients per row, at most (`n_steps` are always computed). By default 1024, and 128 for networks.
    batch_size
        Rows that the model gets per call, at most; None: 32 for a network, else as many as memory allows.
    n_jobs
        Calls of the model at the same time, in threads; −1: one per core. Results do not depend on it.
    device
        Where a network is computed; by default where it is. Elsewhere a copy of it is used.

    Examples
    --------
    >>> from tellwhy.scoring import FunctionScore
    >>> score = FunctionScore(lambda X: X[:, 0] * X[:, 1], gradient=lambda X: X[:, ::-1], describes="x0 · x1")
    >>> IntegratedGradients(score, reference=[0.0, 0.0]).explain(np.array([[3.0, 2.0]])).values.round(9)
    array([[3., 3.]])

    A network, from an empty picture:

    >>> import torch
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2, bias=False)).eval()
    >>> _ = network[1].weight.data.copy_(torch.tensor([[1.0, 2.0, 0.0, -1.0], [0.0, 1.0, 1.0, 0.0]]))
    >>> IntegratedGradients(network, target=0).explain(np.ones((1, 2, 2))).values
    array([[[ 1.,  2.],
            [ 0., -1.]]])
    """

    leaves_rows_out = True
    calls_in_batches = True
    _parameters: ClassVar[dict[str, Rules]] = {
        "target": Rule(
            "'max', an output's number, one per row, or a function", lambda value: value is not None
        ),
        "reference": (
            none,
            one_of("mean", "zero"),
            Rule("one row in the columns of X", lambda row: not isinstance(row, str) and np.ndim(row) > 0),
        ),
        "n_steps": integer(1, 256),
        "tolerance": (none, real(0, 1)),
        "max_steps": (none, integer(1)),
        **BATCH_PARAMETERS,
        "device": (
            none,
            Rule("a device", lambda value: isinstance(value, str) or type(value).__name__ == "device"),
        ),
    }

    def __init__(
        self,
        model: object,
        target: Any = "max",
        *,
        reference: ArrayLike | str | None = None,
        n_steps: int = 16,
        tolerance: float | None = None,
        max_steps: int | None = None,
        batch_size: int | None = None,
        n_jobs: int = 1,
        device: Any = None,
    ):
        super().__init__(model)
        self.target = target
        self.reference = reference
        self.n_steps = n_steps
        self.tolerance = tolerance
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.device = device

    @cached_property
    def score(self) -> ScoreFunction:
        """The score function that is explained."""
        score = as_score(self.model)
        chosen = not isinstance(self.target, str) or self.target != "max"
        if isinstance(score, NetworkOutput):
            if score is self.model and not chosen:  # an output that the user has chosen already
                return score
            return NetworkOutput(score.model, self.target, batch_size=self.network_batch, device=self.device)
        if chosen:
            raise InvalidParameter(
                f"The 'target' parameter of IntegratedGradients chooses an output of a network, and "
                f"{type(self.model).__name__} has one score. Got {self.target!r}; leave it out."
            )
        return score

    @property
    def network_batch(self) -> int:
        """Rows that go through a network at once."""
        return self.batch_size or _NETWORK_BATCH

    def _batched(self, score: Any) -> Any:
        # a network is given its rows in batches already
        return super()._batched(score) if self.n_jobs != 1 or not self._is_of_network() else score

    def fit(self, X: Any) -> Self:
        """Learn the reference, the mean of ordinary rows; inputs of a network are given as to `explain`."""
        if self._is_of_network() and has_parts(self.score.model, X):  # type: ignore[attr-defined]
            self.inputs_ = X
            return self
        return super().fit(X)

    def _fit(self, X: ArrayLike) -> None:
        """Learn the mean of background rows, in the columns that the score sees."""
        self.mean_ = self.rows(X).X.mean(axis=0)

    def _attribute(self, rows: Rows) -> Attribution:
        if not isinstance(rows.score, HasGradient):
            raise lacks(rows.score, "IntegratedGradients", "a gradient (Occlusion explains any score)")
        # a network is used best with whole batches: as many lines at once as their gradients fill one
        together = -(-self.network_batch // self.n_steps) if self._is_of_network() else 1
        lines = Lines(rows.score, rows.X, self._reference_row(rows), rows.without, together)
        found = self.integrated(lines)
        extras = {"n_gradients": found.n_gradients}
        return Attribution(found.values, found.scores, found.base, extras=extras, params=self.used())

    def explain(self, X: Any, *, progress: bool | None = None) -> Any:
        """Explain the score of each row of X.

        Parameters
        ----------
        X
            Rows. Of a network they may be tokens (whole numbers that an `nn.Embedding` takes), or several
            inputs: a tuple, or a dict by the names of forward's arguments. Tokens are explained by the
            vectors that stand for them.
        progress
            Whether to show how far it is; None: on a terminal and in notebooks, after two seconds.

        Returns
        -------
        An `Explanation`; for several inputs one of each, in a tuple or a dict like X. There the residual of
        each is that of the whole, and `base_values` hold what the other inputs got.
        """
        if self._is_of_network() and has_parts(self.score.model, X):  # type: ignore[attr-defined]
            from tellwhy.explainers.gradients.network_inputs import explain_inputs

            validate_parameters(self)
            with shown(progress):
                return explain_inputs(self, X)
        return super().explain(X, progress=progress)

    def integrated(self, lines: Lines) -> Integrated:
        """Integrate along lines: once more, eight times finer, where over 5 % is missing."""
        limits = self._limits()
        # who sets max_steps means it
        most = 8 * limits.max_steps if self.max_steps is None else None
        return integrate_well(lines, self.n_steps, limits, most=most)

    def _is_of_network(self) -> bool:
        return isinstance(self.score, NetworkOutput)

    def _limits(self) -> Limits:
        """How accurate, and how many gradients at most: what was asked for, or what suits the score."""
        usual = _OF_NETWORKS if self._is_of_network() else _USUAL
        return Limits(
            usual.tolerance if self.tolerance is None else self.tolerance,
            usual.max_steps if self.max_steps is None else self.max_steps,
            usual.rounding,
        )

    def used(self) -> dict[str, Any]:
        """Parameters as they were used, and as they can be written down."""
        limits = self._limits()
        used = {
            "tolerance": limits.tolerance,
            "max_steps": limits.max_steps,
            "target": _plain(self.target),
            "device": None if self.device is None else str(self.device),
        }
        if isinstance(self.reference, IsTensor):
            used["reference"] = np.asarray(self.reference.detach().cpu())
        return used

    def _reference_row(self, rows: Rows) -> Floats:
        """Return the reference in the columns that the score sees."""
        reference = self.reference
        if reference is None:  # an empty picture is a picture; a table's row of zeros may be very odd
            reference = "zero" if self._is_of_network() and "mean_" not in vars(self) else "mean"
        if not isinstance(reference, str):
            try:
                return np.asarray(self.rows(np.asarray(reference)[None]).X[0])
            except InvalidInput as error:
                raise InvalidInput(f"reference must be one row in the columns of X: {error}") from error
        if reference == "zero":
            return np.zeros(rows.X.shape[1])
        if "mean_" not in vars(self):
            raise InvalidInput(
                "IntegratedGradients has no reference: call fit(X) with background rows before explain(X), "
                "or pass reference=<one row>."
            )
        return self.mean_


def _plain(target: Any) -> str | int:
    """Target as it can be written down."""
    if isinstance(target, (str, int)):
        return target
    return getattr(target, "__name__", "a function") if callable(target) else "one output per row"
