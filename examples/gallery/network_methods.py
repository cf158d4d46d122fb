"""Which method names the pixels that matter?

Patches of the picture are painted over in the order that each method gives. The faster the output falls, the better
the order; random orders stand beside it.

Area: networks
Needs: torch
Prints:
    better than a random order: ['LRP', 'gradient × input']
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import tellwhy
from tellwhy.evaluation import region_flipping
from tellwhy.explainers import LRP, InputTimesGradient

digits = load_digits()
images = torch.tensor(digits.images[:, None] / 16).float()
labels = torch.tensor(digits.target)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 10))
optimiser = torch.optim.Adam(model.parameters(), lr=0.005)
for _ in range(60):
    optimiser.zero_grad()
    nn.functional.cross_entropy(model(images[:800]), labels[:800]).backward()
    optimiser.step()

x = images[-30:]
methods = {"LRP": LRP(model.eval(), rule="z"), "gradient × input": InputTimesGradient(model)}
results = {name: region_flipping(method.explain(x), model, patch_size=2) for name, method in methods.items()}
print(
    "better than a random order:", [name for name, found in results.items() if found.area < found.random.area]
)
figure = tellwhy.plot.region_flipping(list(results.values()))
