"""Networks with random weights, and the loading of peers, for the benchmarks of relevance propagation."""

from __future__ import annotations

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

_DEFINITIONS: list[Any] = []  # torchvision's operators stay defined as long as these objects live


def torchvision_models() -> Any:
    """The models' module; its compiled operators are declared where they are missing, the models do not need them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module("torchvision.models")
        except RuntimeError:  # "operator torchvision::nms does not exist"
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
            library = torch.library.Library("torchvision", "FRAGMENT")
            _DEFINITIONS.append(library)
            for name in ("nms", "qnms"):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            return importlib.import_module("torchvision.models")


def random_model(name: str, **settings: Any) -> nn.Module:
    """A torchvision model in evaluation mode with random weights and batch-norm statistics."""
    torch.manual_seed(0)
    model = getattr(torchvision_models(), name)(weights=None, **settings).eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2)
            nn.init.normal_(module.weight, 0.8, 0.3)
            nn.init.normal_(module.bias, std=0.1)
    return model


def only_networks() -> None:
    """Load the family of network explainers alone where packages that the others need are not installed."""
    if all(
        find_spec(package) for package in ("numba", "scipy", "sklearn", "joblib", "threadpoolctl", "narwhals")
    ):
        return
    import tellwhy

    for folder in ("explainers", "scoring"):
        parent = ModuleType(f"tellwhy.{folder}")
        parent.__path__ = [str(Path(tellwhy.__file__).parent / folder)]
        sys.modules.setdefault(parent.__name__, parent)


class _Placeholders(MetaPathFinder, Loader):
    """Stands in for matplotlib, which Captum loads for its pictures."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        if fullname.partition(".")[0] in ("matplotlib", "mpl_toolkits"):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = lambda name: type(name, (), {})  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty."""


def captum_attr() -> Any:
    """Captum's attribution methods."""
    if find_spec("matplotlib") is None and not any(
        isinstance(finder, _Placeholders) for finder in sys.meta_path
    ):
        sys.meta_path.append(_Placeholders())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("captum.attr")
