"""Every refusal of the tables: the error, the parameter that it names, and its words."""

from importlib.util import find_spec

import pytest
from testing.refusals import REFUSED, WRONG_SETTINGS

from tellwhy.core.errors import InvalidParameter

TABLES = [REFUSED]
if find_spec("torch"):
    from testing import refusals_of_networks

    TABLES.append(refusals_of_networks.REFUSED)
SETTINGS = [
    pytest.param(cls, name, value, id=f"{cls.__name__}-{name}-{place}")
    for cls, (_, wrong) in WRONG_SETTINGS.items()
    for name, values in wrong.items()
    for place, value in enumerate(values)
]
CALLS = [
    pytest.param(call, error, words, id=f"{who.__name__}-{words}-{place}")
    for table in TABLES
    for (who, error), answers in table.items()
    for words, calls in answers.items()
    for place, call in enumerate(calls if isinstance(calls, tuple) else (calls,))
]


@pytest.mark.parametrize(("cls", "name", "value"), SETTINGS)
def test_settings_that_a_class_does_not_take(cls, name, value):
    make, _ = WRONG_SETTINGS[cls]
    has_words = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str)
    value, words = value if has_words else (value, f"'{name}' parameter of {cls.__name__}")
    with pytest.raises(InvalidParameter, match=words):
        make(**{name: value})


@pytest.mark.filterwarnings("ignore:The chains of")
@pytest.mark.parametrize(("call", "error", "words"), CALLS)
def test_calls_that_are_answered_with_an_error(call, error, words):
    with pytest.raises(error, match=words):
        call()
