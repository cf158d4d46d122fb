"""How far explanations of a network can be trusted: what is left over, and what carries the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tellwhy.core.explanation import Explanation
from tellwhy.core.progress import stage
from tellwhy.evaluation import region_flipping
from tellwhy.evaluation.systematic import strategies
from tellwhy.results.network_run import Absorbed, FoundGroup, MethodTold
from tellwhy.scoring import NetworkOutput

JUDGED = 64  # inputs that are painted over, the first ones
STEPS = 16
REGIONS = 7  # along each side of a picture
LINES = 6  # of a ledger
LEAST_GROUPED = 20  # explanations in which odd groups are looked for


@dataclass(frozen=True, eq=False)
class Judged:
    """A method as it was asked for, the explainer that was made, and what it said."""

    name: str
    title: str
    explainer: Any
    explanation: Explanation


def measure_trust(asked: Judged, model: Any, fill: Any, *, seed: int) -> MethodTold:
    """What is known of a method: its left-over, its ledger, and its areas beside those of random orders."""
    explanation = asked.explanation
    made: dict[str, Any] = {"name": asked.name, "title": asked.title, "kind": explanation.kind}
    if explanation.residual is not None:
        whole = np.abs(explanation.scores - explanation.base_values)
        made["left_over"] = float(np.median(np.abs(explanation.residual) / np.where(whole > 0, whole, 1.0)))
        made["ledger"] = _read_ledger(asked.explainer, explanation)
    if fill is None:
        return MethodTold(**made)
    stage(f"checking {asked.title}")
    made["is_checked"] = True
    flipped = _flip_regions(explanation[:JUDGED], model, fill, seed)
    ours, chance = flipped.areas, flipped.random.areas
    known = np.isfinite(ours) & np.isfinite(chance)
    if known.any():
        made["area"] = float(np.median(ours[known]))
        made["random_area"] = float(np.median(chance[known]))
        made["n_better"] = int((ours < chance)[known].sum())
        made["n_judged"] = int(known.sum())
    return MethodTold(**made)


def _read_ledger(explainer: Any, explanation: Explanation) -> tuple[Absorbed, ...]:
    """Operations that absorbed most, as shares of what was explained."""
    if not hasattr(explainer, "ledger"):
        return ()
    lines = explainer.ledger(np.asarray(explanation.data))
    total = float(np.abs(explanation.scores).sum()) or 1.0
    lines = lines.reindex(lines["absorbed"].abs().sort_values(ascending=False).index)
    lines = lines[lines["absorbed"].abs() > 0.001 * total].head(LINES)
    return tuple(
        Absorbed(str(line.path), str(line.operation), float(line.absorbed) / total)
        for line in lines.itertuples(index=False)
    )


def _flip_regions(explanation: Explanation, model: Any, fill: Any, seed: int) -> Any:
    """Regions painted over in the order of the explanation and in random orders."""
    batch = 1 if _need_single_rows(model) else 128
    score = NetworkOutput(model, np.asarray(explanation.extras["output"]), batch_size=batch)
    how: dict[str, Any] = {"n_random": 3, "n_steps": STEPS, "random_state": seed}
    if not isinstance(fill, str):  # a text, word by word
        score.has_levels = True
        return region_flipping(explanation, score, patch_size=1, axes=(0,), baseline=fill, **how)
    height, width = explanation.feature_shape[-2:]
    region = (max(1, -(-height // REGIONS)), max(1, -(-width // REGIONS)))
    return region_flipping(explanation, score, patch_size=region, baseline=fill, **how)


def _need_single_rows(model: Any) -> bool:
    return getattr(model, "input_shape", [None])[0] == 1


def find_groups(
    explanation: Explanation, names: Sequence[str], entries: Sequence[str]
) -> tuple[list[FoundGroup], int]:
    """Groups of explanations that look where others do not, and how many explanations were looked through."""
    if len(explanation) < LEAST_GROUPED:
        return [], 0
    stage("grouping explanations")
    of = np.asarray(names)[np.asarray(explanation.extras["output"])]
    found = strategies(explanation, of)
    made = [FoundGroup(group.words(), [entries[i] for i in group.rows], group.box) for group in found.odd]
    return made, len(explanation)
