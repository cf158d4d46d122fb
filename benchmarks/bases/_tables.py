"""Pages of what kernel_bases.py measured: one table per figure and table of the thesis' chapter IV."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.results import publish

SHORT = {"random": "RB", "unsupervised": "UAB", "supervised": "SAB", "discriminative": "DAB"}
LEAST_RATE = 1e-4
# Tables IV.1 and A.1 of the thesis: best accuracy in %, RB/UAB/SAB/DAB.
THESIS = {
    ("mnist", "gaussian"): (98.2, 98.2, 98.3, 98.3),
    ("covtype", "gaussian"): (91.9, 91.9, 90.4, 95.2),
    ("letter", "gaussian"): (96.1, 96.1, 97.1, 97.6),
    ("usps", "gaussian"): (95.1, 95.0, 94.5, 95.3),
    ("adult", "gaussian"): (85.1, 85.0, 84.8, 85.1),
    ("cifar10", "gaussian"): (76.4, 76.8, 79.0, 77.3),
    ("mnist", "arccos"): (97.2, 97.4, 97.7, 97.9),
    ("covtype", "arccos"): (83.6, 83.1, 88.7, 92.9),
    ("letter", "arccos"): (95.3, 95.3, 90.0, 98.7),
    ("usps", "arccos"): (94.3, 94.4, 92.0, 95.1),
    ("adult", "arccos"): (85.0, 85.1, 84.9, 85.0),
    ("cifar10", "arccos"): (74.9, 76.3, 79.4, 75.3),
}


def tried_lines(units: list[dict[str, Any]]) -> pd.DataFrame:
    """One line per basis that was trained; `judged` is the smaller, the better it did on rows held out."""
    keys = ("part", "set", "kernel", "basis", "structure", "n_blocks", "split", "rate", "device", "batches")
    rows = []
    for unit in units:
        about = {**{k: unit[k] for k in keys}, "planned": unit["epochs"]}
        rows += [{**about, **line} for line in unit["found"]]
    lines = pd.DataFrame(rows)
    lines = lines[lines.basis.isin(list(SHORT))]
    by_label = lines.basis.eq("supervised") & lines.held_accuracy.notna()
    lines["judged"] = lines.held.where(~by_label, -lines.held_accuracy).fillna(0.0)
    return lines


def lines_of(units: list[dict[str, Any]]) -> pd.DataFrame:
    """One line per basis that was measured; of several rates and epochs, the one that did best on rows held out."""
    lines = well_trained(tried_lines(units))
    place = ["part", "set", "kernel", "basis", "structure", "n_blocks", "split", "features", "shown_rate"]
    lines["shown_rate"] = lines.rate.where(lines.part == "transfer", 0.0)  # all of them, as it matters there
    return (
        lines.sort_values("judged", kind="stable").drop_duplicates(place).sort_index().reset_index(drop=True)
    )


def well_trained(tried: pd.DataFrame) -> pd.DataFrame:
    """Leave out steps so short that a basis stays about random: they only show what training changes."""
    return tried[(tried.rate == 0) | (tried.rate >= LEAST_RATE)].copy()


def best_accuracies(lines: pd.DataFrame) -> pd.DataFrame:
    """Best test accuracy over the numbers of features, and how far from the thesis' in points."""
    rows = []
    for (name, kernel), group in lines.groupby(["set", "kernel"], sort=False):
        row = {"set": name, "kernel": kernel}
        for kind, printed in zip(SHORT, THESIS.get((name, kernel), (None,) * 4), strict=True):
            own = group[group.basis == kind]
            if len(own):
                best = own.loc[own.accuracy.idxmax()]
                row[SHORT[kind]] = f"{100 * best.accuracy:.1f} (D={best.features:,})"
                row[f"{SHORT[kind]}, thesis"] = "–" if printed is None else f"{printed:.1f}"
                row[f"{SHORT[kind]} − thesis"] = (
                    "–" if printed is None else f"{100 * best.accuracy - printed:+.1f}"
                )
        rows.append(row)
    return pd.DataFrame(rows).fillna("–")


def by_features(lines: pd.DataFrame, value: str, index: list[str], digits: str) -> pd.DataFrame:
    """One column per number of features."""
    order = {kind: place for place, kind in enumerate(SHORT)}
    table = (
        lines.dropna(subset=[value])
        .groupby([*index, "basis", "features"])[value]
        .mean()
        .unstack("features")
        .reset_index()
    )
    table = table.sort_values([*index, "basis"], key=lambda c: c.map(order) if c.name == "basis" else c)
    table["basis"] = table["basis"].map(SHORT)
    numbers = [c for c in table.columns if not isinstance(c, str)]
    for column in numbers:
        table[column] = [("–" if pd.isna(v) else format(v, digits)) for v in table[column]]
    return table.rename(columns={c: f"D={c:,.0f}" for c in numbers})


def fewer_features(lines: pd.DataFrame) -> pd.DataFrame:
    """How many times more random features reach the kernel error of an adapted basis, interpolated in logarithms."""
    rows = []
    for (name, kernel), group in lines.dropna(subset=["error"]).groupby(["set", "kernel"], sort=False):
        random = group[group.basis == "random"].groupby("features").error.mean()
        for size, error in group[group.basis == "unsupervised"].groupby("features").error.mean().items():
            reached = np.minimum.accumulate(random.to_numpy())[::-1]
            needed = np.exp(np.interp(np.log(error), np.log(reached), np.log(random.index.to_numpy())[::-1]))
            times = f"{needed / size:.1f}" if error >= reached[0] else f"> {random.index[-1] / size:.1f}"
            rows.append({"set": name, "kernel": kernel, "features": f"UAB, D={size:,.0f}", "times": times})
    table = pd.DataFrame(rows).pivot(index=["set", "kernel"], columns="features", values="times")
    order = sorted(table.columns, key=lambda c: float(c.split("=")[1].replace(",", "")))
    return table[order].fillna("–").reset_index()


def small_bases(lines: pd.DataFrame, limits: pd.DataFrame) -> pd.DataFrame:
    """Errors of few trained features beside the least that is possible, and what ten times more random ones reach."""
    rows = []
    for line in limits.itertuples():
        own = (
            lines[(lines.set == line.set) & (lines.kernel == line.kernel)]
            .set_index(["basis", "features"])
            .error
        )
        row = {"set": line.set, "kernel": line.kernel, "D": f"{line.features:,}"}
        row["any features"], row["any phases"] = line.error, getattr(line, "free_phases", np.nan)
        row["UAB"] = own.get(("unsupervised", line.features), np.nan)
        row["RB, 10 D"] = own.get(("random", 10 * line.features), np.nan)
        rows.append(
            {k: v if isinstance(v, str) else ("–" if pd.isna(v) else f"{v:.2g}") for k, v in row.items()}
        )
    return pd.DataFrame(rows)


def parts_of(lines: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Text and table of each experiment that was run."""
    part = dict(list(lines.groupby("part", sort=False)))
    main, place = lines[lines.part.isin(["main", "wide"])], ["set", "kernel"]
    found = [
        ("Best accuracy in % over the numbers of features (tables IV.1 and A.1).", best_accuracies(main)),
        ("Accuracy in % (figures IV.1 and A.1).", by_features(percent(main), "accuracy", place, ".1f")),
        (
            "Kernel error, mean of ½(k − φ·φ')² over pairs of test rows.",
            by_features(main, "error", place, ".2g"),
        ),
        (TIMES, fewer_features(main)),
    ]
    if "limits" in part:
        found.append((LIMITS, small_bases(main, part["limits"])))
    if "printed" in part:
        found.append((PRINTED, by_features(part["printed"], "error", place, ".2g")))
        found.append((f"With that factor: {TIMES[0].lower()}{TIMES[1:]}", fewer_features(part["printed"])))
    if "exact" in part:
        exact = percent(part["exact"])[["set", "accuracy", "C"]].round(1)
        found.append(
            ("Support vector machines with the exact Gaussian kernel, C chosen on rows held out.", exact)
        )
    return found + variants_of(part)


def variants_of(part: dict[str, pd.DataFrame]) -> list[tuple[str, pd.DataFrame]]:
    """Figures IV.2 to IV.5."""
    found = []
    if "transfer" in part:
        moved = part["transfer"]
        text = f"MNIST, {moved.split.nunique()} random splits into five and five classes, mean accuracy in % on {{}}."
        moved = percent(moved).assign(transferred=100 * moved.transferred)
        found.append((text.format("the first five"), by_features(moved, "accuracy", ["rate"], ".1f")))
        text = text.format("the other five, on the bases of the first (figure IV.2)")
        found.append((text, by_features(moved, "transferred", ["rate"], ".1f")))
    for name, index, text in (
        (
            "deep",
            ["set", "kernel"],
            "{} of deep arc-cosine kernels, features shared out among layers (figure IV.3).",
        ),
        ("blocks", ["set", "n_blocks"], "{} with 1, 2 or 3 Hadamard blocks, Gaussian kernel (figure IV.4)."),
    ):
        if name in part:
            own = part[name]
            found.append((text.format("Accuracy in %"), by_features(percent(own), "accuracy", index, ".1f")))
            found.append((text.format("Kernel error"), by_features(own, "error", index, ".2g")))
    if "rows" in part:
        found.append((ROWS, by_features(percent(part["rows"]), "accuracy", ["set", "kernel"], ".1f")))
    if "optimisation" in part:
        own = part["optimisation"]
        text = (
            "End-to-end bases, sines and cosines against ReLU: {} (figure IV.5). Constant learning rate 1e-3, stopped "
            f"when the loss held out has not fallen for ten epochs, at most {own.planned.max()} epochs of as many "
            "batches as named."
        )
        index = ["set", "kernel", "batches"]
        found.append((text.format("epochs until stopped"), by_features(own, "epochs", index, ".0f")))
        found.append((text.format("accuracy in %"), by_features(percent(own), "accuracy", index, ".1f")))
    return found


TIMES = (
    "How many times more random features reach the error of an unsupervised basis (asked for: 10 at small D)."
)
LIMITS = (
    "Why 10 times is out of reach for few sines and cosines: least errors possible on 400 test rows. 'Any features': D "
    "features of whatever kind, from the kernel's eigenvalues. 'Any phases': √(2/D)[sin, cos] of D/2 phases chosen for "
    "each row freely, found by descent from two starts. To gain 10 times, UAB would have to reach the last column."
)
ROWS = (
    "Accuracy in % of end-to-end bases with 500 training rows held out in place of 4,500 (Letter) and 1,290 (USPS), "
    "and so more rows to learn from."
)
ALIGNMENTS = (
    "Supervised arc-cosine bases on MNIST with many features: training for alignment costs accuracy. Rates below 0.0001"
    " are in this table alone."
)
CHOICES = (
    "Learning rates that were tried for bases of 1,000 features and more, the best on validation rows first. 'Long': "
    "ten times the batches an epoch, as many as in the thesis."
)
PRINTED = (
    "Kernel errors with the thesis' printed factor √(1/D) in place of √(2/D). Random features then tend to half the "
    "kernel and their error stalls, while training makes up for the factor."
)


def trained_with(lines: pd.DataFrame) -> str:
    """Epochs and device of each set."""
    trained = lines[(lines.rate > 0) & (lines.part != "optimisation")]
    runs = trained.groupby("set", sort=False).agg(device=("device", "first"), epochs=("planned", "max"))
    return "; ".join(
        f"{', '.join(own.index)}: {epochs} epochs on {device}"
        for (device, epochs), own in runs.groupby(["device", "epochs"], sort=False)
    )


def choices(tried: pd.DataFrame) -> pd.DataFrame:
    """What was tried where there was a choice: accuracies on rows held out, which decided, and on test rows."""
    place = ["set", "kernel", "basis", "features"]
    own = tried[tried.part.isin(["main", "wide"]) & tried.basis.isin(["supervised", "discriminative"])]
    own = own[(own.features >= 1_000) & (own.groupby(place).part.transform("size") > 1)].sort_values(
        [*place, "judged"]
    )
    rows = []
    for (name, kernel, basis, size), group in own.groupby(place, sort=False):
        row = {"set": name, "kernel": kernel, "basis": SHORT[basis], "D": f"{size:,}"}
        shown = [
            f"{line.rate:g}{'' if line.batches == tried.batches.min() else ', long'}: "
            f"{100 * held_accuracy(line):.1f} → {100 * line.accuracy:.1f}"
            for line in group.itertuples()
        ]
        rows.append({**row, "rate: validation → test, in % (the first was kept)": "; ".join(shown)})
    return pd.DataFrame(rows)


def alignments(tried: pd.DataFrame) -> pd.DataFrame:
    """Supervised arc-cosine bases on MNIST, the least trained first: alignment reached, and accuracies."""
    own = tried[(tried.set == "mnist") & (tried.kernel == "arccos") & tried.part.isin(["main", "wide"])]
    own = own[
        own.features.isin([3_000, 30_000]) & own.basis.isin(["random", "supervised"]) & (own.batches == 1_000)
    ]
    rows = []
    for line in own.sort_values(["features", "rate"]).itertuples():
        row = {"D": f"{line.features:,}", "rate": f"{line.rate:g}" if line.rate else "not trained"}
        row["alignment of validation rows"] = f"{-line.held:.2f}" if line.rate else "–"
        row["validation, %"], row["test, %"] = f"{100 * line.held_accuracy:.1f}", f"{100 * line.accuracy:.1f}"
        rows.append(row)
    return pd.DataFrame(rows)


def held_accuracy(line: Any) -> float:
    """Share of right rows held out: of the classifier on a fixed basis, or of the one trained with it."""
    return line.held_accuracy if line.basis == "supervised" else 1 - line.held


def percent(lines: pd.DataFrame) -> pd.DataFrame:
    return lines.assign(accuracy=100 * lines.accuracy)


def publish_all(units: list[dict[str, Any]]) -> None:
    """Draw and publish everything there are results for."""
    from benchmarks.bases._plots import draw_all

    lines = lines_of(units)
    pictures = ", ".join(f"[{name}](../images/{name})" for name in draw_all(lines))
    about = (
        "Columns centred and scaled to [−1, 1]; σ is the mean distance to the 50th neighbour. Bases: Adam, batches of "
        f"64, {lines.batches.min():,} batches an epoch (thesis: 10,000), a learning rate that falls to 0 in a straight "
        f"line ({trained_with(lines)}); the epoch, and where several rates or lengths were tried the one, that did "
        "best on validation rows is kept (last table). On a fixed basis the softmax is a "
        "convex problem: it is solved by limited-memory BFGS for five ridges, and the weights with the fewest wrong "
        "validation rows are kept. One repeat (thesis: 3). Accuracies are those of test rows; 'best' takes the best "
        "number of features on the test rows, as the thesis does. RB, UAB, SAB, DAB: random, unsupervised, supervised "
        "and discriminative basis. Not like for like: Covtype is a public part of 93,000 rows (thesis: 581,000); "
        "CIFAR-10 is another set than the thesis', 12,000 images of 60,000 with features from 200 patch centres, so that "
        f"its rows cannot be compared; Madelon takes the place of Gisette. Pictures: {pictures}."
    )
    parts = parts_of(lines)
    if len(table := choices(well_trained(tried_lines(units)))):
        parts += [(ALIGNMENTS, alignments(tried_lines(units))), (CHOICES, table)]
    parts[0] = (f"{about}\n\n{parts[0][0]}", parts[0][1])
    publish("kernel_bases", "Kernel bases: random and adapted", parts, peers=("torch",))
