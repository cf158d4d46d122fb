"""A trained model to disk, some classes at a time: no process ever holds all its weights."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.classifiers.model_io import KIND
from tellwhy.classifiers.svm import weights
from tellwhy.classifiers.svm.base import MulticlassSVM
from tellwhy.storage.documents import ARRAYS
from tellwhy.storage.files import private_folder


def write_model(model: MulticlassSVM, blocks: Iterable[Any], folder: Path) -> None:
    """Write a model whose weights come in blocks of classes × features, the intercept's feature last."""
    shape = model.coef_.shape
    with private_folder(folder) as place:
        spool = Spool(place, model.coef_.dtype)
        intercepts = [spool.append(block, has_intercept=model.fit_intercept) for block in blocks]
        if model.fit_intercept:
            model.intercept_ = np.concatenate(intercepts) * model.intercept_scaling
        is_sparse = shape[0] * shape[1] >= weights.SPARSE_FROM and spool.density(shape) < weights.SPARSE_BELOW
        model.coef_ = (
            sparse.csr_array(shape, dtype=spool.dtype) if is_sparse else _nothing(shape, spool.dtype)
        )
        head, arrays = KIND.taken_apart(model)
        streams = spool.as_sparse() if is_sparse else {"coef_": spool.as_dense(shape)}
        with KIND.format.new_folder(folder) as work:
            KIND.format.write_head(work, head)
            _write_npz(work / ARRAYS, arrays, streams)


def _nothing(shape: tuple[int, int], dtype: Any) -> Any:
    """Stand for a dense array of this shape, without its memory."""
    return np.broadcast_to(np.zeros((), dtype=dtype), shape)


@dataclass(frozen=True)
class Stream:
    """An array that is read piece by piece."""

    shape: tuple[int, ...]
    dtype: Any
    pieces: Iterable[Any]


@dataclass
class Spool:
    """Weights that are not zero, in files."""

    place: Path
    dtype: Any
    at: list[int] = field(default_factory=lambda: [0])  # where the entries of each class begin and end

    def append(self, block: Any, *, has_intercept: bool) -> Any:
        """Take the weights of some classes more; returns their intercepts."""
        block = sparse.csr_array(block).astype(self.dtype)
        last = block[:, [-1]].toarray().ravel() if has_intercept else None
        block = sparse.csr_array(block[:, :-1]) if has_intercept else block
        block.eliminate_zeros()
        block.sort_indices()
        with ExitStack() as files:
            for name, values in (("data", block.data), ("indices", block.indices.astype(np.int32))):
                values.tofile(files.enter_context((self.place / name).open("ab")))
        self.at += (self.at[-1] + block.indptr[1:]).tolist()
        return last

    def density(self, shape: tuple[int, int]) -> float:
        """Share of weights that are not zero."""
        return float(self.at[-1] / (shape[0] * shape[1]))

    def as_sparse(self) -> dict[str, Stream]:
        """The parts of a CSR matrix."""
        n = self.at[-1]
        kind = np.int32 if n < 2**31 else np.int64
        indptr = np.array(self.at, dtype=kind)
        return {
            "coef_.data": Stream((n,), self.dtype, self._pieces("data", self.dtype)),
            "coef_.indices": Stream((n,), kind, (p.astype(kind) for p in self._pieces("indices", np.int32))),
            "coef_.indptr": Stream(indptr.shape, kind, [indptr]),
        }

    def as_dense(self, shape: tuple[int, int]) -> Stream:
        """The same, class by class."""
        return Stream(shape, self.dtype, self._lines(shape[1]))

    def _pieces(self, name: str, dtype: Any, size: int = 2**20) -> Iterable[Any]:
        with (self.place / name).open("rb") as file:
            while len(piece := np.fromfile(file, dtype=dtype, count=size)):
                yield piece

    def _lines(self, n_features: int) -> Iterable[Any]:
        with (self.place / "data").open("rb") as data, (self.place / "indices").open("rb") as indices:
            for n in np.diff(self.at):
                line = np.zeros(n_features, dtype=self.dtype)
                line[np.fromfile(indices, np.int32, n)] = np.fromfile(data, self.dtype, n)
                yield line


def _write_npz(path: Path, arrays: dict[str, Any], streams: dict[str, Stream]) -> None:
    """Write arrays to an .npz file, those of `streams` piece by piece."""
    whole = {name: Stream(a.shape, a.dtype, [a]) for name, a in arrays.items() if name not in streams}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        for name, stream in (whole | streams).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                header = {
                    "descr": np.lib.format.dtype_to_descr(np.dtype(stream.dtype)),
                    "fortran_order": False,
                    "shape": stream.shape,
                }
                np.lib.format.write_array_header_1_0(file, header)
                for piece in stream.pieces:
                    file.write(np.ascontiguousarray(piece, dtype=stream.dtype).tobytes())
