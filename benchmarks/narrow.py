"""What a narrow model saves: an epoch's seconds, peak memory and numbers, beside the whole one's.

One person, one thread, batches of 32, seconds of the processor; ratios are to the first share's.
Each size trains in a process of its own, whose memory is counted from before the model is built;
the whole model is built for a moment in each. "promised": of the multiplications of a pass.
"""

import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from script import Known, put_lines, read_arguments
from torch.utils.flop_counter import FlopCounterMode

from fedsub_core.data.stacks import Stack
from fedsub_core.models.architecture import Shape
from fedsub_core.models.kinds import build_model
from fedsub_core.models.to_torch import to_torch
from fedsub_core.models.units import first_units
from fedsub_core.training import TrainingSettings, Turn, train

CLASSES = 6
HEAD = ("model", "share", "samples", "numbers", "multiplications", "seconds", "MiB")
SETTINGS = TrainingSettings(epochs=1, lr=0.01, batch_size=32)
#: Model, its samples.
SHAPES: dict[str, Shape] = {
    "mlp": (45,),
    "cnn1d": (9, 128),
    "har-cnn": (9, 128),
    "lstm": (3, 128),
    "digit5-cnn": (3, 28, 28),
    "resnet18": (3, 32, 32),
    "mobilenet-v2": (3, 32, 32),
}
TINY = ["--models", "lstm", "--shares", "1", "1/4", "--samples", "32", "--repeats", "1"]
LINES = ("lstm         1  ", "lstm         1/4")


class Measured(NamedTuple):
    """Seconds of an epoch, MiB at the peak, numbers of a model, multiplications of a pass."""

    seconds: float
    memory: float
    numbers: int
    multiplications: int


def measure(kind: str, share: float, samples: int, repeats: int) -> Measured:
    """Train one person's model of a share of the units, in this process."""
    torch.set_num_threads(1)
    x = torch.randn(1, samples, *SHAPES[kind])
    data = Stack(("a",), x, torch.arange(samples)[None] % CLASSES, (samples,))
    before = peak()
    model = build_model(kind, SHAPES[kind], CLASSES)
    if share < 1:
        model, _ = model.narrow(first_units(model, share))
    params, seconds = model.init(1, seed=0), []
    for i in range(repeats + 1):
        began = time.process_time()
        params, _ = train(model, params, data, Turn(1, i + 1, 0), SETTINGS)
        seconds.append(time.process_time() - began)
    memory = peak() - before
    module = to_torch(model, {name: tensor[0] for name, tensor in params.items()})
    with FlopCounterMode(display=False) as counter:
        module(x[0, :1])
    numbers = sum(tensor.numel() for tensor in params.values())
    return Measured(median(seconds[1:]), memory, numbers, counter.get_total_flops() // 2)


def peak() -> float:
    """Return this process's largest memory so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print a line for each model and share."""
    given = read_arguments(
        TINY,
        models=Known(SHAPES),
        shares=["1", "1/2", "1/4", "1/8"],
        samples=256,
        repeats=3,
        csv=Path,
    )
    print("model        share     numbers  of all  promised  s an epoch  of all   MiB")
    spawn = multiprocessing.get_context("spawn")
    for kind in given.models:
        whole: Measured | None = None
        for share in given.shares:
            with ProcessPoolExecutor(1, mp_context=spawn) as process:
                asked = kind, float(Fraction(share)), given.samples, given.repeats
                got = process.submit(measure, *asked).result()
            whole = whole or got
            print(
                f"{kind:<12} {share:<5} {got.numbers:>11,}  {got.numbers / whole.numbers:>6.3f}"
                f"  {got.multiplications / whole.multiplications:>8.3f}  {got.seconds:>10.3f}"
                f"  {got.seconds / whole.seconds:>6.3f}  {got.memory:>4.0f}",
                flush=True,
            )
            ratios = [mine / theirs for mine, theirs in zip(got, whole, strict=True)]
            seconds, _, *counts = (f"{ratio:.3f}" for ratio in ratios)
            line = (kind, share, given.samples, *counts, seconds, f"{got.memory:.0f}")
            put_lines(given.csv, HEAD, [line], 2)


if __name__ == "__main__":
    main()
