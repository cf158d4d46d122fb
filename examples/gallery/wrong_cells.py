"""What is wrong with a table as data.

`check_table` looks for mistakes without any detector: here a lost decimal point, which a total gives away, and an
order that was entered twice.

Area: tables
Prints:
    ...total is 100 times too large for total = price × quantity...
"""

import numpy as np
import pandas as pd

from tellwhy.checks import check_table

rng = np.random.default_rng(1)
orders = pd.DataFrame({"price": rng.gamma(4, 8, 300).round(2), "quantity": rng.integers(1, 9, 300)})
orders["total"] = (orders.price * orders.quantity).round(2)
orders.loc[[20, 21], "total"] *= 100

quality = check_table(orders)
for finding in quality.findings:
    print(finding.text)
print("rows:", *quality.findings[0].rows)
