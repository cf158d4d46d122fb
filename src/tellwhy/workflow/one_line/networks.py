"""Networks in the one-liner: which of their outputs is explained, and of which inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput
from tellwhy.core.optional import require
from tellwhy.core.registry import Card
from tellwhy.scoring import NetworkOutput
from tellwhy.scoring.adapters.class_names import lookup
from tellwhy.scoring.scores.network_output import has_parts

_MODULE = {"torch.nn.modules.module.Module": True}
_OF_PARTS = "IntegratedGradients"  # the method of scores that takes tokens and several inputs as they are


def is_network(model: object) -> bool:
    """Whether a model is a PyTorch module, told without loading PyTorch."""
    return lookup(_MODULE, model) is not None


@dataclass(frozen=True, eq=False)
class Network:
    """A network as a method takes it, the target among its outputs, and words on where that output is."""

    model: Any
    target: Any
    words: str
    is_anomaly: bool = False  # whether it is the error of an autoencoder


def read(
    model: Any, X: Any, target: Any, chosen: Card, params: Mapping[str, Any]
) -> tuple[Network, dict[str, Any]]:
    """Return a network with one tensor of outputs, for a method that takes networks or scores.

    With it come the parameters that are left for the method: `batch_size` and `device` are the network's own
    where the method has no such parameters.
    """
    require("torch", "explaining a network")
    from tellwhy.scoring.networks.outputs import read_network

    check_inputs(X)
    found = read_network(model, _as_floats(model, X), target)
    if chosen.role != "explainer" or chosen.name == _OF_PARTS:
        return Network(found.model, found.target, found.words, found.is_error), dict(params)
    if isinstance(X, (tuple, dict)):
        raise InvalidInput(
            f"{chosen.name} takes one array of rows, and X holds {len(X)} inputs. IntegratedGradients, LRP "
            "and the other methods of networks take several."
        )
    own = {name: params[name] for name in ("batch_size", "device") if name in params}
    score = NetworkOutput(found.model, found.target, **own)
    score.has_levels = has_parts(model, X)
    left = {name: value for name, value in params.items() if name not in own}
    return Network(score, None, found.words, found.is_error), left


def check_inputs(X: Any) -> None:
    """Raise for rows that no network takes: frames of texts, lists of arrays."""
    if isinstance(X, list) and X and not isinstance(X[0], (int, float, list)):
        raise InvalidInput(
            "X is a list: give several inputs of a network as a tuple or a dict, and rows as one array "
            "(numpy.stack, torch.stack)."
        )


def _as_floats(model: Any, X: Any) -> Any:
    """Return rows of whole numbers as floats where the network has no embedding that would take them."""
    if isinstance(X, (tuple, dict)):
        return X
    if hasattr(X, "detach"):
        return X if X.is_floating_point() or has_parts(model, X) else X.double()
    array = np.asarray(X)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"X holds values of dtype {array.dtype}; a network takes numbers. Encode texts and categories as "
            "numbers first."
        )
    return array if has_parts(model, X) else array.astype(np.float64)


def with_words(explanation: Any, said: dict[str, Any], words: str) -> Any:
    """Return explanations, one or one per input, with further things said in their parameters."""
    if isinstance(explanation, tuple):
        return tuple(with_words(each, said, words) for each in explanation)
    if isinstance(explanation, dict):
        return {name: with_words(each, said, words) for name, each in explanation.items()}
    explains = f"{explanation.params['explains']}{words}"
    return replace(explanation, params={**explanation.params, **said, "explains": explains})
