"""Images and series explained cell by cell, through a model of their patches."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tellwhy.core.capabilities import HasGradient, HasObserved
from tellwhy.core.errors import UnsupportedModel
from tellwhy.core.explainer import LearnsFromRows
from tellwhy.core.parallel import in_threads
from tellwhy.core.params import Rule, Rules, one_of
from tellwhy.core.registry import Card, card, cards, register
from tellwhy.core.score_function import Floats
from tellwhy.data.patch_rows import HasFeatures, HasPatches, OnDevice
from tellwhy.data.patches import Piece
from tellwhy.explainers.base import Attribution, Rows, ScoreExplainer, lacks
from tellwhy.scoring.scores.flat_score import FlatScore


@register(
    "explainer",
    family="decomposition",
    needs="a PatchModel: a sum of scores of patches",
    cost="that of explaining every patch, in threads, with memory for a few thousand patches",
    exactness="that of the method for patches: closed form where One-Class DTD applies",
    citation="Kauffmann, Müller, Montavon, Pattern Recognition 101 (2020) 107198, section 7",
    applies=lambda score: isinstance(score, (HasPatches, HasFeatures)),
    automatic=0,
)
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
            return self._through_network(score, score.checked(inputs))
        if not isinstance(score, HasPatches):
            raise lacks(score, "PatchRelevance", "patches (tellwhy.detectors.PatchModel)")
        return _attribution(self._explained_patches(score, score.checked(inputs)), len(inputs))

    def _through_network(self, score: Any, inputs: Floats) -> Attribution:
        """Explain activations, and carry their relevance back to the inputs."""
        features = score.features
        activations = features.activations(inputs)
        found = self._explained_patches(score.patches, score.patches.checked(activations))
        if found["kind"] != "attribution":
            raise UnsupportedModel(
                f"{found['by']} gives no shares of the score that could be carried back through the network. "
                "Leave by= out."
            )
        named = _rule_or_composite(self.through)
        lrp = card("network explainer", "LRP").cls(features.network, **named)
        x = features.as_tensor(inputs)
        carried = lrp.from_outputs(x, features.as_output(found["values"]))
        values = features.as_inputs(carried, inputs.shape[1:])
        return _attribution({**found, "values": values}, len(inputs))

    def _explained_patches(self, score: Any, inputs: Floats) -> dict[str, Any]:
        """Explain piece after piece, and add up in the order of the pieces: threads do not change a digit."""
        if isinstance(score, OnDevice) and self.by in ("auto", "OneClassDTD"):
            return _on_device(score.on_device.relevance(inputs), len(inputs))
        prepared = score.patch_rows.prepared(inputs)
        tasks = score.pieces_and_scores(inputs.shape)
        explainers = {id(inner): self._explainer(inner) for _, inner in tasks}
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

    def _explainer(self, inner: Any) -> Any:
        """Return an explainer of single patches that is ready to explain."""
        chosen = _automatic(inner) if self.by == "auto" else card("explainer", self.by)
        explainer = chosen.cls(inner)
        if isinstance(explainer, LearnsFromRows):
            if not isinstance(inner, HasObserved):
                raise UnsupportedModel(
                    f"{chosen.name} learns from ordinary patches, and {inner.describes} keeps none."
                )
            explainer.fit(inner.observed.rows)
        return explainer


def _attribution(found: dict[str, Any], n: int) -> Attribution:
    return Attribution(
        found["values"].reshape(n, -1),
        found["scores"],
        found["base"],
        extras={"positions": found["positions"]},
        params={"patches_explained_by": found["by"], "patches_left_out": found["left_out"]},
        kind=found["kind"],
    )


def _on_device(found: dict[str, Any], n: int) -> dict[str, Any]:
    """What a device found, in the words of what threads find."""
    scores = found["positions"].reshape(n, -1).sum(axis=1)
    return {**found, "scores": scores, "by": "OneClassDTD", "kind": "attribution"}


def _rule_or_composite(name: str) -> dict[str, str]:
    """The parameter of LRP that a name is for: composites name several rules at once."""
    several = name.startswith(("preset", "epsilon_plus"))
    return {"composite": name} if several else {"rule": name}


def _automatic(inner: Any) -> Card:
    """The cheapest exact method: others are too slow for the hundred thousand patches of a picture."""
    direct = [c for c in cards("explainer") if c.automatic == 0 and c.name != "PatchRelevance"]
    for candidate in direct:
        if candidate.applies is not None and candidate.applies(inner):
            return candidate
    is_smooth = isinstance(inner, HasGradient) and isinstance(inner, HasObserved)
    return card("explainer", "IntegratedGradients" if is_smooth else "Occlusion")
