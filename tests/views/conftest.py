"""What tests of pages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from views.chromium import Browser, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("no Chromium on this machine")
    started = Browser()
    yield started
    started.close()
