"""A network by its name on the command line: `module:function`, or an archive of `torch.export.save`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tellwhy.core.errors import InvalidInput, InvalidParameter, TellwhyError, UnsupportedModel
from tellwhy.core.optional import require
from tellwhy.kinds.insight import load_model

EXPORTED = ".pt2"
_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt", ".joblib")
EXPORT = "torch.export.save(torch.export.export(model.eval(), (x,)), 'model.pt2')"


@dataclass(frozen=True, eq=False)
class LoadedNetwork:
    """A network, and what is known of its input.

    Attributes
    ----------
    model
        In evaluation mode.
    prepare
        Turns pixels (height, width[, 3], from 0 to 255) or a text into one input; None where none was given.
    shape
        Shape of one input, without the rows; None along an axis that may have any length; () if not known.
    one_by_one
        Whether it takes one row at a time: it was exported so.
    takes_tokens
        Whether its input are whole numbers.
    runs_code
        Whether loading it ran the user's module.
    """

    model: Any
    prepare: Callable[[Any], Any] | None = None
    shape: tuple[int | None, ...] = ()
    one_by_one: bool = False
    takes_tokens: bool = False
    runs_code: bool = False


def load_network(name: str) -> LoadedNetwork:
    """Load a network.

    Parameters
    ----------
    name
        "model.pt2", an archive of `torch.export.save`, which is read without unpickling or running anything
        in it; or "module:name" of a network, or of a function without arguments that returns one, alone or
        with a function that prepares an input (pixels or a text). The module is imported, which runs it.
    """
    require("torch", "explaining a network")
    path = Path(name)
    if path.suffix.lower() == EXPORTED:
        return _load_exported(path)
    if path.suffix.lower() in _PICKLES:
        raise InvalidParameter(
            f"{name} is a pickle or may hold one, which can run code when it is loaded: it is not loaded. "
            f"Export the network, {EXPORT}, or name a function that builds it, as my_models:network."
        )
    return _build_network(name, load_model(name))


def _load_exported(path: Path) -> LoadedNetwork:
    from tellwhy.kinds.networks.archive import load_exported

    model = load_exported(path)
    return LoadedNetwork(
        model,
        shape=tuple(model.input_shape[1:]),
        one_by_one=model.input_shape[:1] == [1],
        takes_tokens=not model.input_dtype.is_floating_point,
    )


def _build_network(name: str, found: Any) -> LoadedNetwork:
    """The network that the user's module holds, or that a function in it makes."""
    from torch import nn

    if callable(found) and not isinstance(found, nn.Module):
        try:
            found = found()
        except TellwhyError:
            raise
        except Exception as error:  # the user's function may raise anything
            what = f"{type(error).__name__}: {error}"
            raise InvalidInput(
                f"{name} must be a network, or a function that returns one when it is called without "
                f"arguments. Calling it failed: {what}."
            ) from error
    model, prepare = found if isinstance(found, tuple) and len(found) == 2 else (found, None)
    if not isinstance(model, nn.Module) or not (prepare is None or callable(prepare)):
        raise UnsupportedModel(
            f"{name} must give a torch.nn.Module, or a pair of one and a function that prepares an input. "
            f"Got {type(found).__name__}."
        )
    tokens = any(isinstance(module, nn.Embedding) for module in model.modules())
    return LoadedNetwork(model.eval(), prepare, shape=_shape(model), takes_tokens=tokens, runs_code=True)


def _shape(model: Any) -> tuple[int | None, ...]:
    """Channels of a picture, as the first convolution of a network wants them; () where there is none."""
    from torch import nn

    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            return (module.in_channels, None, None)
    return ()
