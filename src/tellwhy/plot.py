"""Figures of explanations, under the name that is typed: `import tellwhy.plot` is `tellwhy.views.plots`."""

import sys
from typing import TYPE_CHECKING

from tellwhy.views import plots

if TYPE_CHECKING:
    from tellwhy.views.plots import *  # noqa: F403

# The folder itself takes the place of this file, so that there is one module, however it was imported.
sys.modules[__name__] = plots
