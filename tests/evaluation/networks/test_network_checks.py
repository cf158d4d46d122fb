"""Region flipping and parameter randomisation on networks of which the answer is known."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy.stats import spearmanr  # noqa: E402
from torch import nn  # noqa: E402

from tellwhy.core.errors import InvalidInput  # noqa: E402
from tellwhy.core.explanation import Explanation  # noqa: E402
from tellwhy.evaluation import parameter_randomisation, region_flipping  # noqa: E402
from tellwhy.evaluation.randomisation import measure_structural_similarity, rank_correlation  # noqa: E402
from tellwhy.explainers import (  # noqa: E402
    LRP,
    DeconvNet,
    Gradient,
    GuidedBackprop,
    InputTimesGradient,
    IntegratedGradients,
)


class Quadrants(nn.Module):
    """Output k is the sum of quadrant k of one channel, rectified pixel by pixel."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        x = torch.relu(self.scale * x[:, 0])
        h, w = x.shape[1] // 2, x.shape[2] // 2
        parts = x[:, :h, :w], x[:, :h, w:], x[:, h:, :w], x[:, h:, w:]
        return torch.stack([part.sum((1, 2)) for part in parts], dim=1)


PICTURES = np.random.default_rng(0).uniform(0.1, 1, size=(6, 1, 8, 8))


def test_an_explanation_of_the_wrong_output_gives_a_worse_curve():
    model = Quadrants().double().eval()
    settings = {"target": 1, "patch_size": 4, "baseline": "zero", "n_random": 50}
    right, wrong = (InputTimesGradient(model, target=k).explain(PICTURES) for k in (1, 2))
    good, bad = region_flipping(right, model, **settings), region_flipping(wrong, model, **settings)
    np.testing.assert_allclose(good.mean_curve(), [1, 0, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(bad.mean_curve()[1], 1, atol=1e-12)
    assert good.area == pytest.approx(1 / 8)
    assert good.area < good.random.area < bad.area
    assert good.random.area == pytest.approx(0.5, abs=0.05)  # the quadrant goes at step 1, 2, 3 or 4
    reverse = region_flipping(right, model, **settings, order="lerf")
    assert reverse.area == pytest.approx(7 / 8)


def test_a_random_explanation_is_no_better_than_chance():
    model = Quadrants().double().eval()
    e = InputTimesGradient(model, target=1).explain(PICTURES)
    values = np.random.default_rng(1).normal(size=e.values.shape)
    noise = Explanation(values=values, scores=e.scores, method="noise", data=PICTURES)
    settings = {"target": 1, "patch_size": 2, "baseline": "zero", "n_random": 20}
    found = region_flipping(noise, model, **settings)
    assert found.area == pytest.approx(found.random.area, abs=0.15)
    assert found.area > 2 * region_flipping(e, model, **settings).area


def test_the_output_that_was_explained_is_followed():
    """The largest output of a picture changes as its quadrant is painted over; the explained one must not."""
    model = Quadrants().double().eval()
    largest = model(torch.tensor(PICTURES)).argmax(dim=1)
    by_default = region_flipping(
        InputTimesGradient(model).explain(PICTURES), model, patch_size=4, baseline="zero"
    )
    np.testing.assert_allclose(by_default.curves[:, 1], 0, atol=1e-12)
    given = region_flipping(
        InputTimesGradient(model).explain(PICTURES), model, target=largest, patch_size=4, baseline="zero"
    )
    np.testing.assert_array_equal(given.curves, by_default.curves)
    recorded = region_flipping(
        IntegratedGradients(model, target=3).explain(PICTURES), model, patch_size=4, baseline="zero"
    )
    np.testing.assert_allclose(recorded.curves[:, 0], PICTURES[:, 0, 4:, 4:].sum(axis=(1, 2)), rtol=1e-12)
    function = region_flipping(
        LRP(model, target=lambda y: 2 * y[:, 0]).explain(PICTURES),
        model,
        target=lambda y: 2 * y[:, 0],
        patch_size=4,
    )
    np.testing.assert_allclose(function.curves[:, 0], 2 * PICTURES[:, 0, :4, :4].sum(axis=(1, 2)), rtol=1e-12)


def test_explanations_of_another_output_are_not_judged_by_the_largest():
    model = Quadrants().double().eval()
    smallest = model(torch.tensor(PICTURES)).argmin(dim=1)
    explanation = InputTimesGradient(model, target=smallest).explain(PICTURES)
    np.testing.assert_array_equal(explanation.extras["output"], smallest)
    found = region_flipping(explanation, model, patch_size=4, baseline="zero")
    np.testing.assert_allclose(found.curves[:, 0], explanation.scores, rtol=1e-12)
    of_function = LRP(model, target=lambda y: 2 * y[:, 0]).explain(PICTURES)
    assert "output" not in of_function.extras
    with pytest.raises(InvalidInput, match=r"Pass the model that was explained, and target="):
        region_flipping(of_function, model)


def deep_network(depth=4, channels=8):
    torch.manual_seed(0)
    layers = []
    for k in range(depth):
        layers += [nn.Conv2d(channels if k else 3, channels, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 5)).eval()


IMAGES = torch.randn(6, 3, 12, 12, generator=torch.Generator().manual_seed(0))


def test_gradients_depend_on_the_upper_layers_and_rectified_ones_hardly():
    """Two random layers next to the output change a gradient; Guided Backprop and DeconvNet hardly notice."""
    model = deep_network(depth=6, channels=32)
    finals = {
        method.__name__: parameter_randomisation(method(model), IMAGES, layers=["14", "10"]).final
        for method in (Gradient, GuidedBackprop, DeconvNet)
    }
    assert abs(finals["Gradient"]) < 0.3
    assert finals["GuidedBackprop"] > 0.8
    assert finals["DeconvNet"] > 0.5


def test_every_stage_against_a_loop_over_rows():
    model = deep_network()
    found = parameter_randomisation(Gradient(model), IMAGES, random_state=3)
    assert found.layers == (("10",), ("6",), ("4",), ("2",), ("0",))
    assert found.similarities.shape == (5, 6)
    copied = deep_network()
    rng = np.random.default_rng(3)
    target = model(IMAGES).argmax(dim=1)
    before = Gradient(model, target=target).explain(IMAGES).values
    for stage, (name,) in enumerate(found.layers):
        for parameter in copied.get_submodule(name).parameters():
            drawn = torch.tensor(rng.standard_normal(parameter.shape)).float()
            parameter.data = parameter.data.mean() + parameter.data.std() * drawn
        after = Gradient(copied, target=target).explain(IMAGES).values
        expected = [spearmanr(a.ravel(), b.ravel()).statistic for a, b in zip(before, after, strict=True)]
        np.testing.assert_allclose(found.similarities[stage], expected, atol=1e-3)
    assert abs(found.final) < 0.2
    assert found.final == pytest.approx(found.similarities[-1].mean())


def test_independent_stages_leave_the_other_layers_alone():
    model = deep_network()
    found = parameter_randomisation(Gradient(model), IMAGES, mode="independent", layers=["0", "10"])
    alone = parameter_randomisation(Gradient(model), IMAGES, layers=["0"])
    np.testing.assert_array_equal(found.similarities[0], alone.similarities[0])
    cascading = parameter_randomisation(Gradient(model), IMAGES, layers=["0", "10"])
    np.testing.assert_array_equal(cascading.similarities[0], found.similarities[0])
    assert not np.array_equal(cascading.similarities[1], found.similarities[1])


@pytest.mark.parametrize("make", [Gradient, LRP, IntegratedGradients])
def test_the_model_is_never_changed_and_the_seed_decides(make):
    model = deep_network()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    explainer = make(model)
    explainer.explain(IMAGES[:2])
    state = torch.get_rng_state()
    first, second = (
        parameter_randomisation(explainer, IMAGES[:2], n_stages=2, random_state=5) for _ in range(2)
    )
    np.testing.assert_array_equal(first.similarities, second.similarities)
    other = parameter_randomisation(explainer, IMAGES[:2], n_stages=2, random_state=6)
    assert not np.array_equal(first.similarities, other.similarities)
    assert (first.similarities < 0.99).all()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert explainer.model is model
    assert explainer.target == "max"
    assert torch.equal(torch.get_rng_state(), state)
    assert [len(stage) for stage in first.layers] == [3, 2]


def test_similarity_of_images_and_functions():
    model = deep_network()
    e = Gradient(model).explain(IMAGES).values
    np.testing.assert_allclose(measure_structural_similarity(e, e), 1, atol=1e-12)
    np.testing.assert_allclose(measure_structural_similarity(e, 5 * e), 1, atol=1e-12)
    noise = np.random.default_rng(0).normal(size=e.shape)
    assert (measure_structural_similarity(e, noise) < 0.3).all()
    assert rank_correlation(e, -e) == pytest.approx(-1)
    assert np.isnan(rank_correlation(e, 0 * e)).all()
    found = parameter_randomisation(Gradient(model), IMAGES, n_stages=1, similarity="ssim")
    assert (found.similarities < 0.5).all()
    mine = parameter_randomisation(
        Gradient(model), IMAGES, n_stages=1, similarity=lambda a, b: np.full(len(a), 0.25)
    )
    assert mine.final == 0.25
    frame = parameter_randomisation(Gradient(model), IMAGES, n_stages=2).to_frame()
    assert list(frame.columns) == ["layers", "similarity", "spread"]
