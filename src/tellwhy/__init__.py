"""tellwhy finds what is odd in your data and tells you why.

The names below are loaded when first used, so that `import tellwhy` stays light.
"""

import importlib

# Neither `typing` nor `__future__` is imported: `python -m tellwhy` may load nothing, before it has left the
# working folder out of its search path, that Python has not loaded already. Type checkers take any
# `TYPE_CHECKING` for true, and read the names where they are defined.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from tellwhy import (
        bases as bases,
        classifiers as classifiers,
        data as data,
        detectors as detectors,
        evaluation as evaluation,
        explainers as explainers,
        kernels as kernels,
        scoring as scoring,
        testing as testing,
        workflow as workflow,
    )
    from tellwhy.core.explanation import Explanation as Explanation
    from tellwhy.core.score import ScoreFunction as ScoreFunction
    from tellwhy.kinds.model import fit as fit, judge as judge
    from tellwhy.one_liner.explain import explain as explain, methods as methods
    from tellwhy.one_liner.prompts import explain_prompt as explain_prompt
    from tellwhy.results.result import Result as Result
    from tellwhy.storage.model_file import load as load, save as save
    from tellwhy.views import plots as plot
    from tellwhy.views.tell import tell as tell

__version__ = "0.1.0"

_PUBLIC = {
    "Explanation": "tellwhy.core.explanation",
    "ScoreFunction": "tellwhy.core.score",
    "explain": "tellwhy.one_liner.explain",
    "explain_prompt": "tellwhy.one_liner.prompts",
    "Result": "tellwhy.results.result",
    "fit": "tellwhy.kinds.model",
    "judge": "tellwhy.kinds.model",
    "load": "tellwhy.storage.model_file",
    "methods": "tellwhy.one_liner.explain",
    "save": "tellwhy.storage.model_file",
    "tell": "tellwhy.views.tell",
}
_FOLDERS = (
    "bases",
    "classifiers",
    "data",
    "detectors",
    "evaluation",
    "explainers",
    "kernels",
    "plot",
    "scoring",
    "testing",
    "workflow",
)

__all__ = [
    "Explanation",
    "Result",
    "ScoreFunction",
    "__version__",
    "bases",
    "classifiers",
    "data",
    "detectors",
    "evaluation",
    "explain",
    "explain_prompt",
    "explainers",
    "fit",
    "judge",
    "kernels",
    "load",
    "methods",
    "plot",
    "save",
    "scoring",
    "tell",
    "testing",
    "workflow",
]


if not TYPE_CHECKING:  # a name that is not above is an error to type checkers

    def __getattr__(name):
        if name in _PUBLIC:
            return getattr(importlib.import_module(_PUBLIC[name]), name)
        if name in _FOLDERS:
            return importlib.import_module(f"tellwhy.{name}")
        raise AttributeError(f"module 'tellwhy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
