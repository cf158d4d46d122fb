"""Which architectures become a program, and whether it gives what following their operations gives.

    python -m benchmarks.networks.network_programs

Networks of timm and transformers are added where these are installed. All in double precision, with random weights.
"""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from benchmarks.networks._peers import random_model, torchvision_models
from benchmarks.networks._transformers import Decoder
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.results import publish
from tellwhy.explainers.propagation import LRP, programs

_VISION = """alexnet vgg11_bn resnet18 resnext50_32x4d densenet121 googlenet inception_v3 squeezenet1_1 mobilenet_v2
    mobilenet_v3_small mnasnet0_5 shufflenet_v2_x0_5 efficientnet_b0 regnet_x_400mf regnet_y_400mf convnext_tiny vit_b_16
    swin_t swin_v2_t"""
SETTINGS = {
    "googlenet": {"init_weights": False},
    "inception_v3": {"init_weights": False},
    "vit_b_16": {"image_size": 64},
}
_TIMM = """deit_tiny_patch16_224 mixer_s32_224 resmlp_12_224 poolformer_s12 edgenext_xx_small ghostnet_050 repvgg_a0
    tinynet_e lcnet_050 mobilenetv4_conv_small resnetv2_50 mobilevit_xxs cait_xxs24_224 convnextv2_atto"""
OF_FIXED_SIZE = ("deit_tiny_patch16_224", "mixer_s32_224", "resmlp_12_224", "cait_xxs24_224")
TEXTS = {
    "BERT": ("BertConfig", "BertForSequenceClassification"),
    "RoBERTa": ("RobertaConfig", "RobertaForSequenceClassification"),
    "DistilBERT": ("DistilBertConfig", "DistilBertForSequenceClassification"),
    "ELECTRA": ("ElectraConfig", "ElectraForSequenceClassification"),
    "GPT-2": ("GPT2Config", "GPT2ForSequenceClassification"),
    "Llama": ("LlamaConfig", "LlamaForSequenceClassification"),
    "Qwen 2": ("Qwen2Config", "Qwen2ForSequenceClassification"),
}
SMALL = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 32,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "dim": 16,
    "n_layers": 2,
    "n_heads": 2,
    "hidden_dim": 32,
    "pad_token_id": 0,
}
Case = tuple[str, str, Callable[[], nn.Module], Callable[[], Tensor]]


class Logits(nn.Module):
    """What a network of transformers says of each text."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(input_ids=tokens).logits


class Read(nn.Module):
    """The last output of a layer that reads a sequence, and a head."""

    def __init__(self, layer: nn.Module, size: int):
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(size, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x)[0][:, -1])


class Around(nn.Module):
    """A small U-Net: down, up again, and a way around."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding=1)
        self.deep = nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 8, 2, stride=2)
        self.last = nn.Conv2d(16, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = torch.relu(self.down(x))
        b = torch.relu(self.deep(nn.functional.max_pool2d(a, 2)))
        return self.last(torch.cat([a, self.up(b)], dim=1)).mean(dim=(2, 3))


class Neighbours(nn.Module):
    """A graph network: each of ten nodes sums over its neighbours, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)
        self.register_buffer("edges", torch.randint(10, (2, 30), generator=torch.Generator().manual_seed(0)))

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.first, self.second):
            h = layer(x)
            x = torch.relu(h + torch.zeros_like(h).index_add(1, self.edges[1], h[:, self.edges[0]]))
        return self.head(x.mean(dim=1))


class Turning(nn.Module):
    """Looks at values: no program can serve all rows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x * 2 if x.max() > 1 else x)


def images(size: int = 64) -> Callable[[], Tensor]:
    return lambda: torch.randn(3, 3, size, size, generator=torch.Generator().manual_seed(0))


def sequences(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))


def tokens() -> Tensor:
    return torch.randint(1, 50, (3, 6), generator=torch.Generator().manual_seed(0))


def cases() -> Iterator[Case]:
    yield "LSTM", "PyTorch", lambda: Read(nn.LSTM(4, 6, batch_first=True), 6), sequences(5, 4)
    yield "GRU, both ways", "PyTorch", lambda: Read(_both_ways(), 12), sequences(5, 4)
    yield "RNN, two layers", "PyTorch", lambda: Read(nn.RNN(4, 6, 2, batch_first=True), 6), sequences(5, 4)
    yield "TransformerEncoder", "PyTorch", Encoder, sequences(5, 8)
    yield "U-Net", "PyTorch", Around, images(16)
    yield "graph network", "PyTorch", Neighbours, sequences(10, 4)
    yield "decoder by hand", "PyTorch", _decoder, tokens
    yield "looks at values", "PyTorch", Turning, sequences(4)
    for name in _VISION.split():
        size = 96 if name == "inception_v3" else 64
        yield name, "torchvision", lambda name=name: _vision(name), images(size)
    if find_spec("timm"):
        for name in _TIMM.split():
            yield name, "timm", lambda name=name: _of_timm(name), images()
    if find_spec("transformers"):
        for name, classes in TEXTS.items():
            yield name, "transformers", lambda classes=classes: _of_transformers(*classes), tokens


class Encoder(nn.Module):
    """PyTorch's own transformer, and a head."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layers(x).mean(dim=1))


def _both_ways() -> nn.Module:
    return nn.GRU(4, 6, batch_first=True, bidirectional=True)


def _decoder() -> nn.Module:
    return Decoder(size=16, heads=2, groups=1, hidden=32, layers=2, words=50)


def _vision(name: str) -> nn.Module:
    model: Any = random_model(name, num_classes=10, **SETTINGS.get(name, {}))
    if name == "vit_b_16":
        nn.init.normal_(model.heads.head.weight, std=0.02)  # torchvision starts with zeros there
    return model


def _of_timm(name: str) -> nn.Module:
    torchvision_models()  # timm looks for its operators
    timm = import_module("timm")
    settings = {"img_size": 64} if name in OF_FIXED_SIZE else {}
    return timm.create_model(name, num_classes=10, **settings)


def _of_transformers(config: str, network: str) -> nn.Module:
    library = import_module("transformers")
    return Logits(getattr(library, network)(getattr(library, config)(**SMALL)))


def became(make: Callable[[], nn.Module], rows: Callable[[], Tensor], rule: dict[str, str]) -> dict[str, Any]:
    """What became of a network: a program, or why not; and how far both ways are apart."""
    torch.manual_seed(0)
    model = make().double().eval().requires_grad_(False)
    x = rows()
    x = x.double() if x.is_floating_point() else x
    explainer = LRP(model, batch_size=1, **rule)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        values = explainer.explain(x).values[-1]  # two rows are followed and compared, the last one is not
    seconds = time.perf_counter() - started
    wanted = explainer.explain(x[-1:], compile=False).values[0]
    (record,) = programs._records[explainer].values()
    said = [re.sub(r"\(/\S*/", "(", str(each.message)) for each in told if "followed" in str(each.message)]
    line = {"seconds": seconds, "apart by": float(abs(values - wanted).max() / abs(wanted).max())}
    if record.program is None:
        return {"became": "followed", "why": " ".join(said)[:300], **line}
    return {"became": "a program", "operators": record.program.n_operators, **line}


def measure(options: Any) -> list[dict[str, Any]]:
    lines = []
    programs.LEAST_BATCHES = 1
    for name, library, make, rows in cases():
        if options.networks and name not in options.networks:
            continue
        line: dict[str, Any] = {"network": name, "from": library}
        try:
            line |= became(make, rows, {"rule": options.rule})
        except Exception as error:
            why = " ".join(str(error).split())[:200]
            line |= {"became": "refused", "why": f"{type(error).__name__}: {why}"}
        lines.append(line)
        print(line, flush=True)
    return lines


def publish_lines(lines: list[dict[str, Any]], rule: str) -> None:
    columns = ["network", "from", "became", "operators", "apart by", "seconds", "why"]
    table = pd.DataFrame(lines).reindex(columns=columns)
    n_programs = int((table["became"] == "a program").sum())
    largest = table.loc[table["became"] == "a program", "apart by"].max()
    text = (
        f"{n_programs} of {len(table)} networks became a program under `LRP(rule={rule!r})`; the others "
        "are followed operation by operation, or are refused either way. Double precision, random weights, one row "
        "a batch. Apart is the largest difference between both ways for a row that was not compared before, as a "
        f"share of the largest value: at most {largest:.1g}. Seconds are those of three rows: two followed, one by "
        "the program, and making it."
    )
    table = table.astype(object).where(table.notna(), "")
    publish("network_programs", "Which architectures become a program", [(text, table)], peers=("torch",))


def main() -> None:
    options = arguments(__doc__, rule=option("epsilon", "rule of LRP"), networks=option([""], "only these"))
    options.networks = [name for name in options.networks if name]
    torch.set_num_threads(1)
    publish_lines(measure(options), options.rule)


if __name__ == "__main__":
    main()
