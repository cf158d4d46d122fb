"""Hadamard projections and waves in PyTorch: the plain definition, the compiled code, and gradients."""

from types import SimpleNamespace

import numpy as np
import pytest
from oracles.basis_oracles import hadamard_matrix

from tellwhy.bases.map_rows import project_rows
from tellwhy.bases.projections import HadamardProjection, draw_projection

torch = pytest.importorskip("torch")

from tellwhy.bases import torch_features  # noqa: E402
from tellwhy.bases.torch_features import make_wave_features, project_structured, structured_waves  # noqa: E402

RNG = np.random.default_rng(0)


def tensors(E, copies, k, p, n, d):
    return torch.tensor(RNG.normal(size=(E, n, d))), torch.tensor(RNG.normal(size=(E, copies, k, p)))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize(("p", "d"), [(1, 1), (2, 2), (64, 3), (128, 128), (256, 200), (512, 500)])
def test_projections_are_those_of_the_plain_definition(p, d, k):
    rows, diagonals = tensors(2, 3, k, p, 5, d)
    found = project_structured(rows, diagonals, 1.0).flatten(2).numpy()
    for got, x, own in zip(found, rows.numpy(), diagonals.numpy(), strict=True):
        G = hadamard_matrix(own, d, 3 * p) * np.sqrt(p) ** (k - 1)  # the definition has H normalised
        np.testing.assert_allclose(got, x @ G, rtol=1e-11, atol=1e-11 * np.abs(x @ G).max())


@pytest.mark.parametrize("d", [1, 65, 256, 1000])
def test_projections_are_those_of_the_compiled_code(d):
    layer = draw_projection("hadamard", d, 2_100, np.random.default_rng(1), n_blocks=3)
    assert isinstance(layer, HadamardProjection)
    rows = RNG.normal(size=(17, d))
    found = project_structured(torch.tensor(rows)[None], torch.tensor(layer.diagonals)[None], layer.factor)
    np.testing.assert_allclose(found.flatten(2)[0, :, :2_100].numpy(), project_rows(rows, layer), atol=1e-11)


def test_single_precision_stays_single_and_close():
    layer = draw_projection("hadamard", 1024, 2_048, np.random.default_rng(1), n_blocks=3)
    assert isinstance(layer, HadamardProjection)
    rows = RNG.normal(size=(9, 1024)) / 45
    single = torch.tensor(rows, dtype=torch.float32)[None]
    found = project_structured(single, torch.tensor(layer.diagonals, dtype=torch.float32)[None], layer.factor)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found.flatten(2)[0].numpy(), project_rows(rows, layer), atol=2e-6)


@pytest.mark.parametrize("p", [8, 256])
def test_gradients_reach_rows_and_diagonals(p):
    rows, diagonals = (t.requires_grad_() for t in tensors(2, 2, 2, p, 3, p - 3))
    gain = torch.tensor(RNG.uniform(0.1, 1, size=(2, 1, 2 * p))).repeat(1, 1, 2)

    def features(x, D):
        return make_wave_features(project_structured(x, D, 1 / p), gain)

    assert torch.autograd.gradcheck(features, (rows, diagonals), fast_mode=True)


def test_waves_are_sines_then_cosines_times_the_gain():
    z = torch.tensor(RNG.normal(size=(2, 3, 4)), requires_grad=True)
    gain = torch.tensor([[[1.0, 2.0, 3.0, 0.0] * 2], [[0.5] * 8]], dtype=torch.float64)
    features = make_wave_features(z, gain)
    plain = torch.cat([z.sin(), z.cos()], -1) * gain
    torch.testing.assert_close(features, plain)
    weights = torch.tensor(RNG.normal(size=(2, 3, 8)))
    (found,), (expected,) = (torch.autograd.grad((f * weights).sum(), z) for f in (features, plain))
    torch.testing.assert_close(found, expected)
    assert not found[0, :, 3].any()


@pytest.mark.parametrize(("p", "d", "width"), [(256, 200, 300), (512, 512, 512), (1024, 999, 1500)])
def test_the_fused_kernel_is_the_two_products(p, d, width, monkeypatch):
    """Triton's interpreter runs the kernel on the processor."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    pytest.importorskip("triton")
    rows, diagonals = (t.float() for t in tensors(2, -(-width // p), 2, p, 5, d))
    gain = torch.tensor(RNG.uniform(0.1, 1, size=(2, 1, width)), dtype=torch.float32).repeat(1, 1, 2)
    plain = structured_waves(rows, diagonals, 0.1 / p, gain)
    fused = torch_features._compute_fused_waves(rows.expand(2, 5, d), diagonals, 0.1 / p, gain)
    torch.testing.assert_close(fused, plain, atol=2e-6, rtol=0)


def test_without_a_card_and_triton_features_come_from_products():
    rows, diagonals = (t.float() for t in tensors(1, 1, 2, 256, 3, 256))
    gain = torch.ones((1, 1, 200))
    z = project_structured(rows, diagonals, 1e-3).flatten(2)[..., :100]
    torch.testing.assert_close(
        structured_waves(rows, diagonals, 1e-3, gain), torch.cat([z.sin(), z.cos()], -1)
    )
    assert not torch_features._can_fuse(rows, diagonals)


def test_the_fused_kernel_is_for_cards_and_for_features_alone(monkeypatch):
    """It has no gradient, and knows single precision and some sizes only."""
    monkeypatch.setattr(torch_features, "_works", lambda device: device == "cuda:0")

    def fuses(p=1024, n=5, *, rows_trained=False, trained=False, dtype=torch.float32, device="cuda:0"):
        rows = SimpleNamespace(
            is_cuda=True, dtype=dtype, shape=(1, n, 900), requires_grad=rows_trained, device=device
        )
        return torch_features._can_fuse(rows, SimpleNamespace(shape=(1, 2, 3, p), requires_grad=trained))

    assert fuses()
    assert not fuses(trained=True)
    assert not fuses(rows_trained=True)
    with torch.no_grad():
        assert fuses(trained=True)
    assert not fuses(dtype=torch.float64)
    assert not fuses(p=128)
    assert not fuses(p=16_384)
    assert not fuses(n=10**6)
    assert not fuses(device="cuda:1")
