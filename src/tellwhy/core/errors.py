"""The errors and warnings that tellwhy raises.

TellwhyError
├── InvalidInput       (ValueError)    data that cannot be used: what, where, expected, got, what to do
│   ├── InvalidParameter               a parameter outside its declared range
│   └── UnreadableFile                 a file that cannot be read as a table, an explanation, a run, a model
├── UnsupportedModel   (TypeError)     a model or score that a method cannot explain
├── MissingExtra       (ImportError)   an optional dependency; says which `pip install` brings it
└── CannotWrite        (OSError)       a file or folder that cannot be written; nothing is left half-written

TellwhyWarning         (UserWarning)
├── NotConverged                       a solver stopped early, or could only reach a local optimum
└── DataNotice                         data was changed or left out on the way in

Each error is also one of Python's own, in brackets, so that code that knows nothing of tellwhy can catch it.
"""

from __future__ import annotations


class TellwhyError(Exception):
    """Base of every error raised on purpose."""


class InvalidInput(TellwhyError, ValueError):
    """Data that cannot be used."""


class InvalidParameter(InvalidInput):
    """A parameter outside its declared range."""


class UnreadableFile(InvalidInput):
    """A file that cannot be read."""


class UnsupportedModel(TellwhyError, TypeError):
    """A model or score that a method cannot explain."""


class MissingExtra(TellwhyError, ImportError):
    """An optional dependency that is not installed."""


class CannotWrite(TellwhyError, OSError):
    """A file or folder that could not be written."""


class TellwhyWarning(UserWarning):
    """Base of every warning raised on purpose."""


class NotConverged(TellwhyWarning):
    """A solver stopped early, or could only reach a local optimum."""


class DataNotice(TellwhyWarning):
    """Data was changed or left out on the way in."""
