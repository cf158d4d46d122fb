"""The one result type: what each feature contributed to each score, and what was left over."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tellwhy.core.arrays import Frame, PandasRows, take_rows
from tellwhy.core.errors import InvalidInput
from tellwhy.core.explanation_parts import (
    ByLabel,
    Extras,
    columns_of,
    is_per_row,
    joined,
    of_class,
    some_columns,
    tokens_of,
)
from tellwhy.core.optional import require
from tellwhy.core.score import Floats

if TYPE_CHECKING:
    import pandas as pd


# A name, not an import: `storage` stands above `core`, and is loaded when an explanation is saved or read.
_STORAGE = "tellwhy.storage.explanations"
KINDS = ("attribution", "sensitivity", "signal", "ranking", "relative", "probability")


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanation:
    """Attributions of n scores to their features.

    For `kind="attribution"`, scores = base_values + Σ values + residual holds exactly: `residual` is what the
    method did not attribute. Other kinds (a gradient, a ranking) have no residual and are not shares of a
    score.

    Parameters
    ----------
    values
        One number per row and feature, shape (n, *feature_shape).
    scores
        The explained numbers, shape (n,), high = anomalous.
    method
        Name of the explainer.
    base_values
        The part of each score that belongs to no feature; zero by default.
    stderr
        Monte-Carlo standard error of `values`, or None for exact methods.
    data
        The explained rows as they were given: a reference, not a copy.
    feature_names
        One name per feature of tabular input.
    params
        Settings of the method; `params["explains"]` says which scalar was explained.
    kind
        'attribution', 'sensitivity', 'signal', 'ranking', 'relative' (how many times what is usual of a
        feature, 1 = as on ordinary rows) or 'probability' (that the feature is wrong).
    extras
        Further results. Arrays and frames have one entry per row and follow slicing; anything else is kept as
        it is. A `Deferred` one is computed when it is first asked for (see `Extras`).

    Examples
    --------
    >>> e = Explanation(values=[[1.0, 2.0], [0.5, 0.0]], scores=[3.5, 0.5], method="Example")
    >>> e.residual
    array([0.5, 0. ])
    >>> e.top(1).scores
    array([3.5])
    """

    values: Floats
    scores: Floats
    method: str
    base_values: Floats = None  # type: ignore[assignment]
    stderr: Floats | None = None
    data: Any = None
    feature_names: Sequence[str] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "attribution"
    extras: Extras = field(default_factory=Extras)

    def __post_init__(self) -> None:
        # The class is frozen; only here may fields be put into their final form.
        values = np.asarray(self.values, dtype=np.float64)
        scores = np.asarray(self.scores, dtype=np.float64)
        base = 0.0 if self.base_values is None else np.asarray(self.base_values, dtype=np.float64)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "scores", scores)
        object.__setattr__(self, "base_values", np.full(scores.shape, base) if np.ndim(base) == 0 else base)
        if self.stderr is not None:
            object.__setattr__(self, "stderr", np.asarray(self.stderr, dtype=np.float64))
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", [str(name) for name in self.feature_names])
        if not isinstance(self.extras, Extras):
            object.__setattr__(self, "extras", Extras(self.extras))
        self._check_shapes()

    def _check_shapes(self) -> None:
        n = len(self.scores)
        if self.kind not in KINDS:
            raise InvalidInput(f"Explanation.kind must be one of {KINDS}. Got {self.kind!r} instead.")
        if self.scores.ndim != 1 or self.values.ndim < 2 or len(self.values) != n:
            raise InvalidInput(
                "Explanation needs scores of shape (n,) and values of shape (n, *feature_shape). "
                f"Got scores {self.scores.shape} and values {self.values.shape}."
            )
        if self.base_values.shape != self.scores.shape:
            raise InvalidInput(
                f"base_values has shape {self.base_values.shape}, scores have {self.scores.shape}."
            )
        if self.stderr is not None and self.stderr.shape != self.values.shape:
            raise InvalidInput(f"stderr has shape {self.stderr.shape}, values have {self.values.shape}.")
        if self.feature_names is not None and len(self.feature_names) != self.values.shape[1]:
            raise InvalidInput(
                f"There are {len(self.feature_names)} feature names for {self.values.shape[1]} features."
            )
        for name, extra in self.extras.computed().items():
            length = np.shape(extra)[0] if is_per_row(extra) and np.ndim(extra) else n
            if length != n:
                raise InvalidInput(f"extras[{name!r}] is an array of length {length} for {n} rows.")

    @property
    def residual(self) -> Floats | None:
        """What was not attributed to any feature; None where values are not shares of a score."""
        if self.kind != "attribution":
            return None
        return self.scores - self.base_values - self._sum_features()

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one explained input."""
        return self.values.shape[1:]

    def _sum_features(self) -> Floats:
        return np.asarray(self.values.reshape(len(self.values), -1).sum(axis=1))

    def names(self) -> list[str]:
        """Feature names, made up ('x0', 'x1', …) where none were given; one per flattened feature."""
        if self.feature_names is not None and len(self.feature_shape) == 1:
            return list(self.feature_names)
        return [
            "x" + "_".join(str(i) for i in np.unravel_index(k, self.feature_shape))
            for k in range(int(np.prod(self.feature_shape)))
        ]

    def __len__(self) -> int:
        return len(self.scores)

    def __getitem__(self, rows: Any) -> Explanation:
        """Return the explanation of some rows: an int, a slice, a mask or an array of indices.

        `explanation[rows, columns]` takes columns too, by name or place. What the other columns contributed
        becomes part of `base_values`: the rest stays what it was.
        """
        if isinstance(rows, tuple) and len(rows) == 2:
            return some_columns(self[rows[0]], rows[1])
        if isinstance(rows, (int, np.integer)):
            if not -len(self) <= rows < len(self):
                raise IndexError(f"row {rows} of an explanation of {len(self)} rows")
            rows = [int(rows)]  # one row is still an explanation, of one row
        index = np.arange(len(self))[rows]
        return replace(
            self,
            values=self.values[index],
            scores=self.scores[index],
            base_values=self.base_values[index],
            stderr=None if self.stderr is None else self.stderr[index],
            data=None if self.data is None else take_rows(self.data, index),
            extras=self.extras.taken(index),
        )

    @property
    def loc(self) -> ByLabel:
        """Rows by the labels of the data's index: `explanation.loc["order 17"]`; columns after a comma."""
        return ByLabel(self)

    @staticmethod
    def concat(parts: Sequence[Explanation]) -> Explanation:
        """Return explanations of several lots of rows as one.

        Examples
        --------
        >>> e = Explanation(values=[[1.0, 2.0]], scores=[3.0], method="Example")
        >>> len(Explanation.concat([e, e, e]))
        3
        """
        return joined(parts)

    def of_class(self, label: Any) -> Explanation:
        """Return all rows in terms of one class of a classifier of two, whichever each was explained for.

        What speaks for one class speaks as much against the other: values change their sign.
        """
        return of_class(self, label)

    def top(self, k: int = 10) -> Explanation:
        """Return the k highest-scoring rows, highest first; `extras["row"]` tells where they were."""
        order = np.argsort(-self.scores, kind="stable")[:k]  # rows with equal scores stay in their order
        chosen = self[order]
        where = self.extras.get("row", np.arange(len(self)))
        return replace(chosen, extras=chosen.extras | {"row": np.asarray(where)[order]})

    def shares(self) -> Floats:
        """Each value as a part of its row's positive total, between 0 and 1; negative values have no part."""
        flat = np.clip(self.values.reshape(len(self), -1), 0, None)
        largest = flat.max(axis=1, keepdims=True)
        flat = flat / np.where(largest > 0, largest, 1)  # 1e300 + 1e300 must not overflow
        total = flat.sum(axis=1, keepdims=True)
        return np.asarray((flat / np.where(total > 0, total, 1)).reshape(self.values.shape))

    def to_frame(self) -> pd.DataFrame:
        """One line per row: '(score)', '(base)', '(residual)', then one column per feature."""
        import pandas as pd

        columns: dict[str, Any] = {"(score)": self.scores, "(base)": self.base_values}
        if self.residual is not None:
            columns["(residual)"] = self.residual
        index = self.data.index if isinstance(self.data, PandasRows) else None
        head = pd.DataFrame(columns, index=index)
        flat = self.values.reshape(len(self), -1)
        return pd.concat([head, pd.DataFrame(flat, columns=self.names(), index=head.index)], axis=1)

    def to_shap(self) -> Any:
        """Return a `shap.Explanation` for shap's own plots (needs the shap package).

        Its values and base value sum to the score. What was not attributed is a feature of its own there,
        "(not attributed)"; of pictures it is in the base value. Cells are those of the explained columns,
        texts among them as codes, with the texts in `display_data`.
        """
        return _write_shap(self)

    @classmethod
    def from_shap(cls, theirs: Any, *, output: int | None = None, method: str = "shap") -> Explanation:
        """Return what a `shap.Explanation` says; `output` is needed where it holds several."""
        return cls(**_read_shap(theirs, output, method))

    def save(self, folder: str | Path) -> Path:
        """Write the explanation to a folder (JSON, npz, Parquet; never pickle), whole or not at all.

        Of `extras` that are computed when asked for, those are written that have been: ask for them before
        saving.
        """
        place: Path = import_module(_STORAGE).save(self, Path(folder))
        return place

    @classmethod
    def load(cls, folder: str | Path) -> Explanation:
        """Read an explanation that `save` wrote."""
        found: Explanation = import_module(_STORAGE).load(Path(folder))
        return found

    def __repr__(self) -> str:
        head = f"<Explanation by {self.method} ({self.kind}): {len(self)} rows × {self.feature_shape}"
        return f"{head}, of {self.params.get('explains', 'a score')}>"

    def __str__(self) -> str:
        """Return one line for each text, with the values of its words; for other explanations the `repr`."""
        tokens = tokens_of(self)
        return repr(self) if tokens is None else _lines_of_words(self, tokens)

    def _repr_html_(self) -> str:
        """Return a plain table of the ten highest scores and what did most to them, for notebooks."""
        return _write_html(self)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))


REST = "(not attributed)"
_SMALL = 1e-9  # of the largest value: what rounding leaves


def _write_shap(explanation: Explanation) -> Any:
    """Return a `shap.Explanation` whose values and base value sum to the score."""
    shap = require("shap", "Explanation.to_shap")
    tokens = tokens_of(explanation)
    is_table = len(explanation.feature_shape) == 1
    if tokens is not None:
        return shap.Explanation(
            values=_ragged(
                [row[: len(words)] for row, words in zip(explanation.values, tokens, strict=True)]
            ),
            base_values=explanation.scores - explanation.values.sum(axis=1),
            data=_ragged([np.array(words, dtype=object) for words in tokens]),
        )
    if not is_table:
        base = explanation.base_values + (0.0 if explanation.residual is None else explanation.residual)
        return shap.Explanation(
            values=explanation.values, base_values=base, data=_make_array(explanation.data)
        )
    names = explanation.names()
    shown = _make_array(columns_of(explanation.data, names, np.arange(len(names))))
    values = explanation.values
    rest = explanation.residual
    if rest is not None and np.abs(rest).max(initial=0.0) > _SMALL * np.abs(values).max(initial=0.0):
        values = np.column_stack([values, rest])
        names = [*names, REST]
        shown = None if shown is None else np.column_stack([shown.astype(object), np.full(len(rest), "")])
    return shap.Explanation(
        values=values,
        base_values=explanation.base_values,
        data=None if shown is None else _code_cells(shown),
        display_data=shown,
        feature_names=names,
    )


def _ragged(rows: Sequence[Any]) -> Any:
    """Arrays of different lengths as one array of arrays."""
    found = np.empty(len(rows), dtype=object)
    for place, row in enumerate(rows):
        found[place] = row
    return found


def _make_array(data: Any) -> Any:
    if data is None:
        return None
    return data.to_numpy() if isinstance(data, Frame) and hasattr(data, "to_numpy") else np.asarray(data)


def _code_cells(shown: Any) -> Any:
    """Cells as numbers, which shap's colours need: texts become codes, in the order of the alphabet."""
    if shown.dtype.kind in "fiub":
        return shown
    columns = [_code_column(column) for column in shown.T]
    return np.column_stack(columns) if columns else shown


def _code_column(column: Any) -> Floats:
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        texts = np.array([str(cell) for cell in column])
        return np.unique(texts, return_inverse=True)[1].astype(np.float64)


def _read_shap(theirs: Any, output: int | None = None, method: str = "shap") -> dict[str, Any]:
    """Return the fields of an `Explanation` that says what a `shap.Explanation` does."""
    values = np.asarray(theirs.values, dtype=np.float64)
    base = np.asarray(theirs.base_values, dtype=np.float64)
    data = theirs.data if theirs.display_data is None else theirs.display_data
    data = None if data is None else np.asarray(data)
    if base.ndim == 0 and values.ndim > 1:  # one base value for all rows
        base = np.full(len(values), base)
    if values.ndim == 1 or (data is not None and data.ndim == 1):  # one row, without an axis for rows
        values = values[None]
        base = base[None]
        data = None if data is None else data[None]
    values, base = _pick_output(values, base, output)
    names = theirs.feature_names
    return {
        "values": values,
        "scores": base + values.reshape(len(values), -1).sum(axis=1),
        "base_values": base,
        "data": data,
        "feature_names": None if names is None or values.ndim != 2 else [str(name) for name in names],
        "method": method,
        "params": {"explains": "the output that shap explained", "task": "prediction"},
    }


def _pick_output(values: Floats, base: Floats, output: int | None) -> tuple[Floats, Floats]:
    """Values and base values of one output, where there is an axis for several."""
    if base.ndim == 2 and base.shape[1] == 1 and values.ndim == 2:
        return values, base[:, 0]
    if base.ndim != 2:
        return values, base
    chosen = _check_output(output, base.shape[1])
    return values[..., chosen], base[:, chosen]


def _check_output(output: int | None, n: int) -> int:
    if output is None or not 0 <= output < n:
        raise InvalidInput(
            f"This shap.Explanation holds values of {n} outputs. Say which one to take: "
            f"Explanation.from_shap(theirs, output=0), up to {n - 1}. Got {output!r}."
        )
    return output


def _lines_of_words(explanation: Explanation, tokens: list[list[str]]) -> str:
    """One line for each text: its score, and its words with their values."""
    lines = [repr(explanation)]
    nothing = _SMALL * np.abs(explanation.values).max(initial=0.0)
    for score, words, row in zip(explanation.scores, tokens, explanation.values, strict=True):
        values = np.where(np.abs(row) > nothing, row, 0.0)
        told = [f"{word} {value:+.2g}" for word, value in zip(words, values[: len(words)], strict=True)]
        lines.append(f"{score:.4g}: {'  '.join(told)}")
    return "\n".join(lines)


_MOST_ROWS = 10
_MOST_FEATURES = 3
_LONGEST = 24
_RAISES = "color:#c65307"
_LOWERS = "color:#2f6ea8"


def _write_html(explanation: Explanation) -> str:
    """Return the highest scores with the features that did most to them, in either direction."""
    is_shares = explanation.kind == "attribution"
    caption = html.escape(repr(explanation)[1:-1])
    of_class = "<th>class</th>" if "explained" in explanation.extras else ""
    head = f"<tr><th>row</th>{of_class}<th>score</th><th>main features</th></tr>"
    lines = "".join(_write_line(row, is_shares) for row in explanation.top(_MOST_ROWS))
    key = ""
    if is_shares:
        key = (
            f'<p><span style="{_RAISES}">+ raises</span> the score, '
            f'<span style="{_LOWERS}">− lowers</span> it.</p>'
        )
    if "chosen" in explanation.params:  # how the method came to be the one
        key += f"<p>Method chosen {html.escape(str(explanation.params['chosen']))}.</p>"
    return f"<table><caption>{caption}</caption>{head}{lines}</table>{key}"


def _write_line(row: Explanation, is_shares: bool) -> str:
    """One row of the table."""
    flat = row.values.ravel()
    tokens = tokens_of(row)
    names = row.names() if tokens is None else tokens[0]
    cells = _list_cells(row) if tokens is None else None
    flat = flat[: len(names)]
    order = np.argsort(-np.abs(flat), kind="stable")[:_MOST_FEATURES]
    words = [
        _write_driver(names[j], None if cells is None else cells[j], float(flat[j]), is_shares) for j in order
    ]
    label = row.extras["row"][0]
    if isinstance(row.data, PandasRows):
        label = row.data.index[0]
    shown = html.escape(str(label))
    if "explained" in row.extras:
        shown += f"</td><td>{html.escape(_shorten(str(row.extras['explained'][0])))}"
    return f"<tr><td>{shown}</td><td>{row.scores[0]:.4g}</td><td>{', '.join(words)}</td></tr>"


def _list_cells(row: Explanation) -> Any:
    """What the row holds in each column, where features are columns."""
    if len(row.feature_shape) != 1:
        return None
    names = row.names()
    data = columns_of(row.data, names, np.arange(len(names)))
    return None if data is None else np.asarray(data)[0]


def _write_driver(name: str, cell: Any, amount: float, is_shares: bool) -> str:
    """One feature: its name, its cell, and what it did."""
    what = _shorten(name)
    if cell is not None:
        what += f" = {_shorten(f'{cell:.4g}' if isinstance(cell, (float, np.floating)) else str(cell))}"
    sign = "−" if amount < 0 else "+"
    style = _LOWERS if amount < 0 else _RAISES
    said = f"{sign}{abs(amount):.3g}"
    shown = f'<span style="{style}">{said}</span>' if is_shares else said
    return f"{html.escape(what)} {shown}"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
