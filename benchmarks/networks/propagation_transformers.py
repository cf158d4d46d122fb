"""LRP of transformers next to one gradient, LXT and autoLRP: ViT-B/16 and a decoder of a billion parameters.

    python -m benchmarks.networks.propagation_transformers --device cuda --save figures.json
    python -m benchmarks.networks.propagation_transformers --from figures.json [more.json ...]

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
from statistics import fmean, stdev
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.networks._peers import only_networks, random_model
from benchmarks.networks._transformers import Decoder, LxtRules, patched_vit
from benchmarks.shared.arguments import arguments, option

only_networks()

from tellwhy.explainers.propagation import LRP  # noqa: E402

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
        "LXT, AttnLRP": lxt,
        "autoLRP, AttnLRP": lambda: by_autolrp(from_words, embedded[:batch], "ATTNLRP"),
    }
    size = sum(p.numel() for p in model.parameters())
    return f"decoder, {size / 1e9:.2f} billion parameters", ways, n


def _ours(explainer: LRP, x: Tensor) -> Tensor:
    return explainer.explain(x, output="torch").values


def one_turn(work: Callable[[], Tensor], line: dict[str, Any], on_gpu: bool) -> Tensor:
    """Note the seconds of a run, and the peak memory above what is loaded; return what comes out."""
    before = torch.cuda.memory_allocated() if on_gpu else 0
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    _wait(on_gpu)
    started = time.perf_counter()
    found = work().detach()
    _wait(on_gpu)
    line["seconds"].append(time.perf_counter() - started)
    if on_gpu:
        line["peak GiB"] = (torch.cuda.max_memory_allocated() - before) / 2**30
    return found


def _wait(on_gpu: bool) -> None:
    if on_gpu:
        torch.cuda.synchronize()


TWINS = {"LXT, AttnLRP": "tellwhy, AttnLRP", "LXT, weights detached": "tellwhy, weights detached"}
NETWORKS = {"decoder": decoder, "vit": vit}
GRADIENT = "PyTorch, gradient"


def compare(options: argparse.Namespace, lines: list[dict[str, Any]], keep: Callable[[], None]) -> None:
    """Append a line for each network and method, and keep what there is after each round: time may run out."""
    on_gpu = options.device == "cuda"
    for name in options.networks:
        network, ways, n = NETWORKS[name](options)
        if options.only:
            ways = {method: work for method, work in ways.items() if method in options.only}
        found: dict[str, Tensor] = {}
        mine: dict[str, dict[str, Any]] = {}
        for method, work in ways.items():
            mine[method] = {"network": network, "method": method, "seconds": []}
            mine[method] |= {"batches": options.batches, "rounds": options.rounds}
            lines.append(mine[method])
            _try(method, work, mine[method], found, on_gpu)
            keep()
        for k in range(options.rounds):
            # In turns, there and back: what slows the machine down meets all of them alike.
            for method in list(found)[:: 1 if k % 2 else -1]:
                one_turn(ways[method], mine[method], on_gpu)
            _figures(mine, {method: len(rows) for method, rows in found.items()}, n)
            keep()
        for line in mine.values():
            print(line, flush=True)
        del ways, work
        gc.collect()
        if on_gpu:
            torch.cuda.empty_cache()


def _try(
    method: str, work: Callable[[], Tensor], line: dict[str, Any], found: dict[str, Tensor], on_gpu: bool
) -> None:
    """Run a method once before it counts, and see how far its values are from ours; or why there are none."""
    try:
        found[method] = one_turn(work, line, on_gpu).float().cpu()
    except Exception as error:
        line["note"] = f"fails: {type(error).__name__}: {str(error)[:120]}"
    line["seconds"].clear()
    twin = TWINS.get(method)
    if twin in found and method in found:
        largest = found[twin].abs().max()
        line["differs from ours by"] = float((found[method] - found[twin]).abs().max() / largest)


def _figures(mine: dict[str, dict[str, Any]], n_rows: dict[str, int], n: int) -> None:
    """Speed of the best round, and the time of each round as a multiple of a gradient's and of LXT's."""
    for method, count in n_rows.items():
        line = mine[method]
        line["rows/s"] = count / min(line["seconds"])
        if GRADIENT in n_rows:
            unit = [s / n for s in mine[GRADIENT]["seconds"]]
            line["times one gradient"] = _ratio([s / count for s in line["seconds"]], unit)
        peer = next((theirs for theirs, ours in TWINS.items() if ours == method and theirs in n_rows), None)
        if peer is not None:
            line["times LXT"] = _ratio(line["seconds"], mine[peer]["seconds"])


def _ratio(seconds: list[float], unit: list[float]) -> list[float]:
    """Mean over rounds of the quotient, and half the width of its 95 % interval."""
    quotients = [s / u for s, u in zip(seconds, unit, strict=True)]
    if len(quotients) < 2:
        return [quotients[0], float("nan")]
    return [fmean(quotients), T_95[min(len(quotients), 12)] * stdev(quotients) / len(quotients) ** 0.5]


# Student's t, by the number of rounds.
T_95 = {2: 12.7, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26, 11: 2.23, 12: 2.20}


def _in_words(ratio: Any) -> str:
    if not isinstance(ratio, list):
        return ""
    return f"{ratio[0]:.3f} ± {ratio[1]:.3f}"


def publish_figures(figures: dict[str, Any]) -> None:
    import pandas as pd

    from benchmarks.shared.results import publish

    columns = [
        "network",
        "batches",
        "rounds",
        "method",
        "rows/s",
        "times one gradient",
        "times LXT",
        "peak GiB",
        "differs from ours by",
        "note",
    ]
    table = pd.DataFrame(figures["lines"]).reindex(columns=columns)
    for name in ("times one gradient", "times LXT"):
        table[name] = [_in_words(ratio) for ratio in table[name]]
    table = table.astype(dict.fromkeys(columns, object)).where(table.notna(), "")
    text = (
        f"Measured on {figures['date']} on {figures['where']}: batches of 8 texts of 1,024 tokens (bfloat16), and of "
        "64 pictures of 224×224 (float32), random weights; autoLRP on one batch. Each round gives every method one "
        "turn, there and back: times are means over the rounds of the quotient, with their 95 % intervals, rows a "
        "second those of the best round. Values stay on the device. Ours chooses a way for each operation with the "
        "first batch, and repeats it with the others. Memory is the peak above the loaded model and rows. Our models "
        "are as they are; LXT's functions are put where its patches put them; its patch of ViT takes attention weights "
        "as constants. Numbers of type bfloat16 are 0.4 to 0.8 % apart."
    )
    publish(
        "propagation_transformers", "Relevance of transformers on a GPU", [(text, table)], peers=("torch",)
    )


def main() -> None:
    options = arguments(
        __doc__,
        "save",
        device=option("cpu", choices=("cpu", "cuda")),
        rounds=5,
        batches=8,
        networks=option(["decoder", "vit"], choices=("decoder", "vit")),
        only=option(str, "names of methods", nargs="+"),
        small=False,
        kept=option(Path, "write the page of figures that were saved", nargs="+"),
    )
    if options.kept:
        saved = [json.loads(path.read_text()) for path in options.kept]
        publish_figures({**saved[0], "lines": [line for figures in saved for line in figures["lines"]]})
        return
    where = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    figures = {
        "where": f"{where}, Python {platform.python_version()}, torch {torch.__version__}",
        "date": str(datetime.date.today()),
        "lines": [],
    }

    def keep() -> None:
        if options.save:
            options.save.write_text(json.dumps(figures, indent=1))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(options, figures["lines"], keep)
    if not options.save:
        publish_figures(figures)


if __name__ == "__main__":
    main()
