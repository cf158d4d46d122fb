"""Where a network looks when it reads a digit.

A small network is trained on scikit-learn's digits. LRP shares its output among the pixels; what biases absorbed is
stated.

Area: networks
Needs: torch
Prints:
    read correctly: True
    output = values + residual: True
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import tellwhy
from tellwhy.explainers import LRP

digits = load_digits()
images = torch.tensor(digits.images[:, None] / 16).float()
labels = torch.tensor(digits.target)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(16, 16, 3, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(1024, 10),
)
optimiser = torch.optim.Adam(model.parameters(), lr=0.005)
for _ in range(60):
    optimiser.zero_grad()
    nn.functional.cross_entropy(model(images[:800]), labels[:800]).backward()
    optimiser.step()
model.eval()

x = images[-6:]
explanation = LRP(model, rule="epsilon").explain(x)
print("read correctly:", bool((model(x).argmax(1) == labels[-6:]).all()))
whole = explanation.values.sum(axis=(1, 2, 3)) + explanation.residual
print("output = values + residual:", bool(np.allclose(whole, explanation.scores, atol=1e-4)))
figure = tellwhy.plot.overlay(explanation)
