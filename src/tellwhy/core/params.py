"""Parameters checked against one declared table per class.

A class lists what it accepts in `_parameters`; `validate_parameters(self)` compares and raises one sentence:
"The 'nu' parameter of OneClassSVM must be a float in (0, 1]. Got 2 instead."
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidParameter


@dataclass(frozen=True)
class Rule:
    """One way for a value to be acceptable, and the words for it."""

    words: str
    accepts: Callable[[Any], bool]


def one_of(*options: Any) -> Rule:
    """Accept a value that equals one of the options."""
    listed = ", ".join(repr(option) for option in options)
    words = listed if len(options) == 1 else f"one of {listed}"
    # An array would answer == with an array, and True == 1: so types are compared first.
    return Rule(words, lambda value: any(type(value) is type(o) and value == o for o in options))


def _is_in_range(value: float, low: float, high: float, closed: str) -> bool:
    above = value >= low if closed in ("left", "both") else value > low
    below = value <= high if closed in ("right", "both") else value < high
    return bool(above and below)


def _write_range(low: float, high: float, closed: str) -> str:
    left = "[" if closed in ("left", "both") else "("
    right = "]" if closed in ("right", "both") else ")"
    return f"{left}{low:g}, {high:g}{right}"


def real(low: float = -np.inf, high: float = np.inf, *, closed: str = "neither") -> Rule:
    """Accept a finite real number in a range; `closed` is 'left', 'right', 'both' or 'neither'."""

    def accepts(value: Any) -> bool:
        # True and False count as numbers in Python, but are mistakes here.
        is_number = isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))
        return is_number and bool(np.isfinite(value)) and _is_in_range(float(value), low, high, closed)

    return Rule(f"a float in {_write_range(low, high, closed)}", accepts)


def integer(low: float = -np.inf, high: float = np.inf) -> Rule:
    """Accept a whole number in the closed range [low, high]."""

    def accepts(value: Any) -> bool:
        is_whole = isinstance(value, numbers.Integral) and not isinstance(value, (bool, np.bool_))
        return is_whole and low <= int(value) <= high

    return Rule(f"an int in {_write_range(low, high, 'both')}", accepts)


def instance_of(*types: type, words: str = "") -> Rule:
    """Accept an instance of one of the types."""
    return Rule(
        words or " or ".join(f"an instance of {t.__name__}" for t in types), lambda v: isinstance(v, types)
    )


boolean = Rule("True or False", lambda value: isinstance(value, (bool, np.bool_)))
none = Rule("None", lambda value: value is None)
function = Rule("a callable", callable)
seed = Rule(
    "None, an int or a numpy Generator or RandomState",
    lambda value: (
        value is None
        or (isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= 0)
        or isinstance(value, (np.random.Generator, np.random.RandomState))
    ),
)

Rules = Rule | tuple[Rule, ...]
Seed = int | np.random.Generator | np.random.RandomState | None  # what `seed` accepts
"""What `random_state` may be; `generator` makes one generator of it."""


def validate_value(owner: str, name: str, value: object, rules: Rules) -> None:
    """Raise `InvalidParameter` unless one of the rules accepts the value.

    Examples
    --------
    >>> validate_value("SVDD", "nu", 2, real(0, 1, closed="right"))
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: The 'nu' parameter of SVDD must be a float in (0, 1]. Got 2 instead.
    """
    choices = rules if isinstance(rules, tuple) else (rules,)
    if any(rule.accepts(value) for rule in choices):
        return
    expected = " or ".join(rule.words for rule in choices)
    raise InvalidParameter(f"The {name!r} parameter of {owner} must be {expected}. Got {value!r} instead.")


def validate_parameters(obj: Any) -> None:
    """Check every parameter that `type(obj)._parameters` declares."""
    table: Mapping[str, Rules] = type(obj)._parameters
    for name, rules in table.items():
        validate_value(type(obj).__name__, name, getattr(obj, name), rules)


def store_parameters(obj: Any, given: Mapping[str, Any]) -> None:
    """Store the arguments of an estimator's constructor under their own names, as scikit-learn asks.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> class Example(BaseEstimator):
    ...     def __init__(self, size=3, *, colour="red"):
    ...         store_parameters(self, locals())
    >>> Example(size=4).get_params()
    {'colour': 'red', 'size': 4}
    """
    for name in type(obj)._get_param_names():  # the names in the constructor's signature
        setattr(obj, name, given[name])


def generator(random_state: Seed) -> np.random.Generator:
    """Return one `Generator` for a seed, a Generator or scikit-learn's RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1))
    return np.random.default_rng(random_state)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the name most like the given one, or "." where none is like it.

    Examples
    --------
    >>> nearest("backgroud", ["background", "task"]), nearest("zzz", ["background", "task"])
    ("; did you mean 'background'?", '.')
    """
    by_plain = {simplify_name(known): known for known in names}
    found = difflib.get_close_matches(simplify_name(name), by_plain, n=1, cutoff=0.6)
    return f"; did you mean {by_plain[found[0]]!r}?" if found else "."


def simplify_name(name: str) -> str:
    """Return a name without what people spell in several ways: case, underscores, hyphens."""
    return name.replace("_", "").replace("-", "").lower()


# What must be true of an object that was read from a file. Its class says so in a method `_require`, which
# yields these: what is looked at, what was found there, and what fits the other parts. Where the last two
# differ, the file is refused; the method goes on only after a part that fits, so that later lines rely on
# earlier ones.
Fit = tuple[str, object, object]


def are_finite(*values: Any) -> bool:
    """Whether all are numbers, and none is infinite."""
    kinds = (isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    return all(kinds) and bool(np.isfinite(np.array(values, dtype=np.float64)).all())


def are_texts(*values: Any) -> bool:
    """Whether all are texts."""
    return all(isinstance(value, str) for value in values)


def are_words(value: Any) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, (tuple, list)) and are_texts(*value)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number above 0."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def is_one(total: Any) -> bool:
    """Whether weights add up to 1, but for the rounding of solvers."""
    return bool(abs(total - 1.0) <= 1e-6)


def is_matrix(points: Any) -> bool:
    """Whether points are a table of numbers that is not empty."""
    return bool(points.ndim == 2 and points.dtype == np.float64 and points.size)


def is_increasing(values: Any) -> bool:
    """Whether numbers are finite, and none is smaller than the one before."""
    return bool(np.isfinite(values).all() and (np.diff(values) >= 0).all())


def words_fit(reading: Any) -> Iterator[Fit]:
    """Check a way of reading cells, whose fields are short words, or true or false."""
    for name, value in vars(reading).items():
        yield name, isinstance(value, (bool, str)) or are_words(value), True
    # A word that names no way of writing shows when it is read with.
    yield "words", are_texts(reading.words), True
