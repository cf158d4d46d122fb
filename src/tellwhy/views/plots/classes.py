"""Which class of a classifier figures speak of: one for all rows where that can be, else each row's own."""

from __future__ import annotations

import numpy as np

from tellwhy.core.explanation import Explanation
from tellwhy.core.results.one_class import PREDICTED_CLASS, can_be_of_class


def class_names(explanation: Explanation) -> list[str]:
    """Names of the classes that rows were explained for, in the order of the alphabet; none of other models.

    Examples
    --------
    >>> told = {"explained": np.array(["b", "a"])}
    >>> class_names(Explanation(values=[[1.0], [2.0]], scores=[1.0, 2.0], method="Example", extras=told))
    ['a', 'b']
    """
    return sorted({str(name) for name in explanation.extras.get("explained", ())})


def in_one_class(explanation: Explanation) -> Explanation:
    """Return the rows of a classifier of two classes in terms of the second, others as they are.

    Of each row the predicted class is explained by default. Drawn together, what speaks for one class and
    what speaks for the other would lie on the same side.
    """
    if len(class_names(explanation)) < 2 or not can_be_of_class(explanation):
        return explanation
    return explanation.of_class(explanation.params["classes"][1])


def told_class(explanation: Explanation, words: str) -> str:
    """Return what is explained with the class by its name, where all rows are explained for the same one."""
    names = class_names(explanation)
    if len(names) == 1:
        return words.replace(PREDICTED_CLASS, f"class {names[0]!r}")
    return words.replace(PREDICTED_CLASS, f"each row's predicted class (of {len(names)})") if names else words


def class_parts(explanation: Explanation) -> dict[str, np.ndarray]:
    """Return which rows belong to each class, by its name."""
    of_row = np.array([str(name) for name in explanation.extras.get("explained", ())])
    return {name: of_row == name for name in class_names(explanation)}
