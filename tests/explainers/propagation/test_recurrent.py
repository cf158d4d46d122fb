"""Recurrent layers: against explicit algebra, and the same in every spelling."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from oracles import recurrent_oracles as oracle  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence  # noqa: E402

from tellwhy.core.errors import InvalidParameter, UnsupportedModel  # noqa: E402
from tellwhy.explainers import LRP, Gradient, GuidedBackprop, explain_all  # noqa: E402
from tellwhy.explainers.propagation import register_operation  # noqa: E402

X = torch.randn(4, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "tanh": nn.RNN}
GATES = {"signal": 0.0, "half": 0.5}


class Last(nn.Module):
    """A head on the last output of a recurrent layer."""

    def __init__(self, layer, size=5):
        super().__init__()
        torch.manual_seed(0)
        self.layer = layer
        self.head = nn.Linear(size, 3)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5)
        self.double().eval()

    def forward(self, x):
        return self.head(self.layer(x)[0][:, -1])


def numbers(layer, kind):
    """Weights of the first layer as the oracles want them."""
    W, U, b, c = (p.detach().numpy() for p in layer.all_weights[0])
    if kind != "gru":
        return {"Wx": W, "Wh": U, "b": b + c}
    n = 2 * U.shape[1]
    gates = {"Wx": W[:n], "Wh": U[:n], "b": b[:n] + c[:n]}
    return {**gates, "Wn": W[n:], "Un": U[n:], "bn": b[n:], "cn": c[n:]}


def by_algebra(model, kind, share):
    w, head = numbers(model.layer, kind), model.head
    A, d = head.weight.detach().numpy(), head.bias.detach().numpy()
    rule = {"lstm": oracle.lstm, "gru": oracle.gru, "tanh": oracle.plain}[kind]
    settings = {} if kind == "tanh" else {"share": share}
    found = []
    for xs in X.numpy():
        _, h = rule(xs, w, np.zeros(5), **settings)
        k = int((A @ h + d).argmax())
        found.append(rule(xs, w, h * A[k], **settings)[0])  # the head is LRP-0 too
    return np.array(found)


@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("kind", KINDS)
def test_layers_are_the_algebra(kind, gates):
    model = Last(KINDS[kind](3, 5, batch_first=True))
    found = LRP(model, rule="z", gates=gates).explain(X)
    np.testing.assert_allclose(found.scores, model(X).max(dim=1).values.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(found.values, by_algebra(model, kind, GATES[gates]), atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_signal_takes_all_conserves_without_biases(kind):
    model = Last(KINDS[kind](3, 5, batch_first=True, bias=False))
    nn.init.zeros_(model.head.bias)
    found = LRP(model, rule="z").explain(X)
    assert np.abs(found.residual / found.scores).max() < 1e-8


class ByCells(nn.Module):
    """The same layer, one call of its cell per step."""

    def __init__(self, layer, cell):
        super().__init__()
        self.cell = cell
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        for name, parameter in zip(names, layer.all_weights[0], strict=True):
            setattr(cell, name, nn.Parameter(parameter.detach().clone()))

    def forward(self, x):
        state, outputs = None, []
        for step in x.unbind(1):
            state = self.cell(step, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs, dim=1), state


class WrittenLSTM(nn.Module):
    """An LSTM as people write it."""

    def __init__(self, layer):
        super().__init__()
        W, U, b, c = (p.detach().clone() for p in layer.all_weights[0])
        self.W, self.b = nn.Parameter(torch.cat([W, U], dim=1)), nn.Parameter(b + c)

    def forward(self, x):
        h = c = torch.zeros(len(x), 5, dtype=x.dtype)
        outputs = []
        for t in range(x.shape[1]):
            i, f, g, o = (torch.cat([x[:, t], h], dim=1) @ self.W.t() + self.b).chunk(4, dim=1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs, dim=1), (h, c)


@pytest.mark.parametrize("gates", GATES)
@pytest.mark.parametrize("settings", [{"rule": "z"}, {"rule_params": {"epsilon": 0.1}}, {"rule": "gamma"}])
@pytest.mark.parametrize("kind", [*KINDS, "relu", "by hand"])
def test_cells_and_layers_by_hand_are_the_same(kind, settings, gates):
    name = "lstm" if kind == "by hand" else kind
    layer = (KINDS | {"relu": lambda *a, **k: nn.RNN(*a, nonlinearity="relu", **k)})[name](
        3, 5, batch_first=True
    )
    model = Last(layer)
    cells = {
        "lstm": lambda: nn.LSTMCell(3, 5),
        "gru": lambda: nn.GRUCell(3, 5),
        "tanh": lambda: nn.RNNCell(3, 5),
        "relu": lambda: nn.RNNCell(3, 5, nonlinearity="relu"),
    }
    wanted = LRP(model, gates=gates, **settings).explain(X).values
    model.layer = WrittenLSTM(layer) if kind == "by hand" else ByCells(layer, cells[kind]())
    found = LRP(model.eval(), gates=gates, **settings).explain(X).values
    np.testing.assert_allclose(found, wanted, atol=1e-10)
    assert np.abs(wanted).max() > 1e-3


class Packed(nn.Module):
    """Rows of different lengths, packed; the last output of each row."""

    def __init__(self, layer, lengths, size):
        super().__init__()
        self.inner = Last(layer, size)
        self.lengths = torch.tensor(lengths)

    def forward(self, x):
        packed = pack_padded_sequence(x, self.lengths, batch_first=True, enforce_sorted=False)
        outputs, lengths = pad_packed_sequence(self.inner.layer(packed)[0], batch_first=True)
        return self.inner.head(outputs[torch.arange(len(x)), lengths - 1])


@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_packed_rows_are_explained_as_if_each_were_alone(kind, both_ways):
    lengths = [3, 6, 1, 4]
    layer = KINDS[kind](3, 5, num_layers=2, batch_first=True, bidirectional=both_ways)
    model = Packed(layer, lengths, 10 if both_ways else 5).eval()
    found = LRP(model, rule="z").explain(X)
    for k, n in enumerate(lengths):
        alone = LRP(model.inner, rule="z").explain(X[k : k + 1, :n])
        np.testing.assert_allclose(found.values[k, :n], alone.values[0], atol=1e-10)
        np.testing.assert_allclose(found.values[k, n:], 0, atol=0)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    "settings",
    [{"bidirectional": True}, {"num_layers": 2}, {"bias": False}, {"proj_size": 4, "bidirectional": True}],
)
@pytest.mark.parametrize("kind", KINDS)
def test_written_out_layers_compute_what_pytorch_computes(kind, settings, first):
    if "proj_size" in settings and kind != "lstm":
        pytest.skip("only LSTMs project their state")

    class States(nn.Module):
        """Sum of all outputs and all last states, each in its own way."""

        def __init__(self):
            super().__init__()
            self.layer = KINDS[kind](3, 5, batch_first=first, **settings)

        def forward(self, x):
            outputs, state = self.layer(x if first else x.transpose(0, 1))
            outputs = outputs if first else outputs.transpose(0, 1)
            parts = state if isinstance(state, tuple) else (state,)
            ends = torch.cat([part.transpose(0, 1).flatten(1) for part in parts], dim=1)
            return torch.cat([outputs.flatten(1).sum(1, keepdim=True), ends], dim=1)

    torch.manual_seed(0)
    model = States().double().eval()
    for target in (0, 3):
        explainer = LRP(model, target=target, rule="z")
        found = explainer.explain(X)
        np.testing.assert_allclose(found.scores, model(X)[:, target].detach().numpy(), rtol=1e-10)
        np.testing.assert_allclose(explainer.ledger(X).absorbed.sum(), found.residual.sum(), atol=1e-9)


def test_gradients_share_the_pass():
    model = Last(nn.LSTM(3, 5, batch_first=True))
    together = explain_all([Gradient(model), LRP(model)], X)
    leaf = X.clone().requires_grad_()
    slopes = torch.autograd.grad(model(leaf).max(dim=1).values.sum(), leaf)[0]
    np.testing.assert_allclose(together[0].values, slopes.numpy(), atol=1e-10)


def test_rectified_gradients_and_names_do_not_pass_recurrent_layers_silently():
    model = Last(nn.LSTM(3, 5, batch_first=True))
    with pytest.raises(UnsupportedModel, match="lstm"):
        GuidedBackprop(model).explain(X)
    with pytest.raises(InvalidParameter, match="lstm"):
        register_operation("lstm", "mixing")
    with pytest.raises(InvalidParameter, match="lstm"):
        LRP(model, operations={"lstm": "mixing"}).explain(X)
