"""What to train, on which file, and where to put it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tellwhy.classifiers.svm.lee_lin_wahba import LeeLinWahbaSVM, OneVsRestSVM
from tellwhy.classifiers.svm.multiclass_svm import MulticlassSVM
from tellwhy.classifiers.svm.problem import PAIR_LOSSES
from tellwhy.classifiers.svm.training.files import check_is_file, is_table
from tellwhy.classifiers.svm.weston_watkins import CrammerSingerSVM, WestonWatkinsSVM
from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.params import integer, none, one_of, real, validate_value
from tellwhy.storage.folders import find_standing
from tellwhy.storage.model_file import check_place

ESTIMATORS: dict[str, type[MulticlassSVM]] = {
    "ww": WestonWatkinsSVM,
    "cs": CrammerSingerSVM,
    "llw": LeeLinWahbaSVM,
    "ovr": OneVsRestSVM,
}


@dataclass(frozen=True)
class Job:
    """What to train, on which file, and where to put it."""

    data: str
    out: str
    loss: str = "ww"
    C: float = 1.0
    tol: float = 1e-3
    max_epochs: int = 1000
    ranks: int = 1
    threads: int = 1
    dtype: str = "float64"
    fit_intercept: bool = True
    scale: bool = False
    label: str | None = None
    seed: int = 0
    checkpoint_every: int = 20
    resume: bool = False
    quiet: bool = False
    # Over ranks (ww, cs): parts that the features are cut into, 1, 2, 4 or 8; None: as rows have entries for.
    feature_parts: int | None = None
    # File of a model that is only a part of what goes to `out`; the checkpoint stays beside `out`.
    aside: str | None = None

    @property
    def checkpoint(self) -> Path:
        """Folder of the checkpoint, beside the model."""
        return Path(self.out).with_name(Path(self.out).name + "-checkpoint")

    def check(self) -> None:
        """Raise now what can be known before any training."""
        self.validate()
        if self.label is not None and not is_table(Path(self.data)):
            raise InvalidParameter(
                f"--label names a column of a table (CSV, Parquet, …). Got {self.data}, whose labels have "
                "their own place: leave out --label."
            )
        check_is_file(Path(self.data))
        check_place(self.out)  # a file that cannot be written is told before hours of training, not after

    def validate(self) -> None:
        """Check all settings."""
        self._validate_values()
        if self.scale and not is_table(Path(self.data)):
            raise InvalidParameter(
                f"Only the columns of tables can be scaled (CSV, Parquet, …). Got {self.data}: scale its "
                "values before, and leave out --scale."
            )
        if self.resume and not find_standing(self.checkpoint).is_dir():
            raise InvalidInput(f"There is no checkpoint {self.checkpoint} to resume from.")

    def _validate_values(self) -> None:
        owner = "fit-svm"
        validate_value(owner, "loss", self.loss, one_of(*ESTIMATORS))
        validate_value(owner, "c", self.C, real(0))
        validate_value(owner, "tol", self.tol, real(0))
        for name in ("max_epochs", "ranks", "threads", "checkpoint_every"):
            validate_value(owner, name, getattr(self, name), integer(1))
        validate_value(owner, "dtype", self.dtype, one_of("float64", "float32"))
        validate_value(owner, "seed", self.seed, integer(0))
        validate_value(owner, "feature_parts", self.feature_parts, (none, one_of(1, 2, 4, 8)))
        if self.feature_parts is not None and self.loss not in PAIR_LOSSES:
            raise InvalidParameter(
                "--feature-parts goes with --loss ww and cs: ranks of the other losses cut classes alone. "
                f"Got --loss {self.loss}: leave out --feature-parts."
            )

    @property
    def scaling(self) -> str | None:
        """How the columns of a table are scaled; without an intercept nothing could make up for the means."""
        if not self.scale:
            return None
        return "centred" if self.fit_intercept else "plain"

    def make_estimator(self) -> MulticlassSVM:
        """Return an estimator of these settings that is not fitted yet."""
        return ESTIMATORS[self.loss](
            C=self.C,
            tol=self.tol,
            max_epochs=self.max_epochs,
            fit_intercept=self.fit_intercept,
            dtype=self.dtype,
            random_state=self.seed,
        )

    @property
    def way_on(self) -> str:
        """How to go on with a training that was stopped."""
        head = find_standing(self.checkpoint) / "checkpoint.json"
        if not head.is_file():
            return "There is no checkpoint yet; a smaller --checkpoint-every writes one sooner."
        epochs = json.loads(head.read_text(encoding="utf-8"))["epochs"]
        return f"The checkpoint {self.checkpoint} holds epoch {epochs}: run the same command with --resume."
