import numpy as np

from tellwhy.classifiers.svm.dual_lists import CACHE_LINE, ClassBlocks, aligned_zeros


def test_weights_leave_their_blocks():
    rng = np.random.default_rng(0)
    blocks = ClassBlocks.of(rng.integers(1, 9, 21), 3, 8)
    W = {b: rng.normal(size=(600, blocks.width)) for b in range(3)}
    expected = np.concatenate(list(W.values()), axis=1)[:, blocks.position]
    np.testing.assert_array_equal(blocks.joined(W), expected)


def test_blocks_fill_whole_cache_lines():
    blocks = ClassBlocks.of(np.ones(21, dtype=int), 2, 8)
    assert blocks.width == 16
    assert [blocks.n_classes(b) for b in range(2)] == [11, 10]
    assert aligned_zeros((3, blocks.width), np.float64).ctypes.data % CACHE_LINE == 0
    for b, classes in enumerate(blocks.members):
        assert (blocks.block_of(classes) == b).all()
