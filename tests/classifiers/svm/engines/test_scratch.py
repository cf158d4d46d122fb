import numpy as np
import pytest
from scipy import sparse

from tellwhy.classifiers.svm._compiled_steps import scratch, scratch_rows
from tellwhy.classifiers.svm.lee_lin_wahba import SingleEngine
from tellwhy.classifiers.svm.problem import PAIR_LOSSES, Labels, make_problem
from tellwhy.classifiers.svm.weston_watkins import PairEngine

FAR = 256  # bytes: eight numbers in a vector, four vectors at a time


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scratch_arrays_keep_a_distance(dtype):
    arrays = [scratch(5, dtype) for _ in range(20)] + [
        row for _ in range(9) for row in scratch_rows(3, 5, dtype)
    ]
    assert {array.shape[0] >= 5 for array in arrays} == {True}
    starts = np.sort([array.ctypes.data for array in arrays])
    assert np.diff(starts).min() >= FAR + 5 * np.dtype(dtype).itemsize
    assert arrays[0].dtype == dtype


@pytest.mark.parametrize("loss", ["ww", "cs", "llw", "ovr"])
def test_no_bit_depends_on_where_arrays_lie(loss):
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 40), density=0.4, rng=rng, format="csr")
    labels = Labels.of_classes(np.arange(300) % 11)
    problem = make_problem(X, labels, np.ones(300), n_classes=11, loss=loss, dtype="float64")
    ends = set()
    kept = []
    for _ in range(8):
        kept.append(np.empty(rng.integers(1, 3000)))  # moves what is allocated next
        kind = PairEngine if loss in PAIR_LOSSES else SingleEngine
        engine = kind(problem, n_jobs=1, seed=np.random.default_rng(0))
        engine.dense_epoch()
        found = engine.certify(0.1)
        engine.epoch(0.0, 1)
        ends.add((engine.weights().tobytes(), found))
    assert len(ends) == 1
