"""Which words gave a text its label.

A multi-class SVM on words. Relevance of the words adds up to the score of the label.

Area: texts
Prints:
    label: invoice
    strongest word: refund
"""

import numpy as np

import tellwhy
from tellwhy.classifiers import TextClassifier

rng = np.random.default_rng(0)
words = {
    "parcel": "parcel delivery late courier tracking door",
    "invoice": "invoice refund amount payment bank paid",
    "login": "password account login reset email locked",
}
shared = ["hello", "please", "my", "the", "is", "not", "again", "thanks"]
labels = rng.choice(list(words), 300)
texts = [" ".join([*rng.choice(words[label].split(), 3), *rng.choice(shared, 5)]) for label in labels]

model = TextClassifier().fit(texts, labels)
explanation = model.explain(
    ["hello my refund is not paid and the parcel is late again thanks for the refund"]
)
print("label:", explanation.extras["explained"][0])
print("strongest word:", explanation.feature_names[explanation.values[0].argmax()])
figure = tellwhy.plot.bar(explanation, row=0)
