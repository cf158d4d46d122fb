"""An odd text, and the words that make it odd.

Mails about orders, and one about something else.

Area: texts
Prints:
    row 40: ...
"""

import numpy as np
import pandas as pd

import tellwhy

rng = np.random.default_rng(0)
usual = ["the", "order", "number", "of", "my", "parcel", "please", "send", "it", "to", "me", "again"]
texts = ["hello " + " ".join(rng.choice(usual, 8)) for _ in range(100)]
texts[40] = "hello send bitcoin to wallet now"

found = tellwhy.workflow.explain_documents(pd.DataFrame({"mail": texts}), text="mail", top=2)
odd = found.anomalies[0]
print(f"row {odd.row}:", *[reason.feature for reason in odd.reasons[:3]])
figure = tellwhy.tell(found, "html")
