"""An epoch of many people's modules on a GPU: together, one after another, and PyTorch's own loop.

All train every client for one epoch of batches of 32 with momentum. `together` is what FedSub does
on a GPU where the module allows it, `apart` what it does elsewhere; the plain loop has a module and
an optimiser for each client, and slices of its samples, on the same device. Seconds are by the
clock, medians; runs alternate. `cpu` is FedSub's own epoch on one core of the same machine, of the
first people only, times how many there are. `why apart` is what speaks against passing together.
"""

import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from unittest import mock

import torch
from modules import OWN, SETTINGS, SHAPES, TURN, plain_loop, samples  # a script beside this one
from script import Known, put_rows, read_arguments

from fedsub_core.models.kinds import builder_of
from fedsub_core.models.module_passes import Passes
from fedsub_core.models.torch_model import TorchModel
from fedsub_core.training import train

CLASSES = 6
#: People whose epoch on a CPU is measured.
ON_CPU = 2
ALL = {**SHAPES, "har-cnn": (9, 128), "digit5-cnn": (3, 32, 32), "vgg11": (3, 32, 32)}
TINY = ["--device", "cpu", "--clients", "2", "--samples", "32", "--models", "residual-cnn",
        "--repeats", "1"]  # fmt: skip
LINES = ("residual-cnn ",)


def seconds(work: Callable[[], object], device: str) -> float:
    """Return the seconds of some work, by the clock."""
    begun = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begun


@contextmanager
def peak_of(peaks: dict[str, float], way: str, device: str) -> Iterator[None]:
    """Note the MiB that a GPU takes on top while some work is done."""
    if device != "cuda":
        yield
        return
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    yield
    peaks[way] = (torch.cuda.max_memory_allocated() - before) / 2**20


def measure(name: str, given: Namespace) -> dict[str, str]:
    """Return a row of the table."""
    shape, device = ALL[name], torch.device(given.device)
    build = OWN[name] if name in OWN else builder_of(name)
    model = TorchModel.of(build, shape, CLASSES)
    few = samples(min(ON_CPU, given.clients), given.samples, shape)
    of_few = model.init(len(few.counts), 0)
    on_cpu = seconds(lambda: train(model, of_few, few, TURN, SETTINGS), "cpu")
    data = samples(given.clients, given.samples, shape)
    data = replace(data, x=data.x.to(device), y=data.y.to(device))
    params = {n: t.to(device) for n, t in model.init(given.clients, 0).items()}
    why = model.passes.apart(device, training=True)
    plain = plain_loop(model, params, data, device)
    ways: dict[str, tuple[Callable[[], object], int]] = {
        "apart": (lambda: train(model, params, data, TURN, SETTINGS), 1),
        "plain": (plain, 1),
    }
    if not why:
        most = given.clients if given.device == "cpu" else model.together(data.x, training=True)
        ways["together"] = ways["apart"][0], most
    took = {way: list[float]() for way in ways}
    peaks = dict.fromkeys(ways, 0.0)
    for _ in range(given.repeats + 1):  # the first warms up
        for way, (work, most) in ways.items():
            with (
                mock.patch.object(Passes, "together", lambda *_, most=most, **__: most),
                peak_of(peaks, way, given.device),
            ):
                took[way].append(seconds(work, given.device))
    found = {way: median(all[1:]) for way, all in took.items() if all}
    together = found.get("together")
    return {
        "model": name,
        "people": f"{given.clients} x {given.samples}",
        "together": "-" if together is None else f"{1e3 * together:.0f} ms",
        "apart": f"{1e3 * found['apart']:.0f} ms",
        "plain loop": f"{1e3 * found['plain']:.0f} ms",
        "cpu": f"{on_cpu / len(few.counts) * given.clients:.1f} s",
        "together : plain loop": "-" if together is None else f"{together / found['plain']:.2f}",
        "MiB together": f"{peaks['together']:.0f}" if peaks.get("together") else "-",
        "why apart": why or "-",
        "device": torch.cuda.get_device_name() if given.device == "cuda" else "cpu",
    }


def main() -> None:
    given = read_arguments(
        TINY, device="cuda", clients=100, samples=96, models=Known(ALL), repeats=3, csv=Path
    )
    torch.set_num_threads(1)
    for name in given.models:
        row = measure(name, given)
        put_rows(given.csv, [row], ["model"])  # what is measured stays if the rest is cut off
        print(f"{name:<14} " + "  ".join(f"{k} {v}" for k, v in row.items()), flush=True)


if __name__ == "__main__":
    main()
