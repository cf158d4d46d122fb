"""Training end to end, with a look at the test rows after each epoch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.bases.kernel_bases import JudgedByErrors, Task
from tellwhy.bases.projections import FeatureMap
from tellwhy.bases.torch_features import BasisStack


class Watched(JudgedByErrors):
    """End to end, with a dropout and a scale of the classifier's steps for each basis of a stack.

    Tells how test rows would have been judged after each epoch.
    """

    def __init__(self, task: Task, maps: list[FeatureMap], dropouts: list[float], heads: list[float]):
        widest = max(m.n_features for m in maps)
        super().__init__(len(maps), widest, task.n_classes, task.device, dropout=max(dropouts), seed=1)
        self.shares = torch.tensor(dropouts, device=task.device)[:, None, None]
        self.heads = torch.tensor(heads, device=task.device)[:, None, None]
        self.task, self.calls, self.on_test = task, 0, []
        self.n_parts = len(self.held_parts(np.random.default_rng(0), len(task.rows.held_Z), 1))

    def _scores(self, features: Any) -> Any:
        return self.bias.baddbmm(features, self.weights * self.heads)

    def losses(self, stack: BasisStack, Z: Any, labels: Any, index: Any) -> Any:
        features = stack.features(Z[index])
        if self.dropout:
            drawn = torch.rand(features.shape, generator=self.sources[0], device=features.device)
            features = features * (drawn >= self.shares) / (1 - self.shares)
        scores = self._scores(features).log_softmax(-1)
        own = labels[index].expand(len(scores), -1)[..., None]
        return -scores.gather(-1, own)[..., 0].mean(-1)

    def held_losses(self, stack: BasisStack, Z: Any, labels: Any, index: Any) -> Any:
        if self.calls % self.n_parts == 0:
            self.on_test.append(self.task.own_accuracies(stack, self))
        self.calls += 1
        return super().held_losses(stack, Z, labels, index)
