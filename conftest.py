"""Files that need PyTorch or Triton are left out where these are not installed; the example package always is."""

from importlib.util import find_spec

import pytest

_WITH_TORCH = [
    "src/tellwhy/detectors/networks/dagmm.py",
    "src/tellwhy/detectors/networks/vae.py",
    "src/tellwhy/evaluation/randomisation.py",
    "src/tellwhy/explainers/gradients/integrated_gradients.py",
    "src/tellwhy/explainers/propagation",
    "src/tellwhy/scoring/network_output.py",
    "src/tellwhy/scoring/network_passes.py",
    "docs/explanation/evaluation.md",
    "docs/explanation/kernel-bases.md",
    "docs/explanation/networks.md",
    "docs/how-to/write-your-own-rule.md",
    "tests/oracles/network_models.py",
    "tests/oracles/network_state.py",
]
# Importing the example of a third-party package would enter its classes into the catalogue; the site's code needs mkdocs.
collect_ignore = ["docs/site", "tests/extension", *([] if find_spec("torch") else _WITH_TORCH)]
if not find_spec("triton"):
    collect_ignore = [*collect_ignore, "src/tellwhy/bases/_triton.py"]

# Pages whose examples take more than some seconds: `make test-all` runs them.
_SLOW = ("docs/tutorials/engineer.md",)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark pages of documentation that take long."""
    for item in items:
        if item.path.as_posix().endswith(_SLOW):
            item.add_marker(pytest.mark.slow)
