"""Any function of rows, explained.

A rule of a bank as a plain function: debt against income, and more for people who are under 25.

Area: models
Prints:
    values add up: True
    base 0.47, income -0.22, debt +1.13, age +0.17
"""

import numpy as np
import pandas as pd

import tellwhy

rng = np.random.default_rng(0)
people = pd.DataFrame(
    {"income": rng.gamma(5, 600, 400), "debt": rng.gamma(2, 500, 400), "age": rng.integers(18, 70, 400)}
)


def risk(rows):
    """Debt over income, and a little more for the young."""
    return rows["debt"] / rows["income"] + 0.2 * (rows["age"] < 25)


person = people.head(1).assign(debt=4000.0)
explanation = tellwhy.explain(risk, person, background=people, task="prediction")
total = explanation.base_values[0] + explanation.values[0].sum()
print("values add up:", bool(np.isclose(total, risk(person).iloc[0])))
parts = [f"{name} {value:+.2f}" for name, value in zip(people.columns, explanation.values[0], strict=True)]
print(f"base {explanation.base_values[0]:.2f},", ", ".join(parts))
figure = tellwhy.plot.force(explanation)
