"""Linear relevance: what each feature of a row contributed to its class, or to that class's lead over another."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from tellwhy.core.errors import InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.core.extras import Extras
from tellwhy.core.score_function import Floats, Integers


def linear_relevance(
    coef: Any,
    intercept: Floats,
    X: Any,
    classes: Any,
    *,
    against: Any = None,
    of: Any = None,
    feature_names: Any = None,
    data: Any = None,
    model: str = "a linear classifier",
    centre: Floats | None = None,
) -> Explanation:
    """R_j = w_cj x_j, or (w_cj − w_rj) x_j against a rival r; base = intercepts, and nothing is left over.

    Parameters
    ----------
    coef, intercept
        Weights, classes × features, and one intercept per class.
    X
        Rows, sparse or dense.
    classes
        Names of the classes, in the order of the weights.
    against
        None: the score of the class itself. 'runner_up': its lead over the class that comes second. Else the
        name of a class.
    of
        Class to explain; by default the one with the highest score.
    feature_names, data, model
        What the explanation shows.
    centre
        A row m to measure from: R_j = w_cj (x_j − m_j), and w_c·m joins the base. None measures from zero.

    Returns
    -------
    `extras` hold for each row the class that is explained, by its number ("output") and by its name
    ("explained"), and the name of its rival, if any ("rival").
    """
    rows = sparse.csr_array(X)
    weights = coef if sparse.issparse(coef) else np.asarray(coef)
    product = rows @ weights.T
    scores = (product.toarray() if sparse.issparse(product) else product) + intercept
    chosen = scores.argmax(axis=1) if of is None else np.full(len(scores), _number(of, classes, "of"))
    direction, base = _rows_of(weights, chosen), np.asarray(intercept, dtype=np.float64)[chosen]
    rivals = _rivals(scores, chosen, classes, against)
    named = _plain_names(classes)
    extras: dict[str, Any] = {"output": chosen.astype(np.int64), "explained": named[chosen]}
    if rivals is not None:
        direction, base = direction - _rows_of(weights, rivals), base - np.asarray(intercept)[rivals]
        extras["rival"] = named[rivals]
    if centre is not None:
        base = base + direction @ centre
    values = _products(rows, direction, centre)
    what = "the score of the class" if rivals is None else "the lead of the class over its rival"
    return Explanation(
        values=values,
        scores=base + values.sum(axis=1),
        base_values=base,
        data=_plain_data(X if data is None else data),
        feature_names=None if feature_names is None else [str(name) for name in feature_names],
        method="LinearRelevance",
        params={"explains": f"{what}, by {model}", "against": None if against is None else str(against)},
        extras=Extras(extras),
    )


def _products(rows: Any, direction: Any, centre: Floats | None) -> Floats:
    if centre is not None:
        return np.asarray((rows.toarray() - centre) * direction)
    values = rows.multiply(direction)
    return values.toarray() if sparse.issparse(values) else np.asarray(values)


def _plain_names(classes: Any) -> Any:
    """Classes as an array that files can hold: text as text."""
    names = np.asarray(classes)
    return names.astype(str) if names.dtype.kind == "O" else names


def _plain_data(data: Any) -> Any:
    """Rows that can be sliced and saved: an explanation is dense, and texts are text."""
    if sparse.issparse(data):
        return data.toarray()
    is_table = hasattr(data, "columns")
    texts = not is_table and np.ndim(data) == 1 and all(isinstance(item, str) for item in data)
    return np.asarray(data, dtype=str) if texts else data


def _rows_of(weights: Any, at: Integers) -> Any:
    found = weights[at]
    return found.toarray() if sparse.issparse(found) else found


def _number(name: Any, classes: Any, parameter: str) -> int:
    found = np.flatnonzero(np.asarray(classes) == name)
    if len(found) == 0:
        raise InvalidParameter(
            f"There is no class {name!r} for the {parameter!r} parameter; expected one of the {len(classes)} classes, "
            f"such as {np.asarray(classes).tolist()[0]!r}"
            + (", or None or 'runner_up'." if parameter == "against" else ".")
        )
    return int(found[0])


def _rivals(scores: Floats, chosen: Integers, classes: Any, against: Any) -> Integers | None:
    if against is None:
        return None
    if isinstance(against, str) and against == "runner_up":
        others = scores.copy()
        others[np.arange(len(scores)), chosen] = -np.inf
        return others.argmax(axis=1)
    return np.full(len(scores), _number(against, classes, "against"))
