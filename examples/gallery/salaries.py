"""Odd for an intern, though not for a manager.

A salary of 9,000 is nothing special, unless it is an intern's. `by` compares each row with rows of its own kind.

Area: tables
Prints:
    row 7: salary = 9000 (usually ... where role = intern)...
"""

import numpy as np
import pandas as pd

from tellwhy.workflow import explain_table

rng = np.random.default_rng(0)
role = rng.choice(["intern", "clerk", "manager"], 900)
pay = pd.Series(role).map({"intern": 2100, "clerk": 3200, "manager": 9000}) * rng.normal(1, 0.06, 900)
staff = pd.DataFrame({"role": role, "salary": pay, "hours": rng.normal(38, 3, 900)})
staff.loc[7, ["role", "salary"]] = ["intern", 9000.0]

odd = explain_table(staff, by=["role"]).anomalies[0]
print(f"row {odd.row}: {odd.reasons[0].text}")
