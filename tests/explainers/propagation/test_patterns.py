"""PatternNet and PatternAttribution: patterns against their formulas, and what they are for."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

from tellwhy.core.errors import InvalidInput  # noqa: E402
from tellwhy.explainers import PatternAttribution, PatternNet  # noqa: E402

RNG = np.random.default_rng(0)


def network(bias=True):
    torch.manual_seed(0)
    layers = (
        nn.Linear(5, 7, bias=bias),
        nn.ReLU(),
        nn.Linear(7, 4, bias=bias),
        nn.ReLU(),
        nn.Linear(4, 2, bias=bias),
    )
    return nn.Sequential(*layers).double().eval()


def formula(x, w, z, kind):
    """Pattern of one unit by its definition: x (n, d), weights w (d,), outputs with bias z (n,)."""
    y = x @ w
    if kind == "linear":
        direction = ((x - x.mean(0)) * (y - y.mean())[:, None]).mean(0)
    else:
        on = z > 0
        mean_y = y[on].mean() if kind == "relu_centred" else y.mean()
        direction = (x[on] * y[on, None]).mean(0) - x[on].mean(0) * mean_y
    return direction / (w @ direction)


@pytest.mark.parametrize("kind", ["relu", "relu_centred", "linear"])
def test_patterns_are_their_formula_and_go_down_in_place_of_weights(kind):
    model, x = network(), torch.as_tensor(RNG.normal(size=(300, 5)))
    explainer = PatternNet(model, target=1, pattern=kind, batch_size=77).fit(x)
    a, patterns, masks = x.numpy(), [], []
    for k in (0, 2, 4):
        W, b = model[k].weight.detach().numpy(), model[k].bias.detach().numpy()
        z = a @ W.T + b
        wanted = "linear" if k == 4 else kind
        patterns.append(np.array([formula(a, W[j], z[:, j], wanted) for j in range(len(W))]))
        masks.append(z > 0)
        a = np.maximum(z, 0)
    for found, expected in zip(explainer.patterns_.values(), reversed(patterns), strict=True):
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-9)
    y = model(x).detach().numpy()[:, 1]
    signal = ((y[:, None] * patterns[2][[1]]) * masks[1]) @ patterns[1] * masks[0] @ patterns[0]
    np.testing.assert_allclose(explainer.explain(x).values, signal, atol=1e-9)
    shares = PatternAttribution(model, target=1, pattern=kind).fit(x).explain(x)
    W = [model[k].weight.detach().numpy() for k in (0, 2, 4)]
    down = (y[:, None] * (W[2] * patterns[2])[[1]]) * masks[1]
    down = down @ (W[1] * patterns[1]) * masks[0] @ (W[0] * patterns[0])
    np.testing.assert_allclose(shares.values, down, atol=1e-9)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("norm", [False, True])
def test_patterns_of_convolutions_are_those_of_their_patches(groups, norm):
    torch.manual_seed(1)
    conv = nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=groups)
    norms = [nn.BatchNorm2d(6)] if norm else []
    model = nn.Sequential(conv, *norms, nn.ReLU(), nn.Flatten(), nn.Linear(54, 2)).double().eval()
    if norm:
        nn.init.normal_(model[1].weight), nn.init.normal_(model[1].running_mean)
    x = torch.randn(20, 4, 6, 6, dtype=torch.float64)
    found = list(PatternNet(model).fit(x).patterns_.values())[-1].numpy()
    z = model[: 2 if norm else 1].eval()(x).detach()
    patches = nn.functional.unfold(x, 3, stride=2, padding=1).transpose(1, 2).flatten(0, 1).numpy()
    outputs = z.flatten(2).transpose(1, 2).flatten(0, 1).numpy()
    scale = (model[1].weight / (model[1].running_var + 1e-5).sqrt()).detach().numpy() if norm else np.ones(6)
    per, units = 36 // groups, 6 // groups
    for j in range(6):
        w = conv.weight[j].detach().flatten().numpy() * scale[j]
        own = patches[:, (j // units) * per : (j // units + 1) * per]
        np.testing.assert_allclose(found[j].ravel(), formula(own, w, outputs[:, j], "relu"), atol=1e-8)


@pytest.mark.parametrize("mean", [0.0, 2.0])
def test_the_signal_of_the_signal_and_distractor_example_is_recovered(mean):
    """x = a_s y + a_d ε: weights must cancel the distractor, and look nothing like the signal."""
    a_s, a_d = np.array([1.0, 0.0]), np.array([1.0, 1.0])
    y, distractor = RNG.normal(size=40_000), RNG.normal(mean, 1, size=40_000)
    x = torch.as_tensor(np.outer(y, a_s) + np.outer(distractor, a_d))
    model = nn.Sequential(nn.Linear(2, 1, bias=False), nn.ReLU(), nn.Linear(1, 1, bias=False)).double().eval()
    nn.init.ones_(model[2].weight)
    model[0].weight.data.copy_(torch.tensor([[1.0, -1.0]]))
    kind = "relu_centred" if mean else "relu"
    explainer = PatternNet(model, target=0, pattern=kind).fit(x)
    pattern = list(explainer.patterns_.values())[-1].numpy()[0]
    assert np.abs(pattern / np.linalg.norm(pattern) - a_s).max() < 0.05
    found = explainer.explain(x[:50]).values
    signal = np.outer(np.maximum(y[:50], 0), a_s)
    assert np.abs(found - signal).max() < 0.05 * np.abs(signal).max() + 0.05


def test_attribution_is_deep_taylor_with_the_patterns_root():
    """One unit: R = w ⊙ (x − root) with the root x − a·wᵀx, where the unit's output is zero."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1, bias=False).double().eval()
    x = torch.randn(100, 4, dtype=torch.float64)
    explainer = PatternAttribution(model, target=0).fit(x)
    a = next(iter(explainer.patterns_.values()))[0]
    w = model.weight[0].detach()
    root = x - (x @ w)[:, None] * a
    np.testing.assert_allclose((root @ w).numpy(), 0, atol=1e-12)
    np.testing.assert_allclose(explainer.explain(x).values, (w * (x - root)).numpy(), atol=1e-12)


def test_loaders_arrays_and_files_give_the_same(tmp_path):
    model, x = network(), torch.as_tensor(RNG.normal(size=(40, 5)))
    whole = PatternNet(model, pattern="relu_centred").fit(x.numpy())
    loader = DataLoader(TensorDataset(x, torch.zeros(40)), batch_size=7)
    assert loader.batch_size == 7
    by_batches = PatternNet(model, pattern="relu_centred").fit(loader)
    wanted = whole.explain(x).values
    np.testing.assert_allclose(by_batches.explain(x).values, wanted, atol=1e-10)
    whole.save(tmp_path / "patterns.npz")
    read = PatternNet(model).load(tmp_path / "patterns.npz")
    assert read.pattern == "relu_centred"
    np.testing.assert_array_equal(read.explain(x).values, wanted)
    np.savez(tmp_path / "other.npz", a=np.zeros(2))
    with pytest.raises(InvalidInput, match="no file of patterns"):
        PatternNet(model).load(tmp_path / "other.npz")
    with pytest.raises(InvalidInput, match="no pattern for 'linear'"):
        PatternNet(nn.Sequential(nn.Linear(5, 3)).double().eval()).load(tmp_path / "patterns.npz").explain(x)


def test_a_unit_that_is_never_active_has_a_pattern_of_zeros():
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1)).double().eval()
    nn.init.constant_(model[0].bias, -100.0)
    x = torch.randn(30, 3, dtype=torch.float64)
    explainer = PatternNet(model).fit(x)
    assert np.abs(list(explainer.patterns_.values())[-1].numpy()).max() == 0
    assert np.isfinite(explainer.explain(x).values).all()


@pytest.mark.parametrize("kind", ["relu", "relu_centred", "linear"])
def test_constant_inputs_have_patterns_of_zeros_and_not_of_rounding(kind):
    """Where inputs do not vary their covariance with the output is zero, whatever rounding leaves of it."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)).double().eval()
    x = torch.randn(300, 6, dtype=torch.float64)
    x[:, 2:4] = 0.3 + 1e6
    model[0].weight.data[:, 2:4] *= 1e-7
    first = list(PatternNet(model, pattern=kind, batch_size=7).fit(x).patterns_.values())[-1].numpy()
    if kind != "relu":  # there a constant is what the mean over all rows is counted from
        assert (first[:, 2:4] == 0).all()
    z = (x @ model[0].weight.T + model[0].bias).detach().numpy()
    wanted = [formula(x.numpy(), w, z[:, j], kind) for j, w in enumerate(model[0].weight.detach().numpy())]
    np.testing.assert_allclose(first[:, [0, 1, 4, 5]], np.array(wanted)[:, [0, 1, 4, 5]], atol=1e-6)
    alone = nn.Linear(2, 1, bias=False).double().eval()
    constant = torch.full((50, 2), 0.1, dtype=torch.float64)
    assert not next(iter(PatternNet(alone, pattern=kind).fit(constant).patterns_.values())).any()


def test_there_is_no_ledger_of_shares_that_are_no_contributions():
    model, x = network(), torch.as_tensor(RNG.normal(size=(40, 5)))
    explainer = PatternAttribution(model).fit(x)
    with pytest.raises(InvalidInput, match="shares of its own"):
        explainer.ledger(x)
    with pytest.raises(InvalidInput, match="shares of its own"):
        explainer.latent(x, "0")
