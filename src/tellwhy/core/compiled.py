"""Compiled loops: compiled when they are first called, and kept on disk where that can be done safely.

numba takes longer to load than a small table takes to explain, so nothing loads it before a loop is called.
It keeps what it compiled beside the source, else in the user's own folder. Where neither can be written, it
would refuse to compile; from a file that is damaged, it would raise or crash. Here loops are then compiled
again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import update_wrapper
from threading import RLock
from typing import Any

# numba takes settings from a file in the working folder, which may be anybody's: among them where compiled
# code is kept, which it runs. What is set here, though empty, goes before that file.
for _setting in ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES"):
    os.environ.setdefault(_setting, "")

# What numba is to be told before it compiles anything.
_UNTOLD: list[Callable[[Any], Any]] = []
_LOCK = RLock()  # threads may call the same loop for the first time at once


def njit(*, cache: bool = False, **options: Any) -> Callable[[Any], Any]:
    """`numba.njit` with these options, but late; its cache may fail without harm.

    Examples
    --------
    >>> @njit(nogil=True)
    ... def twice(x):
    ...     return 2 * x
    >>> twice(4)
    8
    """
    return lambda function: Loop(function, cache, options)


def jitable(**options: Any) -> Callable[[Any], Any]:
    """`numba.extending.register_jitable`, but late: the function stays what it is, and loops may call it."""
    return _wait_until_called(lambda extending, function: extending.register_jitable(**options)(function))


def overloads(name: Any) -> Callable[[Any], Any]:
    """`numba.extending.overload`, but late: what a function of Python is inside loops."""
    return _wait_until_called(lambda extending, function: extending.overload(name)(function))


def _wait_until_called(tell: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def decorated(function: Any) -> Any:
        with _LOCK:
            _UNTOLD.append(lambda extending: tell(extending, function))
        return function

    return decorated


class Loop:
    """A function that numba compiles when it is first called; then it has all that numba's own have."""

    def __init__(self, function: Any, cache: bool, options: dict[str, Any]):
        update_wrapper(self, function)
        self._function = function
        self._cache = cache
        self._options = options
        self._made: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the compiled function."""
        return (self._made or self.compiled())(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # who asks how to copy or print this does not want it compiled
            raise AttributeError(name)
        return getattr(self.compiled(), name)

    def __reduce__(self) -> Any:
        return _find_loop, (self.__module__, self.__qualname__)

    @property
    def is_made(self) -> bool:
        """Whether it was called before."""
        return self._made is not None

    def compiled(self) -> Any:
        """Return numba's own function."""
        with _LOCK:
            if self._made is None:
                self._made = _compile_with_numba(self._function, self._cache, self._options)
                _replace_loops(self._function.__globals__)
        return self._made


class LoopWithTwin:
    """A compiled loop, and numpy's way to the same bits: that one until so much was done that compiling pays.

    To load numba and a loop takes half a second, to compile one a second and more. Which of the two is called
    may depend on what was done before, because nobody can tell it from the results: tests compare them bit by
    bit.

    Examples
    --------
    >>> @njit()
    ... def double(x):
    ...     for i in range(len(x)):
    ...         x[i] *= 2
    >>> def twin(x):
    ...     x *= 2
    >>> import numpy as np
    >>> numbers = np.ones(3)
    >>> LoopWithTwin(double, twin, pays_after=100)(numbers.size, numbers)
    >>> numbers, double.is_made
    (array([2., 2., 2.]), False)
    """

    def __init__(self, loop: Any, twin: Callable[..., Any], pays_after: float):
        self.loop = loop
        self.twin = twin
        self.pays_after = pays_after
        self._done = 0

    def __call__(self, size: int, *args: Any) -> Any:
        """Do what both do; `size` counts what has to be done."""
        return (self.loop if self.pays(size) else self.twin)(*args)

    def pays(self, size: int) -> bool:
        """Count what is about to be done, and tell whether the loop should do it."""
        self._done += size
        return self.loop.is_made or self._done > self.pays_after


def _find_loop(module: str, name: str) -> Any:
    """Return the loop of another process by its name."""
    return getattr(sys.modules[module], name)


def _compile_with_numba(function: Any, cache: bool, options: dict[str, Any]) -> Any:
    import numba
    import numba.extending

    from tellwhy.core.compiled_cache import LoopCache

    while _UNTOLD:
        _UNTOLD.pop(0)(numba.extending)
    made = numba.njit(**options)(function)
    # There is no cache to set where numba is told to compile nothing, and no place for one where nothing can
    # be written: numba then raises a RuntimeError.
    if cache and hasattr(made, "enable_caching"):
        with suppress(RuntimeError):
            made._cache = LoopCache(function)
    return made


def _replace_loops(names: dict[str, Any]) -> None:
    """Put numba's own functions where a module names loops: numba knows those only if one calls another."""
    for name, value in list(names.items()):
        if isinstance(value, Loop):
            names[name] = value.compiled()
