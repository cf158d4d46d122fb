"""Relevance as a compiled program on a GPU, beside the plain gradient, zennit and the shortest such compiler.

    python -m benchmarks.networks.gpu --save "$OUT/gpu.json"     on a GPU, about seven minutes
    python -m benchmarks.networks.gpu --tiny --save gpu.json     on a processor, to see that it works
    python -m benchmarks.networks.gpu --from gpu.json            write the page

`$TELLWHY_PEERS` names a folder with packages that are not installed, such as zennit.
"""

from __future__ import annotations

import argparse
import copy
import datetime
import gc
import json
import os
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.networks._exported import exported
from benchmarks.networks._peers import only_networks, random_model
from benchmarks.networks.propagation_cost import zennit_method
from benchmarks.shared.arguments import arguments, option

only_networks()

from tellwhy.explainers.propagation import LRP, programs  # noqa: E402

Work = Callable[[], Tensor]
METHODS: dict[str, dict[str, Any]] = {
    "LRP epsilon": {"rule": "epsilon"},
    "LRP preset A": {"composite": "preset_a"},
    "AttnLRP": {"rule": "z"},
}
PEERS_WORD = {"LRP epsilon": "epsilon", "LRP preset A": "z_plus"}
PLAN = [
    ("resnet50", "LRP epsilon", "float32"),
    ("resnet50", "LRP preset A", "float32"),
    ("vit_b_16", "AttnLRP", "float32"),
    ("vit_b_16", "AttnLRP", "tf32"),
    ("vgg16", "LRP epsilon", "float32"),
    ("vgg16", "LRP preset A", "float32"),
    ("resnet50", "LRP epsilon", "bfloat16"),
    ("vit_b_16", "AttnLRP", "bfloat16"),
    ("densenet121", "LRP epsilon", "float32"),
    ("densenet121", "LRP preset A", "float32"),
]
COLUMNS = [
    "network",
    "method",
    "numbers",
    "who",
    "images/s",
    "of a gradient",
    "peak GiB",
    "making it takes s",
]
COLUMNS += ["pays from rows", "differs by", "note"]


class Case:
    """One network with images, in one type of numbers, and whatever explains it."""

    def __init__(self, network: str, method: str, numbers: str, options: argparse.Namespace):
        self.network = network
        self.method = method
        self.numbers = numbers
        self.options = options
        self.batch = options.batch
        torch.backends.cuda.matmul.allow_tf32 = numbers == "tf32"
        self.model = made(network, options).to(options.device, memory_format=torch.channels_last)
        shape = (self.batch * options.batches, 3, options.size, options.size)
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        self.x = x.to(options.device).contiguous(memory_format=torch.channels_last)
        self.right = self.explainer().explain(self.x[: self.batch], output="torch", compile=False).values
        if numbers == "bfloat16":
            self.model = self.model.bfloat16()
            self.x = self.x.bfloat16()

    def explainer(self) -> LRP:
        return LRP(self.model, batch_size=self.batch, **METHODS[self.method])

    def gradient(self) -> tuple[Work, float]:
        return self.in_batches(partial(by_gradient, self.model)), 0.0

    def eager(self) -> tuple[Work, float]:
        explainer = self.explainer()
        return lambda: explainer.explain(self.x, output="torch", compile=False).values, 0.0

    def program(self) -> tuple[Work, float]:
        """Traced and simplified, not compiled."""
        explainer, seconds = self.made_program(compiles=False)
        return lambda: explainer.explain(self.x, output="torch").values, seconds

    def compiled(self) -> tuple[Work, float]:
        explainer, seconds = self.made_program(compiles=True)
        return lambda: explainer.explain(self.x, output="torch").values, seconds

    def made_program(self, *, compiles: bool) -> tuple[LRP, float]:
        explainer = self.explainer()
        kept = programs.COMPILING.copy()
        least = programs.LEAST_BATCHES
        started = time.perf_counter()
        try:
            if not compiles:
                programs.LEAST_BATCHES = 1
                programs.COMPILING.clear()  # where nothing is known of a compiler, there is none
            rows = self.x[: 2 * self.batch]
            explainer.explain(rows, output="torch", compile=True if compiles else "auto")
        finally:
            programs.LEAST_BATCHES = least
            programs.COMPILING.update(kept)
        (record,) = programs._records[explainer].values()
        if record.program is None:
            raise RuntimeError("no program could be made")
        if record.program.is_compiled != compiles:
            raise RuntimeError("the compiled program was no faster, and is not used")
        if not compiles:
            record.is_settled = True
        return explainer, time.perf_counter() - started

    def prototype(self, *, compiles: bool) -> tuple[Work, float]:
        started = time.perf_counter()
        net: Any = exported(copy.deepcopy(self.model), self.x[: self.batch], PEERS_WORD[self.method])
        if compiles:
            torch._dynamo.reset()
            net = torch.compile(net, dynamic=False)
        work = self.in_batches(partial(by_gradient, net, times_input=True))
        if compiles:
            by_gradient(net, self.x[: self.batch], times_input=True)
        return work, time.perf_counter() - started

    def zennit(self) -> tuple[Work, float]:
        explain = zennit_method(self.model, self.batch, self.method, "device")
        return lambda: explain(self.x), 0.0

    def zennit_plain_format(self) -> tuple[Work, float]:
        model = copy.deepcopy(self.model).to(memory_format=torch.contiguous_format)
        x = self.x.contiguous()
        explain = zennit_method(model, self.batch, self.method, "device")
        return lambda: explain(x), 0.0

    def in_batches(self, one: Callable[[Tensor], Tensor]) -> Work:
        """Values of all rows, on the device."""

        def work() -> Tensor:
            found = torch.empty_like(self.x)
            for i in range(0, len(self.x), self.batch):
                found[i : i + self.batch] = one(self.x[i : i + self.batch])
            return found

        return work

    def contestants(self) -> dict[str, Callable[[], tuple[Work, float]]]:
        listed: dict[str, Callable[[], tuple[Work, float]]] = {
            "PyTorch's gradient": self.gradient,
            "tellwhy, followed": self.eager,
            "tellwhy, program": self.program,
            "tellwhy, compiled": self.compiled,
        }
        if self.method in PEERS_WORD and self.numbers == "float32":
            listed |= {
                "prototype, eager": partial(self.prototype, compiles=False),
                "prototype, compiled": partial(self.prototype, compiles=True),
                "zennit": self.zennit,
                "zennit, rows first": self.zennit_plain_format,
            }
        return listed


def made(network: str, options: argparse.Namespace) -> nn.Module:
    settings = {"image_size": options.size} if network == "vit_b_16" else {}
    model = random_model(network, **settings)
    if network == "vit_b_16":
        nn.init.normal_(model.heads.head.weight, std=0.02)  # torchvision starts with zeros there
    if options.tiny:
        shorten(network, model)
    return model.eval().requires_grad_(False)


def shorten(network: str, model: Any) -> None:
    """Leave a network's first layers, for a processor."""
    if network == "resnet50":
        model.layer1 = model.layer1[:1]
        model.layer2 = model.layer3 = model.layer4 = nn.Identity()
        model.fc = nn.Linear(256, 10)
    elif network == "vgg16":
        model.features = model.features[:5]
        model.avgpool = nn.AdaptiveAvgPool2d(2)
        model.classifier = nn.Linear(256, 10)
    elif network == "densenet121":
        model.features = model.features[:5]
        model.classifier = nn.Linear(256, 10)
    elif network == "vit_b_16":
        model.encoder.layers = model.encoder.layers[:1]


def by_gradient(net: Callable[[Tensor], Tensor], x: Tensor, *, times_input: bool = False) -> Tensor:
    leaf = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(net(leaf).max(dim=1).values.sum(), leaf)
    return slopes * leaf.detach() if times_input else slopes


def seconds_of(work: Work, rounds: int) -> float:
    """The least time of some rounds."""
    taken = []
    for _ in range(rounds):
        synchronise()
        started = time.perf_counter()
        work()
        synchronise()
        taken.append(time.perf_counter() - started)
    return min(taken)


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def figures_of(case: Case, who: str, make: Callable[[], tuple[Work, float]]) -> dict[str, Any]:
    """Speed, memory and values of one contestant."""
    work, making = make()
    values = work()[: case.batch]
    line: dict[str, Any] = {"making it takes s": making or None}
    if who != "PyTorch's gradient":
        far = (values.double() - case.right.double()).abs().max() / case.right.double().abs().max()
        line["differs by"] = float(far)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    line["images/s"] = len(case.x) / seconds_of(work, case.options.rounds)
    if case.options.kernels and "compiled" in who:
        line["kernels"] = kernels_of(work)
    if torch.cuda.is_available():
        own = case.x.numel() * case.x.element_size()
        line["peak GiB"] = (torch.cuda.max_memory_allocated() - own) / 2**30
    return line


def kernels_of(work: Work) -> list[str]:
    """Which kernels take most of the time: milliseconds, calls, name."""
    from torch.profiler import ProfilerActivity, profile

    where = ProfilerActivity.CUDA if torch.cuda.is_available() else ProfilerActivity.CPU
    with profile(activities=[where]) as profiled:
        work()
        synchronise()
    taken = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    events = sorted(profiled.key_averages(), key=lambda event: -getattr(event, taken))
    total = sum(getattr(event, taken) for event in events)
    listed = [f"{getattr(event, taken) / 1000:.1f} {event.count} {event.key[:110]}" for event in events[:30]]
    return [f"{total / 1000:.1f} all", *listed]


def measure(options: argparse.Namespace, keep: Callable[[list[dict[str, Any]]], None]) -> None:
    started = time.perf_counter()
    lines: list[dict[str, Any]] = []
    for network, method, numbers in PLAN:
        if options.networks and network not in options.networks:
            continue
        if time.perf_counter() - started > 60 * options.minutes:
            print("no time is left for", network, method, numbers, flush=True)
            continue
        torch._dynamo.reset()
        case = Case(network, method, numbers, options)
        for who, make in case.contestants().items():
            if time.perf_counter() - started > 60 * options.minutes:
                break
            line: dict[str, Any] = {"network": network, "method": method, "numbers": numbers, "who": who}
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    line |= figures_of(case, who, make)
            except Exception as error:
                line["note"] = f"fails: {type(error).__name__}: {' '.join(str(error).split())[:150]}"
                traceback.print_exc(limit=-4)
            lines.append(line)
            print(f"{time.perf_counter() - started:4.0f} s", line, flush=True)
            keep(lines)
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        del case, make
        gc.collect()


def compared(lines: list[dict[str, Any]]) -> None:
    """Add each speed as a multiple of the gradient's, and from how many rows on compiling pays."""
    speeds = {
        (line["network"], line["method"], line["numbers"], line["who"]): line.get("images/s")
        for line in lines
    }
    for line in lines:
        where = (line["network"], line["method"], line["numbers"])
        unit = speeds.get((*where, "PyTorch's gradient"))
        own = line.get("images/s")
        if unit and own:
            line["of a gradient"] = own / unit
        slow = speeds.get((*where, "tellwhy, followed"))
        if (
            line["who"].startswith("tellwhy, ")
            and own
            and slow
            and own > slow
            and line.get("making it takes s")
        ):
            line["pays from rows"] = round(line["making it takes s"] / (1 / slow - 1 / own), -2)


def publish_figures(figures: dict[str, Any]) -> None:
    import pandas as pd

    from benchmarks.shared.results import publish

    lines = figures["lines"]
    compared(lines)
    table = pd.DataFrame(lines).reindex(columns=COLUMNS)
    table = table.astype(dict.fromkeys(COLUMNS, object)).where(table.notna(), "")
    text = (
        f"Measured on {figures['date']} on {figures['where']}: {figures['images']} images of {figures['size']}×"
        f"{figures['size']} in batches of {figures['batch']}, random weights, best of {figures['rounds']} rounds, "
        "values on the device, images and weights channels last (zennit also rows first, the usual order). "
        "Convolutions multiply in TF32 everywhere, which is PyTorch's default; matrices only in the lines that say so. "
        "A difference is the largest one, as a share of the largest value, from ours followed in float32. "
        "Making a program takes its time once for each model, shape and setting; compiling pays from so many rows on, "
        "beside following each batch. `prototype` is `benchmarks/networks/_exported.py`; its preset A leaves biases "
        "out and gives the first layer the epsilon rule, so its values differ."
    )
    if figures["tiny"]:
        text = "Small networks on a processor: these figures only show that the script works. " + text
    publish("gpu", "Relevance as a compiled program", [(text, table)], peers=("torch",))


def main() -> None:
    options = arguments(
        __doc__,
        "save",
        tiny=option(False, "small networks and pictures, for a processor"),
        batch=64,
        batches=12,
        rounds=3,
        size=224,
        minutes=option(7.0, "start nothing new after this time"),
        kernels=option(False, "keep which kernels take most of the time of what is compiled"),
        networks=option([""], "only these"),
        kept=option(Path, "write the page of figures that were saved"),
    )
    if options.kept:
        publish_figures(json.loads(options.kept.read_text()))
        return
    if "TELLWHY_PEERS" in os.environ:
        sys.path.append(os.environ["TELLWHY_PEERS"])
    options.networks = [name for name in options.networks if name]
    options.device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.tiny:
        options.batch, options.batches, options.rounds, options.size = 2, 3, 1, 32
    torch.backends.cudnn.benchmark = True
    where = torch.cuda.get_device_name() if options.device == "cuda" else "a processor"
    figures = {
        "where": f"{where}, Python {platform.python_version()}, torch {torch.__version__}",
        "date": str(datetime.date.today()),
        "images": options.batch * options.batches,
        "batch": options.batch,
        "size": options.size,
        "rounds": options.rounds,
        "tiny": options.tiny,
    }

    def keep(lines: list[dict[str, Any]]) -> None:
        if options.save:
            options.save.write_text(json.dumps({**figures, "lines": lines}, indent=1))

    measure(options, keep)


if __name__ == "__main__":
    main()
