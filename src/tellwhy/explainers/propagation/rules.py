"""Rules: how the relevance of a layer's outputs is shared among its inputs.

A layer computes z_j = Σ_i x_i w_ij + b_j. R_j is the relevance of its output z_j, R_i that of its input x_i;
(…)⁺ and (…)⁻ are positive and negative parts. A rule comes in one of two forms:

contributions
    It maps c_j = R_j/z_j to c_i = R_i/x_i. This is the cheaper form, and the plain rule is then the
    gradient.
relevance
    It maps R_j to R_i. A rule that gives relevance to inputs which are zero needs this form: R_i/x_i does not
    exist there.

Wherever a rule divides by zero the result is zero: an output to which nothing contributed hands nothing on.

`RULES` has the rules of layers by name, `RESIDUAL_RULES` those of additions of two activations; a `Handover`
is a user's own way for certain operations, or for a whole module. Bach et al., PLoS ONE 10 (2015); Montavon
et al., Pattern Recognition 65 (2017) for w², z+ and z^B; Montavon et al., Springer LNCS 11700 (2019) for
gamma; Hui, Binder (2018) for batch norm, as given in eq. A.3 of Alber's thesis (2019).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from tellwhy.core.errors import InvalidInput, InvalidParameter
from tellwhy.explainers.propagation.engine.calls import Operation, has_derivatives, is_traced
from tellwhy.explainers.propagation.engine.kinds import OpenTable
from tellwhy.explainers.propagation.engine.layers import LinearMap

RuleFunction = Callable[[LinearMap, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Rule:
    """How a layer shares the relevance of its outputs among its inputs.

    Parameters
    ----------
    name
        Its name, for tables and messages.
    function
        A function (layer, x, z, c) of the layer's linear map, its input x, its output z and c_j = R_j/z_j. It
        returns c_i = R_i/x_i.
    maps_relevance
        Whether the function takes and returns relevance R instead of contributions c.
    params
        Its settings, for tables and messages.
    needs_input
        Whether the function looks at the values of x. Where it is false, and contributions travel, x has the
        shape of the input only, whose memory is given back on the way up.
    ignores_idle
        Whether an output with c_j = 0 hands nothing down whatever its z_j is. Then a ReLU that the model
        applies in place may overwrite z, which saves its memory.
    conserves
        Whether the inputs get all relevance of the outputs: "always", "without bias", or "" for no promise.
        An explanation that breaks the promise by more than 5 % of its score warns.

    Examples
    --------
    The rule of the plain gradient:

    >>> plain = Rule("plain", lambda layer, x, z, c: layer.backward(x, layer.weight, c))
    >>> plain
    Rule(name='plain', params={})
    """

    name: str
    function: RuleFunction = field(repr=False)
    maps_relevance: bool = field(default=False, repr=False)
    params: Mapping[str, Any] = field(default_factory=dict)
    needs_input: bool = field(default=True, repr=False)
    ignores_idle: bool = field(default=False, repr=False)
    conserves: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            inspect.signature(self.function).bind(None, None, None, None)
        except ValueError:
            return  # a compiled function may not show its arguments
        except TypeError as error:
            raise InvalidParameter(
                f"The function of rule {self.name!r} must take four arguments: the layer's linear map, its "
                f"input x, its output z, and what comes down. Got {self.function!r}: {error}."
            ) from None

    def __str__(self) -> str:
        numbers = {name: value for name, value in self.params.items() if isinstance(value, (int, float))}
        listed = ", ".join(f"{name}={value:g}" for name, value in numbers.items())
        return f"{self.name}({listed})" if listed else self.name


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b is 0."""
    zero = b == 0
    if has_derivatives.get():  # 0 · inf would be in the derivative
        return (a / b.masked_fill(zero, 1)).masked_fill(zero, 0)
    # A division by zero gives inf or nan, and is overwritten: fewer passes over the memory.
    return (a / b).masked_fill_(zero, 0)


Predicate = Callable[[Operation], bool]
# (inputs, output, relevance of the output) -> relevance of each input
HandsOn = Callable[[Sequence[Tensor], Tensor, Tensor], Any]


@dataclass(frozen=True)
class Handover:
    """How operations, or a module with all that is in it, hand relevance on.

    Parameters
    ----------
    when
        A function of an `Operation` that says whether this is one: it sees the operation's `name`, `path`
        and `index`, and its neighbours in `before`, the operations whose outputs it takes. Or the name of a
        module (as in `model.named_modules()`): all of it is then one step, whatever is inside.
    function
        A function (inputs, output, relevance) that returns the relevance of each input: tensors like the
        inputs, in a list, or the one tensor of one input. Inputs are those that depend on what is explained.
    name
        For tables and messages.

    Examples
    --------
    >>> import torch
    >>> from tellwhy.explainers import LRP
    >>> squares = Handover(lambda op: op.name == "square", lambda xs, out, R: R)
    >>> class Square(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.square()
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3, bias=False), Square()).eval()
    >>> bool(abs(LRP(model, own=[squares]).explain(torch.rand(1, 2)).residual).max() < 1e-3)
    True
    """

    when: str | Predicate
    function: HandsOn = field(repr=False)
    name: str = "own"

    def __post_init__(self) -> None:
        if not isinstance(self.when, str) and not callable(self.when):
            raise InvalidParameter(
                "The 'when' parameter of Handover must be a module's name or a function of an operation. "
                f"Got {self.when!r} instead."
            )
        if not callable(self.function):
            raise InvalidParameter(
                "The 'function' parameter of Handover must be a function (inputs, output, relevance). Got "
                f"{self.function!r} instead."
            )

    def takes(self, operation: Operation) -> bool:
        """Whether an operation is one of those that this is for."""
        return not isinstance(self.when, str) and bool(self.when(operation))

    def hand_on(self, inputs: Sequence[Tensor], out: Tensor, relevance: Tensor) -> list[Tensor]:
        """Relevance of each input, checked."""
        found = self.function(inputs, out, relevance)
        listed = [found] if isinstance(found, Tensor) else list(found)
        shapes = [tuple(t.shape) for t in listed if isinstance(t, Tensor)]
        wanted = [tuple(t.shape) for t in inputs]
        if shapes != wanted:
            raise InvalidInput(
                f"The function of Handover {self.name!r} must return relevance like its inputs, of shapes "
                f"{wanted}. Got {shapes or type(found).__name__} instead."
            )
        return listed


_BLOCK = 2**22  # weights of a fully connected layer that are copied at a time


def sign(values: Tensor, *, positive: bool) -> Tensor:
    """Positive (or negative) parts."""
    return values.clamp(min=0) if positive else values.clamp(max=0)


def signed_bias(layer: LinearMap, *, positive: bool) -> Tensor | None:
    """Positive (or negative) parts of a layer's biases."""
    return None if layer.bias is None else sign(layer.bias, positive=positive)


class _Weights(NamedTuple):
    """Signed weights: for inputs that are not negative, and for those that are (None: there are none)."""

    above: Tensor
    below: Tensor | None


@dataclass(frozen=True)
class Part:
    """The positive (or negative) part of each product x_i w_ij.

    A product is positive where both factors have the same sign. So inputs x_i ≥ 0 take the weights of the
    wanted sign, inputs below zero (where there are `some_below`) the others. Signed weights are kept from the
    way up (`total`) to the way down (`hand_down`), unless they are so many that they are made block by block.
    """

    layer: LinearMap
    x: Tensor
    positive: bool
    some_below: bool
    kept: dict[str, _Weights] = field(default_factory=dict)

    def total(self, bias: Tensor | None = None) -> Tensor:
        """P_j = Σ(x_i w_ij)⁺ + b_j, or N_j = Σ(x_i w_ij)⁻ + b_j."""
        parts = [self._total(rows, None if bias is None else bias[rows]) for rows in self._blocks()]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def hand_down(self, s: Tensor) -> Tensor:
        """Σ_j s_j w_ij over the weights that make x_i w_ij positive (or negative)."""
        blocks = self._blocks()
        handed = self._hand_down(blocks[0], s if len(blocks) == 1 else s[..., blocks[0]])
        for rows in blocks[1:]:
            handed += self._hand_down(rows, s[..., rows])
        return handed

    def _blocks(self) -> list[slice]:
        """Outputs that are taken at a time."""
        # Signed copies of a large fully connected layer would take twice its memory at once. Weights of
        # convolutions are small.
        weight = self.layer.weight
        if self.layer.name != "linear" or weight.numel() <= _BLOCK:
            return [slice(None)]
        size = max(1, _BLOCK // weight.shape[1])
        return [slice(start, start + size) for start in range(0, len(weight), size)]

    def _weights(self, rows: slice) -> _Weights:
        """Signed weights of some outputs."""
        if "all" in self.kept:
            return self.kept["all"]
        weight = self.layer.weight[rows]
        above = sign(weight, positive=self.positive)
        signed = _Weights(above, sign(weight, positive=not self.positive) if self.some_below else None)
        if rows == slice(None):
            self.kept["all"] = signed
        return signed

    def _total(self, rows: slice, bias: Tensor | None) -> Tensor:
        weights = self._weights(rows)
        if weights.below is None:
            return self.layer.forward(self.x, weights.above, bias)
        z = self.layer.forward(self.x.clamp(min=0), weights.above, bias)
        return z + self.layer.forward(self.x.clamp(max=0), weights.below)

    def _hand_down(self, rows: slice, s: Tensor) -> Tensor:
        weights = self._weights(rows)
        c = self.layer.backward(self.x, weights.above, s)
        if weights.below is None:
            return c
        return torch.where(self.x < 0, self.layer.backward(self.x, weights.below, s), c)


def part(layer: LinearMap, x: Tensor, *, positive: bool) -> Part:
    """Positive (or negative) part of the products of a layer's inputs and weights."""
    # Looking at the signs of x would make the processor wait for a GPU, and a program has to serve all signs:
    # there they are taken to differ.
    is_seen = not x.is_cuda and not is_traced.get()
    some_below = not layer.nonnegative and (not is_seen or bool((x < 0).any()))
    return Part(layer, x, positive, some_below)


Edge = float | np.ndarray | Tensor  # of a range of inputs: a number, or an array that fits one input


def z() -> Rule:
    """LRP-0: c_i = Σ_j w_ij c_j."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:  # noqa: ARG001
        return layer.backward(x, layer.weight, c)

    return Rule("z", function, needs_input=False, ignores_idle=True, conserves="without bias")


def epsilon(epsilon: float = 1e-6) -> Rule:
    """c_i = Σ_j w_ij c_j |z_j| / (|z_j| + ε): outputs near zero hand less on."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        # The usual form divides R_j by z_j + ε sign(z_j). With c_j = R_j/z_j that is c_j |z_j|/(|z_j| + ε).
        if epsilon == 0:
            return layer.backward(x, layer.weight, c.masked_fill(z == 0, 0))
        # c − ε c/(|z| + ε) is the same, in three passes over the memory instead of six.
        into = c if layer.owns_cotangent else None
        kept = torch.addcdiv(c, c, z.abs().add_(epsilon), value=-epsilon, out=into)
        return layer.backward(x, layer.weight, kept)

    return Rule("epsilon", function, params={"epsilon": epsilon}, needs_input=False, ignores_idle=True)


def gamma(gamma: float = 0.25) -> Rule:
    """Favour the inputs that have the sign of the output.

    Shares are in proportion to x w + γ(x w)⁺ where z_j > 0, to x w + γ(x w)⁻ elsewhere.
    """

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance = c * z
        up = z > 0
        total = c.new_zeros(x.shape)
        shares = c.new_zeros(z.shape)
        for positive, chosen in ((True, up), (False, ~up)):
            share = part(layer, x, positive=positive)
            whole = z + gamma * share.total(signed_bias(layer, positive=positive))
            s = quotient(relevance, whole).masked_fill_(~chosen, 0)
            shares += s
            total += gamma * share.hand_down(s)
        # The term x w is the same for both signs: one backward pass for all outputs.
        return total + layer.backward(x, layer.weight, shares)

    return Rule("gamma", function, params={"gamma": gamma}, conserves="without bias")


def alpha_beta(alpha: float = 2.0, beta: float = 1.0, *, conserve: bool = False) -> Rule:
    """R_i = Σ_j (α (x_i w_ij)⁺/P_j − β (x_i w_ij)⁻/N_j) R_j, with α − β = 1.

    P_j and N_j are the sums of the positive and of the negative parts that make z_j, biases included. Where
    an output has no negative part this hands on α R_j. `conserve=True` takes α = 1 there, and −β = 1 where an
    output has no positive part.
    """
    if abs(alpha - beta - 1) > 1e-9 or beta < 0:
        raise InvalidParameter(
            f"alpha_beta needs alpha - beta = 1 and beta >= 0. Got alpha={alpha!r}, beta={beta!r}."
        )

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance = c * z
        upper = part(layer, x, positive=True)
        P = upper.total(signed_bias(layer, positive=True))
        if beta == 0 and not conserve:  # half the work: the negative part is not needed
            return alpha * upper.hand_down(quotient(relevance, P))
        lower = part(layer, x, positive=False)
        N = lower.total(signed_bias(layer, positive=False))
        up = torch.full_like(P, alpha)
        down = torch.full_like(P, beta)
        if conserve:
            up = torch.where(N == 0, 1.0, up)
            down = torch.where(P == 0, -1.0, down)
        handed = upper.hand_down(up * quotient(relevance, P))
        return handed - lower.hand_down(down * quotient(relevance, N))

    return Rule("alpha_beta", function, params={"alpha": alpha, "beta": beta, "conserve": conserve})


def z_plus() -> Rule:
    """R_i = Σ_j (x_i w_ij)⁺ / Σ_i (x_i w_ij)⁺ R_j: only what made an output larger counts; without bias."""

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        upper = part(layer, x, positive=True)
        return upper.hand_down(quotient(c * z, upper.total()))

    return Rule("z_plus", function, conserves="always")


def _fixed_shares(layer: LinearMap, x: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    """Share relevance in proportion to weights alone, whatever the inputs are."""
    # The layer applied to ones sums the weights of each output; at the edges of a padded convolution it
    # counts only those that meet an input.
    total = layer.forward(torch.ones_like(x), weight)
    return layer.backward(x, weight, quotient(relevance, total))


def w_square() -> Rule:
    """R_i = Σ_j w_ij² / Σ_i w_ij² R_j: in proportion to squared weights, whatever the inputs are."""

    def function(layer: LinearMap, x: Tensor, _: Tensor, R: Tensor) -> Tensor:
        return _fixed_shares(layer, x, layer.weight.square(), R)

    return Rule("w_square", function, maps_relevance=True, conserves="always")


def flat() -> Rule:
    """Every input of an output gets the same share of its relevance."""

    def function(layer: LinearMap, x: Tensor, _: Tensor, R: Tensor) -> Tensor:
        return _fixed_shares(layer, x, torch.ones_like(layer.weight), R)

    return Rule("flat", function, maps_relevance=True, conserves="always")


def z_box(low: Edge = -1.0, high: Edge = 1.0) -> Rule:
    """R_i = Σ_j (x_i w_ij − l_i w_ij⁺ − h_i w_ij⁻) / Σ_i(…) R_j for inputs in the box [l, h].

    The edges are numbers, or arrays that fit one input.
    """

    def function(layer: LinearMap, x: Tensor, _: Tensor, R: Tensor) -> Tensor:
        lowest = torch.as_tensor(low, dtype=x.dtype, device=x.device).expand_as(x)
        highest = torch.as_tensor(high, dtype=x.dtype, device=x.device).expand_as(x)
        weight = layer.weight
        up = weight.clamp(min=0)
        down = weight.clamp(max=0)
        total = layer.forward(x, weight) - layer.forward(lowest, up) - layer.forward(highest, down)
        s = quotient(R, total)
        from_input = x * layer.backward(x, weight, s)
        return from_input - lowest * layer.backward(x, up, s) - highest * layer.backward(x, down, s)

    return Rule("z_box", function, maps_relevance=True, params={"low": low, "high": high}, conserves="always")


RULES: OpenTable[Callable[..., Rule]] = OpenTable(
    "rule",
    {
        "z": z,
        "epsilon": epsilon,
        "gamma": gamma,
        "alpha_beta": alpha_beta,
        "z_plus": z_plus,
        "flat": flat,
        "w_square": w_square,
        "z_box": z_box,
    },
)


def rule_named(name: str, settings: Mapping[str, Any]) -> Rule:
    """Make the rule of a name in `RULES` with these settings."""
    try:
        rule = RULES[name](**settings)
    except TypeError as error:
        raise InvalidParameter(f"rule_params do not fit rule {name!r}: {error}") from error
    if not isinstance(rule, Rule):
        raise InvalidParameter(f"Rule {name!r} with {dict(settings)} must be a Rule. Got {rule!r} instead.")
    return rule


def four_coefficients(coefficients: tuple[float, float, float, float] = (2.0, -1.0, 0.0, 0.0)) -> Rule:
    """Rule of batch norm z = w x + b that keeps positive inputs only, with the coefficients (2, −1, 0, 0).

    R_i = (α₀ x⁺w⁺/(x⁺w⁺ + b⁺) + α₁ x⁺w⁻/(x⁺w⁻ + b⁻) + α₂ x⁻w⁺/(x⁻w⁺ + b⁻) + α₃ x⁻w⁻/(x⁻w⁻ + b⁺)) R_j. It does
    not conserve: for w > 0, b = 0 it hands on 2R_j, and nothing where x < 0.
    """

    def function(layer: LinearMap, x: Tensor, z: Tensor, c: Tensor) -> Tensor:
        relevance = c * z
        handed = torch.zeros_like(x)
        signs = ((True, True), (True, False), (False, True), (False, False))
        for alpha, (above, upper) in zip(coefficients, signs, strict=True):
            if alpha == 0:
                continue
            weight = sign(layer.weight, positive=upper)
            # Each bias is taken with the sign of its numerator, so that no share exceeds one.
            bias = signed_bias(layer, positive=above == upper)
            whole = layer.forward(sign(x, positive=above), weight, bias)
            share = layer.backward(x, weight, quotient(alpha * relevance, whole))
            handed += share * (x > 0 if above else x < 0)
        return handed

    return Rule("four_coefficients", function)


def _one_way(name: str, choose: Callable[[tuple[int, ...]], int]) -> Rule:
    """Rule of additions that gives everything to the summand whose depth is chosen; ties share evenly."""

    def function(layer: LinearMap, x: Tensor, _: Tensor, R: Tensor) -> Tensor:
        depths = layer.geometry["depths"]
        wanted = choose(depths)
        takers = [k for k, depth in enumerate(depths) if depth == wanted]
        handed = torch.zeros_like(x)  # x holds the summands, stacked along its first axis
        for k in takers:
            handed[k] = R / len(takers)
        return handed

    return Rule(name, function, maps_relevance=True)


def shortcut() -> Rule:
    """Rule of additions: all relevance to the summand that came through the fewest layers."""
    return _one_way("shortcut", min)


def branch() -> Rule:
    """Rule of additions: all relevance to the summand that came through the most layers."""
    return _one_way("branch", max)


RESIDUAL_RULES: Mapping[str, Callable[..., Rule]] = MappingProxyType(
    {
        "epsilon": epsilon,
        "gamma": gamma,
        "alpha_beta": alpha_beta,
        "z_plus": z_plus,
        "equal": flat,
        "shortcut": shortcut,
        "branch": branch,
    }
)
