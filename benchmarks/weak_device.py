"""What a weak device saves: seconds, memory, bytes on disk and on the wire, beside the arithmetic.

    python benchmarks/weak_device.py --model benchmarks/weak_device.py:wide --shape 64
        --capacities 1 0.25 0.0625 --limit 48 --out benchmarks/results/weak-module.csv

A device of `heterofl` with one person's made-up samples, each capacity in a process of its own: it
takes in its part of the model, trains for an epoch, writes its state and its upload. All numbers
are shares of what the whole model takes; memory is what comes on top of the imports. Then the same
with `--limit` MiB on top of the imports: who dies there could not take part.
"""

import resource
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from math import prod
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from processes import memory
from script import put_rows, read_arguments
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fedsub.engines.simulation import split_clients
from fedsub_client.cohort import Cohort
from fedsub_client.cohort_messages import write_upload
from fedsub_client.new_cohort import make_cohort
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Card, ClientData, Federation
from fedsub_core.errors import ConfigError
from fedsub_core.models.model import Model
from fedsub_core.models.to_torch import to_torch
from fedsub_core.turn import Turn
from fedsub_core.wire.bundles import Bundle, Floats

TINY = ["--samples", "40", "--capacities", "1", "0.25", "--limit", "24"]
LINES = ("capacity 1:", "capacity 0.25:", "with 24 MiB, capacity 1:", "with 24 MiB, capacity 0.25:")
SLOW = True
CLASSES, ROUNDS = 6, 3


@dataclass(frozen=True)
class Took:
    """What a device of one capacity took.

    Parameters
    ----------
    numbers, products : of its model, and of one sample's pass through it: the arithmetic. Products
        are not counted under a limit.
    seconds : of a round's local work, CPU.
    memory : bytes on top of the imports.
    disk, wire : bytes of what it keeps, and of an upload.
    """

    numbers: int
    products: int
    seconds: float
    memory: int
    disk: int
    wire: int


def wide(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return a module of 8.2 million numbers that is no chain."""
    layers: list[nn.Module] = [nn.Linear(shape[0], 2000)]
    for _ in range(2):
        layers += [nn.Tanh(), nn.Linear(2000, 2000)]
    return nn.Sequential(*layers, nn.Tanh(), nn.Linear(2000, classes))


def little(shape: tuple[int, ...], classes: int) -> nn.Module:
    """Return such a module of few numbers."""
    layers = nn.Linear(shape[0], 80), nn.Tanh(), nn.Linear(80, classes)
    return nn.Sequential(*layers)


def device(
    model: str, shape: Sequence[int], samples: int, capacity: float, method: str = "heterofl"
) -> Cohort:
    """Return a device before its first round."""
    stream = np.random.default_rng(0)
    y = np.arange(samples, dtype=np.int64) % CLASSES
    x = stream.normal(size=(samples, *shape)).astype(np.float32) + y.reshape(-1, *[1] * len(shape))
    features = tuple(map(str, range(shape[0])))
    card = Card("made-up", "a benchmark", tuple("abcdef"), features)
    federation = Federation(card, {"p": ClientData("p", x, y)})
    keys = {"method": method, "beside": "", "model": model, "capacities": f"{capacity:g}"}
    config = read_config(None, {**keys, "device": "cpu", "split": "stratified"})
    people = split_clients(config.split_settings, federation, config.capacity_settings)
    return make_cohort(config.device_settings(method), card, people)


def work(
    model: str,
    shape: Sequence[int],
    samples: int,
    capacity: float,
    limit: int,
    method: str = "heterofl",
) -> Took:
    """Let a device do some rounds; `limit`: most MiB on top of the imports, 0 any."""
    torch.set_num_threads(1)
    # What is imported at first use is not the model's.
    rounds(device(model.replace(":wide", ":little"), shape, 12, 1 / 64))
    if limit:
        most = memory("VmData") + limit * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cohort = device(model, shape, samples, capacity, method)
    own = cohort.learner.model
    seconds, sent = rounds(cohort)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = sum(t.numel() * t.element_size() for t in cohort.client_state(0).values())
    numbers = sum(prod(size) for size in own.parameter_shapes.values())
    # Counting imports much that no device does: it would not fit into the limit.
    products = 0 if limit else products_of(own, shape)
    return Took(numbers, products, seconds, (after - before) * 1024, kept, sent)


def products_of(model: Model, shape: Sequence[int]) -> int:
    """Return the products of one sample's pass through a model."""
    module = to_torch(model, {n: t[0] for n, t in model.init(1, 0).items()})
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        module(torch.zeros(1, *shape))
    return int(counter.get_total_flops()) // 2


def rounds(cohort: Cohort) -> tuple[float, int]:
    """Return the least CPU seconds of a round of local work, and an upload's bytes."""
    seconds = []
    for round in range(1, ROUNDS + 1):
        params = {n: t[0].numpy() for n, t in cohort.learner.personal(cohort.state).items()}
        received = Bundle(tensors={n: Floats(params[n].copy()) for n in cohort.receives})
        start = time.process_time()
        (upload,), _ = cohort.fit(Turn(round, ROUNDS, 0), None, [0], [received])
        seconds.append(time.process_time() - start)
    return min(seconds), len(write_upload(cohort, 0, upload, received, ROUNDS))


def alone(*arguments: object) -> Took | None:
    """Return the needs of a device in a new process; None if it died for lack of memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(work, *arguments).result()  # type: ignore[arg-type]
        except (MemoryError, RuntimeError, ConfigError) as error:
            if not isinstance(error, MemoryError) and "alloc" not in str(error):
                raise
            return None
        except BrokenProcessPool:
            return None


def main() -> None:
    given = read_arguments(
        TINY,
        model="har-cnn",
        shape=[9, 128],
        samples=200,
        capacities=[1, 0.5, 0.25, 0.125],
        limit=(24, "MiB"),
        out=(Path, "CSV file of results"),
    )
    of = (given.model, tuple(given.shape), given.samples)
    whole = alone(*of, 1.0, 0)
    assert whole is not None, "without a limit nobody dies"
    rows: dict[float, dict[str, str]] = {}
    for share in given.capacities:
        took = alone(*of, share, 0)
        assert took is not None, "without a limit nobody dies"
        ratio = {k: v / max(vars(whole)[k], 1e-9) for k, v in vars(took).items()}
        print(
            f"capacity {share:g}: numbers {ratio['numbers']:.3f}, products {ratio['products']:.3f}"
            f" of the whole model's; seconds {ratio['seconds']:.3f}, memory {ratio['memory']:.3f}, "
            f"disk {ratio['disk']:.3f}, wire {ratio['wire']:.3f} "
            f"({took.seconds:.3f} s, {took.memory / 2**20:.1f} MiB)",
            flush=True,
        )
        rows[share] = {"capacity": f"{share:g}", **{k: f"{v:.3f}" for k, v in ratio.items()}}
        rows[share]["MiB"] = f"{took.memory / 2**20:.0f}"
    for share in given.capacities:
        lived = alone(*of, share, given.limit) is not None
        said = "it trains, 1 of 1" if lived else "it dies, 0 of 1"
        print(f"with {given.limit} MiB, capacity {share:g}: {said}", flush=True)
        with_limit = f"with {given.limit} MiB on top of the imports"
        rows[share] |= {with_limit: said.partition(",")[0]}
    put_rows(given.out, list(rows.values()), ["capacity"])


if __name__ == "__main__":
    main()
