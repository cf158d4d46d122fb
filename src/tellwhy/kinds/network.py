"""Networks as a kind: what a network says of pictures or a text, and which parts of them make it say so."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tellwhy.core.errors import CannotWrite, InvalidParameter
from tellwhy.core.params import Fit, are_texts
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats
from tellwhy.kinds.model import change_settings, kind
from tellwhy.kinds.networks.inputs import read_labels
from tellwhy.kinds.networks.loading import EXPORT, EXPORTED, LoadedNetwork, load_network
from tellwhy.kinds.networks.network import Case, NetworkRequest, explain_case, find_methods, read_case
from tellwhy.results.network_run import as_result
from tellwhy.results.result import Result
from tellwhy.storage.model_file import SavedAsFile

CHANGEABLE = ("method", "target", "check", "batch_size", "random_state")


@dataclass(frozen=True, eq=False)
class NetworkModel(SavedAsFile):
    """A network, and how its outputs are explained.

    Attributes
    ----------
    source
        What was named: an archive of `torch.export.save`, or "module:function".
    request
        What was asked.
    labels
        Names of the classes, where they were told.
    archive
        The bytes of the archive; none of a network that code makes, which no file can hold.
    """

    kind: ClassVar[str] = "network"

    source: str
    request: NetworkRequest
    labels: tuple[str, ...]
    archive: NDArray[np.uint8]

    @cached_property
    def loaded(self) -> LoadedNetwork:
        """The network itself."""
        if not len(self.archive):
            return load_network(self.source)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"network{EXPORTED}"
            path.write_bytes(self.archive.tobytes())
            return load_network(str(path))

    def save(self, path: str | Path) -> Path:
        """Write an exported network to one file, which `tellwhy.load` reads without unpickling."""
        if not len(self.archive):
            raise CannotWrite(
                f"{self.source} is made by code, which is not written to files. Export the network, "
                f"{EXPORT}, and fit the archive."
            )
        return super().save(path)

    def _require(self) -> Iterator[Fit]:
        yield "request", isinstance(self.request, NetworkRequest), True
        yield "archive", self.archive.dtype == np.uint8 and self.archive.ndim == 1, True
        yield "archive", len(self.archive) > 0, True
        yield "source", are_texts(self.source, *self.labels), True


@kind("network")
class NetworkKind:
    """Outputs of a network: which parts of an input they come from, and how far that can be trusted."""

    def fit(self, source: Any, settings: Mapping[str, Any], *, clean: bool) -> NetworkModel:  # noqa: ARG002
        """Load a network; it has learned already."""
        unknown = sorted(set(settings) - {field.name for field in fields(NetworkRequest)})
        if unknown:
            raise InvalidParameter(f"Networks have no setting {unknown[0]!r}.")
        request = NetworkRequest(**settings)
        find_methods(request.method)
        labels = () if request.labels is None else tuple(read_labels(Path(request.labels)))
        path = Path(str(source))
        stage("loading the network")
        loaded = load_network(str(source))
        is_archive = path.suffix.lower() == EXPORTED
        archive = np.fromfile(path, dtype=np.uint8) if is_archive else np.empty(0, dtype=np.uint8)
        model = NetworkModel(str(source), _name_files(request), labels, archive)
        model.__dict__["loaded"] = loaded  # it need not be read again
        return model

    def read(self, model: NetworkModel, source: Any, settings: Mapping[str, Any]) -> Case:
        """Read pictures or a text, and apply the network to them."""
        request = replace(model.request, **change_settings(model.request, settings, CHANGEABLE))
        return read_case(model.source, model.loaded, model.labels, str(source), request)

    def check(self, model: NetworkModel, batch: Case) -> Case:  # noqa: ARG002
        """Inputs were checked as they were read."""
        return batch

    def score(self, model: NetworkModel, batch: Case) -> Floats:  # noqa: ARG002
        """The output that is explained, of each input."""
        target = batch.outputs.target(batch.request.target)
        values = batch.outputs.values
        return np.asarray(values.max(axis=1) if target == "max" else values[:, target])

    def explain(self, model: NetworkModel, batch: Case, scores: Floats) -> Result:  # noqa: ARG002
        """Share each output out among the parts of its input; nothing is an alarm."""
        return as_result(explain_case(batch), scores)


def _name_files(request: NetworkRequest) -> NetworkRequest:
    """The request with files by their names, as a model file holds them."""
    how = request.preparation
    vocabulary = None if how.vocabulary is None else str(how.vocabulary)
    labels = None if request.labels is None else str(request.labels)
    return replace(request, labels=labels, preparation=replace(how, vocabulary=vocabulary))
