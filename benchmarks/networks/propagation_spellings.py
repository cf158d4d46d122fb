"""Same function, same answer: relevance of many architectures and of copies that compute the same in other words.

    python -m benchmarks.networks.propagation_spellings

BERT, GPT-2 and Llama are added where `transformers` is installed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from benchmarks.networks._peers import random_model
from benchmarks.networks._respelled import respelled, without_constants
from benchmarks.networks._transformers import Decoder
from benchmarks.shared.arguments import arguments, option
from benchmarks.shared.places import TESTS
from benchmarks.shared.results import publish
from tellwhy.explainers.propagation import LRP

VISION = (
    *("vgg11_bn", "resnet18", "densenet121", "googlenet", "mobilenet_v2", "mobilenet_v3_small", "mnasnet0_5"),
    *(
        "shufflenet_v2_x0_5",
        "efficientnet_b0",
        "regnet_y_400mf",
        "convnext_tiny",
        "vit_b_16",
        "swin_t",
        "swin_v2_t",
    ),
)
SETTINGS = {"googlenet": {"init_weights": False}, "vit_b_16": {"image_size": 64}}
Case = tuple[str, nn.Module, Tensor, Callable[[nn.Module], nn.Module], str]


def vision() -> Iterator[Case]:
    x = torch.randn(1, 3, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for name in VISION:
        model = random_model(name, num_classes=10, **SETTINGS.get(name, {})).double()
        if name == "vit_b_16":
            nn.init.normal_(model.heads.head.weight, std=0.02)
        yield name, model, x, respelled, ""


class Read(nn.Module):
    """The last output of a layer that reads a sequence, and a head."""

    def __init__(self, layer: nn.Module, size: int):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(size, 3)

    def forward(self, x: Tensor) -> Tensor:
        out = self.layer(x)
        return self.head((out[0] if isinstance(out, tuple) else out)[:, -1])


def sequences() -> Iterator[Case]:
    torch.manual_seed(0)
    x = torch.randn(2, 9, 16, dtype=torch.float64)
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        yield (
            kind.__name__,
            Read(kind(16, 12, batch_first=True), 12).double().eval(),
            x,
            respelled,
            "layer, cell",
        )
    block = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation=nn.GELU())
    encoder = nn.TransformerEncoder(block, 2, enable_nested_tensor=False)
    yield "nn.TransformerEncoder", Read(encoder, 16).double().eval(), x, respelled, ""
    shape = {"size": 32, "heads": 4, "groups": 2, "hidden": 48, "layers": 2, "words": 40}
    tokens = torch.randint(0, 40, (2, 9))
    yield "decoder, grouped heads", Decoder(**shape).double().eval(), tokens, by_hand, "sdpa, softmax and @"


def by_hand(model: nn.Module) -> nn.Module:
    """The decoder with attention and gates written out."""
    import copy

    from benchmarks.networks._transformers import Plain

    class ByHand(Plain):
        def norm(self, x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
            return nn.functional.rms_norm(x, weight.shape, weight, eps)

        def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
            mask = torch.full((q.shape[2], q.shape[2]), -torch.inf, dtype=q.dtype).triu(1)
            powers = torch.exp(q @ k.mT / q.shape[-1] ** 0.5 + mask)
            return (powers / powers.sum(-1, keepdim=True)) @ v

        def gated(self, gate: Tensor, up: Tensor) -> Tensor:
            return gate * torch.sigmoid(gate) * up

    own = respelled(copy.deepcopy(model))
    own.by = ByHand()
    return own


class Logits(nn.Module):
    """A model of `transformers`, and which of its outputs is explained."""

    def __init__(self, model: nn.Module, pick: Callable[[Any], Tensor]):
        super().__init__()
        self.model, self.pick = model, pick

    def forward(self, tokens: Tensor) -> Tensor:
        return self.pick(self.model(tokens))


def hugging_face() -> Iterator[Case]:
    if find_spec("transformers") is None:
        return
    import transformers as hf

    small = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    heads = {"num_key_value_heads": 2}
    marks = {"bos_token_id": 0, "eos_token_id": 0}
    configs: dict[str, tuple[Any, Any, Callable[[Any], Tensor]]] = {
        "BERT": (hf.BertModel, hf.BertConfig(vocab_size=50, **small), lambda o: o.pooler_output),
        "GPT-2": (
            hf.GPT2LMHeadModel,
            hf.GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, **marks),
            lambda o: o.logits[:, -1],
        ),
        "Llama": (
            hf.LlamaForCausalLM,
            hf.LlamaConfig(vocab_size=50, **small, **heads),
            lambda o: o.logits[:, -1],
        ),
    }
    for name, (kind, config, pick) in configs.items():
        torch.manual_seed(0)
        config._attn_implementation = "eager"
        model = Logits(kind(config), pick).double().eval()

        def fused(eager: nn.Module) -> nn.Module:
            eager.model.set_attn_implementation("sdpa")
            return eager

        yield name, model, torch.randint(0, 50, (2, 9)), fused, "eager, sdpa"


def line(case: Case) -> dict[str, Any]:
    """How far the two spellings are apart, and what is not attributed where nothing absorbs."""
    name, model, x, other, words = case
    bare = without_constants(model)
    kept = LRP(bare, rule="z", attention="detached").explain(x)
    settings: dict[str, dict[str, Any]] = {"LRP-0": {"rule": "z"}, "epsilon": {}, "gamma": {"rule": "gamma"}}
    first = {rule: LRP(model, **given).explain(x).values for rule, given in settings.items()}
    twin = other(model)
    words = words or ", ".join(f"{n} {kind}" for kind, n in twin.other_words.items())
    found: dict[str, Any] = {"network": name, "in other words": words}
    for rule, given in settings.items():
        second = LRP(twin, **given).explain(x).values
        found[f"{rule} differs by"] = float(np.abs(first[rule] - second).max() / np.abs(first[rule]).max())
    found["not attributed, detached and without biases"] = float(np.abs(kept.residual / kept.scores).max())
    print(found, flush=True)
    return found


def algebra() -> pd.DataFrame:
    """Every spelling of one block, against explicit algebra in numpy."""
    sys.path.insert(0, str(TESTS))
    from oracles import attention_oracles as oracle
    from zoo import transformers as models

    w, x = models.weights(), models.rows()
    zeros = np.zeros((models.TIME, models.TIME))
    lines = []
    for variant in ("attnlrp", "detached"):
        given = {"n_heads": models.HEADS, "mask": zeros, "detached": variant == "detached"}
        wanted = np.array([oracle.transformer(row, w, target=1, **given)[0] for row in x.numpy()])
        for spelling in (*models.ATTENTIONS, "nn.MultiheadAttention", "with weights"):
            model = models.Block(w, attention=spelling).eval()
            found = LRP(model, target=1, rule="z", attention=variant).explain(x).values
            off = float(np.abs(found - wanted).max() / np.abs(wanted).max())
            lines.append({"attention": variant, "spelling": spelling, "differs from the algebra by": off})
    return pd.DataFrame(lines)


def main() -> None:
    options = arguments(__doc__, only=option(str, "names of networks", nargs="+"))
    warnings.simplefilter("ignore")
    cases = (case for family in (vision, sequences, hugging_face) for case in family())
    table = pd.DataFrame([line(case) for case in cases if not options.only or case[0] in options.only])
    text = (
        "Random weights, double precision. The network, and a copy of it with the same weights whose modules compute the "
        "same by other operations: layer norm by rsqrt, GELU by erf, attention by softmax and @, `nn.Linear` by @ and +. "
        "Largest difference of the relevance of inputs, as a share of the largest relevance. The last column: attention "
        "weights and gates as constants, no biases, LRP-0, where every rule conserves; the largest share of a score "
        "that did not reach the input."
    )
    blocks = (
        "One transformer block in every spelling of attention, against AttnLRP written out in numpy "
        "(`tests/oracles/attention_oracles.py`): largest difference, as a share of the largest relevance."
    )
    if options.only:
        return
    publish(
        "propagation_spellings",
        "Same function, same relevance",
        [(text, table), (blocks, algebra())],
        peers=("torch",),
    )


if __name__ == "__main__":
    main()
