"""LRP of transformers next to one gradient, LXT and autoLRP: ViT-B/16 and a decoder of a billion parameters.

    python benchmarks/propagation_transformers.py --device cuda --save figures.json
    python benchmarks/propagation_transformers.py --publish figures.json

`--small` takes a two-layer decoder and a small picture, which a processor explains in seconds.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import platform
import time
import warnings
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from _networks import only_networks, random_model
from torch import Tensor, nn

from _transformers import Decoder, LxtRules, patched_vit

only_networks()

from tellwhy.explainers.propagation import LRP, repeated  # noqa: E402

BILLION = {"size": 2048, "heads": 32, "groups": 8, "hidden": 8192, "layers": 16, "words": 32_000}
SMALL = {"size": 64, "heads": 4, "groups": 2, "hidden": 128, "layers": 2, "words": 50}


def by_gradient(model: Callable[[Tensor], Tensor], x: Tensor, *, times_input: bool = True) -> Tensor:
    """Input times gradient of the largest output: what LXT's patched models need, and a plain gradient."""
    leaf = x.detach().clone().requires_grad_()
    (slopes,) = torch.autograd.grad(model(leaf).max(dim=1).values.sum(), leaf)
    return slopes * leaf.detach() if times_input else slopes


def by_autolrp(model: Callable[[Tensor], Tensor], x: Tensor, rules: str) -> Tensor:
    import autolrp

    wrapped = autolrp.tensor(x.detach().clone())
    scores = model(wrapped).max(dim=1).values.sum()
    scores.lrp(config=autolrp.LRPConfig(rule={**autolrp.BASE, **getattr(autolrp, rules)}))
    return wrapped.relevance


patched = cache(patched_vit)
lxt_rules = cache(LxtRules)


def in_parts(one: Callable[[Tensor], Tensor], x: Tensor, batch: int) -> Tensor:
    """Values of all rows, batch by batch."""
    return torch.cat([one(x[i : i + batch]).detach() for i in range(0, len(x), batch)])


def vit(options: argparse.Namespace) -> tuple[str, dict[str, Callable[[], Tensor]], int]:
    size = 32 if options.small else 224
    settings = {"image_size": size} if options.small else {}
    model = random_model("vit_b_16", **settings).to(options.device)
    nn.init.normal_(model.heads.head.weight, std=0.02)  # torchvision starts with zeros there
    batch = 2 if options.small else 64
    n = batch * options.batches
    x = torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(0)).to(options.device)
    settings = {"rule": "z", "batch_size": batch}
    ours = {
        "tellwhy, AttnLRP": LRP(model, **settings),
        "tellwhy, AttnLRP, epsilon rule": LRP(model, batch_size=batch),
        "tellwhy, weights detached": LRP(model, attention="detached", **settings),
    }
    ways: dict[str, Callable[[], Tensor]] = {
        "PyTorch, gradient": lambda: in_parts(partial(by_gradient, model, times_input=False), x, batch),
        **{name: partial(_ours, explainer, x) for name, explainer in ours.items()},
        FOLLOWED: partial(_followed, ours["tellwhy, AttnLRP"], x),
        # Made when their turn comes: a peer that cannot be loaded fails alone.
        "LXT, weights detached": lambda: in_parts(partial(by_gradient, patched(model)), x, batch),
        "autoLRP, AttnLRP": lambda: by_autolrp(model, x[:batch], "ATTNLRP"),
    }
    return "ViT-B/16", ways, n


def decoder(options: argparse.Namespace) -> tuple[str, dict[str, Callable[[], Tensor]], int]:
    torch.manual_seed(0)
    shape = SMALL if options.small else BILLION
    dtype = torch.float32 if options.small else torch.bfloat16
    with torch.device(options.device):
        model = Decoder(**shape).to(dtype).eval()
    batch, time_ = (2, 12) if options.small else (8, 1024)
    n = batch * options.batches
    tokens = torch.randint(0, shape["words"], (n, time_), generator=torch.Generator().manual_seed(0))
    tokens = tokens.to(options.device)
    embedded = model.embed(tokens).detach()
    settings = {"rule": "z", "batch_size": batch}
    from_words = model.from_embeddings

    def lxt() -> Tensor:
        model.by, plain = lxt_rules(), model.by
        try:
            return in_parts(lambda x: by_gradient(from_words, x).sum(dim=-1), embedded, batch)
        finally:
            model.by = plain

    ways: dict[str, Callable[[], Tensor]] = {
        "PyTorch, gradient": lambda: in_parts(
            partial(by_gradient, from_words, times_input=False), embedded, batch
        ),
        "tellwhy, AttnLRP": partial(_ours, LRP(model, **settings), tokens),
        "tellwhy, AttnLRP, epsilon rule": partial(_ours, LRP(model, batch_size=batch), tokens),
        "tellwhy, weights detached": partial(_ours, LRP(model, attention="detached", **settings), tokens),
        FOLLOWED: partial(_followed, LRP(model, **settings), tokens),
        "LXT, AttnLRP": lxt,
        "autoLRP, AttnLRP": lambda: by_autolrp(from_words, embedded[:batch], "ATTNLRP"),
    }
    size = sum(p.numel() for p in model.parameters())
    return f"decoder, {size / 1e9:.2f} billion parameters", ways, n


RECORDED = (
    "Later batches of ours repeat the ways that were chosen for the first one. Where Python still takes as long as "
    "the GPU, one of 24 or more equal batches is recorded as a CUDA graph, and repeated ('not recorded' does without). "
)
FOLLOWED = "tellwhy, AttnLRP, not recorded"


def _followed(explainer: LRP, x: Tensor) -> Tensor:
    """Ours without repeating a recorded batch."""
    usual, repeated.LEAST_BATCHES = repeated.LEAST_BATCHES, 10**9
    try:
        return _ours(explainer, x)
    finally:
        repeated.LEAST_BATCHES = usual


def _ours(explainer: LRP, x: Tensor) -> Tensor:
    return explainer.explain(x, output="torch").values


def measured(work: Callable[[], Tensor], rounds: int, on_gpu: bool) -> dict[str, Any]:
    """Seconds and peak memory above what is loaded; what came out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = work().detach()
        before = torch.cuda.memory_allocated() if on_gpu else 0
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        seconds = []
        for _ in range(rounds):
            _wait(on_gpu)
            started = time.perf_counter()
            work()
            _wait(on_gpu)
            seconds.append(time.perf_counter() - started)
    peak = torch.cuda.max_memory_allocated() - before if on_gpu else float("nan")
    return {"seconds": min(seconds), "peak GiB": peak / 2**30, "found": found.float().cpu()}


def _wait(on_gpu: bool) -> None:
    if on_gpu:
        torch.cuda.synchronize()


TWINS = {"LXT, AttnLRP": "tellwhy, AttnLRP", "LXT, weights detached": "tellwhy, weights detached"}


def compare(options: argparse.Namespace, lines: list[dict[str, Any]], keep: Callable[[], None]) -> None:
    """Append a line for each network and method, and keep what there is after each: time may run out."""
    on_gpu = options.device == "cuda"
    for make in [{"decoder": decoder, "vit": vit}[name] for name in options.networks]:
        network, ways, n = make(options)
        found: dict[str, Tensor] = {}
        unit = float("nan")
        for name, work in ways.items():
            line: dict[str, Any] = {"network": network, "method": name}
            try:
                figures = measured(work, options.rounds, on_gpu)
            except Exception as error:
                lines.append({**line, "note": f"fails: {type(error).__name__}: {str(error)[:120]}"})
                print(lines[-1], flush=True)
                keep()
                continue
            found[name] = figures.pop("found")
            unit = figures["seconds"] / n if name == "PyTorch, gradient" else unit
            line |= {
                **figures,
                "rows/s": len(found[name]) / figures["seconds"],
                "times one gradient": figures["seconds"] / len(found[name]) / unit,
            }
            twin = TWINS.get(name)
            if twin in found:
                largest = found[twin].abs().max()
                line["differs from ours by"] = float((found[name] - found[twin]).abs().max() / largest)
            lines.append(line)
            print(line, flush=True)
            keep()
        del ways, work
        gc.collect()
        if on_gpu:
            torch.cuda.empty_cache()


def publish_figures(figures: dict[str, Any]) -> None:
    import pandas as pd
    from _results import publish

    columns = [
        "network",
        "method",
        "rows/s",
        "times one gradient",
        "peak GiB",
        "differs from ours by",
        "note",
    ]
    table = pd.DataFrame(figures["lines"]).reindex(columns=columns)
    table = table.astype(dict.fromkeys(columns, object)).where(table.notna(), "")
    text = (
        f"Measured on {figures['date']} on {figures['where']}, best of {figures['rounds']} rounds: "
        f"{figures['batches']} batches of 8 texts of 1,024 tokens (bfloat16), and of 64 pictures of 224×224 (float32), "
        "random weights; autoLRP on one batch. Values stay on the device. "
        + figures.get("recorded", RECORDED)
        + "Memory is "
        "the peak above the loaded model and rows. Our models are as they are; LXT's functions are put where its patches "
        "put them; its patch of ViT takes attention weights as constants. Numbers of type bfloat16 are 0.4 to 0.8 % apart."
    )
    publish(
        "propagation_transformers", "Relevance of transformers on a GPU", [(text, table)], peers=("torch",)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--networks", nargs="+", choices=("decoder", "vit"), default=["decoder", "vit"])
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--save", type=Path, help="write the figures here as JSON, and no page")
    parser.add_argument("--publish", type=Path, help="write the page of figures that were saved")
    options = parser.parse_args()
    if options.publish:
        publish_figures(json.loads(options.publish.read_text()))
        return
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    figures = {
        "where": f"{where}, Python {platform.python_version()}, torch {torch.__version__}",
        "date": str(datetime.date.today()),
        "rounds": options.rounds,
        "batches": options.batches,
        "lines": [],
    }

    def keep() -> None:
        if options.save:
            options.save.write_text(json.dumps(figures, indent=1))

    compare(options, figures["lines"], keep)
    if not options.save:
        publish_figures(figures)


if __name__ == "__main__":
    main()
