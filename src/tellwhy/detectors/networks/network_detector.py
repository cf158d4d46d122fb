"""What VAE and DAGMM share: an autoencoder whose size is chosen and whose training stops on rows held out."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tellwhy.core.arrays import Scaling, sort_columns
from tellwhy.core.optional import require
from tellwhy.core.params import Rules, Seed, generator, integer, one_of, real, seed
from tellwhy.core.running import choose_device
from tellwhy.core.score import Floats, Integers
from tellwhy.detectors.base import Detector, choose_calibration_rows
from tellwhy.detectors.networks.network_score import Energy, NetworkScore
from tellwhy.detectors.networks.training import (
    Layout,
    Objective,
    Plan,
    Sizes,
    Winner,
    count_steps_in_pass,
    make_stack,
    reorder_columns,
    train,
)

LATENT_SHARES = (0.2, 0.4, 0.6, 0.8)  # of the number of columns: widths of the code that 'auto' compares
HIDDEN_SHARES = (0.5, 1.0, 2.0)  # and widths of the hidden layers
MOST_HELD = 20_000
# Training lasts at most so many passes or steps, whichever is more: a pass over few rows has few steps.
PASSES = 300
LEAST_STEPS = 2_000
# It stops after so many without a gain; a gain shows above the noise only after some hundred steps.
PATIENT_PASSES = 20
LEAST_PATIENT_STEPS = 200

NETWORK_PARAMETERS: dict[str, Rules] = {
    "latent": (one_of("auto"), integer(1)),
    "hidden": (one_of("auto"), integer(1)),
    "learning_rate": real(0, 1),
    "batch_size": integer(1),
    "max_epochs": (one_of("auto"), integer(1)),
    "patience": (one_of("auto"), integer(1)),
    "validation_share": real(0, 1),
    "device": one_of("auto", "cpu", "cuda"),
    "dtype": one_of("float64", "float32"),
    "contamination": real(0, 0.5, closed="right"),
    "random_state": seed,
}


class NetworkDetector(Detector):
    """An autoencoder trained on standardised columns.

    Subclasses say what it is trained for and how rows are scored.
    """

    _parameters: ClassVar[dict[str, Rules]] = NETWORK_PARAMETERS
    latent: str | int
    hidden: str | int
    learning_rate: float
    batch_size: int
    max_epochs: str | int
    patience: str | int
    validation_share: float
    device: str
    dtype: str
    contamination: float
    random_state: Seed

    network_: Mapping[str, Floats]
    scaling_: Scaling

    @property
    @abstractmethod
    def _layout(self) -> Layout:
        """Layers, and the axes that they join."""

    def _fit(self, X: Floats) -> None:
        name = type(self).__name__
        require("torch", f"{name}.fit")
        rng = generator(self.random_state)
        self.scaling_ = self._learned_scaling(X)
        Z = self.scaling_.apply(X)
        shuffled = rng.permutation(len(Z))
        # One row at least on either side, and no more held out than a stable judgement needs.
        n_held = min(max(1, round(self.validation_share * len(Z))), MOST_HELD, len(Z) - 1)
        held = shuffled[:n_held]
        kept = shuffled[n_held:]
        winner = self._trained(Z, kept, held, rng)
        self.latent_ = winner.sizes["latent"]
        self.hidden_ = winner.sizes["hidden"]
        self.validation_losses_ = winner.losses
        self.n_epochs_ = winner.n_epochs
        self._finish(Z[kept], rng)
        self._calibrate(X, kept, held)

    def _trained(self, Z: Floats, kept: Integers, held: Integers, rng: np.random.Generator) -> Winner:
        import torch

        device = choose_device(self.device)
        order = sort_columns(Z)
        candidates = self._candidates(Z.shape[1])
        stack = make_stack(self._layout, candidates, rng, device, torch.float32)
        # Trained in single precision: it is faster, and the noise of batches is larger than its rounding.
        Z32 = torch.tensor(Z[:, order], dtype=torch.float32, device=device)
        rows = Z32[torch.tensor(kept, device=device)], Z32[torch.tensor(held, device=device)]
        winner = train(stack, self._objective(len(held), stack.widths, rng), rows, self._plan(len(kept)), rng)
        self.network_ = reorder_columns(self._layout, winner.arrays, order)
        return winner

    def _candidates(self, d: int) -> list[Sizes]:
        latents = [self.latent] if not isinstance(self.latent, str) else _shares(LATENT_SHARES, d)
        hiddens = [self.hidden] if not isinstance(self.hidden, str) else _shares(HIDDEN_SHARES, d)
        return [{"column": d, "latent": int(a), "hidden": int(b)} for a in latents for b in hiddens]

    def _plan(self, n_kept: int) -> Plan:
        """Return how to train; on small tables 'auto' goes through the rows more often, for as many steps."""
        n_steps = count_steps_in_pass(n_kept, self.batch_size)
        enough = max(PASSES, math.ceil(LEAST_STEPS / n_steps))
        patient = max(PATIENT_PASSES, math.ceil(LEAST_PATIENT_STEPS / n_steps))
        return Plan(
            self.learning_rate,
            self.batch_size,
            max_epochs=enough if isinstance(self.max_epochs, str) else self.max_epochs,
            patience=patient if isinstance(self.patience, str) else self.patience,
            label=f"training {type(self).__name__}",
        )

    def _calibrate(self, X: Floats, kept: Integers, held: Integers) -> None:
        """Score the training rows as if they were new, and set the threshold."""
        self.training_scores_ = score_as_if_new(self.to_score(), X, kept, held)
        self.set_threshold(contamination=self.contamination)

    def _learned_scaling(self, X: Floats) -> Scaling:
        return Scaling.of(X)

    @abstractmethod
    def _objective(self, n_held: int, widths: Mapping[str, int], rng: np.random.Generator) -> Objective:
        """Return what the networks are trained for."""

    def _finish(self, Z: Floats, rng: np.random.Generator) -> None:
        """Learn what else a score needs, from the scaled rows that the network was trained on."""

    def _make_network_score(self, energy: Energy, *, row_floats: int, **more: Any) -> NetworkScore:
        """Return a score that the fitted network computes."""
        settings = {"scaling": self.scaling_, "device": self.device, "dtype": self.dtype, **more}
        return NetworkScore(energy, self.network_, row_floats=row_floats, **settings)

    @abstractmethod
    def to_score(self) -> NetworkScore:
        """Return the outlierness as a score function."""


def score_as_if_new(score: NetworkScore, X: Floats, kept: Integers, held: Integers) -> Floats:
    """Scores of the training rows as if each were new.

    Rows that were held out are new to the network. Rows that it learned from score too low, but their order
    is right: each takes the score of the held-out rows at the same rank.
    """
    some = kept[choose_calibration_rows(len(kept))]
    new = score.value(X[held])
    known = score.value(X[some])
    levels = (np.argsort(np.argsort(known, kind="stable")) + 0.5) / len(known)
    return np.concatenate([new, np.quantile(new, levels)])


def _shares(shares: tuple[float, ...], d: int) -> list[int]:
    return sorted({max(1, round(share * d)) for share in shares})
