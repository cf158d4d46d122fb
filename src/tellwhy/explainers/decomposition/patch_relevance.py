"""Images and series explained cell by cell, through a model of their patches (One-Class DTD, section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tellwhy.core.arrays import as_floats
from tellwhy.core.errors import InvalidInput, UnsupportedModel
from tellwhy.core.explainer import LearnsFromRows
from tellwhy.core.params import Rule, Rules, integer, one_of
from tellwhy.core.registry import Card, card, cards
from tellwhy.core.running import in_threads
from tellwhy.core.score import Floats, HasGradient, HasReferenceRows
from tellwhy.data.pieces import HasFeatures, HasPatches, OnDevice, PatchRows, Piece, Windows, cut_patches
from tellwhy.explainers.base import ScoreExplainer, lacks, refuse_set
from tellwhy.explainers.decomposition.one_class_dtd import OneClassDTD
from tellwhy.explainers.rows import Attribution, Rows
from tellwhy.scoring.as_score import as_score
from tellwhy.scoring.function_scores import FlatScore


class PatchRelevance(ScoreExplainer):
    """R_p = Σ over patches that cover cell p of what the patch's explanation gives it.

    The score of an input is O = Σ_t o_t, so that the relevance of a patch is its score, R_t = o_t. A method
    for rows spreads it over the cells of the patch; cells add up what all patches that cover them give.
    Cells at the rim are covered by fewer patches.

    Parameters
    ----------
    model
        A fitted `PatchModel`.
    by
        Name of the method that explains single patches. "auto": One-Class DTD for models made of distances,
        a committee's own shares, else integrated gradients from the mean of the training patches, else
        occlusion.
    through
        Of models with `features`: the rules by which LRP carries the relevance of activations back to the
        inputs, a composite's or a rule's name. "epsilon_plus_flat" hands on what is there, also to the
        inputs of a unit that is silent and should not be.

    Examples
    --------
    >>> from tellwhy.detectors import PatchModel
    >>> waves = np.sin(np.arange(200) / 3 + np.arange(4.0)[:, None])
    >>> model = PatchModel(patch_size=8, n_train_patches=300).fit(waves)
    >>> waves[0, 100] += 2.0
    >>> int(PatchRelevance(model).explain(waves[:1]).values[0].argmax())
    100
    """

    _parameters: ClassVar[dict[str, Rules]] = {
        "by": (one_of("auto"), Rule("the name of a method for rows", lambda name: isinstance(name, str))),
        "through": Rule("the name of a composite or rule of LRP", lambda name: isinstance(name, str)),
    }

    def __init__(self, model: object, *, by: str = "auto", through: str = "epsilon_plus_flat"):
        super().__init__(model)
        self.by = by
        self.through = through

    def _attribute(self, rows: Rows) -> Attribution:
        score = rows.score.inner if isinstance(rows.score, FlatScore) else rows.score
        inputs = rows.X if rows.shape is None else rows.X.reshape(len(rows.X), *rows.shape)
        if isinstance(score, HasFeatures):
            return self._explain_through_network(score, score.checked(inputs))
        if not isinstance(score, HasPatches):
            raise lacks(score, "PatchRelevance", "patches (tellwhy.detectors.PatchModel)")
        refuse_set(self, "through", "models of a network's features, back through which it goes")
        return _make_attribution(self._explain_patches(score, score.checked(inputs)), len(inputs))

    def _explain_through_network(self, score: Any, inputs: Floats) -> Attribution:
        """Explain activations, and carry their relevance back to the inputs."""
        features = score.features
        activations = features.activations(inputs)
        found = self._explain_patches(score.patches, score.patches.checked(activations))
        if found["kind"] != "attribution":
            raise UnsupportedModel(
                f"{found['by']} gives no shares of the score that could be carried back through the network. "
                "Leave by= out."
            )
        named = _name_rule_or_composite(self.through)
        lrp = card("network explainer", "LRP").cls(features.network, **named)
        x = features.as_tensor(inputs)
        carried = lrp.from_outputs(x, features.as_output(found["values"]))
        values = features.as_inputs(carried, inputs.shape[1:])
        return _make_attribution({**found, "values": values}, len(inputs))

    def _explain_patches(self, score: Any, inputs: Floats) -> dict[str, Any]:
        """Explain piece after piece, and add up in the order of the pieces: threads do not change a digit."""
        if isinstance(score, OnDevice) and self.by in ("auto", "OneClassDTD"):
            return _explain_on_device(score.on_device.relevance(inputs), len(inputs))
        prepared = score.patch_rows.prepared(inputs)
        tasks = score.pieces_and_scores(inputs.shape)
        explainers = {id(inner): self._make_explainer(inner) for _, inner in tasks}
        values = np.zeros(inputs.shape)
        positions = np.zeros((len(inputs), *score.patch_rows.windows.grid(inputs.shape[1:])))
        bases = np.zeros_like(positions)
        n_left_out = 0

        def explain(task: tuple[Piece, Any]) -> Any:
            return explainers[id(task[1])].explain(score.patch_rows.cut(prepared, task[0]))

        for (piece, _), found in zip(tasks, in_threads(explain, tasks, "explaining patches"), strict=True):
            score.patch_rows.fold(values, found.values, piece)
            place = (piece.inputs, *piece.positions)
            positions[place] += found.scores.reshape(positions[place].shape)
            bases[place] += found.base_values.reshape(positions[place].shape)
            n_left_out += int((found.extras["left_out"] >= 0).sum()) if "left_out" in found.extras else 0
        return {
            "values": values,
            "positions": positions,
            "scores": positions.reshape(len(inputs), -1).sum(axis=1),
            "base": bases.reshape(len(inputs), -1).sum(axis=1),
            "by": found.method,
            "kind": found.kind,
            "left_out": n_left_out,
        }

    def _make_explainer(self, inner: Any) -> Any:
        """Return an explainer of single patches that is ready to explain."""
        chosen = _choose_automatically(inner) if self.by == "auto" else card("explainer", self.by)
        explainer = chosen.cls(inner)
        if isinstance(explainer, LearnsFromRows):
            if not isinstance(inner, HasReferenceRows):
                raise UnsupportedModel(
                    f"{chosen.name} learns from ordinary patches, and {inner.describes} keeps none."
                )
            explainer.fit(inner.reference_rows.rows)
        return explainer


def _make_attribution(found: dict[str, Any], n: int) -> Attribution:
    return Attribution(
        found["values"].reshape(n, -1),
        found["scores"],
        found["base"],
        extras={"positions": found["positions"]},
        params={"patches_explained_by": found["by"], "patches_left_out": found["left_out"]},
        kind=found["kind"],
    )


def _explain_on_device(found: dict[str, Any], n: int) -> dict[str, Any]:
    """What a device found, in the words of what threads find."""
    scores = found["positions"].reshape(n, -1).sum(axis=1)
    return {**found, "scores": scores, "by": "OneClassDTD", "kind": "attribution"}


def _name_rule_or_composite(name: str) -> dict[str, str]:
    """The parameter of LRP that a name is for: composites name several rules at once."""
    several = name.startswith(("preset", "epsilon_plus"))
    return {"composite": name} if several else {"rule": name}


def _choose_automatically(inner: Any) -> Card:
    """The cheapest exact method: others are too slow for the hundred thousand patches of a picture."""
    direct = [c for c in cards("explainer") if c.automatic == 0 and c.name != "PatchRelevance"]
    for candidate in direct:
        if candidate.applies is not None and candidate.applies(inner):
            return candidate
    is_smooth = isinstance(inner, HasGradient) and isinstance(inner, HasReferenceRows)
    return card("explainer", "IntegratedGradients" if is_smooth else "Occlusion")


def _are_sizes(value: Any) -> bool:
    return np.ndim(value) == 1 and len(value) > 0 and all(int(p) == p and p > 0 for p in value)


class PatchSum:
    """A score of patches, summed over the patches of an input: what `PatchDTD` explains."""

    feature_names: Sequence[str] | None = None
    feature_shape: tuple[int, ...] | None = None
    threshold: float | None = None

    def __init__(self, inner: Any, windows: Windows):
        self.inner = inner
        self.patch_rows = PatchRows(windows, np.ones(1))

    @property
    def describes(self) -> str:
        """Which number it is."""
        return f"sum over patches of the {self.inner.describes}"

    def checked(self, X: ArrayLike) -> Floats:
        """Return inputs as finite numbers, or say what is wrong with them."""
        shape = np.shape(X)
        # as_floats names the bad cell of a table, so inputs of more axes are laid flat for it
        if len(shape) < 2 or 0 in shape:
            raise InvalidInput(f"Expected inputs of shape (n, *axes), at least one. Got shape {shape}.")
        rows = X if len(shape) == 2 else np.asarray(X).reshape(shape[0], -1)
        return as_floats(rows).reshape(shape)

    def pieces_and_scores(self, shape: tuple[int, ...]) -> list[tuple[Piece, Any]]:
        """Return a piece for each input of a shape, with the score of its patches."""
        every = tuple(slice(0, n) for n in self.patch_rows.windows.grid(shape[1:]))
        return [(Piece(slice(i, i + 1), every), self.inner) for i in range(shape[0])]

    def value(self, X: ArrayLike) -> Floats:
        """Return the sum of each input."""
        windows = self.patch_rows.windows
        each = (cut_patches(one, windows.size, windows.stride) for one in self.checked(X))
        return np.array([self.inner.value(patches).sum() for patches in each])


class PatchDTD(PatchRelevance):
    """Explain O(x) = Σ_t o(patch t) pixel by pixel, or sample by sample (section 7 of the paper).

    The score of an input is the sum over its patches; each patch's score is its relevance (R_t = o_t), which
    One-Class DTD spreads over the patch's pixels; pixels add up what all patches that cover them give.

    Parameters
    ----------
    model
        A one-class model of patches, as `tellwhy.data.pieces.cut_patches` gives them.
    patch_size
        Size along each axis: (7, 7) for images (height, width[, channels]), (16,) for sequences (time[,
        channels]).
    stride
        Step between patches.
    training_rows
        As in `OneClassDTD`: patches that the model was trained on are explained without themselves.

    Examples
    --------
    >>> from tellwhy.detectors import OneClassSVM
    >>> wave = np.sin(np.arange(200) / 3)
    >>> model = OneClassSVM(nu=0.2).fit(cut_patches(wave, (8,)))
    >>> broken = wave.copy()
    >>> broken[100] += 2.0
    >>> int(PatchDTD(model, patch_size=(8,)).explain(broken[None]).values[0].argmax())
    100
    """

    by = OneClassDTD.__name__
    _parameters: ClassVar[dict[str, Rules]] = {
        "patch_size": Rule("a sequence of whole numbers above 0", _are_sizes),
        "stride": integer(1),
        "training_rows": OneClassDTD._parameters["training_rows"],
    }

    def __init__(
        self,
        model: object,
        *,
        patch_size: Sequence[int],
        stride: int = 1,
        training_rows: ArrayLike | str | None = "auto",
    ):
        ScoreExplainer.__init__(self, model)
        self.patch_size = patch_size
        self.stride = stride
        self.training_rows = training_rows

    @cached_property
    def score(self) -> PatchSum:
        """The sum over patches of the model's score."""
        return PatchSum(as_score(self.model), Windows(tuple(map(int, self.patch_size)), int(self.stride)))

    def _read(self, X: ArrayLike) -> Rows:
        inputs = self.score.checked(X)
        flat = inputs.reshape(len(inputs), -1)
        shape = inputs.shape[1:]
        return Rows(FlatScore(self.score, shape), flat, np.arange(flat.shape[1]), flat.shape[1], shape)

    def _attribute(self, rows: Rows) -> Attribution:
        inputs = rows.X.reshape(len(rows.X), *rows.input_shape)
        return _make_attribution(self._explain_patches(self.score, inputs), len(inputs))

    def _settings(self) -> dict[str, Any]:
        return {"patch_size": tuple(self.patch_size), "stride": self.stride}

    def _make_explainer(self, inner: Any) -> Any:  # noqa: ARG002  # the model knows its training rows
        return OneClassDTD(self.model, training_rows=self.training_rows)
