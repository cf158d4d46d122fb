"""Models of XGBoost and LightGBM from the files that they were saved to; neither library is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tellwhy.core.errors import UnreadableFile
from tellwhy.explainers.trees.formats import of_lightgbm, of_xgboost, ubjson
from tellwhy.explainers.trees.model import Trees

_EXPECTED = (
    "Expected what `save_model` of XGBoost (.json, .ubj) or LightGBM (.txt) wrote. Save the model so, "
    "or pass it itself."
)


def saved_model(path: str | Path) -> Trees:
    """Return the trees of a saved model, told apart by how the file begins."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise UnreadableFile(f"The model file {str(path)!r} cannot be read ({error.strerror}).") from error
    try:
        return _read(content)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise UnreadableFile(
            f"{str(path)!r} is no model of trees ({type(error).__name__}: {error}). {_EXPECTED}"
        ) from error


def _read(content: bytes) -> Trees:
    if content.startswith(b"tree\n"):
        return of_lightgbm.read(content.decode())
    if not content.startswith(b"{"):
        raise ValueError("it begins like none")
    # JSON goes on with a quotation mark; in UBJSON a letter tells the type of the first name's length
    is_json = content[1:].lstrip()[:1] == b'"'
    saved: Any = json.loads(content) if is_json else ubjson.decode(content)
    return of_xgboost.read(saved)
