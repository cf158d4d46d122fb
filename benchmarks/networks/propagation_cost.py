"""Time and memory of relevance propagation on VGG16 and ResNet50, with zennit and Captum in the same run.

On a processor, relative to one gradient by PyTorch:    python -m benchmarks.networks.propagation_cost
On a GPU, images per second and peak memory:             python -m benchmarks.networks.propagation_cost --device cuda
Where pandas is missing, `--save figures.json` keeps the figures, and `--from figures.json` writes their page.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import datetime
import gc
import json
import multiprocessing
import os
import platform
import re
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.networks._peers import captum_attr, only_networks, random_model
from benchmarks.shared.arguments import arguments, option

only_networks()

from tellwhy.explainers.propagation import LRP, Gradient, InputTimesGradient  # noqa: E402

Explain = Callable[[Tensor], np.ndarray]
NETWORKS = ("vgg16", "resnet50")
OURS = ("gradient", "input x gradient", "LRP epsilon", "LRP z+", "LRP preset A")
ON_GPU = ("input x gradient", "LRP epsilon", "LRP preset A")
PEERS = ["zennit", "Captum"]
ENDINGS = ("device", "numpy")  # where values end up
RECORDED = (
    "Batches of ours are followed operation by operation here, as few of them are; what they take as compiled programs "
    "stands on the page of `benchmarks.networks.gpu`. "
)


def plain_gradient(model: nn.Module, batch: int, ending: str = "numpy") -> Explain:
    def one(x: Tensor) -> Tensor:
        leaf = x.clone().requires_grad_()
        return torch.autograd.grad(model(leaf).max(dim=1).values.sum(), leaf)[0]

    return in_batches(one, batch, ending)


def tellwhy_method(model: nn.Module, batch: int, method: str, ending: str = "numpy") -> Explain:
    makers: dict[str, Callable[[], Any]] = {
        "gradient": lambda: Gradient(model, batch_size=batch),
        "input x gradient": lambda: InputTimesGradient(model, batch_size=batch),
        "LRP epsilon": lambda: LRP(model, rule="epsilon", batch_size=batch),
        "LRP z+": lambda: LRP(model, rule="z_plus", batch_size=batch),
        "LRP preset A": lambda: LRP(model, composite="preset_a", batch_size=batch),
    }
    explainer = makers[method]()
    output = "torch" if ending == "device" else "numpy"

    return lambda x: explainer.explain(x, output=output).values


def zennit_method(model: nn.Module, batch: int, method: str, ending: str = "numpy") -> Explain:
    import zennit.composites as composites
    from zennit.attribution import Gradient as Attributor
    from zennit.rules import Epsilon, ZPlus
    from zennit.torchvision import ResNetCanonizer, VGGCanonizer
    from zennit.types import Convolution, Linear

    canonizers = [ResNetCanonizer() if type(model).__name__ == "ResNet" else VGGCanonizer()]
    if method == "input x gradient":
        return in_batches(
            lambda x: x * _zennit_one(Attributor(model=model), x, relevance=False), batch, ending
        )
    if method == "LRP preset A":
        composite: Any = composites.EpsilonPlus(epsilon=0.1, canonizers=canonizers)
    else:
        rule = Epsilon(epsilon=1e-6) if method == "LRP epsilon" else ZPlus(zero_params="bias")
        table = [*composites.layer_map_base(), (Convolution, rule), (Linear, rule)]
        composite = composites.LayerMapComposite(layer_map=table, canonizers=canonizers)
    return in_batches(lambda x: _zennit_one(Attributor(model=model, composite=composite), x), batch, ending)


def _zennit_one(attributor: Any, x: Tensor, *, relevance: bool = True) -> Tensor:
    def largest(outputs: Tensor) -> Tensor:
        chosen = nn.functional.one_hot(outputs.argmax(dim=1), outputs.shape[1]).to(outputs)
        return outputs * chosen if relevance else chosen

    attributor.attr_output_fn = largest
    with attributor:
        return attributor(x.clone().requires_grad_())[1]


def captum_method(model: nn.Module, batch: int, method: str, ending: str = "numpy") -> Explain:
    """Captum's, on a copy whose rectifiers do not work in place: its hooks need that."""
    attr = captum_attr()
    from captum.attr._utils import lrp_rules

    own = copy.deepcopy(model)
    for module in own.modules():
        if isinstance(module, nn.ReLU):
            module.inplace = False
        if isinstance(module, nn.Conv2d) and method in ("LRP z+", "LRP preset A"):
            module.rule = lrp_rules.Alpha1_Beta0_Rule()
        if isinstance(module, nn.Linear):
            module.rule = lrp_rules.Alpha1_Beta0_Rule() if method == "LRP z+" else lrp_rules.EpsilonRule()
    attribute = (attr.InputXGradient(own) if method == "input x gradient" else attr.LRP(own)).attribute

    def one(x: Tensor) -> Tensor:
        with torch.no_grad():
            target = own(x).argmax(dim=1)
        return attribute(x.clone().requires_grad_(), target=target)

    return in_batches(one, batch, ending)


def in_batches(one: Callable[[Tensor], Tensor], batch: int, ending: str = "numpy") -> Explain:
    """Explain all rows; values stay on the device, or come to numpy as ours do: by pinned memory, overlapped."""

    def on_device(x: Tensor) -> Tensor:
        found = torch.empty_like(x)
        for i in range(0, len(x), batch):
            found[i : i + batch] = one(x[i : i + batch]).detach()
        return found

    def on_processor(x: Tensor) -> np.ndarray:
        parts = [one(x[i : i + batch]).detach().cpu().numpy() for i in range(0, len(x), batch)]
        return np.concatenate(parts)

    if ending == "device":
        return on_device
    return partial(overlapped, one, batch) if torch.cuda.is_available() else on_processor


def overlapped(one: Callable[[Tensor], Tensor], batch: int, x: Tensor) -> np.ndarray:
    """Values of a batch are copied into one of two pinned buffers while the next batch is computed."""
    if not x.is_cuda:
        return np.concatenate([one(x[i : i + batch]).detach().numpy() for i in range(0, len(x), batch)])
    whole = torch.from_numpy(np.empty(tuple(x.shape), dtype=np.float32))  # in large pages, as ours
    rooms = [torch.empty((batch, *x.shape[1:]), dtype=x.dtype, pin_memory=True) for _ in range(2)]
    waiting: tuple[int, Tensor, Any] | None = None
    for number, i in enumerate(range(0, len(x), batch)):
        values = one(x[i : i + batch]).detach()
        room = rooms[number % 2][: len(values)]
        room.copy_(values.contiguous(), non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()
        _receive(whole, waiting)
        waiting = (i, room, arrived)
    _receive(whole, waiting)
    return whole.numpy()


def _receive(whole: Tensor, waiting: tuple[int, Tensor, Any] | None) -> None:
    if waiting is not None:
        start, room, arrived = waiting
        arrived.synchronize()
        whole[start : start + len(room)].copy_(room)


LIBRARIES = {"tellwhy": tellwhy_method, "zennit": zennit_method, "Captum": captum_method}


def methods(on_gpu: bool) -> list[tuple[str, str]]:
    names = ON_GPU if on_gpu else OURS
    return [("tellwhy", method) for method in names] + [
        (peer, method) for peer in PEERS for method in names if method != "gradient"
    ]


def build(model: nn.Module, batch: int, library: str, method: str, ending: str = "numpy") -> Explain:
    if library == "PyTorch":
        return plain_gradient(model, batch, ending)
    return LIBRARIES[library](model, batch, method, ending)


def images(n: int, size: int, device: str) -> Tensor:
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(0)).to(device)


def attempt(work: Callable[[], Any]) -> tuple[Any, str]:
    """What came out, or why nothing did."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return work(), ""
    except Exception as error:
        return None, f"fails: {type(error).__name__}: {' '.join(str(error).split())[:110]}"


def apart(found: np.ndarray, ours: np.ndarray) -> float:
    """Largest difference from ours, as a share of our largest value."""
    return float(np.abs(found - ours).max() / np.abs(ours).max())


def peak_bytes(network: str, library: str, method: str, batch: int, size: int) -> int:
    """Memory that one batch takes on top of the loaded model, in a process of its own."""
    model, x = random_model(network), images(batch, size, "cpu")
    explain = build(model, batch, library, method)
    plain_gradient(model, 1)(x[:1])  # what PyTorch allocates once
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # memory that is free counts as free
    before = _resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    explain(x)
    return _resident("VmHWM") - before


def _resident(field: str) -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"{field}:\s+(\d+)", text)[1])  # type: ignore[index]


def in_own_process(*arguments: Any) -> int:
    os.environ["MALLOC_MMAP_THRESHOLD_"] = str(2**17)  # memory that is freed goes back at once
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(peak_bytes, *arguments).result()


def on_processor(network: str, batch: int, size: int, rounds: int, clock: str) -> list[dict[str, Any]]:
    """Least seconds over rounds in which every method has one turn; peak memory of each in its own process."""
    model, x = random_model(network), images(batch, size, "cpu")
    explained: dict[tuple[str, str], Explain] = {}
    found: dict[tuple[str, str], np.ndarray] = {}
    failed: dict[tuple[str, str], str] = {}
    for pair in [("PyTorch", "gradient"), *methods(False)]:
        explain, why = attempt(partial(build, model, batch, *pair))
        values, why = (None, why) if why else attempt(partial(explain, x[:1]))
        if why:
            failed[pair] = why
        else:
            explained[pair], found[pair] = explain, values
    seconds: dict[tuple[str, str], list[float]] = {pair: [] for pair in explained}
    now = time.process_time if clock == "cpu" else time.perf_counter
    for _ in range(rounds):
        for pair, explain in explained.items():
            started = now()
            explain(x)
            seconds[pair].append(now() - started)
            print(network, *pair, f"{seconds[pair][-1]:.2f} s", flush=True)
    del model, explained, explain
    gc.collect()
    lines = [_line(network, pair, min(seconds[pair]), found, batch, size) for pair in seconds]
    unit = lines[0]  # PyTorch's gradient
    for line in lines:
        line["times one gradient"] = line["seconds"] / unit["seconds"]
        line["times its memory"] = line["peak MiB"] / unit["peak MiB"] if unit["peak MiB"] > 0 else np.nan
    return lines + [
        {"network": network, "library": a, "method": b, "note": why} for (a, b), why in failed.items()
    ]


def _line(
    network: str, pair: tuple[str, str], seconds: float, found: dict[Any, np.ndarray], batch: int, size: int
) -> dict[str, Any]:
    memory, why = attempt(partial(in_own_process, network, *pair, batch, size))
    difference = apart(found[pair], found["tellwhy", pair[1]])
    print(network, *pair, memory, why, flush=True)
    return {
        "network": network,
        "library": pair[0],
        "method": pair[1],
        "seconds": seconds,
        "peak MiB": np.nan if memory is None else memory / 2**20,
        "differs from ours by": difference,
        "note": why or remark(difference),
    }


def remark(difference: float) -> str:
    """What to say of attributions that are not those of the same rule."""
    return "other attributions" if difference > 0.1 else ""


def throughput(
    lines: list[dict[str, Any]],
    network: str,
    n_images: int,
    options: argparse.Namespace,
    keep: Callable[[], None],
) -> None:
    """Images per second and peak memory of every method, one after the other, on equal terms.

    What there is is kept after each line: time may run out.
    """
    device = "cuda"
    batch = options.batch
    size = options.size
    last = torch.channels_last
    model = random_model(network).to(device, memory_format=last)
    x = images(n_images, size, device).contiguous(memory_format=last)
    ours: dict[str, np.ndarray] = {}
    for ending in options.endings:
        for library, method in [("PyTorch", "gradient"), *methods(True)]:
            line = {"network": network, "values end up": ending, "library": library, "method": method}
            explain, why = attempt(partial(build, model, batch, library, method, ending))
            values, why = (
                (None, why) if why else attempt(lambda explain=explain: _as_numpy(explain(x[:batch])))
            )
            if not why:
                figures, why = attempt(partial(_figures, explain, x, options.rounds))
                line |= figures or {}
            if library == "tellwhy" and values is not None:
                ours[method] = values
            if values is not None and method in ours:
                line["differs from ours by"] = apart(values, ours[method])
                why = why or remark(line["differs from ours by"])
            lines.append({**line, "note": why})
            print(lines[-1], flush=True)
            keep()
            del explain, values
            gc.collect()
            torch.cuda.empty_cache()


def _as_numpy(values: Any) -> np.ndarray:
    return values.cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)


def _figures(explain: Explain, x: Tensor, rounds: int) -> dict[str, Any]:
    explain(x)  # once before it counts: the first rows find algorithms and make buffers
    if x.is_cuda:
        torch.cuda.reset_peak_memory_stats()
    seconds = []
    for _ in range(rounds):
        if x.is_cuda:
            torch.cuda.synchronize()
        started = time.perf_counter()
        explain(x)
        if x.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    peak = torch.cuda.max_memory_allocated() - x.element_size() * x.numel() if x.is_cuda else np.nan
    return {"images/s": len(x) / min(seconds), "peak GiB": peak / 2**30}


def beside_zennit(lines: list[dict[str, Any]], figure: str, column: str) -> None:
    """Add our figure as a multiple of zennit's, where both were measured with values ending up alike."""
    theirs = {_case(line): line[figure] for line in lines if line["library"] == "zennit" and figure in line}
    for line in lines:
        if line["library"] == "tellwhy" and figure in line and _case(line) in theirs:
            line[column] = line[figure] / theirs[_case(line)]


def beside_a_gradient(lines: list[dict[str, Any]]) -> None:
    """Add our speed as a multiple of PyTorch's plain gradient, where values end up alike."""
    plain = {
        (line["network"], line["values end up"]): line["images/s"]
        for line in lines
        if line["library"] == "PyTorch" and "images/s" in line
    }
    for line in lines:
        unit = plain.get((line["network"], line["values end up"]))
        if line["library"] == "tellwhy" and "images/s" in line and unit:
            line["of a gradient's speed"] = line["images/s"] / unit


def _case(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["network"], line["method"], line.get("values end up")


def measure(options: argparse.Namespace) -> dict[str, Any]:
    gpu = options.device == "cuda"
    lines: list[dict[str, Any]] = []
    where = torch.cuda.get_device_name() if gpu else f"CPU, {torch.get_num_threads()} threads"
    figures = {
        "device": options.device,
        "where": f"{where}, Python {platform.python_version()}, torch {torch.__version__}",
        "date": str(datetime.date.today()),
        "images": options.images if gpu else options.batch,
        "batch": options.batch,
        "size": options.size,
        "rounds": options.rounds,
        "clock": options.clock,
        "lines": lines,
    }

    def keep() -> None:
        if options.save:
            options.save.write_text(json.dumps(figures, indent=1))

    for network in options.networks:
        if gpu:
            throughput(lines, network, options.images, options, keep)
        else:
            lines += on_processor(network, options.batch, options.size, options.rounds, options.clock)
            keep()
    return figures


SECTIONS = {"cpu": "", "cuda": "On a GPU"}
COLUMNS = {
    "cpu": ["seconds", "times one gradient", "of zennit's time", "peak MiB", "times its memory"],
    "cuda": [
        "values end up",
        "images/s",
        "times zennit's speed",
        "of a gradient's speed",
        "peak GiB",
        "of zennit's memory",
    ],
}


def publish_figures(figures: dict[str, Any]) -> None:
    import pandas as pd

    from benchmarks.shared.results import publish

    if figures["device"] == "cuda":
        beside_zennit(figures["lines"], "images/s", "times zennit's speed")
        beside_zennit(figures["lines"], "peak GiB", "of zennit's memory")
        beside_a_gradient(figures["lines"])
    else:
        beside_zennit(figures["lines"], "seconds", "of zennit's time")
    columns = ["network", "library", "method", *COLUMNS[figures["device"]], "differs from ours by", "note"]
    table = pd.DataFrame(figures["lines"]).reindex(columns=columns)
    table = table.astype(dict.fromkeys(columns, object)).where(table.notna(), "")
    text = (
        f"Measured on {figures['date']} on {figures['where']}: {figures['images']} images of "
        f"{figures['size']}×{figures['size']} in batches of {figures['batch']}, float32, random weights, best of "
        f"{figures['rounds']} rounds. "
    )
    if figures["clock"] == "cpu":
        text += "Seconds are those of the processor, since other work ran beside it. "
    text += (
        "Values end up in numpy. Memory is the peak above the loaded model and images. "
        if figures["device"] == "cpu"
        else "Everybody gets images and weights channels last. Values stay on the device, as tensors, or come to numpy: "
        "by two pinned buffers that are filled while the next batch is computed, for the peers too (their values stay "
        "float32; ours become float64, as every explanation has them). Memory is the peak above the images, the model "
        "included. An earlier version of this page had the peers' values brought to the processor after each batch "
        "and only ours overlapped; its factors of 2 to 2.5 came from that. "
        + RECORDED
        + figures.get("remark", "")
    )
    text += (
        "zennit works with its canonizer of each network (preset A is its EpsilonPlus); Captum on a copy without "
        "in-place rectifiers; ours on the model as it is."
    )
    section = SECTIONS[figures["device"]]
    peers = ("torch", "zennit", "captum")
    publish(
        "propagation_cost", "The cost of relevance propagation", [(text, table)], section=section, peers=peers
    )


def main() -> None:
    options = arguments(
        __doc__,
        "save",
        device=option("cpu", choices=("cpu", "cuda")),
        images=option(512, "on a GPU"),
        batch=option(int, "8 on a processor, 64 on a GPU"),
        size=224,
        rounds=3,
        clock=option("wall", "cpu: where others use the machine too", choices=("wall", "cpu")),
        peers=list(PEERS),
        networks=list(NETWORKS),
        endings=option(list(ENDINGS), "on a GPU", choices=ENDINGS),
        kept=option(Path, "write the page of figures that were saved"),
    )
    PEERS[:] = options.peers
    options.batch = options.batch or (64 if options.device == "cuda" else 8)
    figures = json.loads(options.kept.read_text()) if options.kept else measure(options)
    if options.save:
        options.save.write_text(json.dumps(figures, indent=1))
        print(json.dumps(figures["lines"], indent=1))
    else:
        publish_figures(figures)


if __name__ == "__main__":
    main()
