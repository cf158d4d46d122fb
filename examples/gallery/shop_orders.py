"""Mistakes in the orders of a shop.

A table with a misspelt city and an age of 999. `explain_table` reads it as it is; each cause is told once.

Area: tables
Prints:
    2 of 400 rows are alarms, with 2 different causes (at most 10 % false alarms expected)...
    1 row: age = 999, a placeholder (other values 19–79).
    1 row: city = 'Lisbno', a misspelling of 'Lisbon' (120 rows), > 99 % sure.
"""

import numpy as np
import pandas as pd

import tellwhy

rng = np.random.default_rng(0)
orders = pd.DataFrame(
    {
        "city": rng.choice(["Lisbon", "Porto", "Madrid"], 400),
        "price": rng.gamma(4, 8, 400).round(2),
        "quantity": rng.integers(1, 6, 400),
        "age": rng.integers(19, 80, 400),
    }
)
orders.loc[31, "city"] = "Lisbno"
orders.loc[90, "age"] = 999

found = tellwhy.workflow.explain_table(orders)
print(found.headline[0])
for finding in found.findings:
    print(finding.text)
figure = tellwhy.tell(found, "html")
