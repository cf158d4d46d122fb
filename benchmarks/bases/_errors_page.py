"""Tables of kernel errors for the page of kernel_bases_options.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.places import RESULTS

Part = tuple[str, pd.DataFrame]


def digits(value: float) -> str:
    """Two digits, or a dash."""
    return "–" if pd.isna(value) else f"{value:.2g}"


def errors(lines: pd.DataFrame) -> list[Part]:
    """Kernel errors, factors against plain random features, and whether training ever did harm."""
    drawn = lines[lines.trial == "random errors"]
    trained = lines[(lines.trial == "trained errors") & (lines.structure != "hadamard")]
    trained = trained.drop_duplicates(["set", "kernel", "structure", "amplitudes", "features"], keep="last")
    if trained.empty or drawn.empty:
        return []
    places = sorted(
        set(trained[["set", "kernel"]].itertuples(index=False, name=None)), key=lambda p: (p[1], p[0])
    )
    shown, factors, before = [], [], earlier_errors()
    for name, kernel in places:
        random = drawn[(drawn.set == name) & (drawn.kernel == kernel)]
        own = trained[(trained.set == name) & (trained.kernel == kernel)]
        if random.empty:
            continue
        plain = random[random.structure == "dense"].set_index("features").error
        for size in (10, 30, 100):
            found = _errors_at(random, own, size)
            if np.isnan(found["unsupervised"]):
                found["unsupervised"] = before.get((name, kernel, size), np.nan)
            about = {"set": name, "kernel": kernel, "D": size}
            shown.append({**about, **{k: digits(v) for k, v in found.items()}})
            reach = {k: _needed(plain, v) for k, v in found.items() if k != "plain random"}
            factors.append({**about, **reach, "size": size})
    return [
        (ERRORS, pd.DataFrame(shown)),
        (FACTORS + _counts(factors), _times_table(factors)),
        _harm(trained),
    ]


ERRORS = (
    "Kernel error, mean of ½(k − φ·φ')² over 64,000 pairs of test rows. Random: mean of five draws. Unsupervised: trained "
    "on the kernel's values from orthogonal directions (where not measured again, of the earlier page); with a trained "
    "amplitude for each frequency; landmarks drawn among the rows, and the same landmarks trained. On the H200 a step of "
    "landmarks was measured in bandwidths, on the processor in their own root mean square, as the package does it."
)
FACTORS = (
    "How many times more plain random features reach the same error, interpolated in logarithms (>: more than the "
    "10,000 that were drawn)."
)


def earlier_errors() -> dict[tuple[str, str, int], float]:
    """Kernel errors of unsupervised bases on the earlier page."""
    lines = (RESULTS / "kernel_bases.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Kernel error, mean"))
    head = [cell.strip() for cell in lines[start + 2].strip("|").split("|")]
    sizes = [int(name[2:].replace(",", "")) for name in head[3:]]
    found = {}
    for line in lines[start + 4 :]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != len(head):
            break
        if cells[2] == "UAB":
            pairs = zip(sizes, cells[3:], strict=True)
            found |= {(cells[0], cells[1], size): float(v) for size, v in pairs if v != "–"}
    return found


def _errors_at(random: pd.DataFrame, own: pd.DataFrame, size: int) -> dict[str, float]:
    at = {
        s: random[(random.structure == s) & (random.features == size)].error for s in ("dense", "orthogonal")
    }
    found = {"plain random": at["dense"].mean(), "orthogonal": at["orthogonal"].mean()}
    here = own[own.features == size]
    points = here.structure == "landmarks"
    found["unsupervised"] = here[~points & ~here.amplitudes.astype(bool)].error.mean()
    found["with amplitudes"] = here[~points & here.amplitudes.astype(bool)].error.mean()
    found["landmarks, drawn"] = here[points].start_error.mean()
    found["landmarks, trained"] = here[points].error.mean()
    return found


def _needed(plain: pd.Series, error: float) -> float:
    """Plain random features that reach an error; beyond the most that were drawn, infinity."""
    if np.isnan(error):
        return np.nan
    reached = np.minimum.accumulate(plain.sort_index().to_numpy())
    if error < reached[-1]:
        return np.inf
    sizes = np.log(plain.sort_index().index.to_numpy(dtype=float))
    return float(np.exp(np.interp(np.log(error), np.log(reached)[::-1], sizes[::-1])))


def _times_table(factors: list[dict[str, Any]]) -> pd.DataFrame:
    rows = []
    for line in factors:
        row = {k: line[k] for k in ("set", "kernel", "D")}
        for key, needed in line.items():
            if key in row or key == "size":
                continue
            row[key] = "–" if np.isnan(needed) else f"{needed / line['size']:.1f}"
            if np.isinf(needed):
                row[key] = f"> {10_000 / line['size']:.0f}"
        rows.append(row)
    return pd.DataFrame(rows)


def _counts(factors: list[dict[str, Any]]) -> str:
    """On how many sets each way reaches ten times, by kernel and number of features."""
    said = []
    for kernel in ("gaussian", "arccos"):
        for key in ("unsupervised", "with amplitudes", "landmarks, trained"):
            counts = []
            for size in (10, 30, 100):
                own = [f[key] / size for f in factors if f["kernel"] == kernel and f["size"] == size]
                own = [v for v in own if not np.isnan(v)]
                if own:
                    counts.append(f"{sum(v >= 10 for v in own)} of {len(own)} at D={size}")
            if counts:
                said.append(f"{kernel}, {key}: {', '.join(counts)}")
    return " Sets with ten times or more: " + "; ".join(said) + "."


def _harm(trained: pd.DataFrame) -> Part:
    """Bases whose error on test rows rose, and Madelon, where training has nothing to gain."""
    worse = trained[trained.error > trained.start_error * 1.001]
    kept = trained[trained.best_epoch == 0]
    text = (
        f"The start is a candidate. Of {len(trained)} trained bases {len(kept)} kept what was drawn, because no epoch did "
        f"better on validation rows; {len(worse)} ended with a larger error on test rows than they began with. "
        "Madelon, whose columns are mostly noise:"
    )
    own = trained[trained.set == "madelon"].sort_values(["kernel", "structure", "amplitudes", "features"])
    rows = [
        {
            "kernel": line.kernel,
            "basis": _basis_name(line),
            "D": line.features,
            "error of the start": digits(line.start_error),
            "error after training": digits(line.error),
            "kept": "the start" if line.best_epoch == 0 else f"epoch {line.best_epoch:.0f}",
        }
        for line in own.itertuples()
    ]
    return text, pd.DataFrame(rows)


def _basis_name(line: Any) -> str:
    if line.structure == "landmarks":
        return "landmarks"
    return "with amplitudes" if line.amplitudes else "unsupervised"
