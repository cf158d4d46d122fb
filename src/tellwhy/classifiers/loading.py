"""`load`: a saved classifier, of whichever class."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.base import ClassifierMixin

from tellwhy.core.errors import UnreadableFile
from tellwhy.core.old_names import takes_old_names
from tellwhy.storage.model_file import SavedModel


@takes_old_names
def load(path: str | Path) -> Any:
    """Read a classifier that its `save` wrote: it gives the same scores, bit for bit.

    Raises `UnreadableFile` for a file that is damaged, of another version, or made up.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from tellwhy.classifiers import WestonWatkinsSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> X = scale(X)
    >>> model = WestonWatkinsSVM(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load(model.save(place + "/iris.tellwhy"))
    >>> bool((again.decision_function(X) == model.decision_function(X)).all())
    True
    """
    model = SavedModel.load(path)
    if not isinstance(model, ClassifierMixin):
        raise UnreadableFile(f"{path} holds a {type(model).__name__}, which is no classifier.")
    return model
