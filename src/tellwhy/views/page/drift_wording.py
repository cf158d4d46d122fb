"""What changed between two tables, in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tellwhy.words.wording import cleaned, count

if TYPE_CHECKING:
    from tellwhy.kinds.drift import Difference
    from tellwhy.verdicts.column_drift import Drift

_MOST_NAMED = 10


def headline(found: Difference) -> str:
    """How many columns drifted, of how many, between which tables."""
    compared = {drift.column for drift in found.drifts}
    drifted = {drift.column for drift in found.drifted}
    n = f"{len(drifted)} of {count(len(compared), 'column')}" if drifted else "No column"
    tables = [
        f"{cleaned(s)} ({count(n, 'row')})" for s, n in zip((found.old, found.new), found.n_rows, strict=True)
    ]
    return f"{n} drifted from {tables[0]} to {tables[1]}."


def difference_words(found: Difference) -> list[str]:
    """Sentences on everything but the drifts themselves: columns, how they are read, periods, rare levels."""
    lines = [headline(found)]
    for word, names in (("New", found.new_columns), ("Gone", found.gone_columns)):
        if names:
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            lines.append(f"{word} columns: {', '.join(map(cleaned, names[:_MOST_NAMED]))}{more}.")
    lines += [
        f"{cleaned(name)} is read differently: {cleaned(old)} → {cleaned(new)}."
        for name, (old, new) in found.changed.items()
    ]
    lines += [f"{cleaned(name)} only tells the period: {told}." for name, told in found.ordering.items()]
    lines += [
        f"{cleaned(drift.name)}: {cleaned(levels)}; so few rows may be chance."
        for drift in found.drifts
        if not drift.drifted and (levels := _rare_levels(drift))
    ]
    if found.not_compared:
        told = [
            f"{cleaned(name)} ({cleaned(why)})"
            for name, why in list(found.not_compared.items())[:_MOST_NAMED]
        ]
        lines.append(f"Not compared: {', '.join(told)}.")
    lines.append(_fine_print(found))
    return lines


def _rare_levels(drift: Drift) -> str:
    parts = []
    for word, levels in (("new", drift.new_levels), ("gone", drift.gone_levels)):
        shown = ", ".join(f"{level} ({n:,})" for level, n in list(levels.items())[:5])
        more = f" and {len(levels) - 5} more" if len(levels) > 5 else ""
        if levels:
            parts.append(f"{word}: {shown}{more}")
    return "; ".join(parts)


def _fine_print(found: Difference) -> str:
    return (
        f"{count(len(found.drifts), 'comparison')}, corrected for their number (Holm): were the tables "
        f"samples of one source, something would be called drifted in {100 * found.level:.3g} % of such "
        "pairs. Size: 0 alike, 1 nothing in common."
    )


def chance(p_value: float) -> str:
    """Return a probability with two digits, or a bound where it is tiny.

    Examples
    --------
    >>> chance(0.0312), chance(1e-9)
    ('0.031', '< 0.0001')
    """
    return "< 0.0001" if p_value < 1e-4 else f"{p_value:.2g}"
