"""Changes: what readings after a moment are like, beside those before it; runs, courses, relations."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.ndimage import uniform_filter1d

from tellwhy.core.score import Floats
from tellwhy.detectors.series.cycles import Cycle
from tellwhy.detectors.series.measures import average_until, count_run_lengths, surprise

SCALES = (32, 128)  # readings in each of the two windows
AROUND = 65  # readings whose mean a crossing crosses
LEAST_USUAL = {"level": 0.02, "variance": 0.01, "frequency": 0.01}
LEAST_RUN = 4.0  # equal readings: shorter runs are never new
QUIET = -2.0  # surprise where nothing was compared


def choose_scales(n: int) -> list[int]:
    """Widths of the windows of a series of n readings."""
    return [width for width in SCALES if 12 * width < n] or [max(4, n // 30)]


def features(x: Floats) -> dict[str, Floats]:
    """What changes are looked for in: the level, the roughness, how often the middle is crossed."""
    jumps = np.abs(np.diff(x, prepend=x[0]))
    side = np.sign(x - uniform_filter1d(x, AROUND))
    crossed = np.append(0.0, (side[1:] != side[:-1]).astype(np.float64))
    return {"level": x, "variance": np.log(jumps + 0.05 * jumps.mean() + 1e-9), "frequency": crossed}


def compare_two_windows(x: Floats, width: int) -> Floats:
    """Difference of the means of the window that begins at each place and the one before it."""
    means = average_until(x, width)
    at = np.arange(width - 1, len(x) - width)
    found = np.zeros(len(x))
    found[at + 1] = means[at + width] - means[at]
    return found


def changes(x: Floats, block: int, usual_part: slice) -> dict[str, Floats]:
    """Surprise at the largest change of each feature, over the scales, each beside its usual largest."""
    scales = choose_scales(len(x))
    found = {}
    for name, feature in features(x).items():
        found[name] = np.full(len(x), QUIET)
        for width in scales:
            change = np.abs(compare_two_windows(feature, width))
            told = surprise(change, max(block, width), usual_part, LEAST_USUAL[name])
            found[name] = np.maximum(found[name], told)
    return found


def bends(x: Floats, width: int) -> Floats:
    """Difference of two slopes at each place, each that of the means of two neighbouring windows."""
    means = average_until(x, width)
    at = np.arange(2 * width - 1, len(x) - 2 * width)
    found = np.zeros(len(x))
    found[at + 1] = (means[at + 2 * width] - means[at + width]) - (means[at] - means[at - width])
    return found


def log_expected_bends(x: Floats) -> Floats:
    """Logarithm (of 10) of how many bends as large the windows of a quiet series have.

    Slopes are slow: a window is a twelfth of the series, and so few of them fit in that their usual spread
    cannot be seen. It is carried on from those of windows of an eighth and a quarter of this length, as a
    power of the length.
    """
    n = len(x)
    width = n // BENDS
    if width < 4 * LEAST_BEND:
        return np.full(n, np.inf)
    near, half = (1.4826 * np.median(np.abs(bends(x, width // part)[width:-width])) for part in (8, 4))
    power = float(np.clip(np.log2(max(half, 1e-12) / max(near, 1e-12)), -0.5, 1.0)) + POWER_MARGIN
    spread = max(half * 4**power, 1e-12)
    beyond = stats.t.sf(np.abs(bends(x, width)) / spread, DEGREES)
    return np.asarray(np.log10(np.maximum(2 * BENDS * beyond, 1e-30)))


BENDS = 12
LEAST_BEND = 8  # readings of the shortest window
POWER_MARGIN = 0.15  # of the power of the length, which is not known but estimated
DEGREES = 5  # of freedom of the law of bends


def measure_long_runs(x: Floats, block: int, usual_part: slice) -> Floats:
    """Surprise at the length of the run of equal readings that ends at each place."""
    lengths = count_run_lengths(x)
    return surprise(np.where(lengths > 2, lengths, 0.0), block, usual_part, LEAST_RUN)


def measure_course_losses(x: Floats, cycle: Cycle, block: int, usual_part: slice) -> Floats:
    """Surprise at how much of the cycle's course is missing in the period around each place.

    The size of the course in a window is its scalar product with the profile over that of the profile with
    itself: 1 where the cycle goes on as it does, 0 where one is left out.
    """
    size = measure_course_size(x, cycle)
    return surprise(np.abs(1.0 - size), max(block, cycle.period), usual_part, LEAST_LOSS)


LEAST_LOSS = 0.15


def measure_course_size(x: Floats, cycle: Cycle) -> Floats:
    """How large the cycle's course is in the period around each place, 1 where it is as usual."""
    width = cycle.period
    course = cycle.profile - cycle.profile.mean()
    centred = x - uniform_filter1d(x, width)
    own = course - uniform_filter1d(course, width)
    power = uniform_filter1d(own * own, width)
    return np.asarray(uniform_filter1d(centred * own, width) / np.maximum(power, 1e-12))


def predict_rest_of_others(X: Floats, at: int) -> Floats | None:
    """What the other channels leave of one, None where they tell little of it."""
    others = np.delete(X, at, axis=1)
    low, high = np.quantile(X, [0.005, 0.995], axis=0)
    clipped = np.clip(X, low, high)
    known = np.column_stack([np.ones(len(X)), np.delete(clipped, at, axis=1)])
    target = clipped[:, at]
    ridge = 1e-6 * len(X) * np.eye(known.shape[1])
    weights = np.linalg.solve(known.T @ known + ridge, known.T @ target)
    rest = X[:, at] - weights[0] - others @ weights[1:]
    is_told = np.median(np.abs(rest)) < TOLD_BY_OTHERS * np.median(np.abs(target - np.median(target)))
    return np.asarray(rest) if is_told else None


TOLD_BY_OTHERS = 0.5  # of the median distance, that may be left
