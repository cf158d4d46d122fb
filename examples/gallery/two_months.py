"""What changed from one month to the next.

Two tables of the same columns. The page says which columns drifted by more than chance, and how.

Area: tables
Prints:
    ['country', 'price']
"""

import numpy as np
import pandas as pd

import tellwhy

rng = np.random.default_rng(3)


def month(n, share, price):
    """Draw the orders of a month."""
    country = rng.choice(["DE", "PL"], n, p=[1 - share, share])
    return pd.DataFrame({"country": country, "price": rng.gamma(4, price, n), "weight": rng.normal(5, 1, n)})


found = tellwhy.judge(tellwhy.fit(month(2000, 0.1, 5.0), kind="drift"), month(2000, 0.3, 6.5))
print(sorted(anomaly.reasons[0].feature for anomaly in found.anomalies if anomaly.is_alarm))
figure = tellwhy.tell(found, "html")
