"""Distances of places from good pictures, one place after the other."""

import numpy as np


def gaussian_distances(seen, good):
    """Squared Mahalanobis distance at each place, the covariance half that of the place, half that of all."""
    n_channels, rows, columns = good.shape[1:]
    own = np.zeros((rows, columns, n_channels, n_channels))
    for r in range(rows):
        for c in range(columns):
            own[r, c] = np.cov(good[:, :, r, c].T)
    shared = own.mean(axis=(0, 1))
    ridge = 1e-3 * np.trace(shared) / n_channels * np.eye(n_channels)
    found = np.zeros((len(seen), rows, columns))
    for r in range(rows):
        for c in range(columns):
            inverse = np.linalg.inv(0.5 * own[r, c] + 0.5 * shared + ridge)
            away = seen[:, :, r, c] - good[:, :, r, c].mean(axis=0)
            found[:, r, c] = [each @ inverse @ each for each in away]
    return found


def smoothed_highest(distances, width=1.0):
    """The highest of the distances averaged by a bell over 9 × 9 places, the border repeated."""
    bell = np.exp(-0.5 * (np.arange(-4, 5) / width) ** 2.0)
    weights = np.outer(bell, bell) / bell.sum() ** 2
    found = []
    for each in distances:
        padded = np.pad(each, 4, mode="edge")
        rows, columns = each.shape
        found.append(
            max((padded[r : r + 9, c : c + 9] * weights).sum() for r in range(rows) for c in range(columns))
        )
    return np.array(found)
