"""A network explained: method, output, inputs.

Methods that the command line knows by name, and how far their values are checked.

Outputs of a network for all inputs, the classes they stand for, and which of them is explained.

From the name of a network and pictures or a text to explanations, and how far they can be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.core.explanation import Explanation
from tellwhy.core.optional import find_version, versions
from tellwhy.core.params import Fit, nearest
from tellwhy.core.progress import stage
from tellwhy.core.score import Floats
from tellwhy.kinds.networks.inputs import Entries, Preparation, read_entries, read_labels
from tellwhy.kinds.networks.loading import LoadedNetwork, load_network
from tellwhy.results.network_run import ClassOutput, FoundGroup, MethodTold, NetworkItem, NetworkRun
from tellwhy.results.notice import Notice
from tellwhy.verdicts.network_trust import Judged, find_groups, measure_trust

PARTS = 14  # patches of occlusion along the shorter side
Box = tuple[Any, Any]  # least and largest value of an input, per channel


@dataclass(frozen=True)
class Named:
    """A method: its title, and how an explainer is made of a network, a target and the range of inputs."""

    title: str
    make: Callable[..., Any]


def _make_by_name(name: str, **settings: Any) -> Callable[..., Any]:
    def make(model: Any, target: Any, box: Box, **how: Any) -> Any:  # noqa: ARG001
        from tellwhy import explainers

        return getattr(explainers, name)(model, target=target, **settings, **how)

    return make


def _make_deep_taylor(model: Any, target: Any, box: Box, **how: Any) -> Any:
    from tellwhy.explainers import DeepTaylor

    low, high = box
    inside = low is not None and bool((np.asarray(low) <= 0).all() and (np.asarray(high) >= 0).all())
    return (
        DeepTaylor(model, target=target, low=low, high=high, **how)
        if inside
        else DeepTaylor(model, target=target, **how)
    )


def _make_integrated(model: Any, target: Any, box: Box, **how: Any) -> Any:  # noqa: ARG001
    from tellwhy.explainers import IntegratedGradients

    return IntegratedGradients(model, target=target, **how)


class _OfPictures:
    """A method of scores that changes parts of pictures, of a size that goes with theirs."""

    def __init__(self, name: str, model: Any, target: Any, batch_size: int):
        self.name = name
        self.model = model
        self.target = target
        self.batch_size = batch_size

    def explain(self, X: Any) -> Any:
        """Explain pictures (n, channels, height, width): parts become the mean colour of all of them."""
        from tellwhy import explainers
        from tellwhy.scoring import NetworkOutput

        rows = np.asarray(X)
        if rows.ndim != 4 or rows.dtype.kind != "f":
            raise InvalidParameter(
                f"--method {self.name.lower()} takes pictures. Use another method for texts."
            )
        mean = np.broadcast_to(rows.mean(axis=(0, 2, 3), keepdims=True)[0], rows.shape[1:])
        score = NetworkOutput(self.model, self.target, batch_size=self.batch_size)
        if self.name == "Lime":
            return explainers.Lime(score, baseline=mean).explain(rows)
        patch = max(1, round(min(rows.shape[2:]) / PARTS))
        return explainers.Occlusion(score, patch_size=patch, baseline=mean).explain(rows)


def _make_for_pictures(name: str) -> Callable[..., Any]:
    def make(model: Any, target: Any, box: Box, *, batch_size: int = 32) -> Any:  # noqa: ARG001
        return _OfPictures(name, model, target, batch_size)

    return make


LEAST_INPUTS = 20  # that patterns are learned from


class _Learning:
    """A method that learns from the inputs that it then explains."""

    def __init__(self, name: str, explainer: Any):
        self.name = name
        self.explainer = explainer

    def explain(self, X: Any) -> Any:
        """Learn from inputs, and explain them."""
        if len(X) < LEAST_INPUTS:
            raise InvalidParameter(
                f"--method {self.name} learns from the inputs what they have in common: give at least "
                f"{LEAST_INPUTS} of them, in a folder. Got {len(X)}."
            )
        return self.explainer.fit(X).explain(X)


def _name_learning(name: str, title: str) -> Named:
    make = _make_by_name(title)
    return Named(title, lambda *given, **how: _Learning(name, make(*given, **how)))


METHODS: dict[str, Named] = {
    "lrp": Named("LRP (ε, z+)", _make_by_name("LRP", composite="epsilon_plus")),
    "lrp-detached": Named(
        "LRP, attention detached", _make_by_name("LRP", composite="epsilon_plus", attention="detached")
    ),
    "lrp-epsilon": Named("LRP ε", _make_by_name("LRP")),
    "lrp-gamma": Named("LRP γ", _make_by_name("LRP", rule="gamma")),
    "lrp-alpha2beta1": Named("LRP α2β1", _make_by_name("LRP", rule="alpha_beta")),
    "lrp-preset-a": Named("LRP preset A", _make_by_name("LRP", composite="preset_a")),
    "lrp-preset-a-flat": Named("LRP preset A, flat", _make_by_name("LRP", composite="preset_a_flat")),
    "lrp-preset-b": Named("LRP preset B", _make_by_name("LRP", composite="preset_b")),
    "lrp-preset-b-flat": Named("LRP preset B, flat", _make_by_name("LRP", composite="preset_b_flat")),
    "deep-taylor": Named("Deep Taylor", _make_deep_taylor),
    "gradient": Named("Gradient", _make_by_name("Gradient")),
    "smoothgrad": Named("SmoothGrad", _make_by_name("SmoothGrad", postprocess="square")),
    "input-gradient": Named("Input × gradient", _make_by_name("InputTimesGradient")),
    "integrated-gradients": Named("Integrated gradients", _make_integrated),
    "deconvnet": Named("DeconvNet", _make_by_name("DeconvNet")),
    "guided-backprop": Named("Guided backprop", _make_by_name("GuidedBackprop")),
    "occlusion": Named("Occlusion", _make_for_pictures("Occlusion")),
    "lime": Named("LIME", _make_for_pictures("Lime")),
    "excitation-backprop": Named("Excitation backprop", _make_by_name("ExcitationBackprop")),
    "grad-cam": Named("Grad-CAM", _make_by_name("GradCAM")),
    "pattern-net": _name_learning("pattern-net", "PatternNet"),
    "pattern-attribution": _name_learning("pattern-attribution", "PatternAttribution"),
}


def find_methods(asked: str) -> dict[str, Named]:
    """The methods of a list such as "lrp,gradient".

    Examples
    --------
    >>> list(find_methods("lrp, Gradient"))
    ['lrp', 'gradient']
    >>> find_methods("lpr")
    Traceback (most recent call last):
    tellwhy.core.errors.InvalidParameter: Networks have no method 'lpr'; did you mean 'lrp'? There are: ...
    """
    found = {}
    for word in asked.split(","):
        name = word.strip().lower().replace("_", "-")
        if name not in METHODS:
            hint = nearest(name, METHODS)
            raise InvalidParameter(
                f"Networks have no method {word.strip()!r}{hint} There are: {', '.join(METHODS)}."
            )
        found[name] = METHODS[name]
    return found


TOP = 5  # classes that are listed


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs of a network for all inputs, before a softmax at its end.

    Attributes
    ----------
    model
        The network, with one tensor of outputs.
    values
        Shape (inputs, classes).
    names
        Of the classes.
    words
        Which of several tensors it is, where the network gives several.
    """

    model: Any
    values: Floats
    names: Sequence[str]
    words: str

    @property
    def probabilities(self) -> Floats | None:
        """Softmax of the outputs; None of a single one."""
        if self.values.shape[1] == 1:
            return None
        powers = np.exp(self.values - self.values.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def target(self, asked: str | None) -> Any:
        """The output to explain: by its number, by its name, or the largest of each input."""
        if asked is None:
            return "max"
        if asked in self.names:
            return list(self.names).index(asked)
        if not asked.lstrip("-").isdigit():
            raise InvalidParameter(
                f"There is no class {asked!r}{nearest(asked, self.names)} Classes have numbers "
                f"from 0 to {len(self.names) - 1}, and the names of --labels."
            )
        if not 0 <= int(asked) < len(self.names):
            raise InvalidParameter(
                f"--target {asked} is out of range: the network has {len(self.names)} outputs, numbered "
                f"from 0 to {len(self.names) - 1}."
            )
        return int(asked)

    def top(self, row: int) -> list[ClassOutput]:
        """The likeliest classes of an input."""
        shares = self.probabilities
        order = np.argsort(-self.values[row], kind="stable")[:TOP]
        return [
            ClassOutput(
                self.names[j], float(self.values[row, j]), None if shares is None else float(shares[row, j])
            )
            for j in order
        ]


def _apply_network(model: Any, X: np.ndarray, size: int) -> Floats:
    """Outputs of a network that gives one tensor, before a softmax at its end, in two dimensions."""
    import torch

    from tellwhy.scoring.network_passes import compute_outputs_of

    with torch.no_grad():
        rows = torch.from_numpy(X)
        parts = [compute_outputs_of(model, rows[i : i + size])[0] for i in range(0, len(X), size)]
    values = np.asarray(torch.cat(parts).double())
    return values[:, None] if values.ndim == 1 else values


def compute_outputs(model: Any, X: np.ndarray, size: int, labels: Sequence[str]) -> Outputs:
    """Apply a network to all inputs, and name its classes."""
    from tellwhy.scoring.network_outputs import read_network

    stage("applying the network")
    read = read_network(model, X[:1], None)
    values = _apply_network(read.model, X, size)
    if values.ndim != 2:
        raise InvalidInput(
            f"The network gives outputs of shape {values.shape[1:]} for each input; expected one number per "
            "class. Wrap it in a module that gives the numbers to explain."
        )
    if not np.isfinite(values).all():
        raise InvalidInput(
            "The network gives outputs that are not finite. Check its weights, --mean and --std."
        )
    k = values.shape[1]
    if labels and len(labels) != k:
        raise InvalidInput(f"There are {len(labels)} labels; the network has {k} outputs. Name each of them.")
    return Outputs(read.model, values, labels or [str(j) for j in range(k)], read.words)


KEPT = 200  # inputs that are kept in the run, with their values; the checks see all


@dataclass(frozen=True)
class NetworkRequest:
    """How a network is explained.

    Attributes
    ----------
    method
        Names of methods, separated by commas.
    target
        Number or name of the class to explain; None: the likeliest of each input.
    labels
        File of the names of classes.
    preparation
        How inputs are prepared.
    check
        Whether regions are painted over to test the explanations.
    batch_size
        Inputs that go through the network at once.
    random_state
        Seed of every draw.
    """

    method: str = "lrp"
    target: str | None = None
    labels: str | Path | None = None
    preparation: Preparation = field(default_factory=Preparation)
    check: bool = True
    batch_size: int = 32
    random_state: int = 0

    def _require(self) -> Iterator[Fit]:
        yield "method", bool(find_methods(self.method)), True
        yield "preparation", isinstance(self.preparation, Preparation), True
        yield "batch_size", self.batch_size >= 1, True


@dataclass(frozen=True, eq=False)
class Case:
    """A network with its inputs and outputs, and what is asked of it."""

    network: str
    source: str
    request: NetworkRequest
    loaded: LoadedNetwork
    read: Entries
    X: np.ndarray
    outputs: Outputs

    @property
    def batch_size(self) -> int:
        """Inputs that go through the network at once."""
        return 1 if self.loaded.one_by_one else self.request.batch_size

    @property
    def is_pictures(self) -> bool:
        """Whether inputs are pictures, with channels, height and width."""
        return bool(self.X.dtype.kind == "f" and self.X.ndim == 4)


def explain_network(network: str, source: str, request: NetworkRequest) -> NetworkRun:
    """Explain a network's outputs for pictures or a text.

    Parameters
    ----------
    network
        "module:function", or an archive of `torch.export.save` (see `load_network`).
    source
        A picture, a folder of them, a text file, or the text itself.
    request
        What is asked for.
    """
    find_methods(request.method)
    labels = [] if request.labels is None else read_labels(Path(request.labels))
    stage("loading the network")
    return explain_case(read_case(network, load_network(network), labels, source, request))


def read_case(
    network: str, loaded: LoadedNetwork, labels: Sequence[str], source: str, request: NetworkRequest
) -> Case:
    """Read what is to be explained, and apply the network to it."""
    read = read_entries(source, loaded, request.preparation)
    X = np.stack([entry.row for entry in read.entries])
    outputs = compute_outputs(loaded.model, X, 1 if loaded.one_by_one else request.batch_size, labels)
    return Case(network, source, request, loaded, read, X, outputs)


def explain_case(case: Case) -> NetworkRun:
    """Explain all inputs by each method that is asked for, and judge the methods."""
    target = case.outputs.target(case.request.target)
    explanations = {}
    judged = []
    for name, method in find_methods(case.request.method).items():
        stage(f"explaining by {method.title}")
        explainer = method.make(case.outputs.model, target, _find_box(case), batch_size=case.batch_size)
        explanations[name] = explainer.explain(case.X)
        asked = Judged(name, method.title, explainer, explanations[name])
        judged.append(measure_trust(asked, case.outputs.model, _fill(case), seed=case.request.random_state))
    return _run(case, explanations, judged)


def _find_box(case: Case) -> tuple[Any, Any]:
    """Least and largest values of a picture's channels, for methods that use the range of their input."""
    if case.loaded.prepare is not None or not case.is_pictures:
        return None, None
    how = case.request.preparation
    mean, std = (np.asarray(v, dtype=np.float32).reshape(-1, 1, 1) for v in (how.mean, how.std))
    low, high = (0.0 - mean) / std, (1.0 - mean) / std
    return (float(low.min()), float(high.max())) if low.size == 1 else (low, high)


def _fill(case: Case) -> Any:
    """What regions are painted over with in the check; None where there is no check."""
    if not case.request.check:
        return None
    if case.is_pictures:
        return "mean"
    return (
        None
        if case.read.unknown is None or case.X.ndim != 2
        else np.full(case.X.shape[1:], case.read.unknown)
    )


def _run(case: Case, explanations: dict[str, Explanation], judged: Sequence[MethodTold]) -> NetworkRun:
    first = next(iter(explanations.values()))
    items = [_make_item(case, k, explanations) for k in range(min(KEPT, len(case.read.entries)))]
    groups: list[FoundGroup] = []
    n_grouped = 0
    if case.is_pictures:
        groups, n_grouped = find_groups(
            first, case.outputs.names, [entry.name for entry in case.read.entries]
        )
    target = case.request.target or "the likeliest class of each input"
    prepared = {name: str(value) for name, value in vars(case.request.preparation).items()}
    settings = {"method": case.request.method, "target": target, **prepared}
    return NetworkRun(
        network=case.network,
        source=case.source,
        kind="pictures" if case.is_pictures else "texts",
        explains=f"{first.params['explains']}{case.outputs.words}",
        opening=_make_opening(items, len(case.read.entries), groups),
        n_inputs=len(case.read.entries),
        items=items,
        methods=judged,
        groups=groups,
        n_grouped=n_grouped,
        said=_collect_notices(case),
        settings={**settings, "seed": case.request.random_state},
        versions={**versions(), "torch": find_version("torch")},
    )


def _collect_notices(case: Case) -> list[Notice]:
    said = list(case.read.said)
    if case.loaded.runs_code:
        said.append(Notice("code_ran", {"network": case.network}))
    n = len(case.read.entries)
    if n > KEPT:
        said.append(Notice("first_shown", {"n": n, "n_shown": KEPT}))
    return said


def _make_item(case: Case, row: int, explanations: dict[str, Explanation]) -> NetworkItem:
    entry = case.read.entries[row]
    first = next(iter(explanations.values()))
    chosen = int(np.asarray(first.extras["output"])[row])
    said = list(entry.said)
    for name, explanation in explanations.items():
        undefined = explanation.extras.get("undefined")
        if undefined is not None and bool(np.asarray(undefined)[row]):
            said.append(Notice("undefined", {"method": name}))
    left = {name: None if e.residual is None else float(e.residual[row]) for name, e in explanations.items()}
    return NetworkItem(
        name=entry.name,
        classes=case.outputs.top(row),
        explained=case.outputs.names[chosen],
        output=float(first.scores[row]),
        pixels=entry.pixels,
        words=list(entry.words),
        values={name: e.values[row] for name, e in explanations.items()},
        left_over=left,
        said=said,
    )


def _make_opening(items: Sequence[NetworkItem], n: int, groups: Sequence[FoundGroup]) -> Notice:
    """What the network says, and what stands out."""
    if n > 1:
        return Notice("inputs_explained", {"n": n, "n_groups": len(groups)})
    first = items[0]
    best = first.classes[0]
    facts = {"says": best.name, "probability": best.probability, "explained": first.explained}
    return Notice("network_says", facts)
