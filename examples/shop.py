"""Orders of a shop with mistakes that people make: what is wrong with them, and why?

Writes a table of 400 orders by a recipe with a fixed seed, plants five mistakes that can be checked by eye, and does
what this command does:

    tellwhy explain demo-run/orders.csv --id order --out demo-run/shop
"""

from pathlib import Path

import numpy as np
import pandas as pd

from tellwhy.views.cli import app

PRODUCTS = {  # product: (category, price)
    "desk lamp": ("home", 39.90),
    "wall clock": ("home", 24.50),
    "coffee mug": ("kitchen", 7.90),
    "tea pot": ("kitchen", 32.00),
    "bread knife": ("kitchen", 18.75),
    "garden hose": ("garden", 27.40),
    "watering can": ("garden", 15.20),
    "rake": ("garden", 21.60),
}
CITIES = ("Lisbon", "Porto", "Madrid", "Seville", "Valencia")
N_ORDERS = 400


def make_orders() -> pd.DataFrame:
    """Draw orders whose totals add up and that are shipped within a few days."""
    rng = np.random.default_rng(7)
    product = rng.choice(list(PRODUCTS), N_ORDERS)
    quantity = rng.integers(1, 6, N_ORDERS)
    price = np.array([PRODUCTS[name][1] for name in product])
    shipping = np.where(quantity * price > 60, 0.0, 4.9)
    ordered = pd.Timestamp("2026-01-02") + pd.to_timedelta(np.sort(rng.integers(0, 180, N_ORDERS)), unit="D")
    return pd.DataFrame(
        {
            "order": [f"A{1000 + i}" for i in range(N_ORDERS)],
            "ordered": ordered,
            "shipped": ordered + pd.to_timedelta(rng.integers(1, 5, N_ORDERS), unit="D"),
            "city": rng.choice(CITIES, N_ORDERS),
            "product": product,
            "category": [PRODUCTS[name][0] for name in product],
            "price": price,
            "quantity": quantity,
            "shipping": shipping,
            "total": (price * quantity + shipping).round(2),
            "age": rng.integers(19, 80, N_ORDERS),
        }
    )


def plant_mistakes(orders: pd.DataFrame) -> pd.DataFrame:
    """Make mistakes in it, as they happen at a keyboard and between programs."""
    orders = orders.copy()
    orders.loc[31, "city"] = "Lisbno"
    orders.loc[58, "price"] *= 100  # a lost decimal point
    orders.loc[[90, 214, 305], "age"] = 999  # nobody asked
    orders.loc[127, "total"] += 30  # added up wrongly
    orders.loc[241, "shipped"] = orders.loc[241, "ordered"] - pd.Timedelta(days=30)
    return orders


def write_table(folder: Path) -> Path:
    """Write the orders to a file."""
    folder.mkdir(exist_ok=True)
    path = folder / "orders.csv"
    plant_mistakes(make_orders()).to_csv(path, index=False)
    return path


if __name__ == "__main__":
    table = write_table(Path("demo-run"))
    app(["explain", str(table), "--id", "order", "--out", str(table.parent / "shop")])
