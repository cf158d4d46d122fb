"""Networks for `any_model.py`: convolutions, transformers, recurrence, autoencoders, tokens, several inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import captum.attr as captum
import numpy as np
import torch
from torch import nn

import tellwhy
from benchmarks.models._checks import Line, tried

torch.manual_seed(0)
STEPS = 1000  # of Captum's sum, which is then accurate to about one part in a thousand
MOST = 0.05  # of the largest value: the error that is called approximate
TABLE = torch.randn(3, 6)
PICTURES = torch.rand(2, 3, 16, 16)
SERIES = torch.randn(2, 7, 5)
TOKENS = torch.randint(1, 40, (3, 6))


class Residual(nn.Module):
    """Two convolutions with batch norm around a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.top = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        """Classes of pictures."""
        low = self.first(x)
        return self.top(torch.relu(low + self.second(low)).mean(dim=(2, 3)))


class UNet(nn.Module):
    """Down, up, and a skip between; one map per class."""

    def __init__(self, channels: int = 2) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 6, 3, padding=1)
        self.deep = nn.Conv2d(6, 6, 3, padding=1)
        self.up = nn.Conv2d(12, channels, 3, padding=1)

    def forward(self, x: Any) -> Any:
        """A map of the size of the picture."""
        low = torch.relu(self.down(x))
        deep = nn.functional.interpolate(
            torch.relu(self.deep(nn.functional.max_pool2d(low, 2))), scale_factor=2
        )
        return self.up(torch.cat([low, deep], dim=1))


class Recurrent(nn.Module):
    """A recurrent layer, and classes of its last state."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer(5, 8, batch_first=True)
        self.top = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Classes of series."""
        return self.top(self.layer(x)[0][:, -1])


class Transformer(nn.Module):
    """Patches of a picture, or steps of a series, through an encoder."""

    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.enter = nn.Linear(width, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.top = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Classes of series."""
        return self.top(self.encoder(self.enter(x)).mean(dim=1))


class Separable(nn.Module):
    """A convolution channel by channel, one across channels, and a gate, as small networks for phones have."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Sequential(nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), nn.Hardswish())
        self.deep = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.Hardswish())
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Sigmoid())
        self.top = nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        """Classes of pictures."""
        deep = self.deep(self.wide(x))
        return self.top((deep * self.gate(deep)).mean(dim=(2, 3)))


class Patches(nn.Module):
    """A picture cut into patches, a learned start, places, and an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, 8, 4, stride=4)
        self.start = nn.Parameter(torch.randn(1, 1, 8))
        self.places = nn.Parameter(torch.randn(1, 17, 8))
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, activation="gelu")
        self.top = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """Classes of pictures."""
        patches = self.cut(x).flatten(2).transpose(1, 2)
        steps = torch.cat([self.start.expand(len(x), -1, -1), patches], dim=1) + self.places
        return self.top(self.encoder(steps)[:, 0])


class TokenReader(nn.Module):
    """Tokens through an embedding and an encoder; outputs in a dict, as libraries of language models do."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 8, padding_idx=0)
        self.places = nn.Embedding(16, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.top = nn.Linear(8, 3)

    def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
        """Classes of texts."""
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1]))
        mask = None if attention_mask is None else attention_mask == 0
        hidden = self.encoder(x, src_key_padding_mask=mask)
        return SimpleNamespace(logits=self.top(hidden.mean(dim=1)), hidden=hidden)


class Tokens(nn.Module):
    """Tokens through an embedding and a recurrent layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(40, 8)
        self.layer = nn.GRU(8, 8, batch_first=True)
        self.top = nn.Linear(8, 3)

    def forward(self, tokens: Any) -> Any:
        """Classes of texts."""
        return self.top(self.layer(self.words(tokens))[0][:, -1])


class Two(nn.Module):
    """A picture and a row of a table."""

    def __init__(self) -> None:
        super().__init__()
        self.eye = nn.Conv2d(3, 4, 3)
        self.row = nn.Linear(6, 4)
        self.top = nn.Linear(4, 3)

    def forward(self, picture: Any, row: Any) -> Any:
        """Classes of both together."""
        return self.top(torch.tanh(self.eye(picture).mean(dim=(2, 3)) + self.row(row)))


class Variational(nn.Module):
    """An autoencoder that returns its reconstruction and two more tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Linear(6, 4)
        self.up = nn.Linear(2, 6)

    def forward(self, x: Any) -> Any:
        """Reconstruction, mean, logarithm of the variance."""
        mean, spread = self.down(x).chunk(2, dim=1)
        return self.up(mean), mean, spread


def ready(model: nn.Module) -> nn.Module:
    """A network in double precision and evaluation mode."""
    return model.double().eval()


def checked(exact: Callable[[Any], np.ndarray], outputs: np.ndarray, oracle: str) -> Any:
    """A check of values against an oracle and of scores against the network's own output."""

    def check(found: Any) -> tuple[str, str, str]:
        values = exact(found)
        error = float(np.abs(found.values - values).max() / np.abs(values).max())
        gap = float(np.abs(found.scores - outputs).max())
        missing = float((np.abs(found.residual) / np.abs(found.scores - found.base_values)).max())
        outcome = "exact" if error < 1e-6 else "approximate"
        wrong = error > MOST or gap > 1e-9
        return "wrong" if wrong else outcome, oracle, f"{error:.0e}; {missing:.0e} unattributed"

    return check


def by_captum(model: Any, X: torch.Tensor, pick: Callable[[Any], Any], baseline: Any = 0) -> Any:
    """A check against Captum's integrated gradients of a number per row."""
    X = X.double()

    def exact(_found: Any) -> np.ndarray:
        return (
            captum.IntegratedGradients(lambda x: pick(model(x))).attribute(X, baseline, n_steps=STEPS).numpy()
        )

    return checked(exact, pick(model(X)).detach().numpy(), "Captum")


def largest(outputs: Any) -> Any:
    """Output of each row that is largest for the rows themselves; fixed by their number elsewhere."""
    return outputs.max(dim=1).values


def fixed(model: Any, X: Any) -> Callable[[Any], Any]:
    """A function that picks, of any outputs, the output that each row of X has, also on Captum's many copies."""
    number = model(X.double()).argmax(dim=1)

    def pick(outputs: Any) -> Any:
        copies = len(outputs) // len(number)
        return outputs.gather(1, number.repeat(copies)[:, None])[:, 0]

    return pick


def plain() -> Iterator[Line]:
    """Networks of one input of floats and one tensor of classes."""
    cases = [
        ("perceptron", nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3)), TABLE),
        ("perceptron with tanh", nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3)), TABLE),
        (
            "perceptron with layer norm",
            nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)),
            TABLE,
        ),
        ("softmax at the end", nn.Sequential(nn.Linear(6, 3), nn.Softmax(dim=1)), TABLE),
        (
            "CNN",
            nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(294, 4)),
            PICTURES,
        ),
        (
            "CNN of series",
            nn.Sequential(nn.Conv1d(7, 6, 3), nn.SiLU(), nn.Flatten(), nn.Linear(18, 3)),
            SERIES,
        ),
        ("residual CNN with batch norm", Residual(), PICTURES),
        ("separable CNN with gates", Separable(), PICTURES),
        ("vision transformer", Patches(), PICTURES),
        ("LSTM", Recurrent(nn.LSTM), SERIES),
        ("GRU", Recurrent(nn.GRU), SERIES),
        ("plain RNN", Recurrent(nn.RNN), SERIES),
        ("transformer encoder", Transformer(), SERIES),
    ]
    for name, model, X in cases:
        ready(model)
        call = lambda m=model, x=X: tellwhy.explain(m, x.double())  # noqa: E731
        if name == "softmax at the end":
            yield tried("networks", name, call, by_captum(model[0], X, fixed(model[0], X)))
        else:
            yield tried("networks", name, call, by_captum(model, X, fixed(model, X)))


def maps_and_errors() -> Iterator[Line]:
    """A network that gives maps, and networks that give their input again."""
    unet = ready(UNet())
    pick = lambda outputs: outputs[:, 1].mean(dim=(1, 2))  # noqa: E731
    call = lambda: tellwhy.explain(unet, PICTURES.double(), target=pick)  # noqa: E731
    yield tried("networks", "U-Net, mean of a map", call, by_captum(unet, PICTURES, pick))
    call = lambda: tellwhy.explain(unet, PICTURES.double())  # noqa: E731
    yield tried("networks", "U-Net without a target", call, by_captum(unet, PICTURES, pick))
    for name, model, X in (
        ("autoencoder of rows", nn.Sequential(nn.Linear(6, 2), nn.Tanh(), nn.Linear(2, 6)), TABLE),
        ("autoencoder of pictures", UNet(3), PICTURES),
    ):
        ready(model)
        call = lambda m=model, x=X: tellwhy.explain(m, x.double())  # noqa: E731
        error = lambda x, m=model: ((m(x) - x) ** 2).flatten(1).sum(dim=1)  # noqa: E731
        yield tried("networks", name, call, by_captum(error, X, lambda found: found))
    call = lambda: tellwhy.explain(ready(Variational()), TABLE.double())  # noqa: E731
    yield tried("networks", "variational autoencoder, a tuple", call, by_captum(unet, PICTURES, pick))
    training = nn.Linear(6, 3).double()
    call = lambda: tellwhy.explain(training, TABLE.double())  # noqa: E731
    yield tried("networks", "a network in training mode", call, by_captum(unet, PICTURES, pick))


def tokens() -> Iterator[Line]:
    """Networks of tokens: against Captum's integrated gradients of the embedding's vectors."""
    model = ready(Tokens())
    call = lambda: tellwhy.explain(model, TOKENS)  # noqa: E731
    yield tried("networks", "tokens, GRU", call, _by_layer(model, lambda m, t: m(t), TOKENS))
    reader = ready(TokenReader())
    call = lambda: tellwhy.explain(reader, TOKENS)  # noqa: E731
    logits = lambda m, t: m(t).logits  # noqa: E731
    yield tried("networks", "tokens, transformer, outputs by name", call, _by_layer(reader, logits, TOKENS))
    mask = torch.ones_like(TOKENS)
    mask[:, 4:] = 0
    given = {"input_ids": TOKENS, "attention_mask": mask}
    call = lambda: tellwhy.explain(reader, given)["input_ids"]  # noqa: E731
    masked = lambda m, t: m(t, mask.repeat(len(t) // len(mask), 1)).logits  # noqa: E731
    yield tried("networks", "tokens with a mask, by name", call, _by_layer(reader, masked, TOKENS))


def _by_layer(model: Any, apply: Callable[[Any, Any], Any], X: Any) -> Any:
    number = apply(model, X).argmax(dim=1)

    def forward(t: Any) -> Any:
        found = apply(model, t)
        return found.gather(1, number.repeat(len(found) // len(number))[:, None])[:, 0]

    def exact(_found: Any) -> np.ndarray:
        layer = captum.LayerIntegratedGradients(forward, model.words)
        pad = torch.zeros_like(X)
        if model.words.padding_idx is None:  # the line then starts from a vector of zeros
            extended = torch.cat([model.words.weight.detach(), torch.zeros(1, 8).double()])
            model.words = nn.Embedding.from_pretrained(extended)
            layer = captum.LayerIntegratedGradients(forward, model.words)
            pad = torch.full_like(X, len(extended) - 1)
        return layer.attribute(X, pad, n_steps=STEPS).sum(dim=-1).detach().numpy()

    return checked(exact, forward(X).detach().numpy(), "Captum")


def several() -> Iterator[Line]:
    """A network of two inputs, each against its part of Captum's."""
    model = ready(Two())
    row = torch.randn(2, 6).double()
    pictures = PICTURES.double()
    number = model(pictures, row).argmax(dim=1)
    forward = lambda a, b: model(a, b).gather(1, number.repeat(len(a) // 2)[:, None])[:, 0]  # noqa: E731
    whole = captum.IntegratedGradients(forward).attribute((pictures, row), n_steps=STEPS)
    scores = forward(pictures, row).detach().numpy()
    for k, name in enumerate(("the picture", "the row")):
        call = lambda place=k: tellwhy.explain(model, (pictures, row))[place]  # noqa: E731
        yield tried("networks", f"two inputs, {name}", call, _part(whole[k].numpy(), scores))


def _part(values: np.ndarray, scores: np.ndarray) -> Any:
    """A check of one input of several: what the others got is in its base."""

    def check(found: Any) -> tuple[str, str, str]:
        error = float(np.abs(found.values - values).max() / np.abs(values).max())
        wrong = error > MOST or np.abs(found.scores - scores).max() > 1e-9
        outcome = "exact" if error < 1e-6 else "approximate"
        return "wrong" if wrong else outcome, "Captum", f"{error:.0e}"

    return check
