"""The user's rows as the numbers that splits are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.sparse import issparse

from tellwhy.core.errors import InvalidInput
from tellwhy.core.score_function import Floats
from tellwhy.core.tables import Frame, PandasRows, as_floats, check_finite
from tellwhy.scoring.model_rows import check_columns


@dataclass(frozen=True, eq=False)
class TableRows:
    """Rows of a table to numbers.

    Attributes
    ----------
    n_columns, names
        Columns that the model was fitted on.
    single
        Whether the model rounds cells to single precision before it compares them.
    takes_gaps
        Whether cells may be empty (NaN).
    empty
        A number that stands for an empty cell too; NaN: none does.
    categories
        For a column of categories, what its codes 0, 1, … stand for. Frames whose columns are of the category
        type, or text, are coded with it; numbers are taken for codes.
    refuses
        Name of a model that takes no categories but those it was fitted on; of others, they are empty cells.
    """

    n_columns: int
    names: Sequence[str] | None = None
    single: bool = False
    takes_gaps: bool = True
    empty: float = np.nan
    categories: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    refuses: str | None = None

    def __call__(self, X: Any) -> Floats:
        """Return the rows as numbers, or say what is wrong with them."""
        refuse_sparse(X)
        check_columns(X, self.names)
        numbers = self._numbers(_coded(X, self.categories, self.refuses))
        if numbers.shape[1] != self.n_columns:
            raise InvalidInput(
                f"X has {numbers.shape[1]} columns, but the model was fitted on {self.n_columns}."
            )
        if not np.isnan(self.empty):
            numbers = np.where(numbers == self.empty, np.nan, numbers)
        return numbers.astype(np.float32).astype(np.float64) if self.single else numbers

    def _numbers(self, X: Any) -> Floats:
        if not self.takes_gaps:
            return as_floats(X)
        raw = np.asarray(X)
        if raw.dtype.kind not in "fO":
            return as_floats(X)
        try:
            numbers = raw.astype(np.float64)
        except (TypeError, ValueError):
            return as_floats(X)  # says which cell is not a number
        gaps = np.isnan(numbers)
        filled = np.where(gaps, 0.0, numbers)
        if filled.ndim == 2:
            check_finite(filled, self.names)
        return np.where(gaps, np.nan, as_floats(filled))


def refuse_sparse(X: Any) -> None:
    """Raise for a sparse matrix."""
    if issparse(X):
        raise InvalidInput(f"X is a sparse matrix of shape {X.shape}; expected dense rows. Pass X.toarray().")


def dense_rows(X: Any, unstored: float) -> Any:
    """Return a sparse matrix as an array, with `unstored` where it stores nothing; other rows as they are.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> dense_rows(csr_matrix([[0.0, 2.0]]), np.nan)
    array([[nan,  2.]])
    """
    if not issparse(X):
        return X
    stored = X.tocoo()
    stored.sum_duplicates()
    dense = np.full(X.shape, unstored)
    dense[stored.row, stored.col] = stored.data
    return dense


def _coded(X: Any, categories: Mapping[int, Sequence[Any]], refuses: str | None) -> Any:
    """Return a frame with its categories as codes; a value that the model does not know becomes NaN."""
    if not categories or not isinstance(X, Frame):
        return X
    import pandas as pd

    table: Any = X
    frame = (
        table if isinstance(X, PandasRows) else pd.DataFrame({c: table[c].to_numpy() for c in table.columns})
    )
    columns = []
    for j in range(frame.shape[1]):
        column = frame.iloc[:, j]
        if j in categories and not pd.api.types.is_numeric_dtype(column.dtype):
            codes = _codes(column, categories[j])
            if refuses is not None:
                _refuse_unknown(column, codes, refuses)
            column = pd.Series(codes, index=frame.index, name=column.name)
        columns.append(column)
    return pd.concat(columns, axis=1)


def _codes(column: Any, known: Sequence[Any]) -> Floats:
    import pandas as pd

    codes = pd.Index(known).get_indexer(pd.Index(column.astype(object)))
    return np.where(codes < 0, np.nan, codes.astype(np.float64))


def _refuse_unknown(column: Any, codes: Floats, model: str) -> None:
    """Raise for a value that has no code, unless the cell is empty."""
    unknown = np.flatnonzero(np.isnan(codes) & ~np.asarray(column.isna()))
    if len(unknown):
        raise InvalidInput(
            f"Column {str(column.name)!r} of X holds {str(column.iloc[unknown[0]])!r}, which {model} was not "
            f"fitted on and does not take ({len(unknown):,} such cells). Leave these rows out, or "
            "empty the cells."
        )
