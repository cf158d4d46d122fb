"""What tests of scores share."""

import pytest

from tellwhy.optimise.arrays import HOST, Space


@pytest.fixture(params=["numpy", "torch"])
def space(request):
    """Where arrays are."""
    if request.param == "numpy":
        return HOST
    pytest.importorskip("torch")
    return Space("cpu")
