"""Files that need PyTorch are left out where it is not installed."""

from importlib.util import find_spec

_WITH_TORCH = [
    "src/tellwhy/detectors/dagmm.py",
    "src/tellwhy/detectors/vae.py",
    "src/tellwhy/explainers/propagation",
    "docs/networks.md",
    "tests/oracles/network_models.py",
]
collect_ignore = [] if find_spec("torch") else _WITH_TORCH
