"""Networks as people write them, through the one-liner: against line integrals written out by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from zoo.networks import Function, Joined  # noqa: E402

import tellwhy  # noqa: E402
from tellwhy.core.errors import InvalidInput, InvalidParameter, NotConverged, UnsupportedModel  # noqa: E402
from tellwhy.explainers import IntegratedGradients  # noqa: E402

torch.manual_seed(0)
X = torch.randn(6, 4, dtype=torch.float64)
BACKGROUND = torch.randn(80, 4, dtype=torch.float64) + 1.0


def network(*layers):
    return nn.Sequential(*layers).double().eval()


def integrated(function, x, reference, n_steps=4000):
    """(x − r) times the mean gradient on the line, by the midpoint rule."""
    shares = (torch.arange(n_steps, dtype=torch.float64) + 0.5) / n_steps
    points = (reference + shares.reshape(-1, *[1] * x.ndim) * (x - reference)).requires_grad_()
    slope = torch.autograd.grad(function(points).sum(), points)[0].mean(dim=0)
    return ((x - reference) * slope).detach().numpy()


class TestBaseline:
    MODEL = network(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))

    @pytest.mark.parametrize("background", [None, BACKGROUND])
    def test_lines_start_from_zero_or_from_the_mean_of_the_background(self, background):
        found = tellwhy.explain(self.MODEL, X, background=background, target=1)
        start = torch.zeros(4, dtype=torch.float64) if background is None else background.mean(dim=0)
        with torch.no_grad():
            np.testing.assert_allclose(found.base_values, self.MODEL(start[None])[0, 1].item(), rtol=1e-9)
        exact = integrated(lambda p: self.MODEL(p)[:, 1], X[0], start)
        np.testing.assert_allclose(found.values[0], exact, rtol=0.02, atol=0.01)

    def test_fit_does_the_same_as_the_background(self):
        by_fit = IntegratedGradients(self.MODEL, target=1).fit(BACKGROUND).explain(X)
        by_background = tellwhy.explain(self.MODEL, X, background=BACKGROUND, target=1)
        np.testing.assert_array_equal(by_fit.values, by_background.values)

    def test_shapley_values_keep_the_output_that_each_row_has(self):
        found = tellwhy.explain(self.MODEL, X, "KernelShap", background=BACKGROUND)
        with torch.no_grad():
            outputs = self.MODEL(X).numpy()
        assert found.extras["output"].tolist() == outputs.argmax(axis=1).tolist()
        np.testing.assert_allclose(found.scores, outputs.max(axis=1))
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-10)

    def test_a_method_without_a_reference_refuses_a_background(self):
        with pytest.raises(InvalidParameter, match="LRP compares with no other rows"):
            tellwhy.explain(self.MODEL, X, "LRP", background=BACKGROUND)


class TestOutputs:
    class Several(nn.Module):
        def __init__(self, form):
            super().__init__()
            self.layer = nn.Linear(4, 3).double()
            self.form = form

        def forward(self, x):
            logits = self.layer(x)
            parts = {"hidden": x * 2, "logits": logits}
            return {"dict": parts, "object": SimpleNamespace(**parts), "tuple": (logits, x * 2)}[self.form]

    @pytest.mark.parametrize("form", ["dict", "object"])
    @pytest.mark.parametrize("target", [None, "logits", ("logits", 1), lambda out: _logits(out)[:, 1]])
    def test_logits_are_found_by_name(self, form, target):
        model = self.Several(form).eval()
        found = tellwhy.explain(model, X, target=target)
        with torch.no_grad():
            outputs = model.layer(X).numpy()
        chosen = outputs[:, 1] if callable(target) or isinstance(target, tuple) else outputs.max(axis=1)
        np.testing.assert_allclose(found.scores, chosen, rtol=1e-9)
        weights = model.layer.weight.detach().numpy()
        if callable(target):
            np.testing.assert_allclose(found.values, weights[1] * X.numpy(), rtol=1e-6)

    def test_what_cannot_be_told_is_asked(self):
        with pytest.raises(UnsupportedModel, match=r"a tuple with '0', '1': say which"):
            tellwhy.explain(self.Several("tuple").eval(), X)
        with pytest.raises(InvalidParameter, match=r"'logit' is no part.*did you mean 'logits'"):
            tellwhy.explain(self.Several("dict").eval(), X, target="logit")
        with pytest.raises(InvalidInput, match="one number per row"):
            tellwhy.explain(self.Several("dict").eval(), X, target=lambda out: out["logits"])

    def test_lrp_takes_the_same_targets(self):
        model = self.Several("dict").eval()
        found = tellwhy.explain(model, X, "LRP", target=("logits", 2))
        with torch.no_grad():
            np.testing.assert_allclose(found.scores, model.layer(X)[:, 2].numpy())
        assert "in 'logits'" in found.params["explains"]


def _logits(out):
    return out["logits"] if isinstance(out, dict) else out.logits


class TestAutoencoders:
    MODEL = network(nn.Linear(4, 2), nn.Tanh(), nn.Linear(2, 4))

    def errors(self, x):
        return ((self.MODEL(x) - x) ** 2).sum(dim=1)

    def test_the_reconstruction_error_is_explained_and_said(self):
        found = tellwhy.explain(self.MODEL, X, background=BACKGROUND)
        np.testing.assert_allclose(found.scores, self.errors(X).detach().numpy(), rtol=1e-9)
        assert "squared reconstruction error" in found.params["explains"]
        exact = integrated(self.errors, X[0], BACKGROUND.mean(dim=0))
        np.testing.assert_allclose(found.values[0], exact, rtol=0.05, atol=0.02)

    def test_a_number_chooses_an_output_after_all(self):
        found = tellwhy.explain(self.MODEL, X, target=2)
        with torch.no_grad():
            np.testing.assert_allclose(found.scores, self.MODEL(X)[:, 2].numpy())

    def test_classes_behind_a_softmax_are_no_reconstruction(self):
        found = tellwhy.explain(network(nn.Linear(4, 4), nn.Softmax(dim=1)), X)
        assert "largest output" in found.params["explains"]

    def test_a_planted_cell_is_named(self):
        rng = np.random.default_rng(0)
        rows = torch.tensor(rng.normal(size=(300, 1)) @ np.ones((1, 5)) + 0.1 * rng.normal(size=(300, 5)))
        _, _, basis = torch.linalg.svd(rows - rows.mean(dim=0), full_matrices=False)
        down, up = nn.Linear(5, 1, bias=False), nn.Linear(1, 5, bias=False)
        model = network(down, up)
        down.weight.data, up.weight.data = basis[:1].clone(), basis[:1].T.clone()
        truth = np.arange(20) % 5
        odd = rows[:20] + 6.0 * torch.eye(5, dtype=torch.float64)[truth]
        found = tellwhy.explain(model, odd, background=rows)
        assert (found.values.argmax(axis=1) == truth).sum() >= 19


class Reader(nn.Module):
    """Tokens and, perhaps, a mask: a mean of vectors, then a bend."""

    def __init__(self, padding=None):
        super().__init__()
        self.words = nn.Embedding(30, 6, padding_idx=padding)
        self.places = nn.Embedding(10, 6)
        self.top = nn.Linear(6, 3)
        self.double().eval()

    def read(self, vectors, mask=None):
        here = vectors + self.places(torch.arange(vectors.shape[1]))
        weights = (
            torch.ones(vectors.shape[:2], dtype=vectors.dtype) if mask is None else mask.to(vectors.dtype)
        )
        mean = (torch.tanh(here) * weights[..., None]).sum(dim=1) / weights.sum(dim=1, keepdim=True)
        return self.top(mean)

    def forward(self, input_ids, attention_mask=None):
        return self.read(self.words(input_ids), attention_mask)


class TestTokens:
    TOKENS = torch.randint(1, 30, (5, 7))

    @pytest.mark.parametrize("padding", [None, 0])
    def test_tokens_are_explained_by_their_vectors(self, padding):
        model = Reader(padding)
        found = tellwhy.explain(model, self.TOKENS, target=1)
        assert found.values.shape == (5, 7)
        vectors = model.words(self.TOKENS[0]).detach()
        start = torch.zeros_like(vectors)
        exact = integrated(lambda p: model.read(p)[:, 1], vectors, start).sum(axis=1)
        np.testing.assert_allclose(found.values[0], exact, rtol=0.02, atol=0.005)
        with torch.no_grad():
            np.testing.assert_allclose(found.scores, model(self.TOKENS)[:, 1].numpy())

    def test_arrays_of_tokens_and_a_background_of_them(self):
        model = Reader()
        background = torch.randint(1, 30, (40, 7))
        found = tellwhy.explain(model, self.TOKENS.numpy(), background=background.numpy(), target=0)
        start = model.words(background).mean(dim=0).detach()
        with torch.no_grad():
            np.testing.assert_allclose(found.base_values, model.read(start[None])[0, 0].item(), rtol=1e-9)

    def test_shapley_values_of_tokens(self):
        model = Reader()
        background = torch.randint(1, 30, (20, 7))
        found = tellwhy.explain(model, self.TOKENS, "KernelShap", background=background, target=0)
        with torch.no_grad():
            np.testing.assert_allclose(found.base_values, model(background)[:, 0].mean().item())
        np.testing.assert_allclose(found.residual, 0.0, atol=1e-9)

    def test_a_mask_stays_as_it_is_and_the_model_too(self):
        model = Reader()
        mask = torch.ones(5, 7, dtype=torch.long)
        mask[:, 4:] = 0
        found = tellwhy.explain(model, {"input_ids": self.TOKENS, "attention_mask": mask}, target=1)
        assert set(found) == {"input_ids", "attention_mask"}
        assert not found["attention_mask"].values.any()
        np.testing.assert_allclose(found["input_ids"].values[:, 4:], 0.0, atol=1e-12)
        assert np.abs(found["input_ids"].values[:, :4]).min() > 0
        assert not model.words._forward_hooks
        assert not model.words._forward_pre_hooks

    def test_whole_numbers_for_a_network_of_numbers_are_numbers(self):
        model = network(nn.Linear(3, 2))
        rows = np.array([[1, 2, 3]])
        np.testing.assert_array_equal(
            tellwhy.explain(model, rows).values, tellwhy.explain(model, rows.astype(float)).values
        )


@pytest.mark.parametrize("by_name", [False, True])
def test_several_inputs_share_one_output(by_name):
    model = Joined(nn.Linear(4, 5), nn.Linear(3, 5), nn.Linear(5, 2), torch.tanh).double().eval()
    right = torch.randn(6, 3, dtype=torch.float64)
    given = {"left": X, "right": right} if by_name else (X, right)
    found = tellwhy.explain(model, given, target=0)
    left_part, right_part = (found["left"], found["right"]) if by_name else found
    both = torch.cat([X, right], dim=1)
    exact = integrated(lambda p: model(p[:, :4], p[:, 4:])[:, 0], both[0], torch.zeros_like(both[0]))
    np.testing.assert_allclose(left_part.values[0], exact[:4], rtol=0.02, atol=0.005)
    np.testing.assert_allclose(right_part.values[0], exact[4:], rtol=0.02, atol=0.005)
    np.testing.assert_allclose(left_part.residual, right_part.residual, atol=1e-12)
    total = left_part.values.sum(axis=1) + right_part.values.sum(axis=1)
    np.testing.assert_allclose(
        left_part.base_values + left_part.values.sum(axis=1) + left_part.residual, left_part.scores
    )
    assert np.abs(left_part.scores - left_part.base_values - left_part.values.sum(axis=1)).max() < 0.01
    assert np.isfinite(total).all()


class TestUnattributed:
    def test_a_jump_near_zero_is_found_by_refining(self):
        model = network(nn.LayerNorm(4), nn.Linear(4, 3))
        found = tellwhy.explain(model, 300.0 * X, target=0)
        gap = np.abs(found.residual) / np.abs(found.scores - found.base_values)
        assert gap.max() < 0.05
        assert found.extras["n_gradients"].max() > 128

    def test_what_stays_missing_is_said(self):
        with pytest.warns(NotConverged, match=r"leaves up to \d+% .* in 2 of 2 rows"):
            tellwhy.explain(
                Function(lambda x: torch.where(x.sum(dim=1) > 0.3, 5.0, 0.0) + 0.001 * x.sum(dim=1)).eval(),
                np.ones((2, 3)),
            )

    def test_smooth_scores_are_not_warned_of(self):
        tellwhy.explain(TestBaseline.MODEL, X)


def test_tensors_that_record_gradients_are_rows_like_others():
    recording = X.clone().requires_grad_()
    found = tellwhy.explain(TestBaseline.MODEL, recording, background=BACKGROUND.clone().requires_grad_())
    plain = tellwhy.explain(TestBaseline.MODEL, X, background=BACKGROUND)
    np.testing.assert_array_equal(found.values, plain.values)
    assert recording.grad is None


def test_tensors_of_types_that_numpy_does_not_know():
    torch.manual_seed(0)
    model = nn.Linear(4, 2).to(torch.bfloat16).eval()
    found = tellwhy.explain(model, X.to(torch.bfloat16), target=0)
    np.testing.assert_allclose(
        found.scores, model(X.to(torch.bfloat16))[:, 0].detach().float().numpy(), rtol=0.05
    )
