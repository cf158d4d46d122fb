"""`save` and `load`: any fitted model as one file of JSON and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from tellwhy.core.errors import CannotWrite, UnreadableFile
from tellwhy.kinds.model_parts import model_parts
from tellwhy.kinds.table_model import TableModel
from tellwhy.storage.codec import Decoder, Encoder, Parts
from tellwhy.storage.documents import Arrays, Misfit, at_key
from tellwhy.storage.model_file import HEAD, check_finite, read_model_file, unfit, write_model_file
from tellwhy.storage.saved_models import SavedKind
from tellwhy.storage.sklearn_classes import PARTS as SKLEARN_PARTS, is_known

TABLE = "model of a table"
EXPLAINER = "explainer"
SKLEARN = "model of scikit-learn"


def save(model: Any, path: str | Path) -> Path:
    """Write a fitted model to one file: JSON and arrays, no pickle; `load` reads it.

    Parameters
    ----------
    model
        What `fit_model` learned from a table; a fitted detector, kernel basis, classifier or explainer of
        tellwhy; or a fitted model, transform or pipeline of scikit-learn (`docs/fit-once.md` lists them).
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
        return _write(target, TABLE, model_parts(), model)
    for name, kind in _kinds().items():
        known = kind.models().get(type(model).__name__)
        if known is not None and known.cls is type(model):
            head, arrays = kind.taken_apart(model)
            return write_model_file(target, {"what": name, **head}, arrays)
    if is_known(model):
        check_is_fitted(model)
        return _write(target, SKLEARN, SKLEARN_PARTS, model)
    if _is_explainer(model):
        return _write(target, EXPLAINER, _explainer_parts(), model)
    raise CannotWrite(
        f"A {type(model).__name__} cannot be saved; expected what `fit_model` returns, a fitted "
        f"{', '.join(_kinds())} or explainer of tellwhy, or a model of scikit-learn that docs/fit-once.md "
        "lists. Nothing was written."
    )


def _write(path: Path, what: str, parts: Parts, model: Any) -> Path:
    encoder = Encoder(parts, what)
    held = encoder.encoded(model, "model")
    # What scikit-learn keeps inside is its own affair, and changes: the file says whose it is.
    told = {} if what == TABLE else {"scikit-learn": version("scikit-learn")}
    return write_model_file(path, {"what": what, **told, "is": held}, encoder.arrays)


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
        if what in (SKLEARN, EXPLAINER):
            _check_version(place, head)
            parts = SKLEARN_PARTS if what == SKLEARN else _explainer_parts()
            with at_key("is"):
                return Decoder(parts, str(what), arrays).decoded(head["is"], "is")
        kind = _kinds().get(what) if isinstance(what, str) else None
        if kind is None:
            raise UnreadableFile(f"{place} holds {what!r}, which this version of tellwhy cannot read.")
        with at_key(HEAD):
            return kind.put_together(head, arrays)
    except Misfit as misfit:
        raise unfit(place, str(what), misfit) from misfit


def _check_version(path: Path, head: Mapping[str, Any]) -> None:
    """Raise where the file holds what another version of scikit-learn keeps inside its models."""
    got = str(head.get("scikit-learn"))
    here = version("scikit-learn")
    if got.split(".")[:2] != here.split(".")[:2]:
        raise UnreadableFile(
            f"{path} was saved with scikit-learn {got}; this is {here}, which keeps other things inside its "
            "models. Fit the model again, or install the version that it was saved with."
        )


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


def _is_explainer(model: Any) -> bool:
    from tellwhy.kinds.explainer_parts import explainer_classes

    return explainer_classes().get(type(model).__name__) is type(model)


def _explainer_parts() -> Parts:
    """Loaded when one is met: models of tables do without."""
    from tellwhy.kinds.explainer_parts import explainer_parts

    return explainer_parts()


def _kinds() -> dict[str, SavedKind]:
    """Every kind of estimator that can be saved, by its name."""
    from tellwhy.bases import basis_io
    from tellwhy.classifiers import model_io as classifier_io
    from tellwhy.detectors import model_io as detector_io

    kinds = (detector_io.KIND, basis_io.KIND, classifier_io.KIND)
    return {kind.what: kind for kind in kinds}
