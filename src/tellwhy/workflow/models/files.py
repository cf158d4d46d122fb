"""`save` and `load`: any fitted model as one file of JSON and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.core.storage.folders import Arrays, Misfit, at_key
from tellwhy.core.storage.model_file import (
    HEAD,
    check_finite,
    read_model_file,
    unfit,
    write_model_file,
)
from tellwhy.core.storage.saved_models import SavedKind
from tellwhy.core.storage.values import Decoder, Encoder
from tellwhy.workflow.models.model_parts import model_parts
from tellwhy.workflow.models.table_model import TableModel

TABLE = "model of a table"


def save(model: Any, path: str | Path) -> Path:
    """Write a fitted model to one file: JSON and arrays, no pickle; `load` reads it.

    Parameters
    ----------
    model
        What `fit_model` learned from a table, or a fitted detector, kernel basis or classifier of tellwhy.
    path
        The file, by custom with the ending .tellwhy; it is replaced if it is there.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from tellwhy.detectors import KernelDensity
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> detector = KernelDensity().fit(X)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(save(detector, place + "/density.tellwhy"))
    >>> bool((again.outlierness(X) == detector.outlierness(X)).all())
    True
    """
    target = Path(path)
    if isinstance(model, TableModel):
        encoder = Encoder(model_parts(), TABLE)
        held = encoder.encoded(model, "model")
        return write_model_file(target, {"what": TABLE, "is": held}, encoder.arrays)
    for name, kind in _kinds().items():
        known = kind.models().get(type(model).__name__)
        if known is not None and known.cls is type(model):
            head, arrays = kind.taken_apart(model)
            return write_model_file(target, {"what": name, **head}, arrays)
    raise CannotWrite(
        f"A {type(model).__name__} cannot be saved; expected what `fit_model` returns, or a fitted "
        f"{', '.join(_kinds())} of tellwhy. Nothing was written."
    )


def load(path: str | Path) -> Any:
    """Read a model that `save` wrote: it gives the same numbers, bit for bit.

    Nothing in the file is executed, and it cannot ask for more memory than it takes on the disk. A file that
    is damaged, made up or of another version raises `UnreadableFile`.
    """
    place = Path(path)
    head, arrays = read_model_file(place)
    check_finite(place, arrays)
    what = head.get("what")
    try:
        if what == TABLE:
            return _table_model(head, arrays)
        kind = _kinds().get(what) if isinstance(what, str) else None
        if kind is None:
            raise UnreadableFile(f"{place} holds {what!r}, which this version of tellwhy cannot read.")
        with at_key(HEAD):
            return kind.put_together(head, arrays)
    except Misfit as misfit:
        raise unfit(place, str(what), misfit) from misfit


def load_table_model(path: str | Path) -> TableModel:
    """Read a model of a table, or raise `UnreadableFile`."""
    model = load(path)
    if not isinstance(model, TableModel):
        raise UnreadableFile(
            f"{path} holds a {type(model).__name__}; expected a model of a table. Make one with "
            f"`tellwhy fit data.csv --save {Path(path).name}`."
        )
    return model


def _table_model(head: Mapping[str, Any], arrays: Arrays) -> TableModel:
    with at_key("is"):
        found = Decoder(model_parts(), TABLE, arrays).decoded(head["is"], "is")
    if not isinstance(found, TableModel):
        raise Misfit("it is no model of a table", "is")
    return found


def _kinds() -> dict[str, SavedKind]:
    """Every kind of estimator that can be saved, by its name."""
    from tellwhy.bases import basis_io
    from tellwhy.classifiers import model_io as classifier_io
    from tellwhy.detectors import model_io as detector_io

    kinds = (detector_io.KIND, basis_io.KIND, classifier_io.KIND)
    return {kind.what: kind for kind in kinds}
