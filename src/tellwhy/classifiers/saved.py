"""Saving and loading, as every classifier does it."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from tellwhy.core.errors import UnreadableFile


class Saved:
    """A classifier that can be written to a folder and read again."""

    def save(self, folder: str | Path) -> Path:
        """Write the fitted model to a folder (JSON and arrays, no pickle); `tellwhy.classifiers.load` reads it."""
        from tellwhy.classifiers.model_io import save

        return save(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a model of this class that `save` wrote: it gives the same scores, bit for bit."""
        from tellwhy.classifiers.model_io import load

        model = load(folder)
        if not isinstance(model, cls):
            raise UnreadableFile(f"{folder} holds a {type(model).__name__}, not a {cls.__name__}.")
        return model
