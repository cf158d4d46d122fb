"""The page of kernel_bases_options.py: one table per question."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.bases._accuracies_page import accuracies, percent
from benchmarks.bases._errors_page import Part, digits, errors
from benchmarks.bases._tables import SHORT
from benchmarks.shared.places import RESULTS
from benchmarks.shared.results import publish


def publish_page(units: list[dict[str, Any]]) -> None:
    """Write every table there are results for, and the results themselves beside them."""
    lines = pd.DataFrame(
        [{**{k: v for k, v in u.items() if k != "found"}, **line} for u in units for line in u["found"]]
    )
    for name, missing in MISSING.items():
        lines[name] = lines[name].fillna(missing) if name in lines else missing
    is_drawn = lines.bias == "drawn"
    lines = lines.assign(bias=lines.bias.astype(bool), drawn_bias=lines.drawn_bias.where(~is_drawn, 1.0))
    parts: list[Part] = []
    for table in TABLES:
        parts += table(lines)
    told = sorted({f"{u['trial']} ({u['device']})" for u in units})
    parts[0] = (f"{ABOUT} Measured: {', '.join(told)}.\n\n{parts[0][0]}", parts[0][1])
    publish("kernel_bases_options", "Kernel bases: options and guarantees", parts, peers=("torch",))
    lines_of_results = ",\n".join(json.dumps(unit) for unit in units)
    (RESULTS / "kernel_bases_options.json").write_text(f"[\n{lines_of_results}\n]\n", encoding="utf-8")


MISSING = {
    "structure": "orthogonal",
    "amplitudes": False,
    "bias": False,
    "dropout": 0.0,
    "head": 1.0,
    "drawn_bias": 0.0,
    "half": False,
    "n_blocks": np.nan,
    "learner": "",
    "rows": np.nan,
    "batches": np.nan,
    "peak": np.nan,
    "gap": np.nan,
    "basis": "",
    "split": -1,
    "bandwidth": np.nan,
    "among": "",
}
ABOUT = (
    "Sets, scaling and training are those of [the experiments of the thesis](kernel_bases.md), with fewer steps: up to "
    "4,000 for landmarks and 2,000 for amplitudes. D is the number of features. What decides (epochs, rates, dropout, "
    "ridges) is decided on validation rows; figures are those of test rows."
)


def covtype(lines: pd.DataFrame) -> list[Part]:
    """Both readings of the bandwidth's rule, and wide bases whose softmax is solved."""
    widths = lines[(lines.trial == "bandwidths")]
    own = lines[(lines.set == "covtype") & lines.bandwidth.notna() & (lines.trial != "bandwidths")]
    if own.empty:
        return []
    own = own.drop_duplicates(["bandwidth", "basis", "features"], keep="last")
    said = "; ".join(f"among {line.among} {line.bandwidth:.2f}" for line in widths.itertuples())
    rows = [
        {
            "σ": f"{line.bandwidth:g}",
            "basis": SHORT[line.basis],
            "D": f"{line.features:,.0f}",
            "validation, %": percent(line.held_accuracy),
            "test, %": percent(line.accuracy),
            "refitted on all rows, %": percent(line.refitted),
            "ridge": f"{line.ridge:g}" if not pd.isna(line.ridge) else "–",
            "gap": digits(line.gap) if not pd.isna(line.gap) else "–",
        }
        for line in own.sort_values(["bandwidth", "basis", "features"]).itertuples()
    ]
    return [
        (
            f"CoverType, Gaussian kernel. Mean distance of 1,000 rows to their 50th neighbour: {said}. {WIDTH}",
            pd.DataFrame(rows),
        )
    ]


WIDTH = (
    "The thesis has 91.9 % for random bases and 95.2 % end to end, with 581,000 rows in place of 93,000. The softmax is "
    "solved to a duality gap of 0.001 of the objective, or its gap is shown."
)


def transfers(lines: pd.DataFrame) -> list[Part]:
    """Figure IV.2, with the amount of training, the classifier and the rank of features told apart."""
    own = lines[lines.trial == "transfer"]
    if own.empty:
        return []
    own = own.assign(
        steps=np.where(own.basis == "random", 0, own.epochs * own.batches.fillna(1_000)),
        kind=np.where(own.half, "SAB, half as drawn", own.basis.map(SHORT)),
        first_rank=[ranks[0] for ranks in own.ranks],
        other_rank=[ranks[1] for ranks in own.ranks],
    )
    drawn = own[own.basis == "random"].set_index(["features", "split"]).transferred
    better = own.transferred - drawn.reindex(pd.MultiIndex.from_frame(own[["features", "split"]])).to_numpy()
    own = own.assign(better=(better > 0).astype(float))
    groups = own.groupby(["features", "kind", "steps"], sort=False)
    table = groups.mean(numeric_only=True).assign(splits=groups.size()).reset_index()
    order = [*SHORT.values(), "SAB, half as drawn"]
    table = table.sort_values(
        ["features", "kind", "steps"], key=lambda c: c.map(order.index) if c.name == "kind" else c
    )
    n_rows = f"{own.rows.max():,.0f}" if own.rows.notna().all() else "all"
    text = f"Transfer on MNIST (figure IV.2), {own.split.nunique()} splits, {n_rows} rows, a fifth of them for validation"
    return [(f"{text}{TRANSFERS}", pd.DataFrame([_transfer_row(line) for line in table.itertuples()]))]


def _transfer_row(line: Any) -> dict[str, Any]:
    return {
        "D": f"{line.features:,.0f}",
        "basis": line.kind,
        "steps of training": f"{line.steps:,.0f}",
        "splits": line.splits,
        "first five, %": percent(line.accuracy),
        "other five, %": percent(line.transferred),
        "splits on which the other five do better than with RB": f"{line.better * line.splits:.0f}",
        "other five, short training of the softmax, %": percent(line.short),
        "effective rank, first five": f"{line.first_rank:.1f}",
        "effective rank, other five": f"{line.other_rank:.1f}",
    }


TRANSFERS = (
    ": a basis is trained on five classes, a softmax on it for the other five; means over splits. 'Short': 5 epochs of "
    "Adam in place of the solution. Effective rank: (Σλ)²/Σλ² of the covariance of features on test rows. 'Half as "
    "drawn': of the trained directions the second half is put back to where it began."
)


def blocks(lines: pd.DataFrame) -> list[Part]:
    """Figure IV.4 with many features."""
    own = lines[lines.n_blocks.notna()]
    if own.empty:
        return []
    own = own.assign(steps=own.epochs * own.batches.fillna(1_000))
    place = ["set", "basis", "features", "n_blocks"]
    # Of two trainings of the same basis the longer one is shown.
    own = own.sort_values([*place, "steps"]).drop_duplicates(place, keep="last")
    rows = [
        {
            "set": line.set,
            "basis": SHORT[line.basis],
            "D": f"{line.features:,.0f}",
            "blocks": f"{line.n_blocks:.0f}" if line.n_blocks else "dense",
            "steps of training": f"{line.steps:,.0f}",
            "validation, %": percent(line.held_accuracy),
            "test, %": percent(line.accuracy),
            "error of the start": digits(line.start_error),
            "error after training": digits(line.error),
            "measured on": line.device,
        }
        for line in own.itertuples()
    ]
    return [(BLOCKS, pd.DataFrame(rows))]


BLOCKS = (
    "Hadamard blocks with many features, Gaussian kernel (figure IV.4), beside dense orthogonal directions trained as "
    "long. UAB and SAB: a softmax solved on the finished basis with a ridge of 1e-6 or 1e-7 (on CoverType smaller ones do "
    "better, see its table, but those are the same for all); DAB: end to end. Rates that fall to 0 from 0.02, of SAB from "
    "0.001. Errors are the kernel's."
)


def step_times(lines: pd.DataFrame) -> list[Part]:
    """Appendix 1.3: how training times relate."""
    own = lines[lines.trial == "times"]
    if own.empty:
        return []
    place = ["device", "kernel", "features"]
    table = own.pivot_table(index=place, columns="basis", values="milliseconds").reset_index()
    rows = []
    for line in table.itertuples():
        times = {kind: getattr(line, kind) for kind in SHORT}
        row = {"device": line.device, "kernel": line.kernel, "D": f"{line.features:,.0f}"}
        row |= {f"{SHORT[k]}, ms": f"{v:.3f}" for k, v in times.items()}
        row |= {f"{SHORT[k]} : RB": f"{v / times['random']:.1f}" for k, v in times.items() if k != "random"}
        rows.append(row)
    return [(TIMES, pd.DataFrame(rows))]


TIMES = (
    "Training times (appendix 1.3): milliseconds of a step on MNIST, batches of 64 (UAB: 64 pairs). On a processor, of one "
    "core's time; on a graphics card, of a recorded step that is played again, other work at its side. RB is a step "
    "of the softmax on the drawn basis. The thesis has no table: times grow linearly with D, it says, RB and DAB are up to "
    "ten times faster than UAB and SAB, and RB up to ten times faster than DAB."
)


def alike(_: pd.DataFrame) -> list[Part]:
    """What is not as in the thesis."""
    return [
        (
            "What is not like for like with the thesis:",
            pd.DataFrame(ALIKE, columns=["what", "thesis", "here"]),
        )
    ]


ALIKE = [
    (
        "CIFAR-10",
        "60,000 images (5,000 for validation), features of Coates et al. (2011)",
        "another set: 12,000 images (1,000 for validation), 800 features of that kind from 200 patch centres at every "
        "second place; accuracies are not comparable with the thesis'",
    ),
    (
        "CoverType",
        "581,000 rows, 50,000 for validation",
        "93,000 rows, a fifth to test on, 10,000 for validation",
    ),
    ("Gisette", "yes", "not at hand; Madelon takes its place, without figures to compare"),
    (
        "steps of training",
        "10,000 batches an epoch, Adam, until ten epochs bring nothing",
        "1,000 batches an epoch, Adam with a rate that falls to 0",
    ),
    ("softmax of RB, UAB, SAB", "trained by Adam", "solved to a duality gap of 0.001 of the objective"),
    ("draws", "mean of 3", "as the column 'draws' says, elsewhere 1"),
    ("transfer", "all of MNIST, 5 splits", "as said above its table"),
    (
        "bias, dropout, longer steps of the classifier, refit",
        "not mentioned",
        "in the column 'with options' alone",
    ),
]


TABLES: tuple[Callable[[pd.DataFrame], list[Part]], ...] = (
    errors,
    accuracies,
    covtype,
    transfers,
    blocks,
    step_times,
    alike,
)
