"""Tables of the benchmark of verdicts, from one line a case."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.tables._verdict_peers import NAMES

NONE = "(clean table)"


def of_case(line: pd.Series) -> dict[str, float]:
    """Shares of the planted rows of one table: found and named, by tellwhy and by each peer at the same budget."""
    found = np.array(line["found"], dtype=bool)
    named = np.array(line["named"], dtype=bool)
    shares = {"found": found.mean(), "named": (found & named).mean(), "false alarms": line["false_alarms"]}
    shares["false in findings"] = line["false_in_findings"]
    budget = max(line["n_flagged"], len(found))
    peers = line["peers"] if isinstance(line.get("peers"), dict) else {}
    for name, said in peers.items():
        within = np.array(said["ranks"]) < budget
        shares[name] = within.mean()
        shares[f"{name}, named"] = (within & np.array(said["named"], dtype=bool)).mean()
        if said["n_flagged"] is not None:  # rows without any broken rule have the last rank of all
            shares[f"{name}, all alarms"] = (np.array(said["ranks"]) < said["n_flagged"]).mean()
            shares[f"{name}, alarms"] = said["n_flagged"]
        shares[f"{name}, at the planted count"] = (np.array(said["ranks"]) < len(found)).mean()
    return shares


def per_case(lines: pd.DataFrame) -> pd.DataFrame:
    planted = lines[lines["error"] != NONE]
    return pd.DataFrame(
        [
            {"table": x["table"], "error": x["error"], "crashed": float(x["crashed"]), **of_case(x)}
            for _, x in with_crashes(planted).iterrows()
        ]
    )


def grouped(cases: pd.DataFrame, by: str) -> pd.DataFrame:
    """Means over tables, in per cent; of the named ones, those among the found."""
    means = cases.groupby(by, sort=False).mean(numeric_only=True)
    sizes = cases.groupby(by, sort=False).size()
    found = pd.DataFrame({by: means.index, "tables": sizes.to_numpy()})
    found["found %"] = (100 * means["found"]).round().astype(int).to_numpy()
    right = (100 * means["named"] / means["found"].where(means["found"] > 0)).round()
    found["of these named %"] = right.map(lambda v: "–" if np.isnan(v) else f"{v:.0f}").to_numpy()
    if means["crashed"].any():
        found["crashed"] = (means["crashed"].to_numpy() * sizes.to_numpy()).round().astype(int)
    found["false alarms a table"] = means["false alarms"].round(1).to_numpy()
    for name in NAMES:
        if name in means:
            both = zip(100 * means[name], 100 * means[f"{name}, named"], strict=True)
            found[f"{name} %"] = [f"{a:.0f} ({b:.0f})" for a, b in both]
    return found


def with_crashes(lines: pd.DataFrame) -> pd.DataFrame:
    """A crashed table raises no alarm: it is counted, so that it is not taken for a quiet one."""
    crashed = lines["crashed"] if "crashed" in lines else pd.Series(index=lines.index, dtype=object)
    return lines.assign(crashed=crashed.eq(True))


def clean_tables(lines: pd.DataFrame) -> pd.DataFrame:
    """Alarms on tables without errors, and how many were stated."""
    clean = with_crashes(lines[lines["error"] == NONE])
    rows = [
        {
            "table": kind,
            "tables": len(some),
            "rows": int(some["rows"].sum()),
            "alarms": int(some["n_alarms"].sum()),
            "further rows in findings": int(some["false_in_findings"].sum()),
            "stated": "–" if some["stated"].isna().all() else round(float(some["stated"].sum()), 1),
            "crashed": int(some["crashed"].sum()),
        }
        for kind, some in clean.groupby("table", sort=False)
    ]
    return pd.DataFrame(rows)


def totals(cases: pd.DataFrame) -> pd.DataFrame:
    """Every kind of error counts alike."""
    means = cases.groupby("error").mean(numeric_only=True).mean()
    rows = [{"": "tellwhy", "found %": 100 * means["found"], "found and named %": 100 * means["named"]}]
    for name in NAMES:
        if name in means:
            rows.append(
                {
                    "": name,
                    "found %": 100 * means[name],
                    "found and named %": 100 * means[f"{name}, named"],
                    "found at the planted count %": 100 * means[f"{name}, at the planted count"],
                }
            )
    return pd.DataFrame(rows).round(1).fillna("–")


def simple_wins(cases: pd.DataFrame) -> pd.DataFrame:
    """Kinds of error in which simple rules find more of the rows than we do."""
    if "simple rules" not in cases:
        return pd.DataFrame()
    means = cases.groupby("error", sort=False).mean(numeric_only=True)
    rules = means["simple rules, all alarms"]
    worse = means[rules > means["found"] + 0.02]
    return pd.DataFrame(
        {
            "error": worse.index,
            "simple rules, all their alarms %": (100 * worse["simple rules, all alarms"]).round(),
            "alarms of theirs a table": worse["simple rules, alarms"].round(),
            "simple rules within our number %": (100 * worse["simple rules"]).round(),
            "tellwhy %": (100 * worse["found"]).round(),
        }
    )


def parts(lines: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    found: list[tuple[str, pd.DataFrame]] = []
    if (lines["error"] != NONE).any():
        cases = per_case(lines)
        found += [
            (
                f"All kinds of error together, each in {len(cases) / cases['error'].nunique():.0f} tables of about "
                f"{lines['rows'].median():,.0f} rows (target: found 90 %, 95 % of them named).",
                totals(cases),
            ),
            (
                "Per kind of error: planted rows found and, of them, named by tellwhy; peers: found "
                "(found and named) within the same number of alarms.",
                grouped(cases, "error"),
            ),
            ("Per kind of table.", grouped(cases, "table")),
            (
                "Kinds of error in which simple rules, with as many alarms as they raise, find more than tellwhy.",
                simple_wins(cases),
            ),
        ]
    if (lines["error"] == NONE).any():
        found.append(
            (
                "Tables without errors: alarms, and how many false ones the runs stated (target: within 1.5 ×).",
                clean_tables(lines),
            )
        )
    return [(text, table) for text, table in found if len(table)]


def failures(lines: pd.DataFrame) -> str:
    """One example for each kind of error that was not found or not named, with what the run said."""
    found = []
    for error, some in lines[lines["error"] != NONE].groupby("error", sort=False):
        shares = [
            np.mean(np.array(f) & np.array(k)) for f, k in zip(some["found"], some["named"], strict=True)
        ]
        if np.mean(shares) > 0.94:
            continue
        worst = some.iloc[int(np.argmin(shares))]
        hits = np.array(worst["found"], dtype=bool)
        named = np.array(worst["named"], dtype=bool)
        found.append(
            f"- **{error}** ({worst['table']}, seed {worst['seed']}): found {hits.sum()}, named "
            f"{(hits & named).sum()} of {len(hits)}; {worst['wrong']}"
        )
    for _, line in lines[lines["error"] == NONE].iterrows():
        found += [
            f"- false alarm ({line['table']}, seed {line['seed']}): {text}"
            for text in line.get("false") or []
        ]
    return "\n".join(found)
