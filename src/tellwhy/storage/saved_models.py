"""Fitted estimators on disk: a JSON head (class, parameters, what was learned) and `arrays.npz`.

A folder of the package declares a `SavedKind`: which of its classes can be saved, and which parts they are
made of. Saving and loading are then the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.core.old_names import TakesOldNames, warned_names
from tellwhy.storage.codec import HALVES, Decoder, Encoder, Part, Parts, halves, put_together
from tellwhy.storage.documents import ARRAYS, Arrays, Format, Misfit, at_key


@dataclass(frozen=True)
class SavedKind:
    """One kind of estimator that can be saved.

    Attributes
    ----------
    what
        'detector', 'basis', …: the head is <what>.json.
    models
        Gives the classes that can be saved, by name. It is called when they are needed, because a catalogue
        may have grown in the meantime.
    parts
        Everything else that such a model may be made of, by name.
    """

    what: str
    models: Callable[[], Parts]
    parts: Parts

    @property
    def format(self) -> Format:
        """What its folder holds."""
        keys: Mapping[str, tuple[type, ...]] = {self.what: (str,), "params": (dict,), "learned": (dict,)}
        return Format(f"a saved {self.what}", f"{self.what}.json", keys)

    def save(self, model: Any, folder: str | Path) -> Path:
        """Write a fitted estimator, whole or not at all."""
        head, arrays = self.taken_apart(model)
        return self.format.write(Path(folder), head, arrays)

    def taken_apart(self, model: Any) -> tuple[dict[str, Any], Arrays]:
        """Return what a head says of a fitted estimator, and its arrays."""
        check_is_fitted(model)
        name = type(model).__name__
        part = self.models().get(name)
        if part is None or part.cls is not type(model):
            raise CannotWrite(f"{name} is not a registered {self.what}, so that no file could bring it back.")
        kept = halves(model if part.written is None else part.written(model))
        encoder = Encoder(self.parts, self.what)
        # Arrays of parameters are named 'params.…'; those that were learned have no prefix.
        told = {key: encoder.encoded(value, f"params.{key}") for key, value in kept["params"].items()}
        learned = {key: encoder.encoded(value, key) for key, value in kept["learned"].items()}
        return {self.what: name, "params": told, "learned": learned}, encoder.arrays

    def check_place(self, folder: str | Path) -> None:
        """Raise now if a model could not be written there: before training, not after."""
        self.format.check_place(Path(folder))

    def load(self, folder: str | Path) -> Any:
        """Read an estimator that `save` wrote.

        Raises `UnreadableFile` for a folder that is damaged, of another version or made up.
        """
        place = Path(folder)
        head, arrays = self.format.read(place)
        _check_numbers(place / ARRAYS, arrays)
        try:
            return self.put_together(head, arrays)
        except Misfit as misfit:
            raise UnreadableFile(
                f"{place} does not hold a working {head[self.what]}: in {self.format.head}, key "
                f"{misfit.key!r}, {misfit.why}."
            ) from misfit

    def put_together(self, head: Mapping[str, Any], arrays: Arrays) -> Any:
        """Return the estimator that `taken_apart` was given; raise `Misfit` for what is damaged."""
        name = head[self.what]
        part = self.models().get(name)
        if part is None:
            raise Misfit(f"it names {name!r}, which is no {self.what} of tellwhy", self.what)
        return _working(part, head, Decoder(self.parts, self.what, arrays))


def _working(part: Part, head: Mapping[str, Any], decoder: Decoder) -> Any:
    """Return the estimator that a head describes, after checking that its parts fit together."""
    fields = {half: decoder.decoded_items(head[half], half) for half in HALVES}
    model = put_together(part.cls, fields)
    with at_key("learned"):
        check_is_fitted(model)
        part.check(model, "learned")
    return model


def _check_numbers(path: Path, arrays: Mapping[str, Any]) -> None:
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf" or not np.isfinite(array).all():
            raise UnreadableFile(f"{path} holds something else than finite numbers in {name!r}.")


class SavedModel(TakesOldNames):
    """An estimator that is written to a folder and read again; its parameters may go by their old names."""

    _model_io: ClassVar[str]  # the module that declares its `KIND`; loaded when first needed

    def save(self, folder: str | Path) -> Path:
        """Write the fitted model to a folder (JSON and arrays, no pickle); `load` reads it."""
        place: Path = import_module(self._model_io).KIND.save(self, folder)
        return place

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model of this class that `save` wrote: it gives the same numbers, bit for bit."""
        model = import_module(cls._model_io).KIND.load(folder)
        if not isinstance(model, cls):
            raise UnreadableFile(f"{folder} holds a {type(model).__name__}, not a {cls.__name__}.")
        return model

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn's estimators do."""
        return super().set_params(**warned_names(type(self), params))  # type: ignore[misc]
