"""Relevance as a compiled program on a GPU, beside the plain gradient, zennit and the shortest such compiler.

    python -m benchmarks.networks.gpu --save "$OUT/gpu.json"     on a GPU, about six minutes
    python -m benchmarks.networks.gpu --tiny --save gpu.json     on a processor, to see that it works
    python -m benchmarks.networks.gpu --from gpu.json            write the page

`$TELLWHY_PEERS` names a folder with packages that are not installed, such as zennit and LXT.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.networks._decoder import BILLION, TINY, Decoder
from benchmarks.networks._exported import exported
from benchmarks.networks._peers import only_networks, random_model
from benchmarks.networks._transformers import patched_vit
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
# The most important first: time may run out. (network, method, type of numbers, rows of a batch)
PLAN = [
    ("resnet50", "LRP epsilon", "float32", 64),
    ("vit_b_16", "AttnLRP", "tf32", 64),
    ("resnet50", "LRP preset A", "float32", 64),
    ("vgg16", "LRP epsilon", "float32", 64),
    ("vgg16", "LRP preset A", "float32", 64),
    ("vit_b_16", "AttnLRP", "float32", 64),
    ("vit_b_16", "AttnLRP", "bfloat16", 64),
    ("resnet50", "LRP epsilon", "bfloat16", 64),
    ("resnet50", "LRP epsilon", "float32", 1),
    ("densenet121", "LRP epsilon", "float32", 64),
    ("decoder_1b", "AttnLRP", "bfloat16", 4),
    ("decoder_1b", "AttnLRP", "tf32", 4),
    ("densenet121", "LRP preset A", "float32", 64),
]
N_EXACT = 8  # rows that are explained in double precision, to tell how far each line is off
COLUMNS = ["network", "method", "numbers", "rows a batch", "who", "images/s", "of a gradient", "of zennit"]
COLUMNS += ["peak GiB", "making it takes s", "pays from rows", "error", "note"]


class Case:
    """One network with images, in one type of numbers, and whatever explains it."""

    def __init__(self, network: str, method: str, numbers: str, batch: int, options: argparse.Namespace):
        self.method = method
        self.numbers = numbers
        self.options = options
        self.batch = min(batch, options.batch)
        torch.backends.cuda.matmul.allow_tf32 = numbers == "tf32"
        self.model = made(network, options).to(options.device, memory_format=torch.channels_last)
        n_rows = self.batch * options.batches if batch > 1 else 40
        x = torch.randn(n_rows, *shape_of(network, options), generator=torch.Generator().manual_seed(0))
        order = torch.channels_last if x.ndim == 4 else torch.contiguous_format
        self.x = x.to(options.device).contiguous(memory_format=order)
        exact = LRP(copy.deepcopy(self.model).double(), batch_size=N_EXACT, **METHODS[method])
        self.exact = exact.explain(self.x[:N_EXACT].double(), output="torch", compile=False).values
        if numbers == "bfloat16":
            self.model = self.model.bfloat16()
            self.x = self.x.bfloat16()
        self.explainer = LRP(self.model, batch_size=self.batch, **METHODS[method])

    def gradient(self) -> tuple[Work, float]:
        return self.in_batches(partial(by_gradient, self.model)), 0.0

    def eager(self) -> tuple[Work, float]:
        return lambda: self.explainer.explain(self.x, output="torch", compile=False).values, 0.0

    def program(self) -> tuple[Work, float]:
        """Traced and simplified, not compiled."""
        with settings_of_programs(
            least=1, compiling={}
        ):  # where nothing is known of a compiler, there is none
            seconds = self.explained()
        self.record.is_settled = True
        return lambda: self.explainer.explain(self.x, output="torch").values, seconds

    def compiled(self) -> tuple[Work, float]:
        """The same, compiled; what it takes to make it includes making the program."""
        self.record.is_settled = False
        started = time.perf_counter()
        self.explainer.explain(self.x[: 2 * self.batch], output="torch", compile=True)
        if self.record.program is None or not self.record.program.is_compiled:
            raise RuntimeError("the compiled program was no faster, and is not used")
        seconds = self.traced_in + time.perf_counter() - started
        return lambda: self.explainer.explain(self.x, output="torch").values, seconds

    def explained(self) -> float:
        """Make the program; return what that took."""
        started = time.perf_counter()
        self.explainer.explain(self.x[: 2 * self.batch], output="torch")
        if self.record.program is None:
            raise RuntimeError("no program could be made")
        self.traced_in = time.perf_counter() - started
        return self.traced_in

    @property
    def record(self) -> Any:
        """What is known of the batches of this case."""
        (found,) = programs._records[self.explainer].values()
        return found

    def prototype(self) -> tuple[Work, float]:
        """The shortest compiler of relevance, compiled."""
        started = time.perf_counter()
        net: Any = exported(copy.deepcopy(self.model), self.x[: self.batch], PEERS_WORD[self.method])
        net = torch.compile(net, dynamic=False)
        work = self.in_batches(partial(by_gradient, net, times_input=True))
        by_gradient(net, self.x[: self.batch], times_input=True)
        return work, time.perf_counter() - started

    def lxt(self) -> tuple[Work, float]:
        """LXT's ViT: attention weights are constants there, which is less work."""
        model = patched_vit(self.model)
        return self.in_batches(partial(by_gradient, model, times_input=True)), 0.0

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
        if self.numbers == "bfloat16" or self.batch < self.options.batch:
            return listed
        if self.method in PEERS_WORD:
            listed["zennit, rows first"] = self.zennit_plain_format
            if self.method == "LRP epsilon":
                listed["zennit"] = self.zennit
        else:
            listed["LXT, weights detached"] = self.lxt
        if self.options.prototype and self.method in PEERS_WORD:
            listed["prototype"] = self.prototype
        return listed


@contextmanager
def settings_of_programs(least: int, compiling: dict[str, tuple[float, float]]) -> Iterator[None]:
    """When programs are made and compiled, inside a block."""
    kept = programs.LEAST_BATCHES, programs.COMPILING
    programs.LEAST_BATCHES, programs.COMPILING = least, compiling
    try:
        yield
    finally:
        programs.LEAST_BATCHES, programs.COMPILING = kept


def shape_of(network: str, options: argparse.Namespace) -> tuple[int, ...]:
    """Shape of one input: a picture, or the vectors of tokens."""
    if network == "decoder_1b":
        sizes = TINY if options.tiny else BILLION
        return sizes.tokens, sizes.width
    return 3, options.size, options.size


def made(network: str, options: argparse.Namespace) -> nn.Module:
    if network == "decoder_1b":
        torch.manual_seed(0)
        with torch.device(options.device):
            decoder = Decoder(TINY if options.tiny else BILLION)
        return decoder.eval().requires_grad_(False)
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
    values = work()[:N_EXACT]
    line: dict[str, Any] = {"making it takes s": making or None}
    if who not in ("PyTorch's gradient", "LXT, weights detached"):
        line["error"] = error_of(values, case.exact)
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    line["images/s"] = len(case.x) / seconds_of(work, case.options.rounds)
    if case.options.kernels and "compiled" in who:
        line["kernels"] = kernels_of(work)
    if torch.cuda.is_available():
        own = case.x.numel() * case.x.element_size()
        line["peak GiB"] = (torch.cuda.max_memory_allocated() - own) / 2**30
    return line


def error_of(values: Tensor, exact: Tensor) -> float:
    """Of some rows the middle one's difference from what is exact, as a share of its size."""
    rows = min(len(values), len(exact))
    sizes = torch.linalg.vector_norm(exact[:rows].flatten(1), dim=1)
    far = torch.linalg.vector_norm((values[:rows].double() - exact[:rows]).flatten(1), dim=1)
    return float((far / sizes).median())


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
    for network, method, numbers, batch in PLAN:
        words = f"{network} {method} {numbers} {batch}"
        if options.networks and not words.startswith(tuple(options.networks)):
            continue
        if time.perf_counter() - started > 60 * options.minutes:
            print("no time is left for", network, method, numbers, batch, flush=True)
            continue
        torch._dynamo.reset()
        case = Case(network, method, numbers, batch, options)
        for who, make in case.contestants().items():
            if time.perf_counter() - started > 60 * options.minutes:
                break
            line: dict[str, Any] = {"network": network, "method": method, "numbers": numbers}
            line |= {"rows a batch": case.batch, "who": who}
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
    """Add each speed as a multiple of the gradient's and of zennit's, and from how many rows on compiling pays."""
    cases: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for line in lines:
        where = tuple(line[name] for name in COLUMNS[:4])
        cases.setdefault(where, {})[line["who"]] = line
    for case in cases.values():
        speeds = {who: line["images/s"] for who, line in case.items() if line.get("images/s")}
        zennit = max((speed for who, speed in speeds.items() if "zennit" in who), default=None)
        for who, speed in speeds.items():
            if "PyTorch's gradient" in speeds:
                case[who]["of a gradient"] = speed / speeds["PyTorch's gradient"]
            if zennit and "tellwhy" in who:
                case[who]["of zennit"] = speed / zennit
            slow = speeds.get("tellwhy, followed", speed)
            if speed > slow and case[who].get("making it takes s") and "tellwhy" in who:
                pays = case[who]["making it takes s"] / (1 / slow - 1 / speed)
                case[who]["pays from rows"] = round(pays, -2)


def joined(lines: list[dict[str, Any]], more: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lines of a run, those of another run in their place or at the end."""
    known = {tuple(line[name] for name in COLUMNS[:5]): line for line in lines}
    known |= {tuple(line[name] for name in COLUMNS[:5]): line for line in more}
    return list(known.values())


def publish_figures(figures: dict[str, Any]) -> None:
    import pandas as pd

    from benchmarks.shared.results import publish

    lines = figures["lines"]
    compared(lines)
    table = pd.DataFrame(lines).reindex(columns=COLUMNS)
    table = table.astype(dict.fromkeys(COLUMNS, object)).where(table.notna(), "")
    text = (
        f"Measured on {figures['date']} on {figures['where']}: {figures['images']} images of {figures['size']}×"
        f"{figures['size']} (40 where a batch is one row; 48 texts), random weights, best of {figures['rounds']} rounds, "
        "values on the device, images and weights channels last (zennit also rows first, the usual order; "
        "`of zennit` is beside its better line). Convolutions of float32 multiply in TF32 everywhere, "
        "which is PyTorch's default; matrices only in the lines that say `tf32`. An error is the difference from the "
        "same network followed in double precision, as a share of the size of the values, of the middle one of "
        f"{N_EXACT} images. Rules with a small epsilon make much of little, so that in random networks rounding shows "
        "in whatever multiplies in TF32 or in bfloat16, followed or compiled. Making a program takes its time once for "
        "each model, shape and setting; compiling pays from so many rows on, beside following each batch. LXT takes "
        "the attention weights as constants. `prototype` is `benchmarks/networks/_exported.py`; its preset A leaves "
        "biases out and gives the first layer the epsilon rule, so its values differ. `decoder_1b` has 1.1 billion "
        "random weights (16 blocks of width 2,048, gated units, 32,000 words); its images are texts of 512 tokens, whose "
        "vectors are explained for the largest next token."
    )
    if figures.get("joined"):
        text += " The lines are of two commands, one after the other on one machine."
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
        minutes=option(5.3, "start nothing new after this time"),
        prototype=option(False, "run the shortest compiler too"),
        kernels=option(False, "keep which kernels take most of the time of what is compiled"),
        networks=option([""], 'only these: "vgg16", "vit_b_16 AttnLRP tf32", …'),
        kept=option(Path, "write the page of figures that were saved"),
        more=option(
            Path, "figures of another run on the same machine, which replace those of the same lines"
        ),
    )
    if options.kept:
        figures = json.loads(options.kept.read_text())
        if options.more:
            figures["joined"] = True
            figures["lines"] = joined(figures["lines"], json.loads(options.more.read_text())["lines"])
        publish_figures(figures)
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
