"""The models that are served: read when the service starts, or is told to read them again."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException

from tellwhy.core.errors import InvalidParameter, TellwhyError
from tellwhy.kinds.table_model import TableModel
from tellwhy.storage.documents import make_plain
from tellwhy.storage.model_file import load

LOG = logging.getLogger("tellwhy.service")
KINDS = ("table", "events", "series", "texts")  # whose rows can stand in a request
SHORT = 12  # digits of a checksum that tell versions apart


@dataclass(frozen=True)
class Served:
    """One model: its name, its file, and the version of its content."""

    name: str
    path: Path
    version: str
    model: Any

    @classmethod
    def read(cls, name: str, path: Path) -> Served:
        """Read a model from its file."""
        model = load(path)
        kind = getattr(model, "kind", None)
        if kind not in KINDS:
            raise InvalidParameter(
                f"{path} holds a {kind or type(model).__name__}, which cannot be served; expected a model of "
                f"{', '.join(KINDS)}, as `tellwhy fit` saves it."
            )
        version = hashlib.sha256(path.read_bytes()).hexdigest()[:SHORT]
        # Where it lay on this machine is nobody else's business.
        return cls(name, path, version, replace(model, source=Path(model.source).name))

    @property
    def table(self) -> TableModel:
        """The model, where it is one of rows; raise for others, which cannot be asked this."""
        if not isinstance(self.model, TableModel):
            raise HTTPException(
                422, f"{self.name} is a model of {self.model.kind}: ask /v1/judge, which takes any model."
            )
        return self.model

    @property
    def columns(self) -> list[str]:
        """Columns that rows must have, in their order; of other kinds than tables they are not listed."""
        if not isinstance(self.model, TableModel):
            return []
        return list(dict.fromkeys([*self.model.encoder.columns_, *self.model.by_roles]))

    def card(self) -> dict[str, Any]:
        """What is known of the model: its columns, what it was fitted to, how it judges."""
        told = {"name": self.name, "ready": True, "kind": self.model.kind, "version": self.version}
        if not isinstance(self.model, TableModel):
            return {**told, "source": self.model.source, "columns": []}
        model = self.model
        needed = set(self.columns)
        columns = [
            {"name": name, "kind": role.kind, "read_as": role.words, "is_needed": name in needed}
            for name, role in {**model.roles, **model.by_roles}.items()
        ]
        fitted = {
            "source": model.source,
            "n_rows": model.n_rows,
            "is_clean": model.is_clean,
            "fingerprint": model.fingerprint,
            "seen": {name: _seen(each) for name, each in model.seen.items()},
        }
        return {
            **told,
            "columns": columns,
            "fitted_to": make_plain(fitted),
            "detector": model.words,
            "threshold": model.threshold,
            "threshold_rule": model.rule,
            "methods": ["auto"],
            "n_marks": len(model.marks),
            "versions": dict(model.versions),
        }


def _seen(column: Any) -> dict[str, Any]:
    """What a column held, without its labels: they are data."""
    told = {"kind": column.kind, "n": column.n, "n_missing": column.n_missing}
    if column.labels is not None:
        return {**told, "n_labels": len(column.labels) + column.n_more}
    return {**told, "low": column.low, "high": column.high} if column.has_range else told


class Shelf:
    """Models by their names, which are those of their files unless told."""

    def __init__(self, places: Mapping[str, Path]) -> None:
        self.places = dict(places)
        self._served = {name: Served.read(name, path) for name, path in self.places.items()}

    @property
    def names(self) -> list[str]:
        """Names of all models."""
        return list(self._served)

    def find(self, name: str | None) -> Served:
        """Return a model by its name; without a name, the only one there is."""
        if name is None and len(self._served) == 1:
            return next(iter(self._served.values()))
        if name is None:
            raise HTTPException(422, f"Say which model is meant, by 'model': {', '.join(self._served)}.")
        if name not in self._served:
            known = ", ".join(self._served)
            raise HTTPException(404, f"There is no model {name[:80]!r}. There are: {known}.")
        return self._served[name]

    def reload(self) -> list[str]:
        """Read all files again; requests in progress keep the models they began with.

        A file that cannot be read leaves the model that is there. Returns the names that changed.
        """
        changed = []
        for name, path in self.places.items():
            try:
                new = Served.read(name, path)
            except (TellwhyError, OSError) as error:
                LOG.error("%s was not read again: %s", name, error)
                continue
            if new.version != self._served[name].version:
                self._served[name] = new
                changed.append(name)
        return changed


def places_of(files: Sequence[str]) -> dict[str, Path]:
    """Names and files of models: 'orders.tellwhy', or 'orders=models/2026-01.tellwhy'."""
    found: dict[str, Path] = {}
    for told in files:
        before = told.rpartition("=")[0]
        is_named = bool(before) and "/" not in before
        place = Path(told[len(before) + 1 :] if is_named else told)
        name = before if is_named else place.name.partition(".")[0]
        if name in found:
            raise InvalidParameter(f"Two models are named {name!r}; name one otherwise: NAME=FILE.")
        found[name] = place
    return found
