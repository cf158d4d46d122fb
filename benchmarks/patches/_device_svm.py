"""One-class SVMs of very many patches: the package's decomposition, with the kernel's columns on a device.

The optimality conditions, the choice of the weights to optimise together, and their optimisation are the package's own
(`tellwhy.optimise.one_class_qp`): PyTorch computes the columns of the kernel and what they change.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tellwhy.detectors import OneClassSVM
from tellwhy.kernels import Exponential
from tellwhy.optimise import one_class_qp as qp

COLUMNS_AT_ONCE = 1_024  # of the first product with all weights


class DeviceColumns:
    """Columns of the kernel matrix of rows, as tensors in double precision."""

    def __init__(self, X: np.ndarray, kernel: Any, device: str):
        scaled = (X - X.mean(axis=0)) / kernel.bandwidth
        self.rows = torch.as_tensor(scaled, device=device, dtype=torch.float64)
        self.norms = (self.rows * self.rows).sum(dim=1)
        self.kernel = kernel

    def __call__(self, index: np.ndarray) -> torch.Tensor:
        """K[:, index]."""
        chosen = torch.as_tensor(index, device=self.rows.device)
        squared = (self.rows @ self.rows[chosen].T).mul_(-2.0)
        squared.add_(self.norms[:, None]).add_(self.norms[chosen]).clamp_(min=0.0)
        powers = squared.pow_(0.5 * self.kernel.q)
        if isinstance(self.kernel, Exponential):
            return powers.div_(-self.kernel.q).exp_()
        return powers.add_(self.kernel.a).reciprocal_()


def solve(columns: DeviceColumns, *, nu: float, tol: float) -> qp.Solution:
    """Optimise a few hundred weights at a time, as `one_class_qp` does; only gradients and small blocks travel."""
    n = len(columns.rows)
    device = columns.rows.device
    cap = 1.0 / (nu * n)
    weights = qp._make_feasible_start(n, cap)
    gradient = torch.zeros(n, dtype=torch.float64, device=device)
    support = np.flatnonzero(weights)
    for part in np.array_split(support, len(support) // COLUMNS_AT_ONCE + 1):
        gradient += columns(part) @ torch.as_tensor(weights[part], device=device)
    chosen = np.empty(0, dtype=np.int64)
    block = torch.empty((n, 0), dtype=torch.float64, device=device)
    for _ in range(qp.MAX_ROUNDS):
        here = gradient.cpu().numpy()
        violation, scale = qp._measure_violation(weights, here, cap)
        if violation <= tol * scale:
            break
        kept = chosen[len(chosen) - qp.WORKING_SET // 2 :] if len(chosen) else chosen
        new = qp._find_worst_violators(weights, here, cap, qp.WORKING_SET - len(kept), excluded=kept)
        block = torch.hstack([block[:, len(chosen) - len(kept) :], columns(new)])
        chosen = np.concatenate([kept, new])
        local = weights[chosen]
        small = block[torch.as_tensor(chosen, device=device)].cpu().numpy()
        least = max(0.1 * violation, 0.5 * tol * scale)
        qp.smo(np.ascontiguousarray(small), here[chosen], local, cap, least, 100 * qp.WORKING_SET)
        gradient += block @ torch.as_tensor(local - weights[chosen], device=device)
        weights[chosen] = local
    return qp._finish_solution(weights, gradient.cpu().numpy(), cap, tol)


class DeviceOneClassSVM(OneClassSVM):
    """A one-class SVM whose fit computes its kernel's columns on a device."""

    device = "cuda"

    def _fit(self, X: np.ndarray) -> None:
        kernel = self.radial_kernel(X)
        solution = solve(DeviceColumns(X, kernel, self.device), nu=self.nu, tol=self.tol)
        self._keep(X, solution.weights, kernel)
        self.training_scores_ = np.array([self._compute_outlierness_at(g) for g in solution.gradient])
        self.violation_ = solution.violation
        self.threshold_ = self._compute_outlierness_at(solution.level)
