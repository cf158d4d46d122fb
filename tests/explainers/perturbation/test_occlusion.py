"""Patches that are moved over inputs, beside explicit loops."""

import numpy as np
import pytest

from tellwhy.core.errors import InvalidParameter
from tellwhy.explainers import Occlusion
from tellwhy.scoring import FunctionScore, NetworkOutput

rng = np.random.default_rng(0)
PICTURES = rng.normal(size=(2, 3, 7, 9))
WEIGHTS = rng.normal(size=(3, 7, 9))


def bumpy(X):
    """Not linear: neighbours interact."""
    flat = (X * WEIGHTS).sum(axis=1)
    return np.tanh(flat).sum(axis=(1, 2)) + (flat[:, 1:] * flat[:, :-1]).mean(axis=(1, 2))


SCORE = FunctionScore(bumpy, feature_shape=(3, 7, 9))


def by_loops(x, patch, stride, fill):
    """Every patch, every cell, one after the other; patches at the far edges are moved back inside."""
    found = np.zeros(x.shape)
    counts = np.zeros(x.shape)
    tops = sorted({min(t, 7 - patch[0]) for t in range(0, 7, stride[0])})
    lefts = sorted({min(c, 9 - patch[1]) for c in range(0, 9, stride[1])})
    for top in tops:
        for left in lefts:
            where = (slice(None), slice(top, top + patch[0]), slice(left, left + patch[1]))
            changed = x.copy()
            changed[where] = np.broadcast_to(fill, x.shape)[where]
            fallen = bumpy(x[None])[0] - bumpy(changed[None])[0]
            found[where] += fallen / (3 * patch[0] * patch[1])
            counts[where] += 1
    return np.divide(found, counts, where=counts > 0, out=np.zeros(x.shape))


@pytest.mark.parametrize(
    ("patch", "stride"), [((2, 3), (2, 3)), ((3, 3), (1, 2)), ((7, 9), (7, 9)), ((1, 1), (1, 1))]
)
@pytest.mark.parametrize("fill", [0.5, np.ones((3, 7, 9))])
def test_patches_and_strides_are_the_explicit_loops(patch, stride, fill):
    found = Occlusion(SCORE, patch_size=patch, stride=stride, baseline=fill).explain(PICTURES)
    for values, x in zip(found.values, PICTURES, strict=True):
        np.testing.assert_allclose(values, by_loops(x, patch, stride, fill), atol=1e-12)
    base = bumpy(np.broadcast_to(np.asarray(fill, dtype=float), PICTURES.shape))
    np.testing.assert_allclose(found.base_values, base)


def test_a_linear_score_is_given_out_whole_where_patches_do_not_overlap():
    linear = FunctionScore(lambda X: (X * WEIGHTS).sum(axis=(1, 2, 3)), feature_shape=(3, 7, 9))
    found = Occlusion(linear, patch_size=(7, 3), baseline=0.0).explain(PICTURES)
    np.testing.assert_allclose(found.residual, 0, atol=1e-12)


def test_background_rows_come_into_the_patch():
    background = rng.normal(size=(5, 3, 7, 9))
    found = Occlusion(SCORE, patch_size=(7, 9)).fit(background).explain(PICTURES)
    wanted = (bumpy(PICTURES) - bumpy(background).mean()) / 189
    np.testing.assert_allclose(found.values, np.broadcast_to(wanted[:, None, None, None], PICTURES.shape))


def test_time_and_channels():
    series = rng.normal(size=(2, 4, 20))  # channels, time
    score = FunctionScore(lambda X: X[:, 1, 5:10].sum(axis=1), feature_shape=(4, 20))
    by_channel = Occlusion(score, patch_size=1, axes=(0,), baseline=0.0).explain(series).values
    assert (np.abs(by_channel).sum(axis=(0, 2)) > 0).tolist() == [False, True, False, False]
    np.testing.assert_allclose(by_channel.sum(axis=(1, 2)), score.value(series))
    in_time = Occlusion(score, patch_size=5, axes=(1,), baseline=0.0).explain(series).values
    assert (np.abs(in_time).sum(axis=(0, 1)) > 0).nonzero()[0].tolist() == [5, 6, 7, 8, 9]


def test_networks_are_asked_on_their_device_and_give_the_same():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = (
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.ReLU(inplace=True),
        torch.nn.Flatten(),
        torch.nn.Linear(140, 2),
    )
    network = torch.nn.Sequential(*layers).double().eval()
    found = Occlusion(NetworkOutput(network, 1, batch_size=4), patch_size=3, baseline=0.0).explain(PICTURES)
    plain = FunctionScore(
        lambda X: network(torch.as_tensor(X)).detach().numpy()[:, 1], feature_shape=(3, 7, 9)
    )
    wanted = Occlusion(plain, patch_size=3, baseline=0.0).explain(PICTURES)
    np.testing.assert_allclose(found.values, wanted.values, atol=1e-12)


def test_an_explanation_with_a_given_baseline_can_be_saved(tmp_path):
    from tellwhy.core.explanation import Explanation

    found = Occlusion(SCORE, patch_size=(2, 3), baseline=np.ones((3, 7, 9))).explain(PICTURES)
    found.save(tmp_path / "e")
    np.testing.assert_array_equal(Explanation.load(tmp_path / "e").values, found.values)


def test_groups_are_replaced_together():
    rng = np.random.default_rng(0)
    rows, background = rng.normal(size=(3, 4)), rng.normal(size=(10, 4))

    def product(X):
        return X[:, 0] * X[:, 2] + X[:, 1] + X[:, 3]

    found = Occlusion(product, groups=[[0, 2], [1]]).fit(background).explain(rows)
    for columns, group in (([0, 2], 0), ([1], 1), ([3], 2)):
        fallen = np.zeros(3)
        for other in background:
            changed = rows.copy()
            changed[:, columns] = other[columns]
            fallen += (product(rows) - product(changed)) / 10
        np.testing.assert_allclose(found.extras["group_values"][:, group], fallen, atol=1e-12)
        np.testing.assert_allclose(found.values[:, columns].sum(axis=1), fallen, atol=1e-12)
    with pytest.raises(InvalidParameter, match="Leave either out"):
        Occlusion(product, groups=[[0, 2]], patch_size=2).fit(background).explain(rows)


def test_groups_of_pictures_are_masks():
    score = FunctionScore(lambda X: X[:, 0, 0] * X[:, 0, 1] + X[:, 1, 1], feature_shape=(2, 2))
    found = Occlusion(score, groups=np.array([[0, 0], [1, 2]]), baseline=0.0).explain(np.full((1, 2, 2), 3.0))
    np.testing.assert_array_equal(found.values, [[[4.5, 4.5], [0.0, 3.0]]])
