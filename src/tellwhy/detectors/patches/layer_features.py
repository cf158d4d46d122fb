"""How odd images and series are by the activations of a network's layer, in the place of their pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.optional import require
from tellwhy.core.params import Fit
from tellwhy.core.progress import track
from tellwhy.core.running import choose_device
from tellwhy.core.score import Floats
from tellwhy.detectors.patches.patch_score import PatchScore
from tellwhy.scoring.function_scores import read_array_rows

Tensor = Any
BATCH = 128  # inputs that pass through the network at once


@dataclass(frozen=True)
class KeptNetwork:
    """What a saved model of patches keeps of its network: the class is given again when it is loaded."""

    class_name: str
    weights: Mapping[str, Any]

    def _require(self) -> Iterator[Fit]:
        yield "class_name", isinstance(self.class_name, str), True
        weights = self.weights
        yield "weights", isinstance(weights, Mapping) and all(isinstance(name, str) for name in weights), True
        yield "weights", all(isinstance(value, np.ndarray) for value in weights.values()), True


@dataclass(frozen=True, eq=False)
class LayerFeatures:
    """The activations of a layer, with the channels last, as inputs of a model of patches.

    Attributes
    ----------
    module
        The network; it takes (n, channels, *axes), as PyTorch's convolutions do.
    layer
        Name of the layer, as in `module.named_modules()`.
    n_axes
        1 for series, 2 for images.
    device
        "cpu", "cuda" or "auto".
    """

    module: Any
    layer: str
    n_axes: int
    device: str = "cpu"

    @cached_property
    def network(self) -> Any:
        """The network up to the layer, in evaluation mode, on the device."""
        require("torch", "features of a network")
        from tellwhy.scoring.network_passes import placed, put_in_evaluation_mode
        from tellwhy.scoring.up_to_layer import UpToLayer

        evaluated = put_in_evaluation_mode(self.module)
        return UpToLayer(placed(evaluated, choose_device(self.device)).model, self.layer)

    def activations(self, X: Floats) -> Floats:
        """Return what the layer gives for inputs (n, *axes[, channels]), as (n, *axes, channels)."""
        import torch

        from tellwhy.scoring.network_passes import applied, untouched

        starts = range(0, len(X), BATCH)
        parts = []
        for start in track(starts, len(starts), "activations of the network"):
            x = self.as_tensor(X[start : start + BATCH])
            with untouched(x.device), torch.no_grad():
                parts.append(self._move_channels_last(applied(self.network, x)))
        found = np.concatenate(parts)
        if not np.isfinite(found).all():
            raise InvalidInput(f"The activations of layer {self.layer!r} are not finite. Check the weights.")
        return found

    def as_tensor(self, X: Floats) -> Tensor:
        """Inputs as the network takes them: channels first, in the type of its weights."""
        from tellwhy.scoring.network_passes import as_tensor, placed

        there = placed(self.network, None)
        first = X[:, None] if X.ndim == 1 + self.n_axes else np.moveaxis(X, -1, 1)
        return as_tensor(first, there.device, there.dtype)

    def as_inputs(self, values: Floats, shape: tuple[int, ...]) -> Floats:
        """Values of what the network took, in the shape (n, *axes[, channels]) of the inputs."""
        return np.moveaxis(values, 1, -1).reshape(len(values), *shape)

    def as_output(self, values: Floats) -> Floats:
        """Values of activations, channels last, in the order that the layer has them in."""
        return np.moveaxis(values, -1, 1)

    def _move_channels_last(self, found: Tensor) -> Floats:
        if found.ndim == 2:  # pooled: one place, all channels
            found = found.reshape(*found.shape, *(1,) * self.n_axes)
        if found.ndim != 2 + self.n_axes:
            kinds = "(n, channels, time)" if self.n_axes == 1 else "(n, channels, height, width)"
            raise InvalidInput(
                f"The layer {self.layer!r} gives activations of shape {tuple(found.shape)}; expected {kinds} "
                "or, pooled, (n, channels). Name another layer."
            )
        return np.moveaxis(found.double().cpu().numpy(), 1, -1)


def check_features(features: Any, layer: str | None) -> None:
    """Refuse a network without a layer, and a layer without a network."""
    if features is None and layer is None:
        return
    torch = require("torch", "features of a network")
    if not isinstance(features, torch.nn.Module) or not isinstance(layer, str):
        raise InvalidParameter(
            "features= is a torch.nn.Module, and layer= names the layer whose activations are used, as in "
            f"features.named_modules(). Got features={type(features).__name__}, layer={layer!r}."
        )


def keep_network(module: Any) -> KeptNetwork:
    """Return a network's weights as arrays, with the name of its class."""
    state = {name: value.detach().cpu() for name, value in module.state_dict().items()}
    # numpy knows no short floats: they are widened, and cut again when they are put into a network
    wide = {n: v.float() if v.dtype.is_floating_point and v.itemsize < 4 else v for n, v in state.items()}
    return KeptNetwork(type(module).__name__, {name: value.numpy().copy() for name, value in wide.items()})


def restore_network(module: Any, kept: KeptNetwork) -> Any:
    """Return a copy of a network of the same class with the weights that were kept."""
    import copy

    import torch

    own = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    saved = {name: tuple(np.shape(value)) for name, value in kept.weights.items()}
    if own != saved:
        wrong = sorted(name for name in own.keys() | saved.keys() if own.get(name) != saved.get(name))
        name = wrong[0]
        raise InvalidInput(
            f"The given {type(module).__name__} does not fit the weights that were saved of a "
            f"{kept.class_name}: {name!r} has the shape {own.get(name, 'none')}, saved "
            f"{saved.get(name, 'none')} ({len(wrong)} differ). Give the network as it was "
            "when the model was fitted."
        )
    filled = copy.deepcopy(module)
    filled.load_state_dict({name: torch.as_tensor(value) for name, value in kept.weights.items()})
    return filled.eval()


MOST_CELLS = 2**24  # activations that are held at once


class FeatureScore:
    """O(x) = Σ_t o(patch t of the activations a(x)).

    Parameters
    ----------
    patches
        The score of activations.
    features
        From inputs to activations.
    shape
        Shape of the inputs of the fit.
    """

    feature_names = None
    feature_shape = None
    any_shape = True

    def __init__(self, patches: PatchScore, features: LayerFeatures, shape: tuple[int, ...]):
        self.patches = patches
        self.features = features
        self.shape = shape
        self.threshold = patches.threshold

    @property
    def describes(self) -> str:
        """Which scalar it is."""
        return f"{self.patches.describes}, of the activations of layer {self.features.layer}"

    def value(self, X: Any) -> Floats:
        """Return the sum over the patches of each input's activations."""
        maps = self.positions(X)
        return np.asarray(maps.reshape(len(maps), -1).sum(axis=1))

    def positions(self, X: Any, *, unseen: bool = False) -> Floats:
        """Return the score of each patch of activations."""
        return np.concatenate(
            [self.patches.positions(a, unseen=unseen) for a in self.in_parts(self.checked(X))]
        )

    def in_parts(self, inputs: Floats) -> Iterator[Floats]:
        """Yield the activations of as many inputs as memory allows."""
        size = max(1, MOST_CELLS // int(np.prod(self.patches.shape)))
        for start in range(0, len(inputs), size):
            yield self.features.activations(inputs[start : start + size])

    def checked(self, X: Any) -> Floats:
        """Return inputs as finite numbers of a shape that the network takes."""
        inputs = read_array_rows(X)
        n_axes = self.features.n_axes
        if inputs.ndim != 1 + len(self.shape) or inputs.shape[1 + n_axes :] != self.shape[n_axes:]:
            raise InvalidInput(
                f"X holds inputs of shape {inputs.shape[1:]}; the model was fitted on {self.shape}, any size "
                "of the axes that the network takes."
            )
        return inputs
