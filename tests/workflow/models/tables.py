"""Tables of orders, for tests of models that are fitted once."""

import numpy as np
import pandas as pd


def orders(n: int = 600, seed: int = 0, *, month: int = 1, bad: bool = False) -> pd.DataFrame:
    """Orders of one month: a relation, labels, money as text, dates that order the rows, birthdays."""
    rng = np.random.default_rng(seed)
    quantity = rng.integers(1, 20, n)
    price = np.round(rng.gamma(3, 10, n), 2)
    start = pd.Timestamp(f"2024-{month:02d}-01")
    frame = pd.DataFrame(
        {
            "id": [f"A{seed}-{i}" for i in range(n)],
            "ts": start + pd.to_timedelta(np.sort(rng.uniform(0, 28, n)), unit="D"),
            "qty": quantity,
            "price": price,
            "total": np.round(quantity * price, 2),
            "country": rng.choice(["DE", "FR", "IT", "ES"], n, p=[0.5, 0.3, 0.15, 0.05]),
            "age": rng.integers(18, 95, n).astype(float),
            "born": pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 15_000, n), unit="D"),
            "paid": [f"${value:,.2f}" for value in rng.gamma(2, 500, n)],
            "is_new": rng.random(n) < 0.3,
        }
    )
    if bad:
        frame.loc[[3, 4, 5], "age"] = 999.0
        frame.loc[12, "price"] = 5000.0
        frame.loc[12, "total"] = np.round(5000.0 * frame.loc[12, "qty"], 2)
    return frame
