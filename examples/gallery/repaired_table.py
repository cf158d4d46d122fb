"""Sure mistakes of a table repaired.

Only cells that are surely wrong are changed, and each change says what was there and why.

Area: tables
Prints:
    row 8, country: Germny → Germany
    row 20, total: ...
"""

import numpy as np
import pandas as pd

from tellwhy.workflow import repair_table

rng = np.random.default_rng(2)
orders = pd.DataFrame(
    {
        "country": rng.choice(["Germany", "France", "Poland"], 600),
        "price": rng.gamma(4, 8, 600).round(2),
        "quantity": rng.integers(2, 9, 600),
    }
)
orders["total"] = (orders.price * orders.quantity).round(2)
orders.loc[8, "country"] = "Germny"
orders.loc[20, "total"] = round(orders.loc[20, "total"] * 10, 2)

for change in repair_table(orders).changes:
    print(f"row {change.row}, {change.column}: {change.old} → {change.new}")
